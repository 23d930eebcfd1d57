"""The loader: which samples, in which order, within which bounds, and what it says of itself."""

import json
import threading
from collections import Counter

import numpy as np
import pytest

import feedline
from feedline.errors import SampleError, TooManyErrors
from patience import PATIENCE

WORKERS = [0, 1, 2, 4]


def numbers(n=100):
    return feedline.arrays(np.arange(n))


def batches(loader):
    return [batch[0].tolist() for batch in loader]


def samples(loader):
    return [i for batch in batches(loader) for i in batch]


def failing(bad, n=20):
    """Samples of which some cannot be made."""

    def check(x):
        if x in bad:
            raise ValueError(f"{x} is bad")
        return x

    assert 0 not in bad, "the first sample says what all are like"
    return numbers(n).map(check)


# ---- order


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_order_does_not_depend_on_the_workers(shuffle):
    loaders = [
        feedline.Loader(numbers(), batch_size=7, shuffle=shuffle, seed=5, num_workers=workers)
        for workers in WORKERS
    ]
    for _ in range(3):
        first, *others = [batches(loader) for loader in loaders]
        assert all(other == first for other in others)


def test_without_shuffle_samples_come_in_their_order():
    loader = feedline.Loader(numbers(10), batch_size=4)
    for _ in range(2):
        assert batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_each_epoch_has_every_sample_once_in_a_new_order():
    loader = feedline.Loader(numbers(), batch_size=8, shuffle=True)
    epochs = [samples(loader) for _ in range(4)]
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_the_seed_decides_the_order():
    def epoch(seed):
        return samples(feedline.Loader(numbers(), batch_size=8, shuffle=True, seed=seed))

    assert epoch(1) == epoch(1) == epoch(np.uint64(1))
    orders = [epoch(seed) for seed in [0, 1, 2, 2**63, 2**64 - 1]]
    assert len({tuple(order) for order in orders}) == 5


@pytest.mark.parametrize(
    "policy",
    ["steal", "central", "round_robin", "block", "shortest_first", "longest_first", "weighted"],
)
def test_no_policy_changes_what_is_delivered(policy):
    expected = batches(feedline.Loader(numbers(), batch_size=7, shuffle=True, seed=2))
    loader = feedline.Loader(
        numbers(), batch_size=7, shuffle=True, seed=2, policy=policy, num_workers=2
    )
    assert batches(loader) == expected


# ---- the last batch


@pytest.mark.parametrize("workers", [0, 2])
def test_the_last_batch_is_kept_dropped_or_filled(workers):
    def lengths(**settings):
        loader = feedline.Loader(numbers(10), batch_size=4, num_workers=workers, **settings)
        got = [len(batch) for batch in batches(loader)]
        assert len(loader) == len(got)
        return got

    assert lengths() == [4, 4, 2]
    assert lengths(drop_last=True) == [4, 4]
    assert lengths(pad_last=True) == [4, 4, 4]
    assert batches(feedline.Loader(numbers(10), batch_size=4, pad_last=True))[-1] == [8, 9, 0, 1]


# ---- ranks


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("ending", [{}, {"drop_last": True}, {"pad_last": True}], ids=str)
def test_all_ranks_get_equally_many_batches_of_equal_sizes(world, ending):
    ranks = [
        feedline.Loader(
            numbers(101), batch_size=5, shuffle=True, rank=rank, world_size=world, **ending
        )
        for rank in range(world)
    ]
    epochs = [batches(rank) for rank in ranks]
    sizes = [[len(batch) for batch in epoch] for epoch in epochs]
    assert all(size == sizes[0] for size in sizes)
    delivered = Counter(i for epoch in epochs for batch in epoch for i in batch)
    if ending.get("drop_last"):
        assert max(delivered.values()) == 1
        assert delivered.total() > 101 - 5 * world
    else:
        assert delivered.keys() == set(range(101)), "nothing is left out"
        assert delivered.total() < 101 + 5 * world


# ---- ready order


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_ready_order_delivers_each_sample_once_per_epoch(workers):
    loader = feedline.Loader(
        numbers(), batch_size=7, shuffle=True, order="ready", num_workers=workers
    )
    for _ in range(3):
        got = batches(loader)
        assert sorted(i for batch in got for i in batch) == list(range(100))
        assert [len(batch) for batch in got] == [7] * 14 + [2]


