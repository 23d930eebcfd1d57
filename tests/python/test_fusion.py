"""Stages that are done as one, and that `print` says so."""

import numpy as np
import pytest

import feedline


def rows():
    return feedline.arrays(np.arange(20), np.arange(20) * 10)


def samples(pipeline):
    return [tuple(field[0].item() for field in batch) for batch in feedline.Loader(pipeline)]


def test_consecutive_selections_are_one_table():
    chosen = rows().select(slice(0, None, 2)).select([3, 1, 1]).filter(lambda x, _: x < 6)
    assert samples(chosen) == [(2, 20), (2, 20)]
    assert "select(10 of 20) + select(3 of 10) + filter(<lambda>), fused" in str(chosen)


def test_consecutive_functions_are_one_call():
    def swap(x, y):
        return y, x

    def add(x, y):
        return x + y

    fused = rows().map(swap).map(lambda x, y: (x, y + 1)).map(add)
    assert samples(fused) == [(11 * i + 1,) for i in range(20)]
    assert "map(swap) + map(<lambda>) + map(add), fused" in str(fused)


def test_a_fused_function_gets_arrays_of_its_own():
    shared = np.zeros(2, np.int64)
    seen = []

    def second(sample):
        seen.append({name: type(value) for name, value in sample.items()})
        sample["shared"] += 1
        return sample["pair"] * 2, sample["shared"]

    fused = rows().map(lambda x, y: {"pair": [x, y], "shared": shared, "n": 1}).map(second)
    pairs, counts = next(iter(feedline.Loader(fused, batch_size=20)))
    assert pairs.tolist() == [[2 * i, 20 * i] for i in range(20)]
    assert counts.tolist() == [[1, 1]] * 20
    assert shared.tolist() == [0, 0]
    assert all(kinds == {"pair": np.ndarray, "shared": np.ndarray, "n": np.int64} for kinds in seen)


def test_what_no_function_can_be_given_is_refused_between_two():
    for nothing in (None, object(), np.ma.masked_array([1], [True])):
        with pytest.raises(TypeError, match="return"):
            rows().map(lambda x, y: (x, y)).map(lambda x, y, made=nothing: made).map(lambda x: x)


def test_other_stages_in_between_are_not_fused_over():
    apart = rows().map(lambda x, y: (x, y)).select([1]).map(lambda x, y: (x, y))
    assert "fused" not in str(apart)
    ragged = feedline.arrays(np.arange(1, 4)).map(lambda n: np.ones(n), ragged={0: "longest"})
    assert "fused" not in str(ragged.map(lambda x: x.sum()))
    assert samples(ragged.map(lambda x: x.sum())) == [(1.0,), (2.0,), (3.0,)]
