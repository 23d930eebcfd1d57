"""States of the native loader: plain, small, quick, and exactly what was not delivered."""

import itertools
import json
import pickle
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedline
from feedline.errors import StateError, Superseded

BOUNDARIES = {"keep": {}, "drop": {"drop_last": True}, "pad": {"pad_last": True}}


def loader(n=50, **settings):
    settings = {"batch_size": 4, "shuffle": True, "seed": 3, "num_workers": 0} | settings
    return feedline.Loader(feedline.arrays(np.arange(n)), **settings)


def take(loader, count):
    """The next `count` batches, over as many epochs as it takes."""
    batches = []
    while len(batches) < count:
        for (x,) in loader:
            batches.append(x.tolist())
            if len(batches) == count:
                break
    return batches


def saved(loader):
    """The state as it comes out of a checkpoint."""
    text = json.dumps(loader.state_dict())
    assert len(text) < 1000
    return json.loads(text)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_every_pair_of_epoch_and_step_resumes_with_what_was_not_delivered(boundary):
    settings = BOUNDARIES[boundary]
    batches = len(loader(22, **settings))
    whole = take(loader(22, **settings), 3 * batches)
    for delivered in range(2 * batches + 1):
        first = loader(22, num_workers=1, **settings)
        take(first, delivered)
        state = saved(first)
        assert (state["epoch"], state["batch"]) == divmod(delivered, batches)
        second = loader(22, **settings)
        second.load_state_dict(state)
        assert second.state_dict() == state
        assert second.epoch == delivered // batches
        assert take(second, 3 * batches - delivered) == whole[delivered:]


def test_the_state_after_the_last_batch_is_the_start_of_the_next_epoch():
    first = loader(8)
    epoch = iter(first)
    for _ in range(2):
        next(epoch)
    before = first.state_dict()
    assert next(epoch, None) is None
    assert first.state_dict() == before
    assert (before["epoch"], before["batch"]) == (1, 0)


def test_a_loop_that_was_left_can_be_continued_from_its_state():
    first = loader()
    whole = take(loader(), 26)
    for (_,) in first:
        if first.state_dict()["batch"] == 5:
            break
    state = saved(first)
    assert take(first, 13) == whole[13:], "iterating again begins the next epoch"
    first.load_state_dict(state)
    assert take(first, 21) == whole[5:]


def test_an_iterator_under_way_ends_when_a_state_is_loaded():
    one = loader(num_workers=2)
    state = one.state_dict()
    epoch = iter(one)
    next(epoch)
    one.load_state_dict(state)
    with pytest.raises(Superseded):
        next(epoch)
    assert take(one, 3) == take(loader(), 3)


def test_workers_prefetch_and_policy_may_be_others():
    whole = take(loader(), 26)
    changes = itertools.cycle(
        [
            {"num_workers": 3},
            {"num_workers": 1, "prefetch": 1},
            {"num_workers": 2, "io_workers": 2},
            {"num_workers": 2, "policy": "longest_first", "prefetch": 9},
        ]
    )
    state, seen = loader().state_dict(), []
    for steps in [1, 4, 2, 0, 7, 3, 9]:
        resumed = loader(**next(changes))
        resumed.load_state_dict(state)
        seen += take(resumed, steps)
        state = saved(resumed)
    assert seen == whole


def test_a_billion_samples_take_no_more_and_are_found_at_once():
    huge = np.broadcast_to(np.int8(1), (10**9,))
    one = feedline.Loader(feedline.arrays(huge), batch_size=1000, shuffle=True, num_workers=0)
    take(one, 1)
    state = saved(one) | {"batch": 999_999}
    other = feedline.Loader(feedline.arrays(huge), batch_size=1000, shuffle=True, num_workers=0)
    other.load_state_dict(state)
    assert len(take(other, 1)) == 1
    assert other.state_dict()["epoch"] == 1


def test_another_pipeline_is_refused_and_can_be_forced():
    plain = feedline.arrays(np.arange(20))
    first = feedline.Loader(plain, batch_size=4, num_workers=0)
    take(first, 2)
    doubled = plain.map(lambda x: x * 2)
    second = feedline.Loader(doubled, batch_size=4, num_workers=0)
    with pytest.raises(StateError, match=r"the pipeline was `arrays\(1\)` and is .*force=True"):
        second.load_state_dict(first.state_dict())
    assert second.state_dict()["batch"] == 0
    second.load_state_dict(first.state_dict(), force=True)
    assert take(second, 1) == [[16, 18, 20, 22]]


def test_what_differs_is_named():
    state = loader().state_dict()
    for other, what in [
        (loader(51), "the number of samples was 50 and is 51"),
        (loader(seed=4), "the seed was 3 and is 4"),
        (loader(shuffle=False), "the order was shuffled and is sequential"),
    ]:
        with pytest.raises(StateError, match=what):
            other.load_state_dict(state)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (None, TypeError),
        ([], TypeError),
        ({}, StateError),
        ({"version": 1}, StateError),
        ({"version": "x"}, StateError),
        ({"version": np.arange(3)}, TypeError),
    ],
)
def test_what_is_no_state_is_refused(state, error):
    with pytest.raises(error):
        loader().load_state_dict(state)


def test_damaged_states_are_refused():
    state = loader().state_dict()
    for damage in [
        {"version": 7},
        {"batch": 13},
        {"epoch": 2**64 - 1},
        {"batch_size": 0},
        {"world_size": 0},
        {"start": 1, "gaps": "b"},
        {"own_start": 3},
    ]:
        with pytest.raises(StateError):
            loader().load_state_dict(state | damage)


# ---- other ranks and batch sizes