def test_in_ready_order_a_slow_sample_holds_up_nothing_but_itself():
    release = threading.Event()

    def slow(x):
        if x == 3:
            assert release.wait(PATIENCE)
        return x

    loader = feedline.Loader(
        numbers(40).map(slow), batch_size=4, order="ready", window=20, num_workers=2, epochs=1
    )
    epoch = iter(loader)
    early = [i for _ in range(9) for i in next(epoch)[0].tolist()]
    assert 3 not in early
    release.set()
    assert sorted(early + [i for (batch,) in epoch for i in batch.tolist()]) == list(range(40))


# ---- epochs


def test_after_the_last_epoch_there_are_no_batches():
    loader = feedline.Loader(numbers(10), batch_size=5, epochs=2)
    assert [len(batches(loader)) for _ in range(2)] == [2, 2]
    with pytest.raises(feedline.errors.FeedlineError, match="epochs"):
        batches(loader)


def test_an_epoch_that_is_left_early_is_followed_by_the_next():
    whole = feedline.Loader(numbers(), batch_size=10, shuffle=True)
    first, second = batches(whole), batches(whole)
    loader = feedline.Loader(numbers(), batch_size=10, shuffle=True)
    for (batch,) in loader:
        assert batch.tolist() == first[0]
        break
    assert batches(loader) == second


def test_an_iterator_that_is_done_stays_done():
    epoch = iter(feedline.Loader(numbers(4), batch_size=2))
    assert iter(epoch) is epoch
    assert len(list(epoch)) == 2
    assert list(epoch) == []
    assert next(epoch, "over") == "over"


# ---- memory and read-ahead


def test_undelivered_batches_stay_within_the_budget():
    data = np.zeros((64, 1000))
    one = 8 * 1000 * 8
    loader = feedline.Loader(
        feedline.arrays(data), batch_size=8, memory=3 * one, prefetch=100, num_workers=4
    )
    assert len(list(loader)) == len(list(loader)) == 8
    memory = loader.stats()["memory"]
    assert one <= memory["peak"] <= 3 * one


def test_a_budget_may_have_a_unit():
    feedline.Loader(numbers(), batch_size=4, memory="1 MiB")
    with pytest.raises(ValueError, match="raise it to at least 8000"):
        feedline.Loader(feedline.arrays(np.zeros((4, 1000))), memory="7kB")


def test_workers_run_ahead_as_far_as_they_may_and_no_further():
    called, enough = [], threading.Event()

    def count(x):
        called.append(int(x))
        if len(called) >= 13:
            enough.set()
        return x

    pipeline = numbers(1000).map(count)
    loader = feedline.Loader(pipeline, batch_size=4, prefetch=3, num_workers=2)
    called.clear()
    epoch = iter(loader)
    next(epoch)
    enough.wait(10)
    # The one delivered, and three ahead of it; one call was to learn what the function makes.
    assert max(called) < 4 * (1 + 3)
    del epoch


def test_without_workers_nothing_is_made_ahead():
    called = []
    pipeline = numbers(100).map(lambda x: (called.append(x), x)[1])
    called.clear()
    epoch = iter(feedline.Loader(pipeline, batch_size=4, num_workers=0))
    assert called == []
    next(epoch)
    assert called == [0, 1, 2, 3]


# ---- errors


@pytest.mark.parametrize("workers", WORKERS)
def test_a_failing_sample_is_raised_at_its_batch_and_iteration_goes_on(workers):
    loader = feedline.Loader(failing({5, 6, 13}), batch_size=4, num_workers=workers)
    for epoch in range(2):
        it = iter(loader)
        assert next(it)[0].tolist() == [0, 1, 2, 3]
        with pytest.raises(SampleError, match=r"sample [56] .* is bad") as caught:
            next(it)
        assert caught.value.index in (5, 6)
        assert caught.value.epoch == epoch
        assert isinstance(caught.value.__cause__, ValueError)
        assert next(it)[0].tolist() == [8, 9, 10, 11]
        with pytest.raises(SampleError, match="13 is bad"):
            next(it)
        assert next(it)[0].tolist() == [16, 17, 18, 19]
        assert next(it, None) is None


