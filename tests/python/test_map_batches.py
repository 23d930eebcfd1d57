"""Functions on whole batches."""

import gc
import pickle
import threading
import weakref

import numpy as np
import pytest
import torch

import feedline
from feedline.errors import BatchError
from feedline.torch import DataLoader
from tiny import numbers


def batches(pipeline, **settings):
    settings = {"batch_size": 4, "epochs": 1} | settings
    return list(feedline.Loader(pipeline, **settings))


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_batches_are_what_the_function_returns_in_their_order(num_workers):
    doubled = numbers(10).map_batches(
        lambda x: (x * 2, x.astype(np.float32).reshape(-1, 1), x.sum())
    )
    got = batches(doubled, num_workers=num_workers)
    expected = [np.arange(10)[i : i + 4] for i in range(0, 10, 4)]
    for (a, b, c), x in zip(got, expected, strict=True):
        assert a.tolist() == (x * 2).tolist()
        assert (b.dtype, b.shape) == (np.float32, (len(x), 1))
        assert c.shape == ()
        assert int(c) == x.sum()


def test_fields_may_become_more_or_fewer_named_or_not():
    pairs = feedline.arrays(x=np.arange(8.0), y=np.arange(8))
    dropped = pairs.map_batches(lambda batch: batch["x"])
    assert dropped.fields == ["0"]
    assert [b[0].tolist() for b in batches(dropped)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    more = pairs.map_batches(lambda batch: batch | {"z": batch["x"][::-1]})
    assert more.fields == ["x", "y", "z"]
    assert batches(more)[0]["z"].tolist() == [3, 2, 1, 0]
    assert str(more).splitlines()[-2:] == [
        "  map_batches(<lambda>)",
        "delivers {x: float64 [], y: int64 [], z: float64 []}",
    ]


def test_functions_in_turn_and_after_choices_of_samples():
    twice = numbers(9).map_batches(lambda x: {"a": x + 1}).map_batches(lambda b: b["a"] * 10)
    assert batches(twice.select([3, 8]))[0][0].tolist() == [40, 90]
    assert batches(twice.skip(7).repeat(2))[0][0].tolist() == [80, 90, 80, 90]


def test_text_and_bytes_come_as_lists_and_go_as_lists():
    words = numbers(5).map(lambda x: (str(x) * int(x), bytes([int(x)])))
    shouted = words.map_batches(
        lambda text, raw: ([t + "ü!" for t in text], [b * 2 for b in raw], len(text))
    )
    got = batches(shouted)
    assert got[0][0] == ["ü!", "1ü!", "22ü!", "333ü!"]
    assert got[0][1] == [bytes([i, i]) for i in range(4)]
    assert got[1][0] == ["4444ü!"]
    again = shouted.map_batches(lambda text, raw, n: text[::-1])
    assert batches(again)[0] == (["333ü!", "22ü!", "1ü!", "ü!"],)


def test_what_the_function_changes_or_keeps_does_not_matter():
    kept = []

    def negate(x):
        kept.append(x)
        x *= -1
        return x

    for _ in range(2):
        assert [x.tolist() for (x,) in batches(numbers(8).map_batches(negate))] == [
            [0, -1, -2, -3],
            [-4, -5, -6, -7],
        ]
    assert all((x <= 0).all() for x in kept)


@pytest.mark.parametrize("output", ["numpy", "torch", "dlpack"])
def test_every_output_shows_what_the_function_made(output):
    made = numbers(8).map_batches(lambda x: torch.as_tensor(x) / 2)
    for start, (batch,) in zip([0, 4], batches(made, output=output), strict=True):
        expected = (np.arange(start, start + 4) / 2).astype(np.float32)
        assert np.array_equal(np.from_dlpack(batch), expected)


def test_batches_of_varying_shape_are_all_right():
    longest = numbers(12).map_batches(lambda x: np.zeros((len(x), int(x.max()))))
    assert [x.shape for (x,) in batches(longest)] == [(4, 3), (4, 7), (4, 11)]


def test_random_numbers_depend_on_seed_epoch_and_batch_alone():
    noisy = numbers(40).map_batches(lambda x: x + feedline.rng().normal(size=len(x)))

    def run(**settings):
        loader = feedline.Loader(noisy, batch_size=4, shuffle=True, seed=3, **settings)
        return [x.tolist() for _ in range(2) for (x,) in loader]

    first = run(num_workers=0)
    assert run(num_workers=3) == first
    assert len({x[0] % 1 for x in first}) == len(first)


def test_a_state_goes_on_behind_the_function():
    made = numbers(20).map_batches(lambda x: x * 2)
    first = feedline.Loader(made, batch_size=4, shuffle=True)
    iterator = iter(first)
    next(iterator)
    second = pickle.loads(pickle.dumps(first))
    assert [x.tolist() for (x,) in iterator] == [x.tolist() for (x,) in second]


def double(x):
    return {"twice": x * 2}


def test_it_pickles_without_calling_the_function():
    made = numbers(8).map_batches(double)
    copied = pickle.loads(pickle.dumps(made))
    assert copied.fields == ["twice"]
    assert batches(copied)[1]["twice"].tolist() == [8, 10, 12, 14]


def test_an_error_costs_its_batch_and_has_the_functions_own_as_its_cause():
    def picky(x):
        if 5 in x:
            raise KeyError("five")
        return x

    iterator = iter(feedline.Loader(numbers(12).map_batches(picky), batch_size=4, epochs=1))
    assert next(iterator)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(BatchError, match=r"batch 1 of epoch 0.*five") as caught:
        next(iterator)
    assert isinstance(caught.value.__cause__, KeyError)
    assert next(iterator)[0].tolist() == [8, 9, 10, 11]


def test_the_function_is_called_on_one_sample_first_and_its_error_is_raised_there():
    seen = []
    numbers(8).map_batches(lambda x: seen.append(x.tolist()) or x)
    assert seen == [[0]]
    with pytest.raises(ZeroDivisionError):
        numbers().map_batches(lambda x: 1 // 0)
    with pytest.raises(TypeError, match="returned None; return an array"):
        numbers().map_batches(lambda x: None)
    with pytest.raises(TypeError, match="list of arrays; return a tuple"):
        numbers().map_batches(lambda x: [x, x])
    with pytest.raises(ValueError, match="at least one sample"):
        numbers().take(0).map_batches(lambda x: x)
    with pytest.raises(TypeError, match="function must be a function"):
        numbers().map_batches(3)


def test_other_fields_than_the_first_time_are_an_error():
    changing = numbers(8).map_batches(lambda x: (x, x) if len(x) > 1 else x)
    with pytest.raises(BatchError, match="a tuple of 2, but one value for the first batch"):
        batches(changing)
    changing = numbers(8).map_batches(lambda x: ["a"] if len(x) == 1 else x)
    with pytest.raises(BatchError, match="list of str in the first batch"):
        batches(changing)


def test_a_batch_of_which_all_samples_were_skipped_is_the_functions_too():
    def fails(x):
        if x >= 4:
            raise ValueError
        return x

    sizes = numbers(8).map(fails).map_batches(lambda x: {"n": np.int64(len(x))})
    got = batches(sizes, on_error="skip")
    assert [int(batch["n"]) for batch in got] == [4, 0]


def test_operations_on_samples_are_refused_afterwards():
    made = feedline.arrays(np.zeros((8, 3, 8, 8), np.uint8)).map_batches(lambda x: x)
    other = numbers(8)
    for operation, *arguments in [
        ("map", abs),
        ("filter", bool),
        ("zip", other),
        ("concat", other),
        ("cache",),
        ("images",),
    ]:
        with pytest.raises(
            ValueError, match=f"{operation} works on samples, and map_batches works on"
        ):
            getattr(made, operation)(*arguments)
    for ask in [lambda: made[0], lambda: made.__getitems__([0, 1]), made.show]:
        with pytest.raises(ValueError, match="map_batches makes whole batches"):
            ask()


def test_labels_are_those_of_the_samples():
    pairs = feedline.arrays(np.zeros(6), np.arange(6) % 3)
    assert pairs.map_batches(lambda x, y: x).labels.tolist() == [0, 1, 2, 0, 1, 2]


# ---- the drop-in


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_drop_in_delivers_what_the_function_makes(num_workers):
    pairs = feedline.arrays(np.arange(10.0), np.arange(10))
    made = pairs.map_batches(lambda x, y: (x - x.mean(), y, np.eye(10)[y]))
    loader = DataLoader(made, batch_size=4, num_workers=num_workers)
    got = list(loader)
    assert [len(batch) for batch in got] == [3, 3, 3]
    assert got[2][1].tolist() == [8, 9]
    assert torch.equal(got[0][2], torch.eye(10, dtype=torch.float64)[:4])
    named = DataLoader(pairs.map_batches(lambda x, y: {"x": x}), batch_size=5)
    assert [batch["x"].tolist() for batch in named] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    subset = torch.utils.data.Subset(made, [1, 5])
    assert next(iter(DataLoader(subset, batch_size=2)))[1].tolist() == [1, 5]


def test_the_drop_in_refuses_what_cannot_be():
    made = numbers(8).map_batches(lambda x: x)
    with pytest.raises(ValueError, match="do in map_batches what collate_fn does"):
        iter(DataLoader(made, batch_size=4, collate_fn=list))
    with pytest.raises(ValueError, match="batch_size=None delivers single samples"):
        iter(DataLoader(made, batch_size=None))


def test_workers_call_it_and_not_the_loop():
    names = []
    made = numbers(64).map_batches(lambda x: names.append(threading.get_ident()) or x)
    names.clear()
    batches(made, num_workers=2)
    assert threading.get_ident() not in names


def test_a_cycle_through_the_function_is_freed():
    class Trainer:
        def __init__(self):
            self.loader = feedline.Loader(numbers(64).map_batches(self.step), batch_size=8)

        def step(self, x):
            return x

    trainer = Trainer()
    next(iter(trainer.loader))
    gone = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert gone() is None
