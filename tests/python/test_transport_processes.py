"""Messages between processes: waiting, signals, and processes that are killed."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time

import pytest
import torch
from transport_lane import start
from transport_workers import echo, flood

from feedline._transport import Hub

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process workers are for Linux")


# A process that is started imports torch first, which takes long on a busy machine.
@pytest.mark.timeout(80)
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_messages_cross_between_processes(context):
    hub = Hub(2)
    processes = start(hub, echo, context, workers=2)
    for i in range(40):
        hub.send(i % 2, [i, "task"])
    for _ in range(40):
        worker, (own, pid, task, tensor) = hub.receive(timeout=75)
        assert worker == own == task[0] % 2
        assert pid == processes[worker].pid
        assert torch.equal(tensor, torch.full((20_000,), task[0]))
    for i in range(2):
        hub.send(i, None)
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    hub.close()


def test_tasks_of_any_size_and_number_never_wait():
    hub = Hub(1)
    sent = [list(range(n)) for n in (0, 1, 40_960, 1_000_000)] + [[i] for i in range(3000)]
    for task in sent:
        hub.send(0, task)
    end = hub.worker_end(0)
    received = []
    thread = threading.Thread(target=lambda: received.extend(end.receive() for _ in sent))
    thread.start()
    while thread.is_alive():
        # More than the ring holds follows while the hub is used.
        with pytest.raises(queue.Empty):
            hub.receive(timeout=0.01)
    assert received == sent
    hub.close()


def test_a_worker_waits_when_the_main_process_does_not_look():
    hub = Hub(1)
    (process,) = start(hub, flood, args=(2000,))
    for i in range(2000):
        _, (number, tensor) = hub.receive(timeout=60)
        assert number == i
        assert torch.equal(tensor, torch.full((3000,), i))
    hub.send(0, None)
    process.join(30)
    assert process.exitcode == 0
    hub.close()


def test_the_time_is_over_when_nothing_comes(lane):
    hub, end = lane
    for timeout in (0, 0.01, 0.25):
        begun = time.monotonic()
        with pytest.raises(queue.Empty):
            hub.receive(timeout=timeout)
        with pytest.raises(queue.Empty):
            end.receive(timeout=timeout)
        assert time.monotonic() - begun >= 2 * timeout


def test_a_signal_ends_the_wait(lane):
    hub, _ = lane

    class AlarmError(Exception):
        pass

    def handler(*_):
        raise AlarmError

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(AlarmError):
            hub.receive()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_closing_wakes_who_waits(lane):
    hub, _ = lane
    threading.Timer(0.2, hub.close).start()
    with pytest.raises(queue.Empty):
        hub.receive()
    hub.send(0, "nobody gets it")


def test_many_threads_may_receive():
    hub = Hub(2)
    processes = start(hub, echo, workers=2)
    received = []

    def take():
        received.extend(hub.receive(timeout=60)[1][2][0] for _ in range(50))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(200):
        hub.send(i % 2, [i])
    for thread in threads:
        thread.join(60)
    assert sorted(received) == list(range(200))
    for process in processes:
        process.kill()
        process.join()
    hub.close()


def test_a_worker_killed_at_any_instant_leaves_whole_messages_only():
    for round_ in range(12):
        hub = Hub(2)
        processes = start(hub, flood, workers=2, args=(10**9,))
        for _ in range(round_ * 3):
            hub.receive(timeout=60)
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        for process in processes:
            process.join(30)
            assert process.exitcode == -signal.SIGKILL
        last = [-1, -1]
        while True:
            try:
                worker, (number, tensor) = hub.receive(timeout=0)
            except queue.Empty:
                break
            assert number > last[worker]
            last[worker] = number
            assert torch.equal(tensor, torch.full((3000,), number))
        hub.close()


def orphan(end, pipe):
    try:
        end.receive()
    except EOFError:
        pipe.send("gone")


def test_a_worker_notices_that_its_parent_is_gone():
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        end = Hub(1).worker_end(0)
        if os.fork() == 0:
            try:
                orphan(end, writer)
            finally:
                os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    writer.close()
    assert reader.poll(30)
    assert reader.recv() == "gone"


@pytest.mark.timeout(80)
def test_an_interpreter_that_exits_with_everything_alive_exits_cleanly(program):
    done = program(
        """
        import multiprocessing, torch
        from feedline._transport import Hub

        def work(end):
            while end.receive() is not None:
                end.send(torch.ones(10_000))

        hub = Hub(1)
        end = hub.worker_end(0)
        multiprocessing.get_context("fork").Process(target=work, args=(end,), daemon=True).start()
        hub.send(0, 1)
        hub.send(0, 2)
        kept = hub.receive(60)
        end.native.allocate(100)
        print(kept[1].sum().item())
        """,
        timeout=75,
    )
    assert done.stdout == "10000.0\n"
