"""Batches made by processes over shared memory: `worker_mode="process"`.

Which worker makes which batch, and what is delivered when, is torch's; see `with_workers.py`. What
is ours is the way: tasks and batches go through a `feedline._transport.Hub`.

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
from torch._C import _remove_worker_pids, _set_worker_pids
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils

from feedline._transport import Hub, codec
from feedline.torch.iterators.with_workers import WorkersIterator
from feedline.torch.workers.flag import Flag
from feedline.torch.workers.payload import NotOnceError, Payload
from feedline.torch.workers.process import work

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.diary import Diary

__all__ = ["ProcessIterator"]

# How long `get` waits before it listens whether something was said to it: only while pinning.
LISTEN = 0.1

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

    def _start_workers(self, loader: DataLoader[Any]) -> None:
        context: Any = loader.multiprocessing_context
        if context is None:
            context = torch.multiprocessing
        self._hub = hub = Hub(self._num_workers)
        self._workers_done_event = over = Flag()
        self._worker_result_queue = _Results(hub, self._num_workers, self._diary)
        self._index_queues = [
            _Tasks(hub, worker, due) for worker, due in enumerate(self._worker_result_queue.due)
        ]
        terms: Any = self._terms()
        try:
            if context.get_start_method() != "fork":
                terms = _packed(terms)
            for worker_id in range(self._num_workers):
                worker = context.Process(
                    target=work, args=(hub.worker_end(worker_id), terms, worker_id, over)
                )
                worker.daemon = True
                worker.start()
                self._workers.append(worker)
        except BaseException as error:
            if isinstance(error, TypeError | AttributeError | PicklingError):
                warnings.warn(_PICKLE_ERROR, stacklevel=2)
            self._end_workers()
            raise
        finally:
            over.close_descriptor()
            if isinstance(terms, Payload):
                terms.close()
        pids = tuple(worker.pid for worker in self._workers)
        _set_worker_pids(id(self), pids)
        _utils.signal_handling._set_SIGCHLD_handler()
        self._worker_pids_set = True

    def _states(self) -> tuple[dict[str, Any] | None, ...]:
        if self._latest.resumed_finished and not self._persistent_workers:
            # Each epoch has new workers, with copies of the dataset as it is here: what those of
            # the epoch before said of theirs is gone, as it is without an interruption.
            return ()
        return super()._states()

    def _shutdown_workers(self) -> None:
        # When the interpreter goes, `multiprocessing` has ended all daemons by itself.
        if self._shutdown or not self._is_at_home() or _utils.python_exit_status is not False:
            return
        self._shutdown = True
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
            deadline = monotonic() + _utils.MP_STATUS_CHECK_INTERVAL
            left = [worker for worker in self._workers if worker.is_alive()]
            while left and monotonic() < deadline:
                self._worker_result_queue.throw_away()
                wait([worker.sentinel for worker in left], timeout=0.02)
                left = [worker for worker in left if worker.is_alive()]
        finally:
            if self._worker_pids_set:
                _remove_worker_pids(id(self))
                self._worker_pids_set = False
            for worker in self._workers:
                if worker.is_alive():
                    # As torch does: it may hang in user code, or be stopped.
                    worker.terminate()
                    worker.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
            self._hub.close()


def _packed(terms: Any) -> Any:  # noqa: ANN401 - the same, or a payload of it
    try:
        return Payload(terms)
    except NotOnceError:
        return terms


class _Tasks:
    """A worker's tasks, as torch's iterator puts them."""

    def __init__(self, hub: Hub, worker: int, due: collections.deque[Any]) -> None:
        self._hub = hub
        self._worker = worker
        self._due = due

    def put(self, task: Any) -> None:  # noqa: ANN401 - a task
        self._hub.send(self._worker, task)
        if task is not None:
            self._due.append(task[0] if isinstance(task, tuple) else task)


class _Results:
    """What the workers have made, as torch's iterator gets it."""

    def __init__(self, hub: Hub, workers: int, diary: Diary) -> None:
        # Numbers of the batches that each worker owes, oldest first: so that one which cannot be
        # unpickled has a number too.
        self.due: list[collections.deque[Any]] = [collections.deque() for _ in range(workers)]
        self._hub = hub
        self._diary = diary
        self._words: collections.deque[Any] = collections.deque()
        self._inbox: collections.deque[Any] = collections.deque()

    def put(self, word: Any) -> None:  # noqa: ANN401 - what `get` returns
        """Say something to whoever waits; it is heard at the next look."""
        self._words.append(word)

    def get(self, timeout: float) -> tuple[Any, Any]:
        """Wait for the next batch of any worker."""
        while not self._words:
            if not self._inbox:
                # From one hand to the other without a step of the interpreter's between: there a
                # Ctrl-C would be raised, and what had just arrived would be lost.
                self._inbox.extend(map(self._hub.receive_packed, (min(timeout, LISTEN),)))
            if self._inbox[0] is not None:
                break
            self._inbox.popleft()
            timeout -= LISTEN
            if timeout <= 0:
                raise queue.Empty
        else:
            return self._words.popleft()  # type: ignore[no-any-return]
        result = self._unpacked(*self._inbox[0])
        self._inbox.popleft()
        return result

    def _unpacked(self, worker: int, payload: Any, buffers: list[Any]) -> tuple[Any, Any]:  # noqa: ANN401
        due = self.due[worker]
        began = perf_counter_ns()
        try:
            number, data, times = codec.decode(payload, buffers)
        except Exception as error:
            return due.popleft(), _Undecoded(error)
        took = perf_counter_ns() - began
        # Tasks behind the end of an iterable dataset are never answered.
        while due and due.popleft() != number:
            pass
        size = len(payload) + sum(map(len, buffers))
        samples, fetch_ns, collate_ns, send_ns = times
        self._diary.made(worker, samples, fetch_ns, collate_ns, send_ns, took, size)
        return number, data

    def throw_away(self) -> None:
        """Receive all that is there, and let go of it."""
        while self._hub.receive_packed(0) is not None:
            pass


class _Undecoded(ExceptionWrapper):
    """A batch that arrived and could not be unpickled: raised in its place."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def reraise(self) -> None:
        """Raise what unpickling raised."""
        raise self._error
