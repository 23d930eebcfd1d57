"""Pipelines of iterators: what must come is told by a plain loop, or by torch."""

from __future__ import annotations

import functools
import gc
import io
import itertools
import json
import pickle
import signal
import threading
import weakref

import numpy as np
import pytest
import torch
from PIL import Image

import feedline
from feedline.errors import SampleError, StateError, Superseded
from patience import PATIENCE


def below(n: int):
    """Return a factory of the numbers below n."""
    return lambda: iter(range(n))


def chunks(values, size):
    values = list(values)
    return [values[i : i + size] for i in range(0, len(values), size)]


def epoch(loader):
    return [x.tolist() for (x,) in loader]


def flat(loader):
    return [x for batch in epoch(loader) for x in batch]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 8, 11])
def test_batches_are_torchs_whatever_the_workers(workers, n):
    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

    for drop_last in (False, True):
        theirs = torch.utils.data.DataLoader(Numbers(), batch_size=4, drop_last=drop_last)
        expected = [batch.tolist() for batch in theirs]
        pipeline = feedline.iterable(below(n), example=0)
        loader = feedline.Loader(
            pipeline, batch_size=4, drop_last=drop_last, num_workers=workers, output="torch"
        )
        for _ in range(3):
            assert epoch(loader) == expected


def test_samples_are_what_map_may_return():
    def samples():
        for i in range(5):
            yield {"x": np.full((2, 3), i, np.float32), "n": i, "t": "é" * i, "b": bytes([i])}

    loader = feedline.Loader(feedline.iterable(samples), batch_size=3, num_workers=2)
    first, second = loader
    assert list(first) == ["x", "n", "t", "b"]
    np.testing.assert_array_equal(second["x"], np.stack([np.full((2, 3), i) for i in (3, 4)]))
    assert second["x"].dtype == np.float32
    assert second["n"].tolist() == [3, 4]
    assert second["t"] == ["ééé", "éééé"]
    assert first["b"] == [b"\0", b"\1", b"\2"]


def test_tuples_and_ragged_fields():
    pipeline = feedline.iterable(
        lambda: ((np.arange(n), n) for n in range(1, 4)), ragged={0: "longest"}, fill=-1
    )
    ((tokens, lengths, n),) = feedline.Loader(pipeline, batch_size=3)
    assert tokens.tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2]]
    assert lengths.tolist() == n.tolist() == [1, 2, 3]


def test_functions_run_behind_it():
    pipeline = feedline.iterable(below(9)).map(lambda x: (x, x * x)).map(lambda x, y: y - x)
    loader = feedline.Loader(pipeline, batch_size=4, num_workers=2)
    assert epoch(loader) == chunks([i * i - i for i in range(9)], 4)


def test_functions_on_batches_run_behind_it():
    pipeline = feedline.iterable(below(5)).map_batches(lambda x: x - x.min()).take(4)
    assert epoch(feedline.Loader(pipeline, batch_size=3, num_workers=1)) == [[0, 1, 2], [0]]


def png(color):
    file = io.BytesIO()
    Image.new("RGB", (20, 16), color).save(file, "PNG")
    return file.getvalue()


def test_encoded_pictures_are_decoded_natively():
    def samples():
        for i in range(3):
            yield {"png": png((i, 0, 9)), "label": np.int64(i), "name": f"no {i}"}

    pipeline = feedline.iterable(samples).center_crop(8).layout("hwc")
    assert not any("map" in stage for stage in pipeline._stages)
    (batch,) = feedline.Loader(pipeline, batch_size=4, num_workers=2)
    expected = np.broadcast_to(
        np.array([[0, 0, 9], [1, 0, 9], [2, 0, 9]])[:, None, None], (3, 8, 8, 3)
    )
    np.testing.assert_array_equal(batch["image"], expected)
    assert batch["label"].tolist() == [0, 1, 2]
    assert batch["name"] == ["no 0", "no 1", "no 2"]
    shuffled = feedline.iterable(samples).shuffle(2).take(2).center_crop(8)
    (batch,) = feedline.Loader(shuffled.take(1), batch_size=4)
    assert batch["image"].shape == (1, 3, 8, 8)


