"""`num_workers="auto"`, `prefetch_factor="auto"` and `memory=` of the drop-in, while it runs."""

import copy
import itertools
import os
import pickle
import random
import signal
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
import torch
from drawn_datasets import Drawn, Noisy, OwnStreams, Whole
from torch.utils.data import Dataset, IterableDataset, Sampler, default_collate

import feedline
from feedline.torch import DataLoader
from feedline.torch.iterators.budget import bytes_of
from feedline.torch.iterators.choice import Choice
from feedline.torch.iterators.steering import Steering
from patience import PATIENCE


class Streamed(IterableDataset):
    def __iter__(self):
        return iter(range(12))


class Counted(Dataset):
    """Has a state of its own."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Dictated(Steering):
    """A controller that goes wherever dice say, at every look."""

    def __init__(self, seed, most=5):
        super().__init__()
        self.dice = random.Random(seed)
        self.most = most

    def __reduce__(self):
        return Steering, ()

    def is_due(self):
        return True

    def look(self, diary, slept_ns, processor):
        self.workers = self.dice.randint(1, self.most)
        self.prefetch = self.dice.randint(1, 12)
        return True

    def at_most(self, *, workers=None, prefetch=None):
        # The controller's own numbers are not those that were dictated: where it says that no more
        # are to be had, because starting them took long, that would take some away.
        said = min(self.workers, workers or self.workers), min(self.prefetch, prefetch or 12)
        super().at_most(workers=workers, prefetch=prefetch)
        self.workers, self.prefetch = said


def as_it_is(samples):
    """A collate function of the user's: batches are made whole."""
    return default_collate(samples)


def dictated(loader, mode, workers, steering=None):
    """Have a loader's batches made by somebody."""
    loader._auto._chosen = lambda _: Choice(mode, workers, "it was dictated")
    if steering is not None:
        loader._steering = steering
    return loader


def open_loader(dataset=None, *, mode="process", workers=2, dice=None, **settings):
    """A loader whose number of workers is left open, and whose controller does as dice say."""
    settings = {"batch_size": 6, "shuffle": True, "worker_mode": "auto"} | settings
    loader = DataLoader(Drawn() if dataset is None else dataset, num_workers="auto", **settings)
    return dictated(loader, mode, workers, None if dice is None else Dictated(dice))


def seen(batch):
    """A batch as bytes, to be compared bit by bit."""
    return pickle.dumps(
        {name: (value.dtype, value.numpy().tobytes()) for name, value in batch.items()}
    )


def epochs(loader, count=2):
    torch.manual_seed(7)
    return [[seen(batch) for batch in loader] for _ in range(count)]


# ---- batches


@pytest.mark.parametrize("collate_fn", [None, as_it_is])
@pytest.mark.parametrize("dice", range(3))
def test_batches_are_those_of_the_loop_itself_whatever_the_controller_does(dice, collate_fn):
    inline = epochs(open_loader(mode="inline", workers=0, collate_fn=collate_fn))
    assert inline[0] != inline[1]
    loader = dictated(open_loader(collate_fn=collate_fn), "process", 2, Still())
    dice, found = random.Random(dice), []
    torch.manual_seed(7)
    for _ in range(2):
        iterator, epoch = iter(loader), []
        with suppress(StopIteration):
            while True:
                # Also before those who were started are there.
                moved(loader, iterator, dice.randint(1, 5), dice.randint(1, 12))
                epoch.append(seen(next(iterator)))
        found.append(epoch)
    assert found == inline
    assert len(iterator._workers) == 5


@pytest.mark.parametrize("dataset", [OwnStreams(), Whole()], ids=["samples", "batches"])
@pytest.mark.parametrize("mode", ["thread", "process"])
def test_threads_and_processes_make_the_same_batches_of_feedlines_streams(mode, dataset):
    inline = epochs(open_loader(dataset, mode="inline", workers=0))
    assert epochs(open_loader(dataset, mode=mode, dice=1)) == inline


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_slow_samples_are_shared_between_workers_that_come_and_go(mode):
    dataset = OwnStreams()
    dataset.pause = 0.004
    inline = epochs(open_loader(dataset, mode="inline", workers=0), 1)
    assert epochs(open_loader(dataset, mode=mode, dice=2), 1) == inline


