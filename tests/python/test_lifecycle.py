"""Threads, signals, forks, garbage, and the end of the interpreter."""

import contextlib
import copy
import ctypes
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import feedline
from feedline.errors import Closed, ForkError, Superseded
from patience import PATIENCE

# Generous for a process that should end at once, and far less than what it would wait for.
SOON = PATIENCE


def numbers(n=1000):
    return feedline.arrays(np.arange(n))


# ---- Ctrl-C

INTERRUPTED = """
    import sys, threading, time
    import numpy as np
    import feedline

    def slow(x):
        if x == 5:
            print("waiting", flush=True)
            time.sleep(3600)
        return x

    samples = feedline.arrays(np.arange(20)).map(slow)
    loader = feedline.Loader(samples, batch_size=4, epochs=1, **{settings})
    began = time.monotonic()
    try:
        for batch in loader:
            pass
    except KeyboardInterrupt as interrupt:
        assert interrupt.__cause__ is None
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"num_workers": 1},
        {"num_workers": 2, "order": "ready"},
        {"num_workers": 0},
        {"num_workers": 0, "on_error": "skip"},
    ],
    ids=str,
)
def test_ctrl_c_ends_a_wait(settings):
    source = textwrap.dedent(INTERRUPTED).replace("{settings}", repr(settings))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", source], **pipes) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        # The sample would take an hour.
        assert process.communicate(timeout=SOON) == ("interrupted\n", "")
        assert process.returncode == 0


def test_a_handler_of_another_signal_runs_during_a_wait():
    release, calls = threading.Event(), []

    def handler(number, frame):
        calls.append(number)
        release.set()

    def slow(x):
        if x == 5:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert release.wait(PATIENCE)
        return x

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        loader = feedline.Loader(numbers(8).map(slow), batch_size=4, num_workers=1, epochs=1)
        assert len(list(loader)) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert calls == [signal.SIGUSR1]


def test_after_an_interrupt_iteration_can_go_on():
    asked, release = threading.Event(), threading.Event()

    def slow(x):
        if x == 5:
            assert asked.wait(PATIENCE)
            os.kill(os.getpid(), signal.SIGINT)
            assert release.wait(PATIENCE)
        return x

    epoch = iter(feedline.Loader(numbers(12).map(slow), batch_size=4, num_workers=1, epochs=1))
    assert next(epoch)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - nothing between asking and waiting
        asked.set()
        next(epoch)
    release.set()
    assert [batch.tolist() for (batch,) in epoch] == [[4, 5, 6, 7], [8, 9, 10, 11]]


# ---- fork

# Of Python from 3.12 on, and of JAX, where an earlier test has imported it.
forks = pytest.mark.filterwarnings(
    "ignore:.*use of fork:DeprecationWarning", "ignore:os.fork:RuntimeWarning"
)


def in_a_fork(work):
    """Run `work` in a forked child; return its exit code, or fail if it does not end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the forked child hangs")


@forks
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("function", [None, lambda x: x * 1])
def test_a_loader_in_a_forked_child_says_where_it_lives(workers, function):
    pipeline = numbers() if function is None else numbers().map(function)
    loader = feedline.Loader(pipeline, batch_size=10, num_workers=workers)
    epoch = iter(loader)
    next(epoch)

    def use():
        for attempt in [
            lambda: next(epoch),
            lambda: iter(loader),
            lambda: list(loader),
            loader.stats,
            loader.explain,
            lambda: loader.errors,
        ]:
            with pytest.raises(ForkError, match=f"process {os.getppid()}.*build a new loader"):
                attempt()
        assert len(loader) == 100

    assert in_a_fork(use) == 0
    assert len(list(epoch)) == 99, "and the parent's goes on"


@forks
@pytest.mark.parametrize("workers", [0, 2])
def test_a_forked_child_can_drop_what_it_inherited(workers):
    held = {}
    held["loader"] = feedline.Loader(numbers().map(lambda x: x), batch_size=10, num_workers=workers)
    held["epoch"] = iter(held["loader"])
    held["batches"] = [next(held["epoch"]) for _ in range(3)]

    def drop():
        batch = held["batches"][0][0]
        assert batch.tolist() == list(range(10))
        held.clear()
        del batch
        gc.collect()

    assert in_a_fork(drop) == 0
    assert len(list(held["epoch"])) == 97


@forks
def test_a_new_loader_works_in_a_forked_child():
    pipeline = numbers().map(lambda x: x + 1)
    loader = feedline.Loader(pipeline, batch_size=10, num_workers=2)
    epoch = iter(loader)
    next(epoch)

    def build():
        fresh = feedline.Loader(pipeline, batch_size=10, num_workers=2, epochs=1)
        assert sum(int(batch.sum()) for (batch,) in fresh) == 500_500

    for _ in range(5):
        assert in_a_fork(build) == 0
    assert len(list(epoch)) == 99


