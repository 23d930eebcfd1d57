"""Batches made by threads of this process: `worker_mode="thread"`.

One address space: no pickling, no copy of the dataset, batches are handed over as they are. Python
code runs one thread at a time, so this pays where the dataset leaves the interpreter (decoding,
reading, tensor operations) and where its memory matters.

What a thread has of its own: `get_worker_info()`, and generators in its ``rng``, seeded as those
of a worker process would be. Global generators belong to the process; nothing seeds them here.
"""

from __future__ import annotations

import atexit
import collections
import math
import queue
import random
import sys
import threading
import traceback
import weakref
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import default_collate

from feedline._torch_private import (
    _RNG,
    MP_STATUS_CHECK_INTERVAL,
    IterDataPipe,
    MapDataPipe,
    WorkerInfo,
    _generate_state,
)
from feedline.torch.iterators.supervision import INTERVAL, late, settle
from feedline.torch.iterators.with_workers import WorkersIterator
from feedline.torch.states.worker_state import Asked
from feedline.torch.workers.board import ThreadBoard
from feedline.torch.workers.claiming import Claims
from feedline.torch.workers.info import worker_info_of_this_thread
from feedline.torch.workers.loop import serve
from feedline.torch.workers.offer import Made
from feedline.torch.workers.rest import Rest
from feedline.torch.workers.stacking import collate_in_own_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.budget import Budget
    from feedline.torch.iterators.diary import Diary
    from feedline.torch.iterators.manner import Manner
    from feedline.torch.iterators.offering import Offers
    from feedline.torch.workers.fetching import Terms

__all__ = ["ThreadIterator"]

# How long `get` waits before it looks after workers.
LISTEN = 0.1

# How long the interpreter's end waits for threads that are in user code.
PARTING = 1.0

_alive: weakref.WeakSet[ThreadIterator] = weakref.WeakSet()


class ThreadIterator(WorkersIterator):
    """Batches made by threads.

    Parameters
    ----------
    loader
        Whose batches.
    """

    _seeds_everything = False
    _crew: ThreadCrew

    def _start_workers(self, loader: DataLoader[Any]) -> None:
        if isinstance(self._dataset, IterDataPipe | MapDataPipe):
            msg = (
                "a DataPipe is split by changing each worker's own copy of it, which threads do "
                'not have; use worker_mode="process"'
            )
            raise TypeError(msg)
        terms = self._terms()
        if terms.collate_fn is default_collate:
            terms = terms._replace(collate_fn=collate_in_own_memory)
        self._workers_done_event = over = threading.Event()
        manner = self._manner
        self._board = board = ThreadBoard()
        lock = threading.Lock() if loader.dataset_lock else None
        crew = ThreadCrew(terms, over, lock, board, self._workers, is_offered=manner.is_offered)
        self._crew = crew
        self._offers = self._offering(board, crew.send_all, "in DataLoader worker thread")
        self._worker_result_queue = crew.results = _Results(self._diary, self._offers, self._budget)
        self._index_queues = [
            _Tasks(crew, worker, self._offers) for worker in range(self._num_workers)
        ]
        _alive.add(self)
        try:
            crew.start(range(self._num_workers))
        except BaseException:
            over.set()
            crew.send_all(range(len(self._workers)), None)
            raise
        if manner.is_supervised:
            watch = _Supervision(crew, self._offers, manner, self._diary)
            self._worker_result_queue.watch = watch

    def _start_more(self, count: int) -> None:
        try:
            self._crew.start(range(len(self._workers), count))
        finally:
            self._index_queues += [
                _Tasks(self._crew, worker, self._offers)
                for worker in range(len(self._index_queues), len(self._workers))
            ]

    def _shutdown_workers(self) -> None:
        self._end(MP_STATUS_CHECK_INTERVAL)

    def _end(self, patience: float) -> None:
        if self._shutdown or not self._is_at_home():
            return
        self._shutdown = True
        self._workers_done_event.set()
        if hasattr(self, "_pin_memory_thread"):
            self._pin_memory_thread_done_event.set()
            self._worker_result_queue.put((None, None))
            self._pin_memory_thread.join()
        for tasks in self._index_queues:
            tasks.put(None)
        deadline = monotonic() + patience
        for worker in self._workers:
            # The iterator may be collected as garbage by one of its own threads.
            if worker is not threading.current_thread():
                worker.join(max(0.0, deadline - monotonic()))


def _end_all() -> None:
    """Threads must have left user code before the interpreter goes."""
    for iterator in list(_alive):
        iterator._end(PARTING)


atexit.register(_end_all)