def test_workers_that_persist_make_the_epochs_of_new_ones():
    new = epochs(open_loader(dice=1), 3)
    kept = open_loader(dice=2, persistent_workers=True)
    torch.manual_seed(7)
    found, iterators = [], set()
    for _ in range(3):
        found.append([seen(batch) for batch in kept])
        iterators.add(id(kept._iterator))
    assert found == new
    assert len(iterators) == 1


def test_a_generator_of_the_users_is_drawn_from_as_in_the_loop_itself():
    def left(mode, **settings):
        generator = torch.Generator().manual_seed(5)
        loader = open_loader(mode=mode, generator=generator, **settings)
        return [[seen(batch) for batch in loader] for _ in range(2)], generator.get_state()

    wanted, state = left("inline", workers=0)
    for settings in ({}, {"persistent_workers": True}):
        found, after = left("process", dice=3, **settings)
        assert found == wanted
        assert torch.equal(after, state)


def test_the_order_is_torchs():
    numbers = list(range(50))
    torch.manual_seed(3)
    wanted = [x.tolist() for x in torch.utils.data.DataLoader(numbers, 4, shuffle=True)]
    torch.manual_seed(3)
    loader = open_loader(numbers, batch_size=4, dice=4)
    assert [x.tolist() for x in loader] == wanted


def test_out_of_order_every_batch_comes_once():
    inline = epochs(open_loader(mode="inline", workers=0))
    assert [sorted(epoch) for epoch in epochs(open_loader(dice=5, in_order=False))] == [
        sorted(epoch) for epoch in inline
    ]


def test_with_a_seed_batches_are_those_of_any_number_of_workers():
    fixed = DataLoader(Drawn(), batch_size=6, shuffle=True, seed=9, num_workers=2)
    assert epochs(open_loader(seed=9, dice=6)) == epochs(fixed)


def test_global_generators_of_the_loop_stay_where_they_are():
    loader = open_loader(mode="inline", workers=0, shuffle=False)
    next(iter(loader))
    torch.manual_seed(1)
    iterator = iter(loader)
    before = torch.get_rng_state()
    list(iterator)
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_with_streams_of_their_own_are_tried_out():
    loader = DataLoader(OwnStreams(), batch_size=6, num_workers="auto", worker_mode="auto")
    next(iter(loader))
    assert "a sample takes" in loader.explain()


# ---- workers that come and go