@pytest.mark.parametrize("workers", [0, 2])
def test_image_operations_on_arrays_draw_as_those_of_a_dataset_do(workers):
    images = np.random.default_rng(0).integers(0, 256, (11, 20, 24, 3), dtype=np.uint8)

    def augmented(pipeline):
        return pipeline.random_crop(16, padding=2).flip().color_jitter(0.4).layout("hwc")

    settings = {"batch_size": 4, "seed": 3, "num_workers": workers}
    iterated = feedline.Loader(augmented(feedline.iterable(lambda: iter(images))), **settings)
    listed = feedline.Loader(augmented(feedline.arrays(images)), **settings)
    for _ in range(2):
        pairs = list(zip(iterated, listed, strict=True))
        assert [len(ours) for (ours,), _ in pairs] == [4, 4, 3]
        for (ours,), (theirs,) in pairs:
            np.testing.assert_array_equal(ours, theirs)


def test_image_operations_on_arrays_cut_as_slices_do():
    images = np.random.default_rng(1).integers(0, 256, (5, 20, 24, 3), dtype=np.uint8)
    pipeline = feedline.iterable(lambda: iter(images)).center_crop((10, 12)).layout("hwc")
    (batch,) = feedline.Loader(pipeline, batch_size=5)
    np.testing.assert_array_equal(batch[0], images[:, 5:15, 6:18])


def test_the_factory_is_called_at_each_epochs_start_and_told_what_it_asks_for():
    calls = []

    def samples(epoch, *, seed=None):
        calls.append((epoch, seed))
        yield from range(epoch, epoch + 3)

    loader = feedline.Loader(feedline.iterable(samples), batch_size=2, seed=7)
    assert calls == [(0, 0)], "once, to learn what samples are"
    assert [epoch(loader) for _ in range(3)] == [[[i, i + 1], [i + 2]] for i in range(3)]
    assert calls[1:] == [(0, 7), (1, 7), (2, 7)]


def test_the_verdict_names_the_iterator():
    loader = feedline.Loader(feedline.iterable(below(9)), batch_size=2)
    epoch(loader)
    assert "nothing but a faster iterator helps" in loader.explain()


def test_ctrl_c_in_the_iterator_is_raised_where_the_caller_works():
    def samples():
        yield 1
        signal.raise_signal(signal.SIGINT)
        yield 2

    loader = feedline.Loader(feedline.iterable(samples, example=0), num_workers=0)
    batches = iter(loader)
    assert next(batches)[0].tolist() == [1]
    with pytest.raises(KeyboardInterrupt):
        next(batches)


def test_an_example_spares_the_first_call():
    calls = []
    pipeline = feedline.iterable(lambda: calls.append(1) or iter([]), example=(0.5, "text"))
    assert str(pipeline).endswith("delivers (float64 [], text [*])")
    assert calls == []
    assert list(feedline.Loader(pipeline)) == []
    assert calls == [1]


def test_there_is_no_length():
    pipeline = feedline.iterable(below(3))
    loader = feedline.Loader(pipeline)
    with pytest.raises(TypeError, match="no length"):
        len(pipeline)
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    assert "unknown number" in repr(loader)
    assert str(pipeline).startswith("samples of unknown number\n  iterable(<lambda>)\n")
    assert epoch(loader) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda p: p.select([0]), "factory"),
        (lambda p: p.filter(lambda x: x > 0), "factory"),
        (lambda p: p.zip(p), "factory"),
        (lambda p: p.concat(p), "factory"),
        (lambda p: feedline.mix([p, p], [1, 1]), "factory"),
        (lambda p: p.cache(), "factory"),
        (lambda p: p.shard(0, 2), "factory"),
        (lambda p: p.repeat(2), "factory"),
        (lambda p: p.labels, "factory"),
        (lambda p: p[0], "Loader"),
        (lambda p: feedline.Loader(p, shuffle=True), r"pipeline\.shuffle"),
        (lambda p: feedline.Loader(p, sampler=[0]), "factory"),
        (lambda p: feedline.Loader(p, weights=[1.0]), "factory"),
        (lambda p: feedline.Loader(p, pad_last=True), "drop_last"),
        (lambda p: feedline.Loader(p, order="ready"), "ready"),
        (lambda p: feedline.Loader(p, on_error="replace"), "skip"),
    ],
)
def test_what_needs_all_samples_is_refused_and_says_what_to_do(use, advice):
    with pytest.raises((TypeError, ValueError), match=advice):
        use(feedline.iterable(below(3)))


