"""A sample that comes more than once in an epoch: random numbers of its own each time."""

from collections import defaultdict

import numpy as np
import pytest
from torch.utils.data import WeightedRandomSampler

import feedline
from feedline.torch import DataLoader

N = 6
LIST = [3, 0, 3, 5, 3, 0]
WEIGHTS = [1.0, 1.0, 1.0, 20.0, 1.0, 1.0]

# What a loader of seed 7 drew for each sample of its first epoch before samples that come again
# drew anew: `rng()`, and where a crop of 4 by 4 pixels begins (left, top).
NUMBERS = [972009331994, 1075399385565, 250145903154, 615940748280, 343719299138, 651750078519]
CROPS = [(47, 54), (24, 34), (52, 51), (26, 51), (2, 44), (36, 39)]


def drawing():
    """Samples that say which they are, what they drew, and where they were cropped (left, top)."""
    images = np.zeros((N, 64, 64, 3), np.uint8)
    images[..., 0] = np.arange(64)
    images[..., 1] = np.arange(64)[:, None]
    images[..., 2] = np.arange(N)[:, None, None]
    numbers = feedline.arrays(np.arange(N)).map(
        lambda i: np.array([i, feedline.rng().integers(2**40)])
    )
    crops = feedline.arrays(images).random_crop(4).layout("hwc")
    return numbers.zip(crops)


def seen(batches):
    """The samples of batches, each as (index, number, left, top)."""
    rows = []
    for drawn, crops in batches:
        for (index, number), crop in zip(np.asarray(drawn), np.asarray(crops), strict=True):
            left, top, shown = (int(channel) for channel in crop[0, 0])
            assert shown == index
            rows.append((int(index), int(number), left, top))
    return rows


def loader(**settings):
    return feedline.Loader(drawing(), **{"batch_size": 4, "seed": 7, "num_workers": 2} | settings)


REPEATING = {
    "weights": {"weights": WEIGHTS, "num_samples": 40},
    "list": {"sampler": LIST},
}


@pytest.mark.parametrize("kind", ["weights", "list"])
def test_a_sample_that_comes_again_draws_other_numbers(kind):
    rows = seen(loader(**REPEATING[kind]))
    numbers, crops = defaultdict(list), defaultdict(set)
    for index, number, left, top in rows:
        numbers[index].append(number)
        crops[index].add((left, top))
    assert len(rows) > len(numbers)
    assert all(len(set(drawn)) == len(drawn) for drawn in numbers.values())
    assert len(crops[3]) > 1


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shuffle": True},
        {"sampler": [4, 1, 5, 0, 3, 2]},
        {"weights": WEIGHTS, "replacement": False},
        {"buckets": [5, 1, 4, 2, 6, 3]},
    ],
)
def test_where_each_comes_once_the_numbers_are_those_they_always_were(settings):
    expected = [(i, NUMBERS[i], *CROPS[i]) for i in range(N)]
    assert sorted(seen(loader(**settings))) == expected


def test_the_first_entry_of_a_list_draws_as_if_it_were_the_only_one():
    rows = seen(loader(sampler=LIST))
    assert [row[0] for row in rows] == LIST
    first = {index: LIST.index(index) for index in LIST}
    for place, row in enumerate(rows):
        is_first = first[row[0]] == place
        assert (row[1] == NUMBERS[row[0]]) == is_first


@pytest.mark.parametrize("kind", ["weights", "list"])
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_workers_and_policies_change_nothing(kind, workers):
    settings = REPEATING[kind]
    reference = seen(loader(num_workers=0, **settings))
    assert seen(loader(num_workers=workers, policy="central", **settings)) == reference
    ready = seen(loader(num_workers=workers, order="ready", **settings))
    assert sorted(ready) == sorted(reference)


@pytest.mark.parametrize("kind", ["weights", "list"])
def test_ranks_share_the_draws_of_one(kind):
    settings = REPEATING[kind]
    alone = seen(loader(rank=0, world_size=1, batch_size=2, **settings))
    ranks = [seen(loader(rank=r, world_size=2, batch_size=1, **settings)) for r in range(2)]
    assert sorted(ranks[0] + ranks[1]) == sorted(alone)


@pytest.mark.parametrize("kind", ["weights", "list"])
@pytest.mark.parametrize("batch_size", [2, 3])
def test_a_resumed_loader_draws_what_the_first_would_have(kind, batch_size):
    settings = REPEATING[kind] | {"batch_size": 2}
    whole = seen(loader(**settings))
    first = loader(**settings)
    batches = iter(first)
    begun = seen([next(batches)])
    state = first.state_dict()
    second = loader(**settings | {"batch_size": batch_size})
    second.load_state_dict(state)
    assert begun + seen(second) == whole


def test_each_epoch_draws_anew():
    twice = loader(sampler=LIST)
    first, second = seen(twice), seen(twice)
    assert not {row[1] for row in first} & {row[1] for row in second}


def test_a_part_of_a_mixture_that_wraps_around_draws_anew():
    zeros = feedline.arrays(np.zeros(2)).map(lambda _: feedline.rng().integers(2**40))
    ones = feedline.arrays(np.ones(20)).map(lambda _: feedline.rng().integers(2**40))
    mixed = feedline.Loader(feedline.mix([zeros, ones], weights=[1, 1]), batch_size=22, seed=1)
    for _ in range(2):
        (numbers,) = next(iter(mixed))
        assert len(set(np.asarray(numbers).tolist())) == 22


def test_the_drop_in_draws_anew_where_torchs_sampler_repeats():
    sampler = WeightedRandomSampler(WEIGHTS, 40)
    rows = seen(DataLoader(drawing(), batch_size=4, sampler=sampler, num_workers=2))
    assert len({row[0] for row in rows}) < 40
    assert len({row[1] for row in rows}) == 40
