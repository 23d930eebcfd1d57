"""What iterators with workers have in common: their bookkeeping, with a bookmark and a diary in it.

`bookkeeping` decides which worker makes which batch, how many are under way and what is delivered
next. It talks to workers through queues, an event and process objects; subclasses bring their own
in `_start_workers`.

Workers are added and parked, and the read-ahead moved, by the thread that iterates, between two
steps of the bookkeeping: when it asks for a batch, and while it waits for one. Nothing of what was
sent changes by it, and batches are delivered in the order in which they were sent, so it shows in
no batch; random numbers are the samples' own where the number of workers is left open.
"""

from __future__ import annotations

import functools
import logging
import os
import queue
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from feedline._torch_private import (
    ExceptionWrapper,
    IterDataPipe,
    MapDataPipe,
    _DatasetKind,
    _pin_memory_loop,
    _sharding_worker_init_fn,
    current_device_index,
)
from feedline.torch.iterators.bookkeeping import Bookkeeping
from feedline.torch.iterators.left_open import LeftOpen, why_fixed
from feedline.torch.iterators.manner import manner_of
from feedline.torch.iterators.offering import Offers
from feedline.torch.iterators.steering import (
    LOOK,
    Steering,
    fitting,
    most_workers,
    processor_time,
)
from feedline.torch.order.sampling import draw_seed
from feedline.torch.states.bookmark import Counted, live_state
from feedline.torch.states.worker_state import Asked, AskState, Ended, Stamped, has_states
from feedline.torch.workers.fetching import Terms
from feedline.torch.workers.loop import Reseed
from feedline.torch.workers.offer import Tolerated
from feedline.torch.workers.rest import is_up, slept_ns

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.diary import Mode

__all__ = ["WorkersIterator"]

logger = logging.getLogger("feedline.torch")

# How long to wait before looking whether all workers live. torch waits 5 s, but a thread other than
# the main one is not told of dead children by a signal, and looking costs microseconds.
LOOK_INTERVAL = 0.5

# Where starting workers keeps the loop longer, no more are started.
_TOO_LONG = 1.0