def test_what_is_no_factory_is_refused():
    with pytest.raises(TypeError, match="got range; it is called for each epoch"):
        feedline.iterable(range(3))
    with pytest.raises(TypeError, match="cannot be iterated over"):
        feedline.iterable(lambda: 5)
    with pytest.raises(ValueError, match="pass example="):
        feedline.iterable(list)
    with pytest.raises(TypeError, match="both rank and world_size"):
        feedline.iterable(lambda rank: range(3))
    with pytest.raises(TypeError, match="the iterator gave None"):
        feedline.iterable(lambda: [None])
    with pytest.raises(ZeroDivisionError):
        feedline.iterable(lambda: (1 / 0 for _ in range(3)))
    with pytest.raises(ValueError, match="ragged names"):
        feedline.iterable(below(3), ragged={1: "longest"})
    with pytest.raises(ValueError, match="shuffle=True"):
        feedline.arrays(np.arange(3)).shuffle(10)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_is_raised_at_its_batch_and_the_next_epoch_is_whole(workers):
    def samples(epoch):
        for i in range(10):
            if epoch == 0 and i == 5:
                raise ConnectionError("the line is cut")
            yield i

    pipeline = feedline.iterable(samples, example=0)
    loader = feedline.Loader(pipeline, batch_size=4, num_workers=workers)
    batches = iter(loader)
    assert next(batches)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(SampleError, match="sample 5 failed in stage load") as raised:
        next(batches)
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert (raised.value.index, raised.value.position, raised.value.epoch) == (5, 5, 0)
    assert list(batches) == [], "the iterator is over"
    assert epoch(loader) == chunks(range(10), 4)
    skipping = feedline.Loader(
        pipeline, batch_size=4, num_workers=workers, on_error="skip", drop_last=True
    )
    assert epoch(skipping) == [[0, 1, 2, 3], [4]]


def test_a_sample_that_does_not_fit_is_an_error_of_its_own():
    pipeline = feedline.iterable(lambda: [1, 2, "three", 4, 5], example=0)
    loader = feedline.Loader(pipeline, batch_size=2, on_error="skip")
    assert epoch(loader) == [[1, 2], [4], [5]]
    (error,) = loader.errors
    assert error.index == 2


def test_stop_iteration_inside_a_generator_is_an_error_and_no_end():
    def samples():
        yield 1
        next(iter([]))
        yield 2

    loader = feedline.Loader(feedline.iterable(samples))
    batches = iter(loader)
    assert next(batches)[0].tolist() == [1]
    with pytest.raises(SampleError) as raised:
        next(batches)
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_a_factory_that_fails_is_an_error_of_the_first_batch():
    def samples(epoch):
        if epoch == 0:
            raise OSError("no such stream")
        return [epoch]

    loader = feedline.Loader(feedline.iterable(samples, example=0), batch_size=4)
    with pytest.raises(SampleError, match="no such stream"):
        next(iter(loader))
    assert epoch(loader) == [[1]]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_endless_iterator_is_read_a_little_ahead_and_left_at_any_time(workers):
    read = []

    def samples():
        for i in itertools.count():
            read.append(i)
            yield i

    pipeline = feedline.iterable(samples, example=0)
    loader = feedline.Loader(pipeline, batch_size=4, num_workers=workers, prefetch=3)
    taken = [x.tolist() for (x,) in itertools.islice(loader, 10)]
    assert taken == chunks(range(40), 4)
    assert len(read) <= 40 + 4 * 4
    assert [x.tolist() for (x,) in itertools.islice(loader, 2)] == chunks(range(8), 4)
    del loader


