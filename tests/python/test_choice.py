"""Choosing samples: take, skip, shard, repeat, and selections of selections."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import feedline
from pictures import delivered
from tiny import numbers, whole


def values(pipeline):
    return whole(pipeline)[0].tolist() if len(pipeline) else []


STEPS = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 15)),
    st.tuples(st.just("skip"), st.integers(0, 15)),
    st.tuples(st.just("repeat"), st.integers(1, 3)),
    st.tuples(st.just("shard"), st.integers(0, 2), st.just(3)),
    st.tuples(
        st.just("select"), st.builds(slice, st.none(), st.none(), st.sampled_from([1, 2, -1, -3]))
    ),
    st.tuples(st.just("select"), st.lists(st.integers(-1, 0), min_size=1, max_size=4)),
)


def expected(step, before):
    match step:
        case ("take", n):
            return before[:n]
        case ("skip", n):
            return before[n:]
        case ("repeat", n):
            return before * n
        case ("shard", index, count):
            return before[index::count]
        case ("select", slice() as which):
            return before[which]
        case ("select", which):
            return [before[i] for i in which]


@given(st.lists(STEPS, max_size=5))
def test_choices_compose_as_those_of_a_list(steps):
    pipeline, wanted = numbers(11).cache(), list(range(11))
    for name, *arguments in steps:
        if name == "select" and isinstance(arguments[0], list) and not wanted:
            continue
        pipeline = getattr(pipeline, name)(*arguments)
        wanted = expected((name, *arguments), wanted)
        assert len(pipeline) == len(wanted)
    assert values(pipeline) == wanted
    assert values(pickle.loads(pickle.dumps(pipeline))) == wanted


def test_the_shards_of_a_pipeline_have_each_sample_once():
    shards = [values(numbers(11).shard(i, 4)) for i in range(4)]
    assert sorted(i for shard in shards for i in shard) == list(range(11))
    assert [len(shard) for shard in shards] == [3, 3, 3, 2]


def test_repeated_samples_draw_random_numbers_of_their_own(tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(
        tmp_path / "one.png"
    )
    crops = feedline.images(tmp_path).random_crop(8).repeat(5)
    assert isinstance(crops, feedline.Images)
    assert len({crop.tobytes() for crop in delivered(crops)}) == 5
    noise = numbers(2).repeat(3).map(lambda x: feedline.rng().normal())
    assert len(set(values(noise))) == 6


def test_what_is_drawn_for_a_repeated_sample_is_told(tmp_path):
    for i, size in enumerate([20, 30]):
        Image.new("RGB", (size, size)).save(tmp_path / f"{i}.png")
    pictures = feedline.images(tmp_path).center_crop(10)
    assert [drawn[0][0][1]["top"] for drawn in map(pictures.repeat(2).skip(1).drawn, range(3))] == [
        10,
        5,
        10,
    ]


def test_a_million_listed_samples_are_one_array():
    total = 1_000_000
    order = np.random.default_rng(0).permutation(total)
    pipeline = numbers(total).select(order)
    loader = feedline.Loader(pipeline, batch_size=total, epochs=1)
    ((batch,),) = loader
    assert (batch == order).all()
    every_third = numbers(total).select(slice(2, None, 3)).select(slice(None, None, -1))
    ((batch,),) = feedline.Loader(every_third, batch_size=total, epochs=1)
    assert (batch == np.arange(total)[2::3][::-1]).all()


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("take", (-1,), "n must be at least 0, got -1"),
        ("skip", (1.5,), "n must be an integer, got 1.5"),
        ("repeat", (0,), "n must be at least 1, got 0"),
        ("shard", (4, 4), "index must be at most 3, got 4"),
        ("shard", (0, 0), "count must be at least 1, got 0"),
        ("repeat", (2**62,), "more than 2\\^64 samples"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(operation, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(numbers(), operation)(*arguments)


def test_a_mixture_is_not_cut():
    mixed = feedline.mix([numbers(), numbers()], weights=[1, 1])
    for operation, *arguments in [("take", 1), ("skip", 1), ("repeat", 2), ("shard", 0, 2)]:
        with pytest.raises(ValueError, match=f"{operation} cannot follow mix"):
            getattr(mixed, operation)(*arguments)