def test_a_forked_child_that_just_exits_does_not_hang(program):
    program("""
        import os, sys
        import numpy as np, feedline
        loader = feedline.Loader(feedline.arrays(np.arange(1000)).map(lambda x: x), batch_size=10)
        epoch = iter(loader)
        batch = next(epoch)
        if os.fork() == 0:
            sys.exit(0)  # with all that Python does at exit
        assert os.wait()[1] == 0
    """)


@forks
def test_processes_of_multiprocessing_can_be_forked():
    loader = feedline.Loader(numbers(), batch_size=10, num_workers=2)
    epoch = iter(loader)
    next(epoch)
    answers = multiprocessing.get_context("fork").SimpleQueue()

    def work():
        try:
            next(epoch)
        except ForkError as error:
            answers.put(error)  # it pickles

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    error = answers.get()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert isinstance(error, ForkError)


@forks
def test_torch_workers_may_be_forked_beside_a_loader():
    from torch.utils.data import DataLoader

    loader = feedline.Loader(numbers().map(lambda x: x), batch_size=10, num_workers=2)
    epoch = iter(loader)
    next(epoch)
    torch_loader = DataLoader(list(range(20)), batch_size=5, num_workers=2)
    assert [batch.tolist() for batch in torch_loader] == np.arange(20).reshape(4, 5).tolist()
    assert len(list(epoch)) == 99


# ---- the end of the interpreter

PREPARE = """
    import atexit, sys, threading, time
    import numpy as np
    import feedline

    entered = threading.Event()
    samples = feedline.arrays(np.arange(10_000))

    def quick(x):
        return x * 2

    def sleeping(x):
        if x > 8:
            entered.set()
            time.sleep(3600)
        return x

    def spinning(x):
        if x > 8:
            entered.set()
            while True:
                pass
        return x

    def blinking(x):
        if x > 8:
            entered.set()
            while True:
                time.sleep(0.0001)
        return x

    def numpy_at_work(x):
        if x > 8:
            entered.set()
            while True:
                np.random.default_rng(0).normal(size=100_000)
        return x

    def loader(function=quick, **settings):
        settings = {"batch_size": 4, "num_workers": 2} | settings
        return feedline.Loader(samples.map(function), **settings)
"""

ENDINGS = {
    "nothing was done": "a = loader()",
    "never iterated to its end": "epoch = iter(loader()); next(epoch)",
    "a native epoch alive": "e = iter(feedline.Loader(samples, batch_size=4)); next(e)",
    "batches alive": "kept = [batch for batch, _ in zip(loader(), range(5))]",
    "an array over DLPack alive": "kept = next(iter(loader(output='dlpack')))",
    "a capsule alive": "kept = next(iter(loader(output='dlpack')))[0].__dlpack__()",
    "all workers in a function": "epoch = iter(loader(num_workers=4)); next(epoch)",
    "a worker asleep": "epoch = iter(loader(sleeping)); next(epoch); entered.wait()",
    "a worker spinning": "epoch = iter(loader(spinning)); next(epoch); entered.wait()",
    "a worker taking the GIL often": "e = iter(loader(blinking)); next(e); entered.wait()",
    "a worker in NumPy": "e = iter(loader(numpy_at_work)); next(e); entered.wait()",
    "several loaders asleep": """
        several = [iter(loader(sleeping)) for _ in range(5)]
        for epoch in several:
            next(epoch)
    """,
    "a thread waiting for a batch": """
        def consume():
            for batch in loader(sleeping):
                pass
        threading.Thread(target=consume, daemon=True).start()
        entered.wait()
    """,
    "an exit inside the loop": """
        for batch in loader():
            sys.exit(0)
    """,
    "an exit inside a function's loop": """
        def train():
            for batch in loader(sleeping):
                entered.wait()
                sys.exit(0)
        train()
    """,
    "an exception in flight": """
        sys.excepthook = lambda *error: None
        atexit.register(sys.stdout.flush)
        try:
            for batch in loader():
                raise ValueError
        except ValueError as error:
            kept = error
    """,
    "a loader in a cycle": """
        class Trainer:
            def __init__(self):
                self.loader = feedline.Loader(samples.map(self.work), batch_size=4)
            def work(self, x):
                return x
        trainer = Trainer()
        epoch = iter(trainer.loader)
        next(epoch)
        del trainer
    """,
    "a loader made by an exit function": """
        atexit.register(lambda: print(sum(len(b) for b, in loader(epochs=1)), file=sys.stdout))
    """,
    "a loader kept by an exit function": """
        kept = loader()
        epoch = iter(kept)
        next(epoch)
        atexit.register(lambda: len(kept))
    """,
    "a progress bar half-way": "e = iter(loader(progress=True)); next(e); sys.stderr.flush()",
}


