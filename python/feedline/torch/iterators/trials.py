"""Threads and sending, tried out on some samples: what no formula knows of a dataset and machine.

Threads: as many as would work make batches and hand them to the calling thread, as in earnest. That
has in it what they cost each other: the interpreter's lock, which short operations of torch let go
and take again thousands of times a second, and memory that all of them ask the system for. Sending:
batches are made as a worker process would, in shared memory, sent and received, all by the caller.
"""

from __future__ import annotations

import pickle
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import default_collate

from feedline._torch_private import collate, collate_tensor_fn, default_collate_fn_map
from feedline._transport import Hub, stack_into
from feedline.torch.workers.stacking import collate_in_own_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from feedline._transport import WorkerEnd
    from feedline.torch.dataloader import DataLoader

    Collate = Callable[[Any], Any]
    # Makes so many samples, beginning with the second number, into a batch.
    Fetch = Callable[[int, int], Any]

__all__ = ["Sending", "Together", "made_together", "sent", "why_not_pickled"]


class Together(NamedTuple):
    """What some threads took, working at the same time."""

    threads: int
    # Per sample, of all of them: so many more of them, so much less.
    seconds: float


class Sending(NamedTuple):
    """What batches from another process take."""

    # Of a worker per sample, making it included; 0 where that was not tried.
    seconds: float
    # Of the loop, per batch.
    received: float
    # Bytes of a sample.
    size: float


def made_together(
    fetching: Callable[[Collate], Fetch],
    collate_fn: Collate,
    number: int,
    threads: int,
    *,
    one_at_a_time: bool,
    seconds: float,
) -> Together | str:
    """Let threads make batches and hand them over, for some time.

    Parameters
    ----------
    fetching
        Returns what makes batches, with a collate function.
    collate_fn
        The loader's.
    number
        Samples of a batch.
    threads
        How many.
    one_at_a_time
        Whether only one of them may use the dataset.
    seconds
        For how long.

    Returns
    -------
    Together or str
        What they took; or what the dataset raised in one of them.
    """
    fetch = fetching(collate_in_own_memory if collate_fn is default_collate else collate_fn)
    over = threading.Event()
    lock = threading.Lock() if one_at_a_time else nullcontext()
    made: SimpleQueue[Any] = SimpleQueue()

    def work(place: int) -> tuple[int, float]:
        began, count = time.perf_counter(), 0
        while not over.is_set():
            with lock:
                batch = fetch(number, (place << 20) + count + 1)
            made.put(batch)
            count += number
        return count, time.perf_counter() - began

    with _workers(work, threads) as crew:
        deadline = time.perf_counter() + seconds
        try:
            while (left := deadline - time.perf_counter()) > 0 and not crew.failed:
                # Taken and dropped, as by a loop that has nothing else to do.
                with suppress(Empty):
                    made.get(timeout=left)
        finally:
            over.set()
    if crew.failed:
        return f"the dataset raised {crew.failed[0]!r} in a thread"
    rate = sum(count / took for count, took in crew.results)
    return Together(threads, 1 / rate) if rate else "the dataset ended each thread"


def sent(
    fetching: Callable[[Collate], Fetch] | None,
    collate_fn: Collate,
    number: int,
    batch: Any,  # noqa: ANN401 - the user's
    *,
    seconds: float,
) -> Sending | str:
    """Make batches as a worker process does, send them and receive them.

    Parameters
    ----------
    fetching
        Returns what makes batches, with a collate function; None: only `batch` is sent.
    collate_fn
        The loader's.
    number
        Samples of a batch.
    batch
        One of a single sample.
    seconds
        For how long.

    Returns
    -------
    Sending or str
        What it took; or why a batch cannot be sent.
    """
    hub = Hub(workers=1)
    try:
        end = hub.worker_end(0)
        try:
            end.send(batch)
        except Exception as error:
            return f"a batch cannot be pickled: {error!r}"
        began = time.perf_counter()
        received, size = hub.receive_packed(1.0), 0.0
        single = time.perf_counter() - began
        if received is not None:
            _, payload, buffers = received
            size = float(sum(memoryview(part).nbytes for part in (payload, *buffers)))
            del payload, buffers
        del received
        if fetching is None:
            return Sending(0.0, single, size)
        fetch = fetching(_as_in_a_process(collate_fn, end))
        with _one_thread():
            return _sent(hub, end, fetch, number, seconds)._replace(size=size)
    finally:
        hub.close()


def _sent(hub: Hub, end: WorkerEnd, fetch: Fetch, number: int, seconds: float) -> Sending:
    count, making, receiving = 0, 0.0, 0.0
    deadline = time.perf_counter() + seconds
    # The first batch, which does not count, finds memory that nobody has touched.
    while count < 2 or time.perf_counter() < deadline:
        began = time.perf_counter()
        made = fetch(number, count * number + 1)
        end.send(made)
        del made
        sent = time.perf_counter()
        hub.receive(1.0)
        if count:
            making += sent - began
            receiving += time.perf_counter() - sent
        count += 1
    return Sending(making / (count - 1) / number, receiving / (count - 1), 0.0)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch's operations use one thread, as in workers."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _as_in_a_process(collate_fn: Collate, end: WorkerEnd) -> Collate:
    """Return what collates as in a worker process: the default straight into shared memory."""
    if collate_fn is not default_collate:
        return collate_fn
    kinds = default_collate_fn_map
    if kinds.get(torch.Tensor) is collate_tensor_fn:
        kinds = {**kinds, torch.Tensor: stack_into(end)}
    return lambda samples: collate(samples, collate_fn_map=kinds)


def why_not_pickled(loader: DataLoader[Any]) -> str | None:
    """Return why what workers need cannot be pickled; None if it can."""
    for name in ("dataset", "collate_fn", "worker_init_fn"):
        try:
            pickle.Pickler(_Nowhere(), protocol=5).dump(getattr(loader, name))
        except RuntimeError:
            continue  # locks and queues of multiprocessing pickle while a process starts, only then
        except Exception as error:
            return f"processes do not fork here, and {name} cannot be pickled: {error!r}"
    return None


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - bytes or a buffer
        return memoryview(data).nbytes


class _Crew:
    """Threads of a trial: what they returned, and raised."""

    def __init__(self) -> None:
        self.results: list[tuple[int, float]] = []
        self.failed: list[Exception] = []


@contextmanager
def _workers(work: Callable[[int], tuple[int, float]], threads: int) -> Iterator[_Crew]:
    """Run something in threads in which torch's operations use one thread, as in workers."""
    crew, narrowed, begin = _Crew(), threading.Semaphore(0), threading.Event()

    def run(place: int) -> None:
        # Asked first: torch gives a thread the default the first time it looks.
        torch.get_num_threads()
        torch.set_num_threads(1)
        narrowed.release()
        begin.wait()
        try:
            crew.results.append(work(place))
        except Exception as error:
            crew.failed.append(error)

    usual = torch.get_num_threads()
    workers = [
        threading.Thread(target=run, args=(place,), name=f"feedline-trial-{place}", daemon=True)
        for place in range(threads)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        narrowed.acquire()
    # It is also the default of threads that are yet to come.
    torch.set_num_threads(usual)
    begin.set()
    try:
        yield crew
    finally:
        for worker in workers:
            worker.join()
