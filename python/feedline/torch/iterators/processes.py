"""Batches made by processes over shared memory: `worker_mode="process"`.

Which worker makes which batch, and what is delivered when, is torch's; see `with_workers.py`. What
is ours is the way: tasks and batches go through a `feedline._transport.Hub`. Where any worker may
make a batch, or its samples one by one, `workers/offer.py` tells how; `supervision.py`, how workers
are replaced.

How workers end, and what must not go wrong:

1. The flag *over* is set. A worker that is making a batch finishes it, skips all tasks that are
   left and finds ``None`` behind them.
2. A worker may be waiting for room to send a batch, or ``None`` may be waiting for room in its
   ring: so the main process goes on receiving, and throws away what it gets, until all are gone.
3. A worker that takes too long (torch's 5 s) is terminated.
4. Only then the memory is let go; batches that the user holds keep theirs.

A worker that dies is noticed at once by torch's SIGCHLD handler, which raises in the main thread,
and at the latest by the next look of `_try_get_data`. A forked child of the main process has copies
of these objects and touches nothing.
"""

from __future__ import annotations

import collections
import queue
import warnings
from multiprocessing.connection import wait
from pickle import PicklingError
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch

from feedline._torch_private import (
    MP_STATUS_CHECK_INTERVAL,
    is_python_exiting,
    set_sigchld_handler,
)
from feedline._transport import Hub, codec
from feedline.torch.iterators.faults import Raised
from feedline.torch.iterators.process_crew import ProcessCrew
from feedline.torch.iterators.supervision import Supervision
from feedline.torch.iterators.with_workers import WorkersIterator
from feedline.torch.states.worker_state import Asked
from feedline.torch.workers.board import HubBoard
from feedline.torch.workers.flag import Flag
from feedline.torch.workers.offer import Made

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.budget import Budget
    from feedline.torch.iterators.diary import Diary
    from feedline.torch.iterators.offering import Offers

__all__ = ["ProcessIterator"]

# How long `get` waits before it listens whether something was said to it: only while pinning.
LISTEN = 0.1

# How many workers may have died whose memory is still in use.
_SPARES = 1024

# torch's words.
_PICKLE_ERROR = (
    "Got pickle error when attempting to start a worker Process. "
    "This might be because the worker Process arguments are not picklable. "
    "Python 3.14+ changed the multiprocessing start method in non-Mac POSIX platforms "
    "to 'forkserver', which requires the worker Process arguments to be picklable. "
    "You can also try multiprocessing.set_start_method('fork')."
)


class ProcessIterator(WorkersIterator):
    """Batches made by processes.

    Parameters
    ----------
    loader
        Whose batches.
    """

    _crew: ProcessCrew
    _are_processes = True

    def _start_workers(self, loader: DataLoader[Any]) -> None:
        context: Any = loader.multiprocessing_context
        if context is None:
            context = torch.multiprocessing
        manner = self._manner
        self._hub = hub = Hub(self._most, _SPARES if manner.is_supervised else 0)
        self._workers_done_event = over = Flag()
        self._crew = ProcessCrew(
            hub, context, self._terms(), over, manner, self._workers, self._most
        )
        self._board = HubBoard(hub)
        where = "in DataLoader worker process"
        self._offers = self._offering(self._board, self._crew.send_all, where)
        self._worker_result_queue = _Results(self._crew, self._offers, self._diary, self._budget)
        self._index_queues = [
            _Tasks(self._crew, worker, self._offers) for worker in range(self._num_workers)
        ]
        try:
            self._crew.start(self._num_workers)
        except BaseException as error:
            if isinstance(error, TypeError | AttributeError | PicklingError):
                warnings.warn(_PICKLE_ERROR, stacklevel=2)
            self._end_workers()
            raise
        if manner.is_supervised:
            watch = Supervision(self._crew, self._offers, manner, self._diary)
            # It knows nothing of the iterator, so that one can be dropped.
            self._worker_result_queue.watch = watch
        if not manner.restarts:
            self._crew.register(id(self))
            set_sigchld_handler()
            self._worker_pids_set = True

    def _start_more(self, count: int) -> None:
        try:
            self._crew.start(count)
        finally:
            self._index_queues += [
                _Tasks(self._crew, worker, self._offers)
                for worker in range(len(self._index_queues), len(self._workers))
            ]

    def _states(self) -> tuple[dict[str, Any] | None, ...]:
        if self._latest.resumed_finished and not self._persistent_workers:
            # Each epoch has new workers, with copies of the dataset as it is here: what those of
            # the epoch before said of theirs is gone, as it is without an interruption.
            return ()
        return super()._states()

    def _shutdown_workers(self) -> None:
        # When the interpreter goes, `multiprocessing` has ended all daemons by itself.
        if self._shutdown or not self._is_at_home() or is_python_exiting():
            return
        self._shutdown = True
        # Who dies from here on is missed by nobody; torch's handler would raise in the midst of it.
        if self._worker_pids_set:
            self._crew.unregister()
            self._worker_pids_set = False
        try:
            if hasattr(self, "_pin_memory_thread"):
                self._pin_memory_thread_done_event.set()
                self._worker_result_queue.put((None, None))
                self._pin_memory_thread.join()
        finally:
            self._end_workers()

    def _end_workers(self) -> None:
        try:
            self._workers_done_event.set()
            for tasks in self._index_queues:
                tasks.put(None)
            deadline = monotonic() + MP_STATUS_CHECK_INTERVAL
            left = [worker for worker in self._workers if worker.is_alive()]
            while left and monotonic() < deadline:
                self._worker_result_queue.throw_away()
                wait([worker.sentinel for worker in left], timeout=0.02)
                left = [worker for worker in left if worker.is_alive()]
        finally:
            for worker in self._workers:
                if worker.is_alive():
                    # As torch does: it may hang in user code, or be stopped.
                    worker.terminate()
                    worker.join(timeout=MP_STATUS_CHECK_INTERVAL)
            self._crew.close()
            self._hub.close()


