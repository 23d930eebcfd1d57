"""On a local cluster: the batches of a loader in one process, whoever dies meanwhile."""

import os
import pickle
import signal
import time

import numpy as np
import pytest

import feedline

N = 150
# A busy machine may take longer than the loader thinks is worth no word.
pytestmark = pytest.mark.filterwarnings("ignore:no batch in")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import ray

    quiet = {"include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=4, object_store_memory=200_000_000, **quiet)
    yield
    ray.shutdown()


def pipeline():
    numbers = np.arange(N)
    return feedline.arrays(numbers, np.ones((N, 1000))).map(
        lambda x, y: (x, y * feedline.rng().normal())
    )


SETTINGS = {"batch_size": 8, "shuffle": True, "seed": 3}


@pytest.fixture
def ours():
    """Make loaders on Ray, and close them afterwards."""
    import feedline.ray

    made = []

    def make(source=None, **settings):
        source = pipeline() if source is None else source
        made.append(feedline.ray.Loader(source, **(SETTINGS | settings)))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


@pytest.fixture
def pair(pairs):
    """A loader with two actors, at its start; several tests use it one after the other."""
    pairs.load_state_dict(alone().state_dict())
    return pairs


@pytest.fixture(scope="module")
def pairs(cluster):
    import feedline.ray

    with feedline.ray.Loader(pipeline(), num_loaders=2, **SETTINGS) as loader:
        yield loader


def alone(source=None, **settings):
    return feedline.Loader(pipeline() if source is None else source, **(SETTINGS | settings))


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def of(loader, state):
    """What is said of the actors in a state."""
    return [actor for actor in loader.stats()["actors"] if actor["state"] == state]


@pytest.mark.parametrize("actors", [1, 3])
def test_the_batches_are_those_of_a_loader_in_one_process(actors, ours):
    loader, plain = ours(num_loaders=actors), alone()
    assert len(loader) == len(plain)
    for _ in range(2):
        same(list(loader), list(plain))
    assert loader.epoch == 2


def test_states_are_those_of_a_loader_in_one_process_and_either_goes_on(pair):
    plain = alone()
    steps, others = iter(pair), iter(plain)
    for _ in range(5):
        next(steps)
        next(others)
    state = pair.state_dict()
    assert state == plain.state_dict()
    rest = list(others)
    same(list(pair), list(plain))
    pair.load_state_dict(state)
    same(list(pair), rest)
    there = alone()
    there.load_state_dict(state)
    same(list(there), rest)


def test_a_loader_that_is_pickled_goes_on_where_it_is_as_any_rank(pair):
    steps = iter(pair)
    for _ in range(3):
        next(steps)
    copy = pickle.loads(pickle.dumps(pair))
    same(list(copy), list(alone())[3:])
    copy.close()
    pair.load_state_dict(alone().state_dict())
    for rank in range(2):
        copy = pickle.loads(pickle.dumps(pair.for_rank(rank, 2)))
        same(list(copy), list(alone(rank=rank, world_size=2)))
        copy.close()


def test_with_buckets_all_ranks_get_batches_of_like_length_at_a_step(ours):
    lengths = np.arange(60) // 6 + 1
    source = feedline.arrays(lengths).map(lambda n: np.full(n, n), ragged={0: "longest"}, fill=-1)
    loader = ours(source, batch_size=3, buckets=lengths, bucket_batches=1, shuffle=False)
    ranks = [loader.for_rank(rank, 2) for rank in range(2)]
    steps = list(zip(*ranks, strict=True))
    assert len(steps) == 10
    for (one, length), (other, same_length) in steps:
        # Nothing is padded, on no rank: all six samples of the step are as long as each other.
        assert one.shape == other.shape == (3, length[0])
        assert (one == length[0]).all()
        assert (other == same_length[0]).all()
    assert sorted(one.shape[1] for (one, _), _ in steps) == list(range(1, 11))
    settings = {"batch_size": 3, "buckets": lengths, "bucket_batches": 1, "shuffle": False}
    same([one for one, _ in steps], list(alone(source, rank=0, world_size=2, **settings)))
    for copy in ranks:
        copy.close()


def test_an_epoch_that_is_left_half_way_is_over_and_its_iterator_says_so(pair):
    from feedline.errors import Closed, Superseded

    loader, plain = pickle.loads(pickle.dumps(pair)), alone()
    left = iter(loader)
    next(left)
    list(plain)
    same(list(loader), list(plain))
    with pytest.raises(Superseded):
        next(left)
    loader.close()
    with pytest.raises(Closed):
        iter(loader)


def test_tensors_view_the_store_and_may_be_written_to(pair):
    torch = pytest.importorskip("torch")
    loader = pickle.loads(pickle.dumps(pair))
    assert not next(iter(loader))[1].flags.writeable
    loader.load_state_dict(alone().state_dict())
    loader._output = "torch"
    for (x, y), (want, values) in zip(loader, alone(), strict=True):
        assert isinstance(x, torch.Tensor)
        assert np.array_equal(x.numpy(), want)
        y += 1
        assert np.array_equal(y.numpy(), values + 1)
    loader.close()


def test_actors_and_the_desk_may_be_killed_and_nothing_is_lost(ours):
    import ray

    loader, got = ours(num_loaders=2), []
    for batch in loader:
        got.append(batch)
        if len(got) in (3, 9):
            # One may have made all of these before another has started.
            while not (actors := of(loader, "ready")):
                time.sleep(0.05)
            os.kill(actors[0]["pid"], signal.SIGKILL)
        if len(got) == 14:
            ray.kill(loader._desk, no_restart=False)
    same(got, list(alone()))
    assert "loader actors are at work" in loader.explain()


def test_actors_are_added_for_a_loop_that_waits_and_it_says_so(ours):
    def slow(x, y):
        time.sleep(0.02)
        return x, y

    loader = ours(pipeline().map(slow), autoscale=(1, 2))
    while loader.stats()["added"] == 0:
        for _ in loader:
            pass
    stats = loader.stats()
    assert sum("loader" in actor["name"] for actor in stats["actors"]) == 2
    assert stats["batches"] == loader.epoch * len(loader)


def test_actors_are_added_and_taken_away_when_asked_and_batches_stay_the_same(ours):
    loader, plain = ours(num_cpus=0.25), alone()
    for actors in (3, 1, 2):
        loader.scale(actors)
        same(list(loader), list(plain))
        while len(of(loader, "ready")) != actors:
            time.sleep(0.05)
        same(list(loader), list(plain))
    stats = loader.stats()
    assert (stats["deaths"], stats["removed"]) == (0, 2)
    with pytest.raises(ValueError, match="num_loaders must be at least 1, got 0"):
        loader.scale(0)
    with pytest.raises(ValueError, match=r"the least and the most actors, got \(3, 2\)"):
        loader.scale((3, 2))


def test_a_spare_actor_is_kept_for_when_one_dies_and_nothing_is_lost(ours):
    loader, got = ours(num_cpus=0.25), []
    while not any(actor["state"] == "spare" for actor in loader.stats()["actors"]):
        got += list(loader)
    (spare,) = of(loader, "spare")
    assert spare["batches"] == 0
    # It is missed though it has nothing to do, and another takes its place.
    os.kill(spare["pid"], signal.SIGKILL)
    while [actor["pid"] for actor in of(loader, "spare")] in ([], [spare["pid"]]):
        time.sleep(0.05)
    assert loader.stats()["replaced"] == 0
    (worker,) = of(loader, "ready")
    os.kill(worker["pid"], signal.SIGKILL)
    # Its death is not known at once.
    while [actor["pid"] for actor in of(loader, "ready")] in ([], [worker["pid"]]):
        got += list(loader)
    plain = alone()
    same(got, [batch for _ in range(loader.epoch) for batch in plain])
    assert loader.stats()["replaced"] == 1


def test_an_actor_that_is_stopped_holds_up_nothing_while_there_is_a_spare_one(ours):
    loader = ours(num_cpus=0.25)
    while not of(loader, "spare"):
        list(loader)
    (worker,) = of(loader, "ready")
    first = loader.epoch
    os.kill(worker["pid"], signal.SIGSTOP)
    got = list(loader) + list(loader)
    os.kill(worker["pid"], signal.SIGCONT)
    plain = alone()
    same(got, [batch for _ in range(first + 2) for batch in plain][first * len(plain) :])


def test_a_sample_that_fails_raises_as_without_ray_and_iteration_goes_on(ours):
    def odd(x, y):
        if x == 7:
            raise ValueError("seven")
        return x, y

    source = pipeline().map(odd)
    seen = []
    for loader in (ours(source), alone(source)):
        steps, got, error = iter(loader), [], None
        while True:
            try:
                got.append(next(steps))
            except StopIteration:
                break
            except feedline.errors.SampleError as raised:
                error = (raised.index, raised.position, raised.epoch, str(raised))
        seen.append((got, error))
    same(seen[0][0], seen[1][0])
    assert seen[0][1] == seen[1][1]
    assert seen[0][1][0] == 7


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_samples_that_are_skipped_or_replaced_are_told_as_without_ray(policy, ours):
    def odd(x, y):
        if x % 50 == 7:
            raise ValueError("odd")
        return x, y

    source = pipeline().map(odd)
    loader, plain = ours(source, on_error=policy), alone(source, on_error=policy)
    same(list(loader), list(plain))
    told = [[(e.index, e.position, e.replaced_by) for e in one.errors] for one in (loader, plain)]
    assert told[0] == told[1]
    assert len(told[0]) == 3


def test_a_cluster_without_room_is_an_error_that_says_what_was_waited_for(ours):
    loader = ours(num_cpus=64, timeout=1.0)
    with pytest.raises(
        TimeoutError, match=r"no loader actor has started.*'CPU': 64.*of 4 CPU free.*num_cpus="
    ):
        next(iter(loader))


def test_a_loader_that_is_dropped_ends_its_thread_the_desk_and_the_actors():
    import ray

    import feedline.ray

    loader = feedline.ray.Loader(pipeline(), **SETTINGS)
    next(iter(loader))
    thread = loader._reader._thread
    pids = [ray.get(loader._desk.__ray_call__.remote(lambda _: os.getpid()))]
    pids += [actor["pid"] for actor in of(loader, "ready")]
    del loader
    thread.join()
    while any(map(lives, pids)):
        time.sleep(0.05)


def test_two_readers_of_the_same_share_do_not_write_into_the_same_memory(ours):
    pytest.importorskip("torch")
    loader = ours(output="torch", batch_size=50)
    other = pickle.loads(pickle.dumps(loader))
    steps, others = iter(loader), iter(other)
    while loader.stats()["readers"] < 2:
        time.sleep(0.05)
    for (_, y), (_, z), (_, values) in zip(steps, others, alone(batch_size=50), strict=True):
        y += 1
        assert np.array_equal(z.numpy(), values)
        z += 2
        assert np.array_equal(y.numpy(), values + 1)
    other.close()


def test_a_desk_that_is_started_again_has_as_many_actors_as_were_asked_for_last(ours):
    import ray

    loader, plain = ours(num_cpus=0.25), alone()
    loader.scale(2)
    same(list(loader), list(plain))
    ray.kill(loader._desk, no_restart=False)
    same(list(loader), list(plain))
    while len(of(loader, "ready")) < 2:
        time.sleep(0.05)


def test_a_desk_that_does_not_answer_is_an_error_that_says_so(ours, monkeypatch):
    import ray

    from feedline.ray import loader as module

    monkeypatch.setattr(module, "_ANSWERS", 0.5)
    loader = ours(timeout=1.0)
    desk = ray.get(loader._desk.__ray_call__.remote(lambda _: os.getpid()))
    os.kill(desk, signal.SIGSTOP)
    with pytest.raises(TimeoutError, match=r"the desk.*does not answer"):
        next(iter(loader))
    os.kill(desk, signal.SIGCONT)


def test_an_epoch_without_a_batch_for_each_rank_is_refused_as_without_ray(ours):
    source = feedline.arrays(np.arange(10))
    settings = {"batch_size": 6, "drop_last": True}
    words = "10 samples do not fill one batch of 6 on each of 2 ranks"
    loader = ours(source, **settings)
    assert len(loader) == 1
    for refused in (
        lambda: alone(source, rank=0, world_size=2, **settings),
        lambda: ours(source, rank=0, world_size=2, **settings),
        lambda: loader.for_rank(0, 2),
    ):
        with pytest.raises(ValueError, match=words):
            refused()


def test_an_epoch_without_a_batch_for_ranks_that_are_found_later_is_refused(ours, monkeypatch):
    loader = ours(feedline.arrays(np.arange(10)), batch_size=6, drop_last=True)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for asked in (len, iter, lambda loader: loader.state_dict()):
        with pytest.raises(ValueError, match="do not fill one batch of 6 on each of 2 ranks"):
            asked(loader)


def test_a_pipeline_that_cannot_be_made_there_raises_what_it_raised(ours, tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(10))
    source = feedline.npy(tmp_path / "rows.npy")
    (tmp_path / "rows.npy").unlink()
    loader = ours(source)
    with pytest.raises(feedline.errors.FeedlineError, match=r"rows\.npy"):
        next(iter(loader))


@pytest.mark.parametrize("refused", ["node", "group", "archive"])
def test_what_ray_refuses_is_an_error_in_its_own_words_whenever_a_batch_is_wanted(refused, ours):
    import ray
    from ray.util.scheduling_strategies import (
        NodeAffinitySchedulingStrategy,
        PlacementGroupSchedulingStrategy,
    )

    group = ray.util.placement_group([{"CPU": 0.1}])
    nowhere = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    options, words = {
        "node": ({"scheduling_strategy": nowhere}, "not schedulable"),
        "group": ({"scheduling_strategy": PlacementGroupSchedulingStrategy(group)}, "cannot fit"),
        "archive": ({"runtime_env": {"working_dir": "file:///nonexistent.zip"}}, "runtime env"),
    }[refused]
    loader = ours(actor_options=options)
    steps = iter(loader)
    for _ in range(2):
        with pytest.raises(feedline.errors.FeedlineError, match=f"cannot start.*{words}"):
            next(steps)
    assert loader.state_dict() == alone().state_dict()
    ray.util.remove_placement_group(group)


def test_an_actor_that_ray_itself_would_restart_is_replaced_all_the_same(ours):
    loader, got = ours(num_loaders=2, actor_options={"max_restarts": -1}), []
    for batch in loader:
        got.append(batch)
        if len(got) == 4:
            os.kill(of(loader, "ready")[0]["pid"], signal.SIGKILL)
    same(got, list(alone()))


def test_the_end_of_the_desk_is_told_whenever_a_batch_is_wanted_and_takes_no_place(ours):
    import ray

    loader = ours()
    steps = iter(loader)
    got = [next(steps)]
    ray.kill(loader._desk)
    with pytest.raises(ray.exceptions.ActorDiedError):
        got += iter(lambda: next(steps), None)
    with pytest.raises(ray.exceptions.ActorDiedError):
        next(steps)
    assert loader.state_dict()["batch"] == len(got)
    same(got, list(alone())[: len(got)])


@pytest.mark.parametrize("then", ["made", "failing"])
def test_a_batch_that_is_lost_is_made_again_and_may_fail_like_any_other(
    then, ours, tmp_path, monkeypatch
):
    import ray

    from feedline.ray import reader

    # On a busy machine others may arrive late, which is no reason to make them again here.
    monkeypatch.setattr(reader, "_ARRIVAL", 60.0)
    flag = tmp_path / "failing"

    def fragile(x, y):
        if flag.exists():
            raise ValueError("fragile")
        return x, y

    @ray.remote(num_cpus=0)
    class Owner:
        def own(self):
            return [ray.put(np.zeros(1_000_000))]

    owner = Owner.remote()
    (lost,) = ray.get(owner.own.remote())
    ray.kill(owner)

    def lose(desk, lost):
        # The last one, for which its reader has not asked yet, when nothing else is to be made.
        last = [batch for name, batch in desk._ledger.batches.items() if name.number == 5]
        if not last or not all(batch.made for batch in desk._ledger.batches.values()):
            return False
        last[0].content.batch = lost[0]
        return True

    loader = ours(pipeline().map(fragile), batch_size=25, epochs=1)
    steps = iter(loader)
    while not ray.get(loader._desk.__ray_call__.remote(lose, [lost])):
        time.sleep(0.05)
    if then == "failing":
        flag.touch()
    got = [next(steps) for _ in range(5)]
    if then == "failing":
        with pytest.raises(feedline.errors.SampleError, match="fragile"):
            next(steps)
    got += steps
    same(got, list(alone(batch_size=25))[: len(got)])
    assert (len(got), loader.epoch) == (6 if then == "made" else 5, 1)
    assert loader.stats()["made_again"] == 1


def test_what_cannot_travel_is_an_error_that_names_the_pipeline_and_the_cause():
    import threading

    import feedline.ray

    lock = threading.Lock()

    def locked(x):
        with lock:
            return x

    with pytest.raises(TypeError, match=r"map\(locked\).*cannot travel.*lock.*themselves"):
        feedline.ray.Loader(feedline.arrays(np.arange(3)).map(locked))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_loaders": 0}, "num_loaders must be at least 1, got 0"),
        ({"num_loaders": 2, "autoscale": (1, 2)}, "pass one of them"),
        ({"autoscale": (3, 2)}, r"the least and the most actors, got \(3, 2\)"),
        ({"autoscale": 3}, "the least and the most actors, such as"),
        ({"num_cpus": -1}, "num_cpus must be a number from 0 on, got -1"),
        ({"num_cpus": "many"}, "num_cpus must be a real number, got 'many'"),
        ({"prefetch": 0}, "prefetch must be at least 1, got 0"),
        ({"memory": "much"}, "memory must be.*got 'much'"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0, got 0"),
        ({"actor_options": {"colour": 1}}, "actor_options are refused by Ray.*colour"),
        ({"actor_options": {"name": "a"}}, "actor_options cannot have 'name', which"),
        ({"actor_options": 3}, "actor_options must be a dict of Ray's options, got 3"),
        ({"output": "dlpack"}, 'output must be "numpy" or "torch", got \'dlpack\''),
        ({"rank": 0}, "rank was given without world_size"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings, message):
    import feedline.ray

    with pytest.raises((TypeError, ValueError), match=message):
        feedline.ray.Loader(feedline.arrays(np.arange(3)), **settings)


def test_what_cannot_be_divided_is_refused():
    import feedline.ray

    with pytest.raises(TypeError, match="iterable"):
        feedline.ray.Loader(feedline.iterable(lambda: iter(range(3))))
    sampler = type(
        "Draws", (), {"__iter__": lambda self: iter([1, 0]), "__len__": lambda self: 2}
    )()
    with pytest.raises(TypeError, match="sampler must be a sequence of indices here, got Draws"):
        feedline.ray.Loader(feedline.arrays(np.arange(3)), sampler=sampler)
    with pytest.raises(ValueError, match="16777217 samples"):
        feedline.ray.Loader(feedline.arrays(np.zeros(2**24 + 1, np.uint8)))