class ThreadCrew:
    """The worker threads of an iterator, spoken to by their numbers.

    Parameters
    ----------
    terms
        What they make batches of.
    over
        Set when nobody wants batches any more.
    lock
        Held while the dataset is used.
    board
        Where workers say when they sleep, and where batches are offered.
    threads
        Where the threads are listed, by worker: torch's list.
    is_offered
        Whether batches are.
    """

    results: _Results

    def __init__(
        self,
        terms: Terms,
        over: threading.Event,
        lock: threading.Lock | None,
        board: ThreadBoard,
        threads: list[Any],
        *,
        is_offered: bool,
    ) -> None:
        self.threads = threads
        self.is_over = over.is_set
        self._over = over
        self._terms = terms
        self._lock = lock
        self._board = board
        self._is_offered = is_offered
        self._tasks: list[SimpleQueue[Any]] = []

    def start(self, workers: Iterable[int]) -> None:
        """Start workers, or their successors."""
        narrowed = threading.Semaphore(0)
        usual, started = torch.get_num_threads(), 0
        try:
            for worker in workers:
                tasks: SimpleQueue[Any] = SimpleQueue()
                source = _Source(tasks, Rest(self._board, worker))
                desk = _Desk(worker, source.receive, self.results, self._over)
                board = None
                if self._is_offered:
                    board = self._board
                    desk.receive = Claims(source, board, worker).receive
                thread = _WorkerThread(worker, desk, self._terms, self._lock, narrowed, board)
                # The system may refuse it: who is listed has started.
                thread.start()
                started += 1
                self._tasks[worker : worker + 1] = [tasks]
                self.threads[worker : worker + 1] = [thread]
        finally:
            for _ in range(started):
                narrowed.acquire()
            # It is a thread's own setting, and the default of threads that are yet to come. The
            # latter is put back.
            torch.set_num_threads(usual)

    def reseed(self, seed: int) -> None:
        """Note the seed of samples that workers begin with from now on."""
        self._terms = self._terms._replace(seed=seed)

    def send(self, worker: int, message: Any) -> None:  # noqa: ANN401 - a task
        """Send something to a worker."""
        self._tasks[worker].put(message)

    def send_all(self, workers: Iterable[int], message: Any) -> None:  # noqa: ANN401 - an offer
        """Send something to several workers."""
        for worker in workers:
            self._tasks[worker].put(message)


class _Source:
    """What comes to a worker."""

    def __init__(self, tasks: SimpleQueue[Any], rest: Rest) -> None:
        self._tasks = tasks
        self._rest = rest
        self.poll = tasks.get_nowait

    def receive(self) -> Any:  # noqa: ANN401 - a message
        return self._rest.during(self._tasks.get)


class _Tasks:
    """A worker's tasks, as torch's iterator puts them."""

    def __init__(self, crew: ThreadCrew, worker: int, offers: Offers | None) -> None:
        self._crew = crew
        self._worker = worker
        self._offers = offers

    def put(self, task: Any) -> None:  # noqa: ANN401 - a task
        if self._offers is None or not isinstance(task, tuple):
            self._crew.send(self._worker, task)
            return
        number, index = task
        epoch = 0
        if isinstance(index, Asked):
            index, epoch = index.index, index.epoch
        self._offers.add(number, self._worker, index, epoch)


class _Supervision:
    """Looks after worker threads; `supervision` tells how, of processes.

    A thread ends by SystemExit. One that is stuck cannot be ended: it is left behind, and when it
    wakes up it finds that its unit is another's.
    """

    def __init__(
        self, crew: ThreadCrew, offers: Offers | None, manner: Manner, diary: Diary
    ) -> None:
        self._crew = crew
        self._offers = offers
        self._manner = manner
        self._diary = diary
        self._next = 0.0

    def look(self, results: _Results) -> None:
        """Replace whoever is gone or stuck."""
        now = monotonic()
        offers = self._offers
        if now < self._next or self._crew.is_over() or offers is None:
            return
        self._next = now + INTERVAL
        for worker, thread in enumerate(self._crew.threads):
            stopped, claimed = None, None
            if not thread.is_alive():
                if not self._manner.restarts:
                    continue
                results.take_all()
                claimed = offers.claimed(worker)
            elif self._manner.sample_timeout is not None:
                overdue = late(offers, worker, self._manner.sample_timeout)
                if overdue is None or not offers.take_away(overdue[0], worker):
                    continue
                stopped = (*overdue, _stack(thread))
                claimed = overdue[0]
            else:
                continue
            settle(offers, worker, claimed, stopped, self._manner)
            self._diary.replaced()
            self._crew.start((worker,))
            for offer in offers.of_worker(worker):
                self._crew.send(worker, offer)


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return "" if frame is None else "".join(traceback.format_stack(frame)).rstrip()


