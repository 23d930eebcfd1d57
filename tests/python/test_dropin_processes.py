"""Workers that are processes, when something goes wrong or ends early."""

import ctypes
import faulthandler
import gc
import os
import pickle
import queue
import signal
import sys
import threading
import time
from contextlib import suppress

import pytest
from recorded import recorded_warnings

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torch.utils.data import Dataset, IterableDataset, get_worker_info  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

# Child processes that end with a signal must not leave a core file behind.
pytestmark = pytest.mark.usefixtures("no_core_files")


@pytest.fixture
def no_core_files():
    import resource

    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def as_it_is(samples):
    return samples


class Doing(Dataset):
    """Does something at one index; the others are numbers."""

    def __init__(self, do, at=5, length=20):
        self.do, self.at, self.length = do, at, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.at:
            return self.do()
        return index


def loader_of(data, **more):
    return DataLoader(data, **{"num_workers": 2, "batch_size": 1, "collate_fn": as_it_is} | more)


def wait_until(condition, seconds=40):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


# ---- workers that are lost


def kill_myself(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def hang_up():
    # Under nohup it would be ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    kill_myself(signal.SIGHUP)


def read_nothing():
    ctypes.string_at(0)


def abort():
    faulthandler.disable()  # pytest's: it would print the stacks of the test
    os.abort()


LOST = {
    "killed": (lambda: kill_myself(signal.SIGKILL), "is killed by signal: Killed. "),
    "terminated by others": (hang_up, "is killed by signal: Hangup. "),
    "aborted": (abort, "is killed by signal: Aborted. "),
    "bus error": (
        lambda: kill_myself(signal.SIGBUS),
        "is killed by signal: Bus error. It is possible that dataloader's workers are out of "
        "shared memory. Please try to raise your shared memory limit.",
    ),
    "division": (
        lambda: kill_myself(signal.SIGFPE),
        "is killed by signal: Floating point exception. ",
    ),
    "segfault": (read_nothing, "is killed by signal: Segmentation fault. "),
    "exit 3": (lambda: os._exit(3), "exited unexpectedly with exit code 3. Details are lost"),
    "sys.exit 5": (lambda: sys.exit(5), "exited unexpectedly with exit code 5. Details are lost"),
    "sys.exit 0": (lambda: sys.exit(0), None),
}


LAST_WORDS = {
    "segfault": "ERROR: Unexpected segmentation fault encountered in worker.",
    "bus error": "ERROR: Unexpected bus error encountered in worker. This might be caused by "
    "insufficient shared memory (shm).",
    "division": "ERROR: Unexpected floating-point exception encountered in worker.",
}


@pytest.mark.parametrize("how", LOST)
def test_a_lost_worker_is_told_of_in_torchs_words(how, capfd):
    do, why = LOST[how]
    batches = iter(loader_of(Doing(do)))
    workers = list(batches._workers)
    with pytest.raises(RuntimeError) as error:
        list(batches)
    lost = workers[1].pid
    told = error.value
    if why is None or told.__cause__ is not None:
        assert str(told) == f"DataLoader worker (pid(s) {lost}) exited unexpectedly"
        told = told.__cause__
    # Else the signal came while nobody waited for a batch: torch's handler raises there as well.
    if why is None:
        assert isinstance(told, queue.Empty)
    else:
        assert type(told) is RuntimeError
        assert str(told).startswith(f"DataLoader worker (pid {lost}) {why}")
    del told
    assert LAST_WORDS.get(how, "") in capfd.readouterr().err
    del batches, error
    gc.collect()
    wait_until(lambda: not any(worker.is_alive() for worker in workers))


def test_a_lost_worker_is_noticed_in_any_thread():
    found = []

    def use():
        try:
            list(loader_of(Doing(LOST["killed"][0])))
        except RuntimeError as error:
            found.append(str(error))
        except BaseException as error:  # the handler of the main thread is the main thread's
            found.append(repr(error))

    thread = threading.Thread(target=use)
    thread.start()
    # SIGCHLD is the main thread's: there it raises wherever it is, as with torch.
    with suppress(RuntimeError):
        thread.join()
    thread.join()
    assert found
    assert "exited unexpectedly" in found[0]


def test_a_terminated_worker_is_missed():
    batches = iter(loader_of(Doing(None, at=-1, length=1000)))
    # The second is that worker's: it has come to where it handles signals.
    next(batches), next(batches)
    worker = batches._workers[1]
    worker.terminate()
    worker.join()
    assert worker.exitcode == 0
    with pytest.raises(RuntimeError, match=f"worker .pid.s. {worker.pid}.* exited unexpectedly"):
        list(batches)


def hang():
    time.sleep(600)


@pytest.mark.parametrize("kind", [TorchLoader, DataLoader])
def test_a_hanging_worker_is_not_waited_for_longer_than_asked(kind):
    loader = kind(Doing(hang, at=0), num_workers=1, timeout=0.3)
    batches = iter(loader)
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0.3 seconds$"):
        next(batches)
    # Torch would wait five seconds for it to end.
    batches._workers[0].kill()
    batches._workers[0].join()


# ---- results that cannot travel


def unpicklable():
    return lambda: 0


class Stubborn:
    """Can be pickled, but not unpickled."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    msg = "I stay where I am"
    raise OSError(msg)


def test_what_cannot_be_pickled_costs_one_batch():
    batches = iter(loader_of(Doing(unpicklable)))
    assert [next(batches)[0] for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises((AttributeError, TypeError)) as error:
        next(batches)
    assert "in DataLoader worker process 1" in str(error.value)
    assert "pickle" in str(error.value)
    assert [batch[0] for batch in batches] == list(range(6, 20))


def test_what_cannot_be_unpickled_costs_one_batch():
    batches = iter(loader_of(Doing(Stubborn)))
    got = [next(batches)[0] for _ in range(5)]
    with pytest.raises(OSError, match="I stay where I am"):
        next(batches)
    assert got + [batch[0] for batch in batches] == [*range(5), *range(6, 20)]


def raise_a_local_class():
    class LocalError(Exception):
        pass

    msg = "of a class that only the worker knows"
    raise LocalError(msg)


def test_an_exception_of_a_local_class_arrives_with_its_words():
    batches = iter(loader_of(Doing(raise_a_local_class, at=0)))
    with pytest.raises(RuntimeError, match="of a class that only the worker knows"):
        next(batches)
    assert next(batches) == [1]


def test_an_index_that_cannot_be_pickled_is_the_samplers_error():
    # Which error and which words depends on Python's version.
    with pytest.raises(
        (AttributeError, TypeError, pickle.PicklingError), match=r"pickle|local object"
    ):
        iter(loader_of(range(4), sampler=[0, unpicklable()]))


# ---- interruptions


class Interrupting(Doing):
    """Interrupts the main process once that waits."""

    def __init__(self):
        super().__init__(self.interrupt, at=2)
        self.waits = torch.multiprocessing.Event()

    def interrupt(self):
        self.waits.wait()
        os.kill(os.getppid(), signal.SIGINT)
        return "interrupted"


@pytest.fixture
def _interruptible():
    """Have Ctrl-C raise also where a shell has started this in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_comes_out_of_next_and_the_iterator_goes_on():
    data = Interrupting()
    batches = iter(loader_of(data, num_workers=1))
    assert [next(batches), next(batches)] == [[0], [1]]
    # Inside: the signal may come as soon as it is set, before anybody waits.
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        data.waits.set()
        next(batches)
    assert [batch[0] for batch in batches] == ["interrupted", *range(3, 20)]


def interrupt_myself():
    raise KeyboardInterrupt


def test_an_interrupt_of_a_worker_ends_it_quietly(capfd):
    batches = iter(loader_of(Doing(interrupt_myself)))
    worker = batches._workers[1]
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(batches)
    worker.join()
    assert worker.exitcode == 0
    assert capfd.readouterr().err == ""


# ---- ends


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("taken", [0, 3])
def test_workers_end_with_their_iterator(persistent, taken):
    loader = loader_of(range(1000), persistent_workers=persistent)
    batches = iter(loader)
    for _ in range(taken):
        next(batches)
    workers = list(batches._workers)
    assert all(worker.is_alive() and worker.pid != os.getpid() for worker in workers)
    del batches, loader
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_workers_end_with_the_epoch_unless_they_persist():
    batches = iter(loader_of(range(4)))
    list(batches)
    assert [worker.exitcode for worker in batches._workers] == [0, 0]
    loader = loader_of(range(4), persistent_workers=True)
    pids = set()
    for _ in range(3):
        assert list(loader) == [[0], [1], [2], [3]]
        pids.add(tuple(worker.pid for worker in loader._iterator._workers))
    assert len(pids) == 1


def test_an_unfinished_epoch_of_persistent_workers_is_forgotten():
    loader = loader_of(range(50), persistent_workers=True, prefetch_factor=4)
    for taken in (1, 7, 0):
        batches = iter(loader)
        assert [next(batches)[0] for _ in range(taken)] == list(range(taken))
    assert [batch[0] for batch in loader] == list(range(50))


class SecondTimeBad(IterableDataset):
    def __init__(self):
        self.times = 0

    def __iter__(self):
        self.times += 1
        if self.times == 2:
            msg = "not again"
            raise PermissionError(msg)
        return iter(range(3))


def test_an_iterable_that_cannot_be_begun_again_says_so_and_lives_on():
    loader = loader_of(SecondTimeBad(), num_workers=1, persistent_workers=True)
    assert list(loader) == [[0], [1], [2]]
    with pytest.raises(PermissionError, match="not again"):
        next(iter(loader))
    assert list(loader) == [[0], [1], [2]]


def test_a_fork_of_the_main_process_touches_nothing():
    loader = loader_of(range(100), persistent_workers=True)
    batches = iter(loader)
    held = [next(batches)]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            del batches, loader, held
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert [batch[0] for batch in batches] == list(range(1, 100))
    assert [batch[0] for batch in loader] == list(range(100))


class Nested(Dataset):
    def __init__(self, workers):
        self.workers = workers

    def __len__(self):
        return 2

    def __getitem__(self, index):
        inner = DataLoader(range(index + 2), num_workers=self.workers, batch_size=10)
        return [batch.tolist() for batch in inner]


def test_loaders_may_be_nested_without_workers_of_their_own():
    assert list(loader_of(Nested(0))) == [[[[0, 1]]], [[[0, 1, 2]]]]
    with pytest.raises(AssertionError, match="daemonic processes are not allowed to have children"):
        next(iter(loader_of(Nested(1))))


def test_several_loaders_run_in_several_threads():
    def use(results, number):
        rows = [torch.full((100,), number * 1000 + i) for i in range(20)]
        loader = DataLoader(rows, batch_size=4, num_workers=1)
        results[number] = [int(batch[0, 0]) for _ in range(2) for batch in loader]

    results = {}
    threads = [threading.Thread(target=use, args=(results, n)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        assert results[number] == [number * 1000 + i for i in range(0, 20, 4)] * 2


class Slow0(Dataset):
    """Index 0 waits until it is let go on."""

    def __init__(self):
        self.go_on = torch.multiprocessing.Event()

    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index == 0:
            self.go_on.wait()
        return index, get_worker_info().id


def test_out_of_order_no_work_is_stolen():
    data = Slow0()
    got = []
    for sample in loader_of(data, in_order=False, batch_size=None, prefetch_factor=2):
        got.append(sample)
        if len(got) == 8:  # all that the other worker may do
            data.go_on.set()
    assert [index for index, _ in got] == [1, 3, 4, 5, 6, 7, 8, 9, 0, 2]
    assert [worker for _, worker in got] == [1] * 8 + [0, 0]


def test_huge_lists_of_indices_travel():
    loader = DataLoader(range(3_000_000), batch_size=400_000, num_workers=2, collate_fn=len)
    assert list(loader) == [400_000] * 7 + [200_000]


def test_an_iterator_with_huge_tasks_under_way_ends():
    loader = DataLoader(range(3_000_000), batch_size=400_000, num_workers=2, collate_fn=len)
    batches = iter(loader)
    next(batches)
    workers = list(batches._workers)
    del batches
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_a_warning_says_when_there_are_more_workers_than_cores():
    cores = len(os.sched_getaffinity(0))
    with recorded_warnings() as caught:
        loader = loader_of(range(3), num_workers=cores + 1)
        iter(loader)
    assert [str(w.message).startswith("This DataLoader will create") for w in caught] == [True] * 2
    with recorded_warnings() as caught:
        iter(loader_of(range(3), num_workers=cores + 1, worker_mode="thread"))
    assert caught == []


class Asked:
    """A sampler that says when it is asked."""

    def __init__(self, length):
        self.length = length
        self.times = 0

    def __iter__(self):
        for index in range(self.length):
            self.times += 1
            yield index

    def __len__(self):
        return self.length


def test_the_sampler_is_asked_at_iter_and_as_far_ahead_as_torch_asks():
    sampler = Asked(20)
    loader = loader_of(range(20), sampler=sampler, prefetch_factor=3, persistent_workers=True)
    loader.state_dict()
    assert (len(loader), sampler.times) == (20, 0)
    for _ in range(2):
        sampler.times = 0
        batches = iter(loader)
        assert sampler.times == 6, "all that may be under way is, before the first batch is wanted"
        next(batches)
        assert sampler.times == 7
        assert len(list(batches)) == 19
        assert sampler.times == 20, "nothing is asked for the epoch to come"