class WorkersIterator(Counted, Bookkeeping):
    """Batches made by workers.

    Parameters
    ----------
    loader
        Whose batches.
    """

    # Global generators are a process's: threads leave them alone.
    _seeds_everything = True

    # Until there are workers there is nothing to shut down.
    _shutdown = True

    # torch's names; their types are the subclasses'.
    _worker_result_queue: Any
    _workers_done_event: Any
    _data_queue: Any

    # What the processor time of workers is read by, and where they say when they sleep.
    _are_processes = False
    _board: Any
    _crew: Any

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._begin_epoch(loader)
        self._rotation = self._latest.last_worker + 1
        self._about = loader._about()
        if isinstance(self._num_workers, LeftOpen):
            self._num_workers = int(self._num_workers)
        self._manner = manner_of(loader)
        self._seed = loader.seed
        if self._seed is None and self._manner.is_open:
            self._seed = int(self._base_seed)
        self._on_error, self._max_errors = loader.on_error, loader.max_errors
        self._faults = loader._faults
        self._offers: Offers | None = None
        self._profile_name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        if self._num_workers <= 0:
            msg = "num_workers must be greater than 0 for MultiProcessingDataLoaderIter"
            raise AssertionError(msg)
        if self._prefetch_factor is None or self._prefetch_factor <= 0:
            msg = "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            raise AssertionError(msg)
        self._worker_init_fn = loader.worker_init_fn
        if isinstance(self._dataset, IterDataPipe | MapDataPipe):
            self._worker_init_fn = functools.partial(
                _sharding_worker_init_fn, self._worker_init_fn, self._world_size, self._rank
            )
        self._home = os.getpid()
        self._worker_pids_set = False
        self._diary = loader._diary
        self._budget = loader._budget
        self._budget.memory = loader.memory
        self._mode: Mode = "thread" if loader.worker_mode == "thread" else "process"
        self._steering: Steering | None = loader._steering
        if not loader._steering.begin(loader, self._mode, self._num_workers, self._manner):
            self._steering = None
        elif self._steering.moves_prefetch:
            self._budget.is_steered()
            self._bound_read_ahead(self._steering)
        self._fixed = self._why_fixed(loader)
        # How many workers there may ever be.
        self._most = self._num_workers
        if self._manner.is_moving:
            self._most = most_workers(loader, self._mode, self._num_workers)
        self._moves = self._steering is not None or self._budget.memory is not None
        self._workers: list[Any] = []
        self._index_queues: list[Any] = []
        self._arrived: Any = None
        self._start_workers(loader)
        self._shutdown = False
        self._data_queue = self._pinning() if self._pin_memory else self._worker_result_queue
        self._note()
        self._reset(loader, first_iter=True)
        self._num_yielded = self._latest.num_yielded

    def _why_fixed(self, loader: DataLoader[Any]) -> str:
        """Return why the number of workers stays where it was left open; empty if it does not."""
        if not isinstance(loader.num_workers, LeftOpen) or self._manner.is_moving:
            return ""
        return (
            why_fixed(loader) or 'with assignment="static" it says which worker makes which batch'
        )

    def _note(self) -> None:
        """Tell the bookmark about this epoch."""
        latest = self._latest
        latest.num_workers = self._num_workers
        # Where they may be others in each epoch, their seed is drawn for each, as for new ones.
        latest.persistent = self._persistent_workers and not self._manner.is_open
        latest.has_states = has_states(self._dataset, self._dataset_kind)
        latest.asks_first = latest.has_states or latest.start.is_loaded
        iterable = self._dataset_kind == _DatasetKind.Iterable
        if latest.has_states and (
            not self._in_order or (iterable and latest.start.counts_batches())
        ):
            latest.count_batches()
        if self._manner.restarts:
            latest.every = 1  # a successor goes on after the last batch that its worker has sent
        latest.len_called = self._IterableDataset_len_called
        latest.about = self._about
        latest.await_states = live_state(WorkersIterator._await_states, self)
        self._asks = self._seed is not None or latest.has_states
        self._asked_states = False
        self._failures: list[ExceptionWrapper] = []
        # Whether batches may have come that are to be delivered before others.
        self._keeps_some = False

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        if not first_iter and self._steering is not None:
            self._steering.begin(loader, self._mode, self._steering.workers, self._manner)
        self._diary.begin(self._mode, self._active, self._most_tasks)
        self._diary.steered(self._steering, self._fixed)
        if not first_iter:
            # Workers that persist keep their seed, unless they may be others in each epoch.
            start = self._bookmark.start
            if self._manner.is_open:
                self._draw_base_seed(loader, None if start is None else start.base_seed)
            self._wanted_seed_of_pipes = None if start is None else start.shared_seed
            self._latest = self._bookmark.again(self)
            self._rotation = 0
            self._note()
        self._note_pipes(self._dataset)
        if self._offers is not None:
            # What is left of the epoch before is not wanted.
            self._offers.withdraw()
            self._offers.begin(self._latest.start.sampler_yielded * (loader.batch_size or 1))
        super()._reset(loader, first_iter)
        if not first_iter:
            self._latest.shared_seed = self._shared_seed

    def _draw_base_seed(self, loader: DataLoader[Any], said: int | None) -> None:
        """Draw the seed of an epoch as torch does for new workers, if no state says it."""
        self._base_seed = draw_seed(loader.generator) if said is None else said
        if loader.seed is not None:
            return
        self._seed = int(self._base_seed)
        self._crew.reseed(self._seed)
        for tasks in self._index_queues:
            tasks.put(Reseed(self._seed))

    # ---- workers and read-ahead that move

    @property
    def _active(self) -> int:
        """How many workers work."""
        if self._offers is None or not self._manner.is_dynamic:
            return self._num_workers
        return self._offers.active

    @property
    def _most_tasks(self) -> int:
        if self._steering is None:
            most = super()._most_tasks
        elif self._steering.moves_prefetch:
            most = self._steering.prefetch
        else:
            most = (self._prefetch_factor or 1) * self._active
        fits = self._budget.batches()
        return most if fits is None else min(most, fits)

    def _has_room(self, worker: int) -> bool:
        # Who makes a batch that is on offer is not known.
        return self._manner.is_moving or super()._has_room(worker)

    def _put_more(self) -> None:
        super()._put_more()
        if self._moves:
            self._diary.moved(self._active, self._most_tasks)

    def _steer(self) -> None:
        """Let the controller look, if it wants to, and do what it says."""
        steering = self._steering
        if steering is None or self._shutdown or not steering.is_due():
            return
        hired = range(len(self._workers))
        if not all(is_up(self._board, worker) for worker in hired):
            return
        if not self._pin_memory:
            # What was made while the loop was elsewhere counts, too.
            self._worker_result_queue.take_all()
        self._bound_read_ahead(steering)
        threads = [worker.pid for worker in self._workers]
        if steering.look(
            self._diary,
            slept_ns(self._board, range(self._active)),
            processor_time(threads, self._active, are_processes=self._are_processes),
        ):
            self._carry_out(steering)

    def _bound_read_ahead(self, steering: Steering) -> None:
        fits = self._budget.furthest()
        if steering.moves_prefetch and fits is not None and fits < steering.furthest:
            steering.at_most(prefetch=fits)

    def _carry_out(self, steering: Steering) -> None:
        if self._manner.is_moving and self._offers is not None:
            if steering.workers > len(self._workers):
                self._hire(steering)
            if steering.workers != self._offers.active:
                self._offers.let_work(steering.workers)
        self._put_more()

    def _hire(self, steering: Steering) -> None:
        """Start workers that are not there yet."""
        if self._are_processes:
            fit = fitting([worker.pid for worker in self._workers])
            if fit < steering.workers:
                steering.at_most(workers=max(fit, len(self._workers)))
                if steering.workers <= len(self._workers):
                    return
        began = monotonic()
        try:
            self._start_more(steering.workers)
        except Exception as error:
            # Those who are there go on.
            logger.warning("no more workers can be started: %r", error)
            steering.at_most(workers=len(self._workers))
        finally:
            more = len(self._workers) - self._num_workers
            self._num_workers += more
            self._workers_status += [True] * more
            self._workers_num_tasks += [0] * more
        if monotonic() - began > _TOO_LONG:
            steering.at_most(workers=len(self._workers))

    def _resume_workers(self) -> None:
        # Nothing is begun meanwhile: what comes before their answers is thrown away.
        steering, self._steering = self._steering, None
        try:
            super()._resume_workers()
        finally:
            self._steering = steering

    def _start_more(self, count: int) -> None:
        """Start workers until there are so many, and add their queues."""
        raise NotImplementedError

    def _next_index(self) -> Any:  # noqa: ANN401 - whatever the sampler yields
        index = super()._next_index()
        if not self._asks:
            return index
        latest = self._latest
        return Asked(index, latest.epoch, latest.wants_state(self._send_idx))

    def _try_put_index(self) -> None:
        if not self._asked_states and self._latest.asks_first:
            # Before the first batch of an epoch, so that the answer is the state before it.
            self._asked_states = True
            for worker, tasks in enumerate(self._index_queues):
                tasks.put(AskState(worker))
        super()._try_put_index()

    def _get_data(self) -> Any:  # noqa: ANN401 - a number and a batch
        while True:
            number, data = super()._get_data()
            if isinstance(number, AskState):
                self._told(number.worker, data)
                continue
            if isinstance(data, Ended):
                self._note_end(number, data)
            return number, data

    def _told(self, worker: int, answer: Any) -> None:  # noqa: ANN401 - a state, or an exception
        if not isinstance(answer, ExceptionWrapper):
            self._latest.told(worker, answer)
            return
        # Its first batch will be this exception, unless somebody waits for it to start.
        self._latest.told(worker, None)
        self._failures.append(answer)

    def _note_end(self, number: int, ended: Any) -> None:  # noqa: ANN401 - an `Ended`
        self._latest.ends[ended.worker_id] = number, ended.state
        known = self._task_info.values()
        kept = any(len(task) == 2 and task[0] == ended.worker_id for task in known)
        if not self._in_order and not kept:
            # What it has made was delivered as it came.
            self._latest.passed.add(ended.worker_id)

    def await_start(self) -> None:
        """Wait until all workers are where their states say; raise what one of them raised."""
        self._await_states()
        if self._failures:
            self._failures[0].reraise()

    def _await_states(self) -> bool:
        """Wait until each worker has said what its state was before its first batch."""
        while not self._shutdown and self._latest.is_waiting():
            number, data = super()._get_data()
            if isinstance(number, AskState):
                self._told(number.worker, data)
                continue
            if isinstance(data, Ended):
                self._note_end(number, data)
            self._keeps_some |= self._take_in(number, data)
        return True

    def _delivered(self, number: int, worker: int, data: Any) -> Any:  # noqa: ANN401
        out_of_order = not self._in_order and self._dataset_kind == _DatasetKind.Map
        self._latest.reached = self._rcvd_idx
        self._latest.delivered(worker, number if out_of_order else None)
        if isinstance(data, Stamped):
            self._latest.stamped(worker, data.state)
            data = data.data
        elif not isinstance(data, ExceptionWrapper):
            self._latest.stamped(worker, None)
        if isinstance(data, Tolerated):
            errors, data = data.failed, super()._delivered(number, worker, data.data)
            self._faults.delivered(errors, self._max_errors)
            return data
        return super()._delivered(number, worker, data)

    def _start_workers(self, loader: DataLoader[Any]) -> None:
        """Set `_workers`, `_index_queues`, `_worker_result_queue` and `_workers_done_event`."""
        raise NotImplementedError

    def _terms(self) -> Terms:
        return Terms(
            dataset=self._dataset,
            dataset_kind=self._dataset_kind,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            base_seed=int(self._base_seed),
            init_fn=self._worker_init_fn,
            num_workers=self._num_workers,
            shared_seed=self._shared_seed,
            states=self._states(),
            goes_on=not self._latest.resumed_finished,
            seed=self._seed,
            seed_everything=self._seeds_everything,
            on_error=self._on_error,
            uses_slots=self._manner.uses_slots,
            is_watched=self._manner.is_supervised,
        )

    def _offering(self, board: Any, send: Any, where: str) -> Offers | None:  # noqa: ANN401
        """Return who offers batches to workers, if they are offered."""
        manner = self._manner
        if not manner.is_offered:
            return None
        return Offers(
            board,
            send,
            self._num_workers,
            self._most,
            is_dynamic=manner.is_dynamic,
            is_shared=manner.is_shared,
            is_batched=self._auto_collation,
            is_listed=self._auto_collation and not manner.uses_getitems,
            collate_fn=None if manner.uses_slots else self._collate_fn,
            where=where,
            on_error=self._on_error,
            diary=self._diary,
            budget=self._budget,
        )

    def _states(self) -> tuple[dict[str, Any] | None, ...]:
        """Return where the workers' own objects begin."""
        return tuple(self._latest.start.workers)

    def _pinning(self) -> queue.Queue[Any]:
        """Start torch's thread that copies batches into page-locked memory."""
        self._pin_memory_thread_done_event = threading.Event()
        pinned: queue.Queue[Any] = queue.Queue()
        self._pin_memory_thread = threading.Thread(
            target=_pin_memory_loop,
            args=(
                self._worker_result_queue,
                pinned,
                current_device_index(self._pin_memory_device),
                self._pin_memory_thread_done_event,
                self._pin_memory_device,
            ),
            daemon=True,
        )
        self._pin_memory_thread.start()
        if self._persistent_workers and hasattr(self, "_register_persistent_workers_atexit"):
            self._register_persistent_workers_atexit()
        return pinned

    def _next_data(self) -> Any:  # noqa: ANN401 - the user's batch
        self._diary.asked()
        try:
            self._steer()
            data = self._kept_data() if self._keeps_some else super()._next_data()
        except (KeyboardInterrupt, SystemExit):
            self._put_back()
            raise
        except Exception as error:
            self._diary.failed(error)
            raise
        finally:
            # The batch is the caller's alone.
            self._arrived = None
        self._diary.delivered()
        return data

    def _kept_data(self) -> Any:  # noqa: ANN401 - the user's batch
        """Return what came while something else was waited for, if anything did.

        Also out of order the batches of one worker come in its order: its state is that after the
        last one.
        """
        kept = [number for number, task in self._task_info.items() if len(task) == 2]
        self._keeps_some = len(kept) > 1
        if self._in_order or not kept:
            return super()._next_data()
        return self._deliver(min(kept))

    def _put_back(self) -> None:
        """Keep what had arrived and was not noted yet when a signal handler raised."""
        if self._arrived is not None and len(self._task_info.get(self._arrived[0], ())) == 1:
            self._data_queue.put(self._arrived)
            waited_for = [task for task in self._task_info.values() if len(task) == 1]
            self._tasks_outstanding = len(waited_for)

    def _try_get_data(self, timeout: float = LOOK_INTERVAL) -> tuple[bool, Any]:
        deadline = monotonic() + timeout
        while True:
            pause = LOOK_INTERVAL if self._steering is None else LOOK
            found = self._looked(min(timeout, pause))
            if found[0]:
                self._arrived = found[1]
                return found
            looks_at = monotonic()
            self._steer()
            # Starting workers is not what `timeout` is for.
            deadline += monotonic() - looks_at
            timeout = deadline - monotonic()
            if timeout <= 0:
                return found

    def _looked(self, timeout: float) -> tuple[bool, Any]:
        if not self._manner.restarts:
            return super()._try_get_data(timeout)
        # Without a look at who is alive: those who are not are replaced where data comes in.
        try:
            return True, self._data_queue.get(timeout=timeout)
        except queue.Empty:
            return False, None

    def _is_at_home(self) -> bool:
        """Whether the workers are this process's: a forked child has a copy of this object."""
        return os.getpid() == self._home