class _WorkerThread(threading.Thread):
    """A worker. It knows nothing of the iterator, so that one can be dropped."""

    def __init__(
        self,
        worker_id: int,
        desk: _Desk,
        terms: Terms,
        lock: threading.Lock | None,
        narrowed: threading.Semaphore,
        board: ThreadBoard | None,
    ) -> None:
        super().__init__(name=f"feedline-worker-{worker_id}", daemon=True)
        self._work: Any = (worker_id, desk, terms, lock, narrowed, board)

    @property
    def pid(self) -> int | None:
        """What stands where torch names the process of a worker that is gone."""
        return self.native_id

    def run(self) -> None:
        worker_id, desk, terms, lock, narrowed, board = self._work
        # A thread object outlives its thread in `_workers`; the dataset should not have to.
        self._work = None
        try:
            # Asked first: torch gives a thread the default the first time it looks.
            torch.get_num_threads()
            torch.set_num_threads(1)
        finally:
            narrowed.release()
        info = _info(worker_id, terms)
        try:
            with worker_info_of_this_thread(info):
                where = f"in DataLoader worker thread {worker_id}"
                serve(desk, terms, worker_id, where=where, lock=lock, board=board)
        except (SystemExit, KeyboardInterrupt):
            # Whoever waits for this worker finds that it is gone.
            return


def _info(worker_id: int, terms: Terms) -> WorkerInfo:
    seed = terms.base_seed + worker_id
    torch_generator = torch.Generator()
    torch_generator.manual_seed(seed)
    numpy_generator = np.random.default_rng(_generate_state(terms.base_seed, worker_id))
    return WorkerInfo(
        id=worker_id,
        num_workers=terms.num_workers,
        seed=seed,
        dataset=terms.dataset,
        rng=_RNG(random.Random(seed), torch_generator, numpy_generator),
        worker_method="thread",
    )


class _Desk:
    """A worker's end of its queues."""

    def __init__(
        self,
        worker_id: int,
        receive: Callable[[], Any],
        results: _Results,
        over: threading.Event,
    ) -> None:
        self._worker_id = worker_id
        self._results = results
        self.receive = receive
        self.is_over = over.is_set

    def send(self, number: Any, data: Any, took: tuple[int, int, int]) -> None:  # noqa: ANN401
        self._results.leave((number, data), (self._worker_id, *took))


class _Results:
    """What the workers have made, with what it took."""

    # Looks after workers while somebody waits, if they are looked after.
    watch: _Supervision | None = None

    def __init__(self, diary: Diary, offers: Offers | None, budget: Budget) -> None:
        self._budget = budget
        self._queue: SimpleQueue[tuple[Any, tuple[int, int, int, int] | None]] = SimpleQueue()
        self._diary = diary
        self._offers = offers
        self._ready: collections.deque[Any] = collections.deque()
        if offers is not None:
            self._ready = offers.ready

    def leave(self, result: tuple[Any, Any], took: tuple[int, int, int, int]) -> None:
        self._queue.put((result, took))

    def put(self, result: tuple[Any, Any]) -> None:
        """Wake whoever waits."""
        self._queue.put((result, None))

    def get(self, timeout: float | None = None) -> tuple[Any, Any]:
        if self._offers is None and self.watch is None:
            if self._ready:
                return self._ready.popleft()  # type: ignore[no-any-return]
            self._take(self._queue.get(timeout=timeout))
            return self._ready.popleft()  # type: ignore[no-any-return]
        deadline = math.inf if timeout is None else monotonic() + timeout
        while not self._ready:
            left = deadline - monotonic()
            if left <= 0:
                raise queue.Empty
            with suppress(queue.Empty):
                self._take(self._queue.get(timeout=min(left, LISTEN)))
            if self.watch is not None:
                self.watch.look(self)
        return self._ready.popleft()  # type: ignore[no-any-return]

    def take_all(self) -> None:
        """Take everything that has been left here."""
        with suppress(queue.Empty):
            while True:
                self._take(self._queue.get_nowait())

    def _take(self, left: tuple[Any, tuple[int, int, int, int] | None]) -> None:
        (number, data), took = left
        if took is not None:
            self._diary.made(*took)
        if isinstance(number, Made) and self._offers is not None and took is not None:
            self._offers.arrived(took[0], number, data, took[1:])
        else:
            if isinstance(number, int):
                self._budget.weigh(data)
            self._ready.append((number, data))
