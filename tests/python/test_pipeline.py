"""Pipelines: what operations make of samples, and what they refuse."""

from collections import Counter

import numpy as np
import pytest
import torch

import feedline
from feedline.errors import SampleError
from tiny import first_failure, numbers, whole

# ---- filter and select


def test_filter_keeps_what_the_predicate_is_true_for():
    assert whole(numbers().filter(lambda x: x % 3 == 0))[0].tolist() == [0, 3, 6, 9]
    named = feedline.arrays(x=np.arange(10), y=np.arange(10) % 2)
    kept = named.filter(lambda sample: sample["y"])
    assert whole(kept)["x"].tolist() == [1, 3, 5, 7, 9]
    assert whole(kept.filter(lambda sample: sample["x"] > 4))["x"].tolist() == [5, 7, 9]


def test_filter_refuses_to_keep_nothing_and_passes_errors_on():
    with pytest.raises(ValueError, match=r"filter\(<lambda>\) keeps none of 10 samples"):
        numbers().filter(lambda x: x > 99)
    with pytest.raises(ValueError, match="truth value of an array"):
        numbers().filter(lambda x: np.array([True, False]))
    with pytest.raises(SampleError, match="KeyError") as caught:
        numbers().filter(lambda x: {0: True}[int(x)])
    assert isinstance(caught.value.__cause__, KeyError)


SELECTIONS = {
    "indices": ([3, 1, 1], [3, 1, 1]),
    "from the end": ([-1, -10], [9, 0]),
    "none": ([], []),
    "range": (range(2, 5), [2, 3, 4]),
    "array": (np.array([4, 2], np.uint8), [4, 2]),
    "mask": (np.arange(10) > 7, [8, 9]),
    "list of truth values": ([True] + [False] * 9, [0]),
    "slice": (slice(1, None, 4), [1, 5, 9]),
    "slice backwards": (slice(None, None, -4), [9, 5, 1]),
    "slice beyond": (slice(8, 100), [8, 9]),
    "tensor": (torch.tensor([7, 7]), [7, 7]),
}


@pytest.mark.parametrize("case", SELECTIONS)
def test_select_takes_the_listed_samples(case):
    which, expected = SELECTIONS[case]
    pipeline = numbers().select(which)
    assert len(pipeline) == len(expected)
    if expected:
        assert whole(pipeline)[0].tolist() == expected


BAD_SELECTIONS = [
    ([10], IndexError, "index 10 is out of range for 10 samples"),
    ([-11], IndexError, "index -11 is out of range"),
    (np.array([2**63], np.uint64), IndexError, "index 9223372036854775808 is out of range"),
    ([True, False], IndexError, r"one value per sample, 10, got shape \(2,\)"),
    ([1.5], TypeError, "list of integers.*float64"),
    ([[1, 2]], TypeError, r"shape \(1, 2\)"),
    (3, TypeError, r"shape \(\)"),
    (["a"], TypeError, "list of integers"),
]


@pytest.mark.parametrize(("which", "kind", "message"), BAD_SELECTIONS)
def test_select_refuses_what_is_not_there(which, kind, message):
    with pytest.raises(kind, match=message):
        numbers().select(which)


# ---- zip and concat


def test_zip_puts_fields_side_by_side():
    x, y = numbers(3), feedline.arrays(np.ones(3), np.zeros((3, 2)))
    joined = x.zip(y, x.map(lambda x: str(x)))
    assert joined.fields == ["0", "1", "2", "3"]
    a, b, c, d = whole(joined)
    assert (a.tolist(), b.tolist(), c.shape, d) == ([0, 1, 2], [1, 1, 1], (3, 2), ["0", "1", "2"])
    named = feedline.arrays(x=np.arange(3)).zip(feedline.arrays(y=np.ones(3)))
    assert list(whole(named)) == ["x", "y"]