@pytest.mark.parametrize("case", ENDINGS)
def test_the_interpreter_ends_cleanly(case, program):
    source = textwrap.dedent(PREPARE) + textwrap.dedent(ENDINGS[case])
    done = program(source, timeout=SOON, check=False)
    assert done.returncode == 0, done
    if case != "a progress bar half-way":
        assert done.stderr == ""


def test_an_uncaught_exception_is_all_that_is_printed(program):
    source = textwrap.dedent(PREPARE) + "for batch in loader(): raise ValueError('mine')"
    done = program(source, timeout=SOON, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ValueError: mine\n")


# ---- threads


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("function", [None, lambda x: x])
def test_several_threads_share_an_epoch(workers, function):
    pipeline = numbers() if function is None else numbers().map(function)
    epoch = iter(feedline.Loader(pipeline, batch_size=10, num_workers=workers, epochs=1))
    got = [[] for _ in range(4)]

    def consume(mine):
        for (batch,) in epoch:
            mine.append(batch.tolist())

    threads = [threading.Thread(target=consume, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(i for mine in got for batch in mine for i in batch) == list(range(1000))
    assert all(mine == sorted(mine) for mine in got)


def test_a_loader_may_be_used_in_another_thread_than_it_was_made_in():
    loader = feedline.Loader(numbers(100), batch_size=10)
    got = []
    thread = threading.Thread(target=lambda: got.extend(loader))
    thread.start()
    thread.join()
    assert len(got) == len(list(loader)) == 10


def test_a_newer_iterator_ends_an_older_one():
    loader = feedline.Loader(numbers(100), batch_size=10)
    old = iter(loader)
    next(old)
    new = iter(loader)
    assert next(new)[0].tolist() == list(range(10))
    with pytest.raises(Superseded, match="use one loader per loop"):
        next(old)
    del old
    assert len(list(new)) == 9, "and its end does not disturb"


def test_loops_side_by_side_take_a_loader_each():
    loader = feedline.Loader(numbers(40), batch_size=10)
    for one, other in zip(loader, copy.copy(loader), strict=True):
        assert one[0].tolist() == other[0].tolist()


# ---- closing


@pytest.mark.parametrize("workers", [0, 3])
def test_a_closed_loader_has_no_threads_and_says_so_to_whoever_iterates(workers):
    before = threads()
    loader = feedline.Loader(numbers().map(lambda x: x), batch_size=10, num_workers=workers)
    iterator = iter(loader)
    (first,) = next(iterator)
    loader.close()
    wait_for(lambda: threads() == before)
    for _ in range(2):
        with pytest.raises(Closed, match="the loader was closed; build another"):
            next(iterator)
    with pytest.raises(Closed, match="the loader was closed"):
        iter(loader)
    loader.close()
    assert first.tolist() == list(range(10)), "what was delivered stays"
    assert loader.state_dict()["batch"] == loader.stats()["batches"] == 1
    assert "100 batches" in repr(loader)


def test_a_loader_is_closed_at_the_end_of_its_with_block():
    before = threads()
    with feedline.Loader(numbers(30), batch_size=10, num_workers=2) as loader:
        assert [len(batch) for (batch,) in loader] == [10] * 3
        iterator = iter(loader)
    wait_for(lambda: threads() == before)
    with pytest.raises(Closed):
        next(iterator)
    with pytest.raises(KeyError, match="mine"), feedline.Loader(numbers(30)) as loader:
        raise KeyError("mine")
    with pytest.raises(Closed):
        iter(loader)


def test_closing_ends_the_wait_of_another_thread():
    go, asked = threading.Event(), threading.Event()

    def wait(x):
        asked.set()
        go.wait(PATIENCE)
        return x

    loader = feedline.Loader(numbers(4).map(_unless_first(wait)), batch_size=2, num_workers=1)
    said = []

    def consume():
        try:
            list(loader)
        except Closed as error:
            said.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    assert asked.wait(PATIENCE)
    closing = threading.Thread(target=loader.close)
    closing.start()
    thread.join(PATIENCE)
    assert len(said) == 1
    go.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()


def test_a_copy_of_a_closed_loader_goes_on():
    loader = feedline.Loader(numbers(30), batch_size=10)
    next(iter(loader))
    state = loader.state_dict()
    loader.close()
    copied = copy.copy(loader)
    assert copied.state_dict() == state
    assert [batch[0] for (batch,) in copied] == [10, 20]


def _unless_first(function):
    """Leave out the call by which a pipeline learns what the function makes."""
    calls = iter([lambda x: x])
    return lambda x: next(calls, function)(x)


# ---- garbage


def threads():
    """Count the loaders' threads, which Python does not know of, once they have their names."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append((task / "comm").read_text())
    return sum(1 for name in names if name.startswith("feedline"))


def wait_for(condition):
    """For what another thread is just about to do."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("workers", [0, 3])
def test_dropping_a_loader_ends_its_threads(workers):
    before = threads()
    loader = feedline.Loader(numbers().map(lambda x: x), batch_size=10, num_workers=workers)
    epoch = iter(loader)
    next(epoch)
    wait_for(lambda: threads() == before + workers)
    del loader
    assert len(next(epoch)[0]) == 10, "the iterator is enough"
    del epoch
    wait_for(lambda: threads() == before)


def test_dropping_a_loader_does_not_deadlock_with_a_function_that_needs_the_gil():
    for _ in range(50):
        epoch = iter(feedline.Loader(numbers().map(lambda x: x), batch_size=2, num_workers=4))
        next(epoch)
        del epoch


def test_a_function_may_drop_the_loader_that_calls_it():
    held, dropped, go = [], threading.Event(), threading.Event()

    def drop(x):
        if x == 15:
            go.wait(PATIENCE)
            held.clear()
            dropped.set()
        return x

    held.append(iter(feedline.Loader(numbers().map(drop), batch_size=10, num_workers=1)))
    next(held[0])
    go.set()
    assert dropped.wait(PATIENCE)


def test_a_loader_in_a_cycle_is_collected_with_its_threads():
    class Trainer:
        def __init__(self):
            joined = numbers().map(self.work).zip(numbers()).select(range(500)).cache()
            self.loader = feedline.Loader(joined.map(self.more), batch_size=10, num_workers=2)
            self.epoch = iter(self.loader)
            next(self.epoch)

        def work(self, x):
            return x

        def more(self, x, y):
            return x

    gc.collect()
    before = threads()
    trainers = [Trainer() for _ in range(3)]
    gone = [weakref.ref(trainer) for trainer in trainers]
    wait_for(lambda: threads() == before + 6)
    assert next(trainers[0].epoch)[0].tolist() == list(range(10, 20))
    gc.collect()
    assert next(trainers[0].epoch)[0].tolist() == list(range(20, 30)), "alive is not garbage"
    del trainers
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
    wait_for(lambda: threads() == before)


def test_a_function_lives_as_long_as_anything_that_calls_it():
    class Double:
        def __call__(self, x):
            return x * 2

    function = Double()
    alive = weakref.ref(function)
    pipeline = numbers(40).map(function)
    del function
    epoch = iter(feedline.Loader(pipeline, batch_size=10))
    del pipeline
    gc.collect()
    assert [batch[0] for (batch,) in epoch] == [0, 20, 40, 60]
    assert alive() is not None
    del epoch
    gc.collect()
    wait_for(lambda: alive() is None)


def test_arrays_are_released_with_the_loader():
    array = np.zeros(1000)
    alive = weakref.ref(array)
    loader = feedline.Loader(feedline.arrays(array), batch_size=10)
    list(loader)
    del array, loader
    gc.collect()
    wait_for(lambda: alive() is None)


# ---- page-locked memory without a driver


def no_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return False


@pytest.mark.skipif(not no_driver(), reason="there is a driver")
def test_pinning_without_a_driver_warns_as_torch_does_and_works():
    import torch

    with pytest.warns(UserWarning, match="pin_memory") as theirs:
        next(iter(torch.utils.data.DataLoader(list(range(4)), pin_memory=True)))
    with pytest.warns(UserWarning, match="pin_memory") as ours:
        loader = feedline.Loader(numbers(10), batch_size=5, pin_memory=True, output="torch")
    assert str(ours[0].message).startswith(str(theirs[0].message))
    assert ours[0].filename == __file__, "it points to the caller"
    assert [x.tolist() for (x,) in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.skipif(not no_driver(), reason="there is a driver")
def test_the_warning_can_be_made_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="pin_memory"):
            feedline.Loader(numbers(), pin_memory=True)


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux has policies for threads")
def test_workers_stand_back_and_nobody_else_does():
    own = os.sched_getscheduler(0)
    policies = feedline.arrays(np.arange(4)).map(lambda _: np.array(os.sched_getscheduler(0)))
    loader = feedline.Loader(policies, num_workers=1, epochs=1)
    found = {int(policy) for (batch,) in loader for policy in batch}
    # A policy that somebody chose is kept.
    assert found == {os.SCHED_BATCH if own == os.SCHED_OTHER else own}
    assert os.sched_getscheduler(0) == own