def test_a_loader_is_dropped_while_its_iterator_waits():
    go_on, ended = threading.Event(), threading.Event()

    def samples():
        try:
            yield 1
            go_on.wait(PATIENCE)
            yield 2
        finally:
            ended.set()

    loader = feedline.Loader(feedline.iterable(samples, example=0), num_workers=1)
    batches = iter(loader)
    next(batches)
    del batches, loader
    go_on.set()
    assert ended.wait(PATIENCE), "and its iterator is closed"


def test_a_second_iteration_begins_anew_and_ends_the_first():
    loader = feedline.Loader(feedline.iterable(lambda epoch: [epoch] * 3))
    first = iter(loader)
    assert next(first)[0].tolist() == [0]
    assert epoch(loader) == [[1], [1], [1]]
    with pytest.raises(Superseded):
        next(first)


def test_iterators_that_lead_back_to_the_loader_are_collected():
    class Trainer:
        def __init__(self):
            self.loader = feedline.Loader(feedline.iterable(self.samples), num_workers=1)

        def samples(self):
            yield from itertools.count()

    trainer = Trainer()
    batches = iter(trainer.loader)
    next(batches)
    gone = weakref.ref(trainer)
    del trainer, batches
    for _ in range(100):
        gc.collect()
        if gone() is None:
            break
        # A worker may be inside the generator, which then holds it.
        threading.Event().wait(0.05)
    assert gone() is None


def test_the_budget_holds():
    megabyte = np.zeros(1 << 20, np.uint8)
    pipeline = feedline.iterable(lambda: itertools.repeat(megabyte, 64))
    loader = feedline.Loader(pipeline, batch_size=2, memory="16MiB", prefetch=50, num_workers=2)
    for _ in loader:
        assert loader.stats()["memory"]["undelivered"] <= 16 << 20
    assert loader.stats()["memory"]["peak"] <= 16 << 20


def test_ranks_take_turns_and_end_together():
    for n, world in [(10, 2), (11, 3), (2, 3)]:
        rounds = n // world
        for rank in range(world):
            pipeline = feedline.iterable(below(n))
            loader = feedline.Loader(pipeline, batch_size=2, rank=rank, world_size=world)
            assert epoch(loader) == chunks([p * world + rank for p in range(rounds)], 2)


def test_a_factory_that_takes_a_rank_shares_by_itself():
    def samples(rank, world_size):
        return range(100 * rank, 100 * rank + 3 + world_size)

    for rank in range(2):
        loader = feedline.Loader(feedline.iterable(samples), rank=rank, world_size=2, batch_size=3)
        assert epoch(loader) == chunks(range(100 * rank, 100 * rank + 5), 3)
    state = loader.state_dict() | {"batch": 1}
    other = feedline.Loader(feedline.iterable(samples), rank=0, world_size=2, batch_size=3)
    with pytest.raises(StateError, match="it was rank 1 of 2 and is rank 0 of 2"):
        other.load_state_dict(state)