@pytest.mark.parametrize("workers", WORKERS)
def test_skipping_shortens_the_batch_and_keeps_a_list(workers):
    loader = feedline.Loader(
        failing({5, 6, 13}), batch_size=4, num_workers=workers, on_error="skip", epochs=1
    )
    assert [len(batch) for batch in batches(loader)] == [4, 2, 4, 3, 4]
    assert sorted(error.index for error in loader.errors) == [5, 6, 13]
    assert {error.stage for error in loader.errors} == {"transform"}
    assert {error.replaced_by for error in loader.errors} == {None}
    assert loader.stats()["errors"] == 3


@pytest.mark.parametrize("workers", WORKERS)
def test_replacing_keeps_the_batch_full_with_the_same_samples_each_run(workers):
    def run(workers):
        loader = feedline.Loader(
            failing({5, 6, 13}), batch_size=4, num_workers=workers, on_error="replace", epochs=2
        )
        got = [batches(loader) for _ in range(2)]
        # The second epoch is begun before the first is through, so errors of both may alternate.
        errors = {(error.epoch, error.index): error.replaced_by for error in loader.errors}
        return got, errors

    got, replaced = run(workers)
    assert (got, replaced) == run(2)
    assert all(len(batch) == 4 for epoch in got for batch in epoch)
    assert replaced.keys() == {(epoch, index) for epoch in range(2) for index in (5, 6, 13)}
    assert not {5, 6, 13} & set(replaced.values())
    assert not {5, 6, 13} & {i for epoch in got for batch in epoch for i in batch}


def test_too_many_errors_are_an_error_themselves():
    loader = feedline.Loader(
        failing({5, 6, 13}), batch_size=4, on_error="skip", max_errors=2, num_workers=1
    )
    epoch = iter(loader)
    assert [len(next(epoch)[0]) for _ in range(3)] == [4, 2, 4]
    with pytest.raises(TooManyErrors, match="more than `max_errors` = 2") as caught:
        next(epoch)
    assert isinstance(caught.value.__cause__, SampleError)
    assert caught.value.__cause__.index == 13


def test_no_error_at_all_may_be_allowed():
    loader = feedline.Loader(failing({5}), batch_size=4, on_error="skip", max_errors=0)
    with pytest.raises(TooManyErrors):
        list(loader)


def test_a_sample_that_hangs_is_given_up():
    release = threading.Event()

    def hang(x):
        if x == 5:
            release.wait(PATIENCE)
        return x

    loader = feedline.Loader(
        numbers(20).map(hang), batch_size=4, sample_timeout=2, num_workers=2, epochs=1
    )
    epoch = iter(loader)
    try:
        assert next(epoch)[0].tolist() == [0, 1, 2, 3]
        with pytest.raises(SampleError, match="sample_timeout") as caught:
            next(epoch)
        assert (caught.value.index, caught.value.failure) == (5, "timeout")
        assert [i for (batch,) in epoch for i in batch.tolist()] == list(range(8, 20))
        assert loader.stats()["lost_workers"] == 1
    finally:
        release.set()


# ---- what it says of itself


def test_its_length_and_its_representation():
    loader = feedline.Loader(numbers(10), batch_size=4, num_workers=2)
    assert len(loader) == 3
    assert loader.num_workers == 2
    assert repr(loader) == ("<Loader of 3 batches, 2 workers: <Pipeline of 10 samples: arrays(1)>>")
    assert feedline.Loader(numbers(10)).num_workers >= 1


def test_stats_are_plain_data():
    loader = feedline.Loader(numbers(), batch_size=10, num_workers=2)
    assert loader.stats()["batches"] == 0
    list(loader)
    stats = loader.stats()
    assert json.loads(json.dumps(stats)) == stats
    assert (stats["batches"], stats["samples"], stats["bytes"]) == (10, 100, 800)
    assert set(stats) >= {"consumer", "workers", "stages", "batch_parts", "occupancy", "memory"}
    assert len(stats["workers"]) == 2
    assert {"undelivered", "idle", "held_by_user"} <= set(stats["memory"])


def test_an_explanation_is_made_of_sentences():
    loader = feedline.Loader(numbers(), batch_size=10)
    for _ in range(2):
        text = loader.explain()
        assert text.endswith("."), text
        assert len(text.split()) > 3, text
        list(loader)


# ---- arguments

