"""Stages that are done as one, and that `print` says so."""

import numpy as np

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


def test_a_fused_function_gets_what_the_one_before_returned():
    seen = []

    def second(sample):
        seen.append(type(sample["pair"]))
        return np.int64(sum(sample["pair"]))

    fused = rows().map(lambda x, y: {"pair": [int(x), int(y)]}).map(second)
    assert samples(fused) == [(11 * i,) for i in range(20)]
    assert set(seen) == {list}


def test_other_stages_in_between_are_not_fused_over():
    apart = rows().map(lambda x, y: (x, y)).select([1]).map(lambda x, y: (x, y))
    assert "fused" not in str(apart)
    ragged = feedline.arrays(np.arange(1, 4)).map(lambda n: np.ones(n), ragged={0: "longest"})
    assert "fused" not in str(ragged.map(lambda x: x.sum()))
    assert samples(ragged.map(lambda x: x.sum())) == [(1.0,), (2.0,), (3.0,)]
