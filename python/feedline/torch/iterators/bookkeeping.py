"""Which worker makes which batch, how many are under way, and what is delivered next.

The rules are torch's: one worker after the other in turn, `prefetch_factor` batches for each ahead,
delivered in the order of the sampler, or with ``in_order=False`` as they come. Where `_moves` says
so, how many are ahead changes meanwhile. They are written
here and not inherited, because where torch does what changes from version to version, and a state
must be right in each. The names are torch's where others look at them.
"""

from __future__ import annotations

import itertools
import queue
from typing import TYPE_CHECKING, Any

from feedline._torch_private import (
    MP_STATUS_CHECK_INTERVAL,
    ExceptionWrapper,
    _DatasetKind,
    _IterableDatasetStopIteration,
    _MultiProcessingDataLoaderIter,
    _ResumeIteration,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

__all__ = ["Bookkeeping"]


class Bookkeeping(_MultiProcessingDataLoaderIter):
    """An iterator with workers, without the workers: subclasses have them, and the way to them.

    Workers are in `_workers`, their tasks are put into `_index_queues`, what they made comes out of
    `_data_queue` as ``(number, data)``.
    """

    _workers: list[Any]
    _index_queues: list[Any]
    _data_queue: Any
    _workers_done_event: Any
    _pin_memory_thread: threading.Thread
    _turns: Iterator[int]
    # Which worker gets the first batch.
    _rotation = 0
    # Whether the read-ahead is not always torch's.
    _moves = False

    def _begin_again(self, loader: Any, first_iter: bool) -> None:  # noqa: ANN401 - a loader
        """Begin an epoch: a new iterator of the sampler, and the seed of data pipes."""
        raise NotImplementedError

    def _reset(self, loader: Any, first_iter: bool = False) -> None:  # noqa: ANN401 - a loader
        self._begin_again(loader, first_iter)
        # Numbers of the next task that is sent, and of the next that is delivered in order.
        self._send_idx = self._rcvd_idx = 0
        # By number: whose it is, and what came of it, if that is not delivered yet.
        self._task_info: dict[int, tuple[Any, ...]] = {}
        # How many of them have not come.
        self._tasks_outstanding = 0
        # Whether each worker has something left to do in this epoch.
        self._workers_status = [True] * self._num_workers
        self._workers_num_tasks = [0] * self._num_workers
        first = self._rotation % self._num_workers
        self._turns = itertools.cycle([*range(first, self._num_workers), *range(first)])
        if not first_iter:
            self._resume_workers()
        if self._moves:
            self._put_more()
        else:
            for _ in range(self._most_tasks):
                self._try_put_index()

    @property
    def _most_tasks(self) -> int:
        return (self._prefetch_factor or 0) * self._num_workers

    def _put_more(self) -> None:
        """Give one batch more to workers; where the read-ahead moves, as many as there is room for.

        Tasks of a worker whose dataset is exhausted will not come, so they take no room: else
        nothing might be asked of the others.
        """
        if not self._moves:
            self._try_put_index()
            return
        while self._is_wanted() and self._open_tasks() < self._most_tasks:
            before = self._send_idx
            self._try_put_index()
            if self._send_idx == before:
                break

    def _is_wanted(self) -> bool:
        """Whether there is somebody to give a batch to: else the sampler must not be asked."""
        return any(
            has_work and (self._in_order or self._has_room(worker))
            for worker, has_work in enumerate(self._workers_status)
        )

    def _open_tasks(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._task_info)
        tasks = self._task_info.values()
        return sum(len(task) == 2 or self._workers_status[task[0]] for task in tasks)

    def _resume_workers(self) -> None:
        """Let workers that persist begin another epoch; throw away what is left of the last."""
        for tasks in self._index_queues:
            tasks.put(_ResumeIteration(self._shared_seed))
        left = len(self._index_queues)
        while left:
            number, _ = self._get_data()
            left -= isinstance(number, _ResumeIteration)

    def _try_put_index(self) -> None:
        """Give the next batch to the worker whose turn it is, if there is one of each."""
        if not self._moves and self._tasks_outstanding >= self._most_tasks:
            msg = "Number of outstanding tasks exceeded maximum allowed tasks"
            raise AssertionError(msg)
        try:
            index = self._next_index()
        except StopIteration:
            return
        for worker in itertools.islice(self._turns, self._num_workers):
            if self._workers_status[worker] and (self._in_order or self._has_room(worker)):
                break
        else:
            return
        number = self._send_idx
        self._index_queues[worker].put((number, index))
        self._task_info[number] = (worker,)
        self._workers_num_tasks[worker] += 1
        self._tasks_outstanding += 1
        self._send_idx += 1

    def _has_room(self, worker: int) -> bool:
        most = max(self._most_tasks // sum(self._workers_status), 1)
        return self._workers_num_tasks[worker] < most

    def _next_data(self) -> Any:  # noqa: ANN401 - the user's batch
        while self._seek():
            number = self._rcvd_idx
            if len(self._task_info[number]) == 2:
                return self._deliver(number)
            if self._shutdown or self._tasks_outstanding <= 0:
                msg = (
                    "Invalid iterator state: shutdown or no outstanding tasks when fetching "
                    "next data"
                )
                raise AssertionError(msg)
            number, data = self._get_data()
            if self._take_in(number, data) and (number == self._rcvd_idx or not self._in_order):
                return self._deliver(number)
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _seek(self) -> bool:
        """Go to the next task that will come; the end of a dataset leaves some that will not."""
        while self._rcvd_idx < self._send_idx:
            task = self._task_info.get(self._rcvd_idx)
            if task is not None:
                if len(task) == 2 or self._workers_status[task[0]]:
                    return True
                del self._task_info[self._rcvd_idx]
            self._rcvd_idx += 1
        return False

    def _take_in(self, number: int, data: Any) -> bool:  # noqa: ANN401 - what a worker sent
        """Note what has come of a task; returns whether it is to be delivered."""
        self._tasks_outstanding -= 1
        if self._dataset_kind == _DatasetKind.Iterable and isinstance(
            data, _IterableDatasetStopIteration
        ):
            if self._persistent_workers:
                self._workers_status[data.worker_id] = False
            else:
                self._mark_worker_as_unavailable(data.worker_id)
            self._put_more()
            return False
        self._task_info[number] += (data,)
        return True

    def _deliver(self, number: int) -> Any:  # noqa: ANN401 - the user's batch
        """Hand out what has come of a task; another one takes its place."""
        worker, data = self._task_info.pop(number)
        if number == self._rcvd_idx:
            self._rcvd_idx += 1
        self._workers_num_tasks[worker] -= 1
        return self._delivered(number, worker, data)

    def _delivered(self, number: int, worker: int, data: Any) -> Any:  # noqa: ANN401
        """Raise what a worker raised, else return the batch."""
        self._put_more()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    # ---- waiting for workers

    def _get_data(self) -> Any:  # noqa: ANN401 - a number and a batch
        if self._timeout > 0:
            found, data = self._try_get_data(self._timeout)
            if not found:
                msg = f"DataLoader timed out after {self._timeout} seconds"
                raise RuntimeError(msg)
            return data
        while not self._pin_memory or self._pin_memory_thread.is_alive():
            found, data = self._try_get_data()
            if found:
                return data
        msg = "Pin memory thread exited unexpectedly"
        raise RuntimeError(msg)

    def _try_get_data(self, timeout: float = MP_STATUS_CHECK_INTERVAL) -> tuple[bool, Any]:
        """Wait for what any worker has made; raise if one of them is dead."""
        try:
            return True, self._data_queue.get(timeout=timeout)
        except Exception as error:
            dead = []
            for number, worker in enumerate(self._workers):
                if self._workers_status[number] and not worker.is_alive():
                    dead.append(str(worker.pid))
                    self._mark_worker_as_unavailable(number)
            if dead:
                msg = f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly"
                raise RuntimeError(msg) from error
            if isinstance(error, queue.Empty):
                return False, None
            raise

    def _mark_worker_as_unavailable(self, worker_id: int, shutdown: bool = False) -> None:
        """Tell a worker that there is nothing left to do for it."""
        self._index_queues[worker_id].put(None)
        self._workers_status[worker_id] = False

    def _shutdown_workers(self) -> None:
        """End the workers; also called when the iterator is dropped."""
        raise NotImplementedError

    def __del__(self) -> None:
        self._shutdown_workers()