class Sleeping(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(0.010)
        return index


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_one_worker_of_samples_that_sleep_gets_others(mode):
    loader = DataLoader(
        Sleeping(),
        batch_size=8,
        worker_mode=mode,
        num_workers=feedline.Auto(start=1, most=4),
        prefetch_factor=feedline.Auto(start=1),
    )
    batches = iter(loader)
    # Before it looks: if starting workers takes long, no more of them are allowed.
    assert loader.stats()["control"]["most_workers"] == 4
    deadline = time.monotonic() + PATIENCE
    for number, batch in enumerate(batches):
        assert batch.tolist() == list(range(8 * number, 8 * number + 8))
        control = loader.stats()["control"]
        if control["setting"]["workers"] > 1:
            break
        assert time.monotonic() < deadline
    first = control["changes"][0]
    assert first["from"]["workers"] == 1
    assert first["why"]
    assert loader.stats()["num_workers"] == control["setting"]["workers"]
    told = loader.explain()
    assert "1 to begin with" in told
    assert "The controller is at" in told
    assert first["why"] in told or control["changed"] > 1


def test_a_loop_that_never_waits_gives_workers_back():
    numbers = Sleeping()
    loader = DataLoader(numbers, batch_size=1, num_workers=feedline.Auto(start=4, most=4))
    deadline = time.monotonic() + PATIENCE
    for _ in loader:
        time.sleep(0.1)
        control = loader.stats()["control"]
        if control["setting"]["workers"] < 4:
            break
        assert time.monotonic() < deadline
    assert "does not wait" in control["changes"][-1]["why"]


@pytest.mark.parametrize(
    ("dataset", "mode"),
    [
        (list(range(12)), "auto"),
        (list(range(12)), "process"),
        (list(range(12)), "thread"),
        (Streamed(), "process"),
        (Counted(), "process"),
        (feedline.arrays(np.arange(12)), "process"),
    ],
    ids=["any", "processes", "threads", "iterable", "stateful", "pipeline"],
)
def test_it_begins_with_no_more_than_it_may_go_up_to(dataset, mode):
    one = feedline.Auto(most=1)
    loader = DataLoader(
        dataset, batch_size=3, worker_mode=mode, num_workers=one, prefetch_factor=one
    )
    if mode == "auto":
        dictated(loader, "process", 4)
    list(loader)
    control = loader.stats()["control"]
    assert control["setting"] == {"workers": 1, "prefetch": 1}
    assert (control["most_workers"], control["most_prefetch"]) == (1, 1)


def test_threads_that_were_asked_for_make_what_cannot_be_tried_out():
    loader = DataLoader(Streamed(), batch_size=3, worker_mode="thread", num_workers="auto")
    list(loader)
    assert loader.stats()["mode"] == "thread"


class Still(Dictated):
    """A controller that does nothing by itself."""

    def __init__(self):
        super().__init__(0)

    def is_due(self):
        return False


def moved(loader, iterator, workers, prefetch):
    """Have what a controller says carried out."""
    loader._steering.workers, loader._steering.prefetch = workers, prefetch
    iterator._carry_out(loader._steering)


def test_the_next_epoch_begins_where_the_last_one_ended():
    loader = dictated(open_loader(), "process", 2, Still())
    iterator = iter(loader)
    assert len(iterator._workers) == 2
    moved(loader, iterator, 3, 6)
    assert len(iter(loader)._workers) == 3


@pytest.mark.parametrize("settings", [{}, {"persistent_workers": True}], ids=str)
def test_what_is_left_to_python_of_native_code_has_a_controller_too(settings):
    loader = DataLoader(
        list(range(24)), batch_size=6, worker_mode="native", num_workers="auto", **settings
    )
    dictated(loader, "process", 2, Still())
    iterator = iter(loader)
    moved(loader, iterator, 3, 6)
    again = iter(loader)
    assert len(again._workers) == 3
    assert (again is iterator) == bool(settings)
    assert [x.tolist() for x in again] == [list(range(i, i + 6)) for i in range(0, 24, 6)]


def test_a_parked_worker_that_dies_raises_as_any_other():
    loader = dictated(open_loader(), "process", 3, Still())
    iterator = iter(loader)
    moved(loader, iterator, 1, 2)
    assert loader.stats()["num_workers"] == 1

    def go_on_without_it():
        pid = iterator._workers[2].pid
        os.kill(pid, signal.SIGKILL)
        # Not taken away: torch's handler asks after a child that is there.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        list(iterator)

    with pytest.raises(RuntimeError, match="DataLoader worker"):
        go_on_without_it()


def test_a_parked_worker_that_dies_is_replaced_and_comes_back():
    inline = epochs(open_loader(mode="inline", workers=0), 1)[0]
    loader = dictated(open_loader(on_worker_death="restart"), "process", 3, Still())
    torch.manual_seed(7)
    iterator = iter(loader)
    moved(loader, iterator, 1, 2)
    found = [seen(next(iterator))]
    dead = iterator._workers[2]
    os.kill(dead.pid, signal.SIGKILL)
    dead.join(PATIENCE)
    found.append(seen(next(iterator)))
    moved(loader, iterator, 4, 8)
    assert found + [seen(batch) for batch in iterator] == inline


def test_workers_that_were_added_and_die_are_replaced():
    inline = epochs(open_loader(mode="inline", workers=0), 1)[0]
    loader = dictated(open_loader(on_worker_death="restart"), "process", 1, Still())
    torch.manual_seed(7)
    iterator = iter(loader)
    found = [seen(next(iterator))]
    moved(loader, iterator, 3, 6)
    for worker in iterator._workers[1:]:
        os.kill(worker.pid, signal.SIGKILL)
    found += [seen(batch) for batch in iterator]
    assert found == inline


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_do_not_fork_are_added_too(method):
    inline = epochs(open_loader(mode="inline", workers=0), 1)[0]
    loader = dictated(open_loader(multiprocessing_context=method), "process", 1, Still())
    torch.manual_seed(7)
    iterator = iter(loader)
    found = [seen(next(iterator))]
    moved(loader, iterator, 2, 4)
    assert len(iterator._workers) == 2
    assert found + [seen(batch) for batch in iterator] == inline


def test_workers_that_cannot_be_started_leave_the_others_at_work(monkeypatch):
    inline = epochs(open_loader(mode="inline", workers=0), 1)[0]
    loader = dictated(open_loader(), "process", 2, Still())
    torch.manual_seed(7)
    iterator = iter(loader)
    found = [seen(next(iterator))]

    def refused(*_):
        raise OSError("no more processes")

    monkeypatch.setattr(iterator._crew, "_started", refused)
    moved(loader, iterator, 4, 8)
    assert loader.stats()["control"]["most_workers"] == 2
    assert found + [seen(batch) for batch in iterator] == inline


def test_threads_that_cannot_be_started_leave_the_others_at_work():
    dataset = OwnStreams()
    inline = epochs(open_loader(dataset, mode="inline", workers=0), 1)[0]
    loader = dictated(open_loader(dataset), "thread", 2, Still())
    torch.manual_seed(7)
    iterator = iter(loader)
    found = [seen(next(iterator))]
    # More than there is: the system refuses the next thread.
    usual = threading.stack_size(1 << 46)
    try:
        moved(loader, iterator, 4, 8)
    finally:
        threading.stack_size(usual)
    assert len(iterator._workers) == loader.stats()["num_workers"] == 2
    assert loader.stats()["control"]["most_workers"] == 2
    assert found + [seen(batch) for batch in iterator] == inline


def test_without_a_single_thread_there_are_no_batches():
    threads = torch.get_num_threads()
    loader = DataLoader(range(8), batch_size=2, num_workers=2, worker_mode="thread")
    usual = threading.stack_size(1 << 46)
    try:
        with pytest.raises(RuntimeError, match="start new thread"):
            iter(loader)
    finally:
        threading.stack_size(usual)
    assert torch.get_num_threads() == threads
    assert len(list(loader)) == 4


def test_ending_in_the_midst_of_an_epoch_ends_parked_workers_too():
    loader = dictated(open_loader(), "process", 3, Still())
    iterator = iter(loader)
    moved(loader, iterator, 1, 2)
    next(iterator)
    workers = iterator._workers
    del iterator
    assert not any(worker.is_alive() for worker in workers)


def test_who_sleeps_is_seen_from_outside():
    from feedline.torch.workers.rest import is_up, slept_ns

    loader = dictated(open_loader(), "process", 2, Still())
    iterator = iter(loader)
    list(itertools.islice(iterator, 2))
    deadline = time.monotonic() + PATIENCE
    # All that is open is made, so both of them sleep.
    while slept_ns(iterator._board, range(2)) < 1e8:
        assert time.monotonic() < deadline
    assert is_up(iterator._board, 1)
    assert not is_up(iterator._board, 2)


# ---- states


@pytest.mark.parametrize("after", [1, 7, 24])
def test_a_state_taken_while_workers_come_and_go_is_resumed_by_any_number(after):
    torch.manual_seed(11)
    first = open_loader(dice=9)
    iterator = iter(first)
    for _ in range(after):
        next(iterator)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rest = [seen(batch) for batch in iterator]
    for settings in ({"mode": "inline", "workers": 0}, {"workers": 1}, {"workers": 4, "dice": 1}):
        second = open_loader(**settings)
        second.load_state_dict(copy.deepcopy(state))
        assert [seen(batch) for batch in second] == rest


def test_a_state_between_epochs_says_what_comes():
    torch.manual_seed(11)
    first = open_loader(dice=9, persistent_workers=True)
    list(first)
    state = copy.deepcopy(first.state_dict())
    wanted = [seen(batch) for batch in first]
    second = open_loader(mode="inline", workers=0)
    second.load_state_dict(state)
    assert [seen(batch) for batch in second] == wanted


@pytest.mark.parametrize("taken", [0, 1, None], ids=["before", "within", "after"])
@pytest.mark.parametrize(
    "dataset",
    [list(range(24)), Streamed(), feedline.arrays(np.arange(24))],
    ids=["numbers", "iterable", "pipeline"],
)
def test_a_state_with_a_number_left_open_is_plain_data(dataset, taken, tmp_path):
    first = DataLoader(dataset, batch_size=4, num_workers="auto")
    iterator = iter(first) if taken != 0 else ()
    list(itertools.islice(iterator, taken))
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = DataLoader(dataset, batch_size=4, num_workers="auto")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    wanted = DataLoader(dataset, batch_size=4, num_workers=int(first.num_workers))
    assert len(list(second)) == len(list(wanted)) - (taken or 0)


# ---- read-ahead and memory


class Told(Sampler):
    """Says how far ahead of what was delivered it was asked."""

    def __init__(self, samples):
        self.samples = samples
        self.asked = 0

    def __iter__(self):
        for index in range(self.samples):
            self.asked += 1
            yield index

    def __len__(self):
        return self.samples


LARGE = [torch.zeros(25_000) for _ in range(60)]


def furthest(taken, **settings):
    """The most batches that were open, at first and from the batch `taken` on."""
    sampler = Told(len(LARGE))
    loader = DataLoader(LARGE, batch_size=None, sampler=sampler, **settings)
    iterator = iter(loader)
    first, most, delivered = sampler.asked, 0, 0
    for _ in iterator:
        delivered += 1
        if delivered >= taken and sampler.asked < len(LARGE):
            most = max(most, sampler.asked - delivered)
    assert delivered == len(LARGE)
    return first, most


@pytest.mark.parametrize("mode", ["thread", "process"])
@pytest.mark.parametrize("settings", [{}, {"in_order": False}, {"assignment": "dynamic"}], ids=str)
def test_as_many_batches_are_open_as_fit_into_the_memory(mode, settings):
    settings = {"num_workers": 2, "prefetch_factor": 8, "worker_mode": mode, **settings}
    assert furthest(2, **settings) == (16, 16)
    # A batch has 100 kB, and what it takes to send it.
    assert furthest(2, memory=650_000, **settings) == (1, 6)
    assert furthest(2, memory="40KiB", **settings) == (1, 1)


def test_memory_bounds_what_the_controller_may_read_ahead():
    loader = DataLoader(
        LARGE,
        batch_size=None,
        num_workers=feedline.Auto(start=2, most=2),
        prefetch_factor="auto",
        memory=350_000,
    )
    assert len(list(loader)) == len(LARGE)
    assert loader.stats()["prefetch"] == 3


def test_an_iterable_dataset_comes_whole_whatever_the_memory():
    for memory in (1, 20_000, None):
        loader = DataLoader(Streamed(), batch_size=2, num_workers=2, memory=memory)
        assert len([x for batch in loader for x in batch]) == 24


@pytest.mark.parametrize("dice", range(3))
def test_an_iterable_dataset_is_torchs_while_its_read_ahead_moves(dice):
    wanted = torch.utils.data.DataLoader(Streamed(), batch_size=2, num_workers=2)
    moved = DataLoader(Streamed(), batch_size=2, num_workers=2, prefetch_factor="auto")
    moved._steering = Dictated(dice)
    moved._steering.begin = lambda *_: True
    moved._steering.workers, moved._steering.prefetch = 2, 1
    moved._steering.moves_prefetch = True
    assert [x.tolist() for x in moved] == [x.tolist() for x in wanted]


def test_a_read_ahead_that_is_given_follows_the_workers():
    loader = dictated(open_loader(prefetch_factor=3), "process", 2, Still())
    iterator = iter(loader)
    assert loader.stats()["prefetch"] == 6
    moved(loader, iterator, 4, 1)
    assert loader.stats()["prefetch"] == 12


def test_batches_of_few_and_of_many_bytes_are_weighed():
    assert bytes_of((torch.zeros(3), {"a": [np.zeros(2), b"abc", "de"]})) == 12 + 16 + 3 + 2
    assert bytes_of(object()) > 0
    assert bytes_of(torch.eye(3).to_sparse()) > 0


class Odd:
    """Says nothing about itself."""

    @property
    def __dict__(self):
        raise RuntimeError("do not look")

    def __sizeof__(self):
        raise RuntimeError("nor weigh")


def test_what_is_there_once_is_weighed_once_and_nothing_keeps_it_from_being_weighed():
    row = torch.zeros(1000)
    matrix = np.zeros((10, 100))
    assert bytes_of([row, row, row[:500], row.numpy(), row.expand(50, 1000)]) == 4000
    assert bytes_of([row[:500], row[500:]]) == 4000
    # Of what is larger than the batch, the batch has its part.
    assert bytes_of([row[:10], matrix[0], matrix[1]]) == 40 + 1600
    within = [row]
    within.append(within)
    for _ in range(500):
        within = [within]
    assert bytes_of(within) == 4000
    assert bytes_of([Odd(), row]) >= 4000
    texts = [f"{i:09d}" + "x" for i in range(50_000)]
    assert bytes_of(texts) == pytest.approx(500_000, rel=0.01)


# ---- what stays fixed


@pytest.mark.parametrize(
    ("dataset", "settings", "why"),
    [
        (Streamed(), {}, "iterable dataset"),
        (Counted(), {}, "has a state"),
        (list(range(12)), {"assignment": "static"}, 'assignment="static"'),
    ],
    ids=["iterable", "stateful", "static"],
)
def test_a_number_that_must_not_change_is_fixed_and_that_is_told(dataset, settings, why):
    loader = DataLoader(dataset, batch_size=3, num_workers="auto", **settings)
    list(loader)
    control = loader.stats()["control"]
    assert control["most_workers"] == control["setting"]["workers"]
    assert f"The number of workers stays as it is: {why}" in loader.explain() or (
        "The number of workers stays as it is" in loader.explain() and why in loader.explain()
    )


def test_nothing_is_decided_where_nothing_is_left_open():
    loader = DataLoader(range(12), batch_size=3, num_workers=2)
    list(loader)
    assert loader.stats()["control"] is None
    assert "controller" not in loader.explain()


def test_static_batches_stay_torchs_where_only_the_read_ahead_is_left_open():
    def drawn(loader_class, **settings):
        torch.manual_seed(2)
        loader = loader_class(Noisy(), batch_size=6, shuffle=True, num_workers=2, **settings)
        return [batch.tolist() for batch in loader]

    wanted = drawn(torch.utils.data.DataLoader)
    assert drawn(DataLoader, prefetch_factor="auto", memory="1MiB") == wanted


# ---- settings


def test_settings_that_are_left_open_are_numbers_to_others_and_survive_copies():
    loader = DataLoader(range(4), num_workers="auto", prefetch_factor=feedline.Auto(start=3))
    assert loader.num_workers >= 1
    assert loader.prefetch_factor == 3
    for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        again = DataLoader(
            range(4), num_workers=other.num_workers, prefetch_factor=other.prefetch_factor
        )
        assert again.num_workers.auto == feedline.Auto()
        assert again.prefetch_factor.auto == feedline.Auto(start=3)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"num_workers": feedline.Auto, "memory": 1}, TypeError, "not supported"),
        ({"num_workers": "many"}, TypeError, "num_workers must be .*\"auto\" or .*, got 'many'"),
        (
            {"num_workers": 2, "prefetch_factor": "far"},
            TypeError,
            "prefetch_factor must be an integer, \"auto\" or feedline.Auto.*, got 'far'",
        ),
        ({"num_workers": 0, "prefetch_factor": "auto"}, ValueError, "prefetch_factor option"),
        ({"memory": "much"}, ValueError, 'memory must be a number of bytes or a size such as "500'),
        ({"memory": -1}, ValueError, "memory must be a number of bytes"),
        ({"memory": None, "num_workers": -1}, ValueError, "num_workers"),
    ],
    ids=str,
)
def test_bad_values_are_refused_in_words(settings, error, words):
    with pytest.raises(error, match=words):
        DataLoader(range(4), **settings)


def test_memory_without_workers_changes_nothing():
    loader = DataLoader(range(8), batch_size=4, memory="1KiB")
    assert [x.tolist() for x in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("settings", [{"num_workers": "auto"}, {"num_workers": 2}], ids=str)
def test_a_pipeline_hands_all_of_it_to_the_engine(settings):
    numbers = feedline.arrays(np.arange(64, dtype=np.float32).reshape(32, 2))
    wanted = np.arange(64).reshape(4, 8, 2).tolist()
    loader = DataLoader(numbers, batch_size=8, prefetch_factor="auto", memory="1MiB", **settings)
    for _ in range(2):
        assert [x.tolist() for (x,) in loader] == wanted
    control = loader.stats()["control"]
    assert control["most_prefetch"] >= 64
    # The same, with batches that are put together here.
    loader = DataLoader(
        numbers,
        batch_size=8,
        prefetch_factor=feedline.Auto(start=1, most=3),
        collate_fn=lambda samples: [int(sample[0][0]) for sample in samples],
        **settings,
    )
    assert [x for batch in loader for x in batch] == list(range(0, 64, 2))