def test_zip_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="10 samples and field `1` has 3"):
        numbers().zip(numbers(3))
    with pytest.raises(ValueError, match=r"named and unnamed.*arrays\(x=\.\.\.\)"):
        numbers().zip(feedline.arrays(x=np.arange(10)))
    with pytest.raises(ValueError, match=r"field `x`.*another"):
        feedline.arrays(x=np.arange(3)).zip(feedline.arrays(x=np.arange(3)))
    with pytest.raises(TypeError, match=r"zip takes pipelines, got ndarray.*arrays\(x\)"):
        numbers(3).zip(np.arange(3))


def test_concat_appends():
    joined = numbers(3).concat(numbers(2), numbers(1))
    assert whole(joined)[0].tolist() == [0, 1, 2, 0, 1, 0]
    joined = feedline.concat(numbers(300), numbers(5).map(lambda x: -x))
    for batch_size in [1, 7, 64]:
        loader = feedline.Loader(joined, batch_size=batch_size, epochs=1)
        got = [i for (batch,) in loader for i in batch.tolist()]
        assert got == [*range(300), 0, -1, -2, -3, -4]


def test_concat_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"0: float64 \[\], but the first has 0: int64 \[\]"):
        feedline.concat(numbers(), feedline.arrays(np.ones(3)))
    with pytest.raises(ValueError, match="concat cannot join named and unnamed"):
        feedline.concat(numbers(), feedline.arrays(**{"0": np.arange(3)}))
    with pytest.raises(ValueError, match="concat needs at least one pipeline"):
        feedline.concat()
    with pytest.raises(TypeError, match="concat takes pipelines, got list"):
        feedline.concat([numbers()])


def test_errors_name_the_sample_of_the_joined_pipeline_and_its_own_origin():
    def bad(x):
        if x == 2:
            raise ValueError
        return x

    error = first_failure(numbers(5).concat(numbers(5).map(bad)))
    assert (error.index, error.origin) == (7, "0[2]")


# ---- mix


def test_mix_takes_of_each_exactly_its_share():
    parts = [feedline.arrays(np.full(n, i)) for i, n in enumerate([60, 30, 10])]
    mixed = feedline.mix(parts, weights=[1, 2, 1])
    loader = feedline.Loader(mixed, batch_size=20)
    for _ in range(3):
        got = Counter(i for (batch,) in loader for i in batch.tolist())
        assert got == {0: 25, 1: 50, 2: 25}


def test_mix_goes_through_a_part_before_it_repeats_it():
    mixed = feedline.mix([numbers(100), feedline.arrays(np.arange(100, 200))], weights=[1, 3])
    loader = feedline.Loader(mixed, batch_size=50)
    first = Counter(i for (batch,) in loader for i in batch.tolist())
    assert sum(n for i, n in first.items() if i < 100) == 50
    assert {first[i] for i in range(100, 200)} == {1, 2}
    second = Counter(i for (batch,) in loader for i in batch.tolist())
    of_the_first_part = [i for i in (first + second).elements() if i < 100]
    assert sorted(of_the_first_part) == list(range(100)), "two epochs of 50"


def test_mix_depends_on_the_seed_alone():
    mixed = feedline.mix([numbers(50), numbers(20)], weights=[0.5, 2])

    def epoch(**settings):
        loader = feedline.Loader(mixed, batch_size=7, epochs=1, **settings)
        return [i for (batch,) in loader for i in batch.tolist()]

    assert epoch(seed=1, num_workers=0) == epoch(seed=1, num_workers=3)
    assert epoch(seed=1, shuffle=True) == epoch(seed=1, shuffle=False)
    assert epoch(seed=1) != epoch(seed=2)


def test_a_mixture_can_be_mapped():
    mixed = feedline.mix([numbers(10), numbers(10)], weights=[1, 1]).map(lambda x: x + 100)
    assert min(whole(mixed)[0]) >= 100


