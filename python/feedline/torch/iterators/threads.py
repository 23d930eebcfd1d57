"""Batches made by threads of this process: `worker_mode="thread"`.

One address space: no pickling, no copy of the dataset, batches are handed over as they are. Python
code runs one thread at a time, so this pays where the dataset leaves the interpreter (decoding,
reading, tensor operations) and where its memory matters.

What a thread has of its own: `get_worker_info()`, and generators in its ``rng``, seeded as those
of a worker process would be. Global generators belong to the process; nothing seeds them here.
"""

from __future__ import annotations

import atexit
import random
import threading
import weakref
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import IterDataPipe, MapDataPipe, default_collate
from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL
from torch.utils.data._utils.collate import collate, collate_tensor_fn, default_collate_fn_map

try:
    from torch.utils.data._utils.worker import _RNG, WorkerInfo, _generate_state
except ImportError as missing:
    raise ImportError(
        f"feedline.torch needs torch 2.12 or later, this is {torch.__version__}; "
        "pip install --upgrade torch"
    ) from missing

from feedline.torch.iterators.with_workers import WorkersIterator
from feedline.torch.workers.info import worker_info_of_this_thread
from feedline.torch.workers.loop import serve

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.diary import Diary
    from feedline.torch.workers.fetching import Terms

__all__ = ["ThreadIterator"]

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

    def _start_workers(self, loader: DataLoader[Any]) -> None:
        if isinstance(self._dataset, IterDataPipe | MapDataPipe):
            msg = (
                "a DataPipe is split by changing each worker's own copy of it, which threads do "
                'not have; use worker_mode="process"'
            )
            raise TypeError(msg)
        terms = self._terms()
        if terms.collate_fn is default_collate:
            terms = terms._replace(collate_fn=_collate_in_own_memory)
        self._workers_done_event = threading.Event()
        self._worker_result_queue = _Results(self._diary)
        lock = threading.Lock() if loader.dataset_lock else None
        narrowed = threading.Semaphore(0)
        for worker_id in range(self._num_workers):
            tasks: SimpleQueue[Any] = SimpleQueue()
            desk = _Desk(worker_id, tasks, self._worker_result_queue, self._workers_done_event)
            self._index_queues.append(tasks)
            self._workers.append(_WorkerThread(worker_id, desk, terms, lock, narrowed))
        _alive.add(self)
        usual = torch.get_num_threads()
        for worker in self._workers:
            worker.start()
        for _ in self._workers:
            narrowed.acquire()
        # It is a thread's own setting, and the default of threads that are yet to come. The latter
        # is put back.
        torch.set_num_threads(usual)

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


class _WorkerThread(threading.Thread):
    """A worker. It knows nothing of the iterator, so that one can be dropped."""

    def __init__(
        self,
        worker_id: int,
        desk: _Desk,
        terms: Terms,
        lock: threading.Lock | None,
        narrowed: threading.Semaphore,
    ) -> None:
        super().__init__(name=f"feedline-worker-{worker_id}", daemon=True)
        self._work: Any = (worker_id, desk, terms, lock, narrowed)

    @property
    def pid(self) -> int | None:
        """What stands where torch names the process of a worker that is gone."""
        return self.native_id

    def run(self) -> None:
        worker_id, desk, terms, lock, narrowed = self._work
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
                serve(desk, terms, worker_id, where=where, lock=lock)
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
        self, worker_id: int, tasks: SimpleQueue[Any], results: _Results, over: threading.Event
    ) -> None:
        self._worker_id = worker_id
        self._results = results
        self.receive = tasks.get
        self.is_over = over.is_set

    def send(self, number: Any, data: Any, took: tuple[int, int, int]) -> None:  # noqa: ANN401
        self._results.leave((number, data), (self._worker_id, *took))


class _Results:
    """What the workers have made, with what it took."""

    def __init__(self, diary: Diary) -> None:
        self._queue: SimpleQueue[tuple[Any, tuple[int, int, int, int] | None]] = SimpleQueue()
        self._diary = diary

    def leave(self, result: tuple[Any, Any], took: tuple[int, int, int, int]) -> None:
        self._queue.put((result, took))

    def put(self, result: tuple[Any, Any]) -> None:
        """Wake whoever waits."""
        self._queue.put((result, None))

    def get(self, timeout: float | None = None) -> tuple[Any, Any]:
        result: tuple[Any, Any]
        result, took = self._queue.get(timeout=timeout)
        if took is not None:
            self._diary.made(*took)
        return result


def _collate_in_own_memory(batch: Any) -> Any:  # noqa: ANN401 - the user's samples
    """Do what torch's `default_collate` does, without shared memory for tensors."""
    kinds = default_collate_fn_map
    if kinds.get(torch.Tensor) is collate_tensor_fn:
        kinds = {**kinds, torch.Tensor: _stack}
    return collate(batch, collate_fn_map=kinds)


def _stack(batch: Any, *, collate_fn_map: Any = None) -> torch.Tensor:  # noqa: ANN401
    first = batch[0]
    if first.is_nested or first.layout != torch.strided:
        # torch refuses some of these, in its own words.
        stacked: torch.Tensor = collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
        return stacked
    # As in torch's workers the first sample decides on the dtype.
    out = first.new_empty((len(batch), *first.shape))
    return torch.stack(batch, 0, out=out)