def deliver(ranks, steps):
    """Some steps on each rank; the samples, how many batches were left, and the states."""
    samples, left, states = [], set(), []
    for rank in ranks:
        epoch = iter(rank)
        batches = list(itertools.islice(epoch, steps[rank] if isinstance(steps, dict) else steps))
        samples += [int(i) for (x,) in batches for i in x]
        left.add(len(batches))
        states.append(saved(rank))
    return samples, left, states


@given(st.data())
def test_three_then_two_then_four_ranks_deliver_each_sample_once(data):
    n = data.draw(st.integers(121, 200))
    boundary = data.draw(st.sampled_from(sorted(BOUNDARIES)))
    ledger, state = Counter(), None
    for world in [3, 2, 4]:
        batch_size = data.draw(st.integers(1, 5))
        ranks = [
            loader(n, rank=rank, world_size=world, batch_size=batch_size, **BOUNDARIES[boundary])
            for rank in range(world)
        ]
        if state is not None:
            for rank in ranks:
                rank.load_state_dict(state)
        # The last ones go to the epoch's end.
        steps = n if world == 4 else data.draw(st.integers(0, 4))
        samples, counts, states = deliver(ranks, steps)
        assert len(counts) == 1, "equal step counts"
        ledger.update(samples)
        named = {(s["epoch"], s["batch"], s["repeated"], s["dropped"]) for s in states}
        assert len(named) == 1
        before, state = state, states[0]
    assert state["epoch"] == 1
    assert before["epoch"] == 0
    repeated, missing = ledger.total() - len(ledger), n - len(ledger)
    most = {"keep": (3, 0), "pad": (4 * batch_size - 1, 0), "drop": (0, 4 * batch_size - 1)}
    assert repeated <= most[boundary][0]
    assert missing <= most[boundary][1]


def test_the_state_names_what_is_repeated_and_dropped():
    of_four = [loader(50, rank=0, world_size=4, batch_size=5, **b) for b in BOUNDARIES.values()]
    named = [(s["repeated"], s["dropped"]) for s in (one.state_dict() for one in of_four)]
    assert named == [(2, 0), (0, 10), (10, 0)]


@given(st.data())
def test_merged_states_of_ranks_at_unequal_steps_lose_and_repeat_nothing(data):
    order = data.draw(st.sampled_from(["planned", "ready"]))
    settings = {"order": order, "num_workers": 2 if order == "ready" else 0}
    ranks = [loader(96, rank=rank, world_size=3, **settings) for rank in range(3)]
    steps = {rank: data.draw(st.integers(0, 7)) for rank in ranks}
    samples, _, states = deliver(ranks, steps)
    data.draw(st.randoms()).shuffle(states)
    merged = json.loads(json.dumps(feedline.merge_states(states)))
    assert len(json.dumps(merged)) < 1000
    ranks = [loader(96, rank=rank, world_size=2, batch_size=3) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(merged)
    rest, counts, _ = deliver(ranks, 96)
    assert len(counts) == 1
    missing_step = (96 - len(samples)) % 2
    assert len(samples) + len(rest) == 96 + missing_step
    assert set(samples) | set(rest) == set(range(96))


def test_states_that_do_not_belong_together_are_not_merged():
    with pytest.raises(StateError, match="1 states of 2 ranks"):
        feedline.merge_states([loader(rank=0, world_size=2).state_dict()])
    with pytest.raises(StateError, match="there are none"):
        feedline.merge_states([])


# ---- ready order


def slow_now_and_then(n=60):
    import time

    def make(x):
        if x % 9 == 0:
            time.sleep(0.002)
        return x

    return feedline.arrays(np.arange(n)).map(make)


def test_ready_order_is_replayed_from_its_log():
    settings = {"batch_size": 4, "shuffle": True, "seed": 5, "num_workers": 3}
    first = feedline.Loader(slow_now_and_then(), order="ready", window=4, **settings)
    epochs = [take(first, 15) for _ in range(2)]
    logs = json.loads(json.dumps(first.order_logs()))
    assert {0, 1} <= {log["epoch"] for log in logs}
    again = feedline.Loader(slow_now_and_then(), replay=logs, **settings)
    assert [take(again, 15) for _ in range(2)] == epochs
    other = settings | {"seed": 6}
    with pytest.raises(StateError, match="another plan"):
        feedline.Loader(slow_now_and_then(), replay=logs, **other)
    with pytest.raises(ValueError, match="order_logs"):
        feedline.Loader(slow_now_and_then(), replay=[{"epoch": 1}], **settings)


def test_states_in_ready_order_neither_lose_nor_repeat_a_sample():
    dice = random.Random(1)
    settings = {"batch_size": 4, "shuffle": True, "seed": 5}
    for _ in range(15):
        ledger, state, steps = Counter(), None, 0
        while steps < 15:
            order = dice.choice(["ready", "ready", "planned"])
            one = feedline.Loader(
                slow_now_and_then(),
                order=order,
                window=4,
                num_workers=dice.choice([1, 3]),
                **settings,
            )
            if state is not None:
                one.load_state_dict(state)
            more = min(dice.randrange(1, 6), 15 - steps)
            ledger.update(i for batch in take(one, more) for i in batch)
            steps += more
            state = saved(one)
        assert ledger == Counter(range(60))
        assert (state["epoch"], state["batch"]) == (1, 0)


def test_a_state_pickles_and_is_not_changed_by_what_comes_after():
    one = loader()
    take(one, 2)
    state = one.state_dict()
    copy = pickle.loads(pickle.dumps(state))
    take(one, 2)
    assert state == copy
    state["batch"] = 99
    assert one.state_dict()["batch"] != 99