BAD_WEIGHTS = [
    ([1], ValueError, "one weight per pipeline, got 2 and 1"),
    ([1, -1], ValueError, "weights must be finite numbers of at least 0, got -1"),
    ([1, float("nan")], ValueError, "weights must be finite"),
    ([1, float("inf")], ValueError, "weights must be finite"),
    ([0, 0], ValueError, "weights are all 0.*at least one above 0"),
    (["a", "b"], TypeError, "weights must be a real number"),
]


@pytest.mark.parametrize(("weights", "kind", "message"), BAD_WEIGHTS)
def test_weights_that_make_no_sense_are_refused_at_once(weights, kind, message):
    with pytest.raises(kind, match=message):
        feedline.mix([numbers(), numbers()], weights)


def test_mix_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="mix needs at least one pipeline"):
        feedline.mix([], [])
    with pytest.raises(ValueError, match="0: float64"):
        feedline.mix([numbers(), feedline.arrays(np.ones(3))], [1, 1])
    with pytest.raises(ValueError, match="empty pipeline; pass 0 or leave it out"):
        feedline.mix([numbers(), numbers().select([])], [1, 1])
    with pytest.raises(TypeError, match="mix takes pipelines, got int"):
        feedline.mix([1, 2], [1, 1])


AFTER_MIX = {
    "filter": lambda m: m.filter(lambda x: True),
    "select": lambda m: m.select([0]),
    "zip": lambda m: m.zip(numbers(20)),
    "concat": lambda m: m.concat(numbers()),
    "cache": lambda m: m.cache(),
    "mix": lambda m: feedline.mix([m], [1]),
}


@pytest.mark.parametrize("operation", AFTER_MIX)
def test_what_cannot_follow_mix_says_what_to_call_before_it(operation):
    mixed = feedline.mix([numbers(), numbers()], [1, 1])
    message = f"{operation} cannot follow mix.*call {operation} on the pipelines before"
    with pytest.raises(ValueError, match=message):
        AFTER_MIX[operation](mixed)
    if operation == "zip":
        with pytest.raises(ValueError, match=message):
            numbers(20).zip(mixed)


# ---- what a pipeline says of itself


def test_a_pipeline_prints_its_stages_and_what_it_delivers(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((10, 3, 8, 8), np.uint8))

    def crop(image, label):
        return {
            "image": image[:, :4, :4].astype(np.float32),
            "boxes": np.zeros((label, 4)),
            "tokens": np.zeros(label, np.int32),
            "words": np.zeros(label, np.int32),
            "path": "a",
            "raw": b"a",
            "label": label,
        }

    ragged = {"boxes": "packed", "tokens": "longest", "words": (9,)}
    pipeline = (
        feedline.npy(tmp_path / "x.npy")
        .zip(numbers(10))
        .map(crop, ragged=ragged)
        .cache("ram", limit="2MiB")
        .select([1, 2, 3])
    )
    assert str(pipeline) == "\n".join(
        [
            "3 samples",
            "  npy('x.npy')",
            "  zip(arrays(1))",
            "  map(crop)",
            "  cache(ram, 2MiB)",
            "  select(3 of 10)",
            "delivers {image: float32 [3, 4, 4], boxes: float64 [*, 4] packed, "
            "tokens: int32 [*] longest, words: int32 [*] padded, path: text [*], "
            "raw: bytes [*], label: int64 []}",
        ]
    )


def test_joined_pipelines_print_what_they_are_joined_of():
    joined = feedline.concat(numbers(2).map(abs), numbers(3))
    assert str(joined).splitlines()[1] == "  concat(arrays(1) | map(abs), arrays(1))"
    mixed = feedline.mix([numbers(2), numbers(3)], [1, 0.5])
    assert str(mixed) == (
        "5 samples\n  mix(1 x (arrays(1)), 0.5 x (arrays(1)))\ndelivers (int64 [],)"
    )


def test_pipelines_do_not_change():
    pipeline = numbers()
    before = str(pipeline)
    pipeline.map(lambda x: -x).select([1])
    pipeline.cache()
    assert str(pipeline) == before
    assert whole(pipeline)[0].tolist() == list(range(10))