class _Tasks:
    """A worker's tasks, as torch's iterator puts them."""

    def __init__(self, crew: ProcessCrew, worker: int, offers: Offers | None) -> None:
        self._crew = crew
        self._worker = worker
        self._offers = offers

    def put(self, task: Any) -> None:  # noqa: ANN401 - a task
        if self._offers is not None and isinstance(task, tuple):
            number, index = task
            epoch = 0
            if isinstance(index, Asked):
                index, epoch = index.index, index.epoch
            self._offers.add(number, self._worker, index, epoch)
            return
        self._crew.send(self._worker, task)
        if task is not None:
            self._crew.due[self._worker].append(task)


class _Results:
    """What the workers have made, as torch's iterator gets it."""

    # Looks after workers while somebody waits, if they are looked after.
    watch: Supervision | None = None

    def __init__(
        self, crew: ProcessCrew, offers: Offers | None, diary: Diary, budget: Budget
    ) -> None:
        self._crew = crew
        self._offers = offers
        self._diary = diary
        self._budget = budget
        # What is to be returned before anything else, and what has arrived and was not looked at.
        self._words: collections.deque[Any] = collections.deque()
        self._inbox: collections.deque[Any] = collections.deque()
        if offers is not None:
            self._words = offers.ready

    def put(self, word: Any) -> None:  # noqa: ANN401 - what `get` returns
        """Say something to whoever waits; it is heard at the next look."""
        self._words.append(word)

    def get(self, timeout: float) -> tuple[Any, Any]:
        """Wait for the next batch of any worker."""
        deadline = monotonic() + timeout
        while not self._words:
            if not self._inbox:
                self._listen(min(max(deadline - monotonic(), 0.0), LISTEN))
            found = self._inbox[0]
            result = None if found is None else self._unpacked(*found)
            self._inbox.popleft()
            if result is not None:
                return result
            if self.watch is not None:
                self.watch.look(self)
            if not self._words and monotonic() >= deadline:
                raise queue.Empty
        return self._words.popleft()  # type: ignore[no-any-return]

    def _listen(self, timeout: float) -> None:
        # From one hand to the other without a step of the interpreter's between: there a Ctrl-C
        # would be raised, and what had just arrived would be lost.
        self._inbox.extend(map(self._crew.hub.receive_packed, (timeout,)))

    def take_all(self) -> None:
        """Take everything that has been sent, so that nothing of a dead worker is left."""
        while not self._inbox or self._inbox[-1] is not None:
            self._listen(0)
        while self._inbox:
            found = self._inbox[0]
            result = None if found is None else self._unpacked(*found)
            self._inbox.popleft()
            if result is not None:
                self._words.append(result)

    def _unpacked(self, place: int, payload: Any, buffers: list[Any]) -> tuple[Any, Any] | None:  # noqa: ANN401
        worker = self._crew.worker_at(place)
        due = self._crew.due[worker]
        began = perf_counter_ns()
        try:
            number, data, times = codec.decode(payload, buffers)
        except Exception as error:
            claimed = None if self._offers is None else self._offers.claimed(worker)
            if claimed is None or self._offers is None:
                return _number_of(due.popleft()), Raised(error)
            number, data, times = claimed, Raised(error), (0, 0, 0, 0)
        took = perf_counter_ns() - began
        size = len(payload) + sum(map(len, buffers))
        samples, fetch_ns, collate_ns, send_ns = times
        self._diary.made(worker, samples, fetch_ns, collate_ns, send_ns, took, size)
        self._crew.heard_of(worker)
        if isinstance(number, Made):
            if self._offers is not None:
                self._offers.arrived(worker, number, data, times, size)
            return None
        # Tasks behind the end of an iterable dataset are never answered.
        while due and _number_of(due.popleft()) != number:
            pass
        self._crew.note_state(worker, number, data)
        if isinstance(number, int):
            self._budget.seen(size)
        return number, data

    def throw_away(self) -> None:
        """Receive all that is there, and let go of it."""
        while self._crew.hub.receive_packed(0) is not None:
            pass


def _number_of(task: Any) -> Any:  # noqa: ANN401 - a task
    return task[0] if isinstance(task, tuple) else task