class Counting:
    """An iterator that can tell where it is."""

    def __init__(self, n):
        self.at = 0
        self.n = n
        self.asked = []

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == self.n:
            raise StopIteration
        self.asked.append(self.at)
        self.at += 1
        return self.at - 1

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("n", [8, 11])
def test_a_state_goes_on_with_what_was_not_delivered(tells, n):
    begun = []

    def samples():
        begun.append(Counting(n))
        return begun[-1] if tells else iter(range(n))

    def loader(**settings):
        pipeline = feedline.iterable(samples, example=0)
        return feedline.Loader(pipeline, batch_size=3, **settings)

    whole = chunks(range(n), 3) * 2
    for delivered in range(len(whole)):
        first = loader(num_workers=2)
        batches = itertools.chain.from_iterable(first for _ in range(3))
        assert [x.tolist() for (x,) in itertools.islice(batches, delivered)] == whole[:delivered]
        state = json.loads(json.dumps(first.state_dict()))
        begun.clear()
        second = loader(num_workers=0)
        second.load_state_dict(state)
        assert (
            epoch(second)
            == whole[delivered : len(whole) // (1 if delivered >= len(whole) // 2 else 2)]
        )
        if tells:
            assert begun[0].asked[:1] in ([], [3 * delivered % (3 * len(whole) // 2)])


def test_a_state_that_is_no_plain_data_says_so():
    class Odd(Counting):
        def state_dict(self):
            return {"at": object()}

    loader = feedline.Loader(feedline.iterable(lambda: Odd(3), example=0))
    with pytest.raises(SampleError, match="must be plain data"):
        next(iter(loader))


def test_copies_go_on_where_the_original_is():
    numbers = functools.partial(range, 9)
    pipeline = feedline.iterable(numbers).shuffle(4).map(np.float32)
    whole = epoch(feedline.Loader(pipeline, batch_size=2))
    loader = feedline.Loader(pickle.loads(pickle.dumps(pipeline)), batch_size=2)
    batches = iter(loader)
    next(batches)
    copied = pickle.loads(pickle.dumps(loader))
    assert epoch(copied) == whole[1:]


def test_a_shuffle_buffer_is_seeded_and_complete():
    def shuffled(seed, size=16, n=100, **settings):
        pipeline = feedline.iterable(below(n)).shuffle(size)
        loader = feedline.Loader(pipeline, batch_size=10, seed=seed, **settings)
        return [flat(loader) for _ in range(2)]

    first, second = shuffled(1, num_workers=0)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second != list(range(100))
    assert shuffled(1, num_workers=3) == [first, second]
    assert shuffled(2)[0] != first
    # A sample comes at most a buffer's length too early.
    assert all(value - place < 16 for place, value in enumerate(first))
    assert shuffled(1, size=1)[0] == list(range(100))
    assert sorted(shuffled(1, size=1000)[0]) == list(range(100))


def test_all_ranks_shuffle_alike():
    pipeline = feedline.iterable(below(40)).shuffle(8)
    alone = flat(feedline.Loader(pipeline, batch_size=4, seed=3))
    for rank in range(2):
        loader = feedline.Loader(pipeline, batch_size=4, seed=3, rank=rank, world_size=2)
        assert flat(loader) == alone[rank::2]


def test_take_and_skip_are_slices():
    for n, skip, take in itertools.product([0, 3, 10], [0, 2, 20], [0, 2, 20]):
        pipeline = feedline.iterable(below(n), example=0).skip(skip).map(lambda x: x + 1).take(take)
        expected = [x + 1 for x in itertools.islice(range(n), skip, skip + take)]
        assert flat(feedline.Loader(pipeline, batch_size=4)) == expected


def test_take_ends_an_endless_iterator():
    pipeline = feedline.iterable(itertools.count).take(5)
    assert epoch(feedline.Loader(pipeline, batch_size=2)) == [[0, 1], [2, 3], [4]]


def test_random_numbers_follow_from_seed_epoch_and_place():
    def samples():
        for _ in range(6):
            yield feedline.rng().integers(1 << 40)

    pipeline = feedline.iterable(samples).map(lambda x: (x, feedline.rng().integers(1 << 40)))

    def drawn(workers):
        loader = feedline.Loader(pipeline, batch_size=2, seed=5, num_workers=workers)
        return [[(x.tolist(), y.tolist()) for x, y in loader] for _ in range(2)]

    first = drawn(0)
    assert first == drawn(3)
    assert first[0] != first[1]
    numbers = [x for batch in first[0] for column in batch for x in column]
    assert len(set(numbers)) == 12


def test_the_drop_in_says_what_to_use():
    from feedline.torch import DataLoader

    with pytest.raises(TypeError, match=r"feedline\.Loader\(pipeline, output=.torch.\)"):
        DataLoader(feedline.iterable(below(3)), batch_size=2)