NOT_AN_INTEGER = [("a", TypeError), (1.5, TypeError), ([], TypeError)]
COUNTS = [-1, -(2**70), 2**70]
BAD = [
    *[("batch_size", value, ValueError) for value in [0, *COUNTS, 2**32]],
    *[("batch_size", *case) for case in [*NOT_AN_INTEGER, (None, TypeError)]],
    *[("seed", value, ValueError) for value in [-1, 2**64]],
    *[("seed", *case) for case in [*NOT_AN_INTEGER, (None, TypeError)]],
    *[("num_workers", value, ValueError) for value in [*COUNTS, 5000]],
    *[("num_workers", *case) for case in NOT_AN_INTEGER],
    *[("io_workers", value, ValueError) for value in [*COUNTS, 5000]],
    *[("io_workers", *case) for case in NOT_AN_INTEGER],
    *[("prefetch", value, ValueError) for value in [0, *COUNTS]],
    *[("prefetch", *case) for case in NOT_AN_INTEGER],
    *[("window", value, ValueError) for value in [0, *COUNTS]],
    *[("window", *case) for case in NOT_AN_INTEGER],
    *[("max_errors", value, ValueError) for value in COUNTS],
    *[("max_errors", *case) for case in NOT_AN_INTEGER],
    *[("epochs", value, ValueError) for value in [0, *COUNTS]],
    *[("epochs", *case) for case in NOT_AN_INTEGER],
    *[("rank", value, ValueError) for value in [1, 2, *COUNTS]],
    *[("rank", *case) for case in NOT_AN_INTEGER],
    *[("world_size", value, ValueError) for value in [0, *COUNTS]],
    *[("world_size", *case) for case in NOT_AN_INTEGER],
    *[("memory", value, ValueError) for value in [0, 1, *COUNTS, "lots", "5 XB", float("nan")]],
    *[("memory", value, TypeError) for value in [[], b"1"]],
    *[("sample_timeout", value, ValueError) for value in [0, -1, float("nan"), float("inf"), 1e30]],
    *[("sample_timeout", value, TypeError) for value in ["1", [], 1j]],
    *[("order", value, ValueError) for value in ["", "Ready", "random"]],
    ("order", None, TypeError),
    ("on_error", "ignore", ValueError),
    ("on_error", 1, TypeError),
    ("policy", "best", ValueError),
    ("policy", None, TypeError),
    ("output", "jax", ValueError),
    ("output", None, TypeError),
    *[(name, value, TypeError) for name in ["shuffle", "drop_last", "pad_last"] for value in "n"],
    *[(name, 1, TypeError) for name in ["pin_memory", "progress", "shuffle"]],
]


@pytest.mark.parametrize(("name", "value", "kind"), BAD)
def test_a_bad_argument_is_refused_by_name(name, value, kind):
    with pytest.raises(kind, match=rf"\b{name}\b"):
        feedline.Loader(numbers(), **{name: value})


def test_the_largest_arguments_that_make_sense_are_taken():
    loader = feedline.Loader(
        numbers(3),
        batch_size=2**32 - 1,
        seed=2**64 - 1,
        max_errors=2**64 - 1,
        epochs=2**64 - 1,
        prefetch=2**64 - 1,
        window=2**64 - 1,
        rank=2**63 - 1,
        world_size=2**63,
        memory=2**63 - 1,
    )
    assert len(loader) == 1


@pytest.mark.parametrize("integer", [np.int64(4), np.uint8(4), np.array(4)])
def test_integers_of_numpy_are_integers(integer):
    loader = feedline.Loader(
        numbers(), batch_size=integer, seed=integer, num_workers=integer, prefetch=integer
    )
    assert len(loader) == 25


CONFLICTS = [
    ({"drop_last": True, "pad_last": True}, "drop_last and pad_last"),
    ({"sample_timeout": 1, "num_workers": 0}, "sample_timeout.*at least 1 worker"),
    ({"io_workers": 1, "num_workers": 0}, "io_workers.*at least 1 worker"),
    ({"batch_size": 200, "drop_last": True}, "100 samples do not fill one batch of 200"),
]


@pytest.mark.parametrize(("settings", "message"), CONFLICTS)
def test_arguments_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        feedline.Loader(numbers(), **settings)


@pytest.mark.parametrize("thing", [np.zeros(3), [1, 2], None, "x.npy"])
def test_only_pipelines_are_loaded(thing):
    with pytest.raises(TypeError, match=r"Loader takes pipelines, got .*feedline\.arrays\(x\)"):
        feedline.Loader(thing)
