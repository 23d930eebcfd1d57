"""Courses: every batch of every rank, made alone, is the one of a loader in one process."""

import itertools
import json

import numpy as np
import pytest

import feedline

N = 53
ORDERS = {
    "sequential": {},
    "shuffled": {"shuffle": True},
    "weighted": {"weights": np.arange(N) + 1.0},
    "bucketed": {"buckets": np.arange(N) % 17, "bucket_batches": 2},
}
ENDS = ({}, {"drop_last": True}, {"pad_last": True})


def pipeline():
    numbers = np.arange(N)
    return feedline.arrays(numbers, numbers * 2.0).map(
        lambda x, y: (x, y + feedline.rng().normal())
    )


def loader(settings, rank=0, world_size=1):
    return feedline.Loader(
        pipeline(),
        batch_size=5,
        seed=3,
        num_workers=0,
        rank=rank,
        world_size=world_size,
        **settings,
    )


def course_of(settings, world_size):
    from feedline.ray.course import Course

    return Course.of(loader(settings).state_dict()).for_world(world_size)


def made(settings, order):
    """Return the batch that an order is for, by an engine that knows nothing else."""
    maker = loader(settings, order.rank, order.world_size)
    maker.load_state_dict(json.loads(json.dumps(order.state)))
    return next(iter(maker))


def alike(one, other):
    return len(one) == len(other) and all(
        np.array_equal(a, b) for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_each_batch_made_alone_is_the_one_of_a_loader_in_one_process(order, world_size):
    for end in ENDS:
        settings = ORDERS[order] | end
        course = course_of(settings, world_size)
        for rank in range(world_size):
            whole = loader(settings, rank, world_size)
            for epoch in range(2):
                assert course.batches(epoch) == len(whole)
                for number, batch in enumerate(whole):
                    assert alike(made(settings, course.order(epoch, number, rank)), batch)
                    after = course.following(epoch, number)
                    assert course.state_at(*after, rank) == whole.state_dict()


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (3, 2), (2, 2)])
@pytest.mark.parametrize("order", ORDERS)
def test_a_state_resumes_as_it_does_in_one_process_for_any_number_of_ranks(order, before, after):
    settings = ORDERS[order]
    earlier = loader(settings, 0, before)
    list(itertools.islice(earlier, 2))
    state = earlier.state_dict()
    for rank in range(after):
        resumed = loader(settings, rank, after)
        resumed.load_state_dict(state)
        course, epoch, number = course_of(settings, after).resumed(state, force=False)
        assert course.state_at(epoch, number, rank) == resumed.state_dict()
        for batch in resumed:
            assert alike(made(settings, course.order(epoch, number, rank)), batch)
            epoch, number = course.following(epoch, number)
            assert course.state_at(epoch, number, rank) == resumed.state_dict()
        assert (epoch, number) == (1, 0)


def test_a_merged_state_of_ranks_that_stopped_apart_has_its_gaps():
    settings = {"shuffle": True}
    ranks = [loader(settings, rank, 3) for rank in range(3)]
    for rank, steps in zip(ranks, (3, 0, 1), strict=True):
        list(itertools.islice(rank, steps))
    state = feedline.merge_states([rank.state_dict() for rank in ranks])
    assert state["gaps"]
    resumed = loader(settings)
    resumed.load_state_dict(state)
    course, epoch, number = course_of(settings, 1).resumed(state, force=False)
    for batch in resumed:
        assert alike(made(settings, course.order(epoch, number, 0)), batch)
        epoch, number = course.following(epoch, number)
    assert (epoch, number) == (1, 0)


def test_a_state_that_does_not_fit_says_what_differs():
    from feedline.errors import StateError

    course = course_of({"shuffle": True}, 1)
    other = feedline.Loader(pipeline(), batch_size=5, seed=4, shuffle=True).state_dict()
    with pytest.raises(StateError, match="the seed was 4 and is 3"):
        course.resumed(other, force=False)
    assert course.resumed(other, force=True)[1:] == (0, 0)
    with pytest.raises(StateError, match="no state of a feedline loader"):
        course.resumed({"version": 1}, force=False)


def test_an_actor_keeps_few_engines_that_are_ranks_of_several():
    from feedline.ray.actor import LoaderActor, packed

    settings = {"pad_last": True}
    described = loader(settings)._settings | {"io_workers": 0}
    described.pop("epochs", None)
    actor = LoaderActor(packed(pipeline(), described), 1, 2)
    course = course_of(settings, 8)
    for _ in range(2):
        for rank in range(8):
            for number in range(course.batches(0)):
                order = course.order(0, number, rank)
                making, batch = actor.make(order)
                assert making.error is None
                assert alike(batch, made(settings, order))
    # One for what all ranks have alike, and two for ranks that repeat the start.
    assert len(actor._native) == len(actor._idle) == 3
    assert "32 batches" in actor.explain()
