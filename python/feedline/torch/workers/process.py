"""The life of a worker process."""

from __future__ import annotations

import random
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from feedline._torch_private import (
    ExceptionWrapper,
    WorkerInfo,
    _generate_state,
    _set_worker_signal_handlers,
    set_thread_name,
    set_worker_info,
)
from feedline._transport import collate_into
from feedline.torch.workers.board import WorkerBoard
from feedline.torch.workers.claiming import Claims
from feedline.torch.workers.fetching import NOTHING
from feedline.torch.workers.loop import reseeded, serve
from feedline.torch.workers.rest import Rest

if TYPE_CHECKING:
    from feedline._transport import WorkerEnd
    from feedline.torch.workers.fetching import Terms
    from feedline.torch.workers.flag import Flag
    from feedline.torch.workers.stack import Stack

__all__ = ["work"]


def work(
    end: WorkerEnd,
    terms: Terms,
    worker_id: int,
    over: Flag,
    *,
    is_offered: bool = False,
    stack: Stack | None = None,
) -> None:
    """Do what a worker process does, from its start to its end.

    Parameters
    ----------
    end
        Where tasks come from and batches go.
    terms
        What to make batches of.
    worker_id
        Which worker this is.
    over
        Set when nobody wants batches any more.
    is_offered
        Whether batches are offered to all workers.
    stack
        Where to write what this process is doing when it is asked by a signal.
    """
    try:
        # As torch's worker does, and in its order: fatal signals say what happened, one thread,
        # seeds, and only then user code.
        _set_worker_signal_handlers()
        set_thread_name("pt_data_worker")
        torch.set_num_threads(1)
        seed = terms.base_seed + worker_id
        random.seed(seed)
        torch.manual_seed(seed)
        np.random.seed(_generate_state(terms.base_seed, worker_id))  # noqa: NPY002
        terms = reseeded(terms, terms.shared_seed)
        set_worker_info(
            WorkerInfo(
                id=worker_id, num_workers=terms.num_workers, seed=seed, dataset=terms.dataset
            )
        )
        where = f"in DataLoader worker process {worker_id}"
        if stack is not None:
            stack.register()
        shared = WorkerBoard(end)
        desk, board = _Desk(end, over, where, Rest(shared, worker_id)), None
        if is_offered:
            board = shared
            desk.receive = Claims(desk.source(), board, worker_id).receive  # type: ignore[method-assign]
        with collate_into(end):
            serve(desk, terms, worker_id, where=where, board=board)
    except KeyboardInterrupt:
        pass  # the main process raises its own
    finally:
        set_worker_info(None)


class _Desk:
    """A worker's end of the transport, for `serve`."""

    def __init__(self, end: WorkerEnd, over: Flag, where: str, rest: Rest) -> None:
        self._end = end
        self._where = where
        self._rest = rest
        self._send_ns = 0
        self.is_over = over.is_set

    def source(self) -> _Source:
        return _Source(self._end, self._rest)

    def receive(self) -> Any:  # noqa: ANN401 - a task
        try:
            return self._rest.during(self._end.receive)
        except EOFError:
            return None  # the main process is gone

    def send(self, number: Any, data: Any, took: tuple[int, int, int]) -> None:  # noqa: ANN401
        began = perf_counter_ns()
        # What sending took is known afterwards, so it goes with the next batch.
        times = (*took, self._send_ns)
        try:
            self._end.send((number, data, times))
        except EOFError:
            return  # the next `receive` says so as well
        except Exception as error:
            # It could not be pickled, and nothing of it was sent.
            wrapped = ExceptionWrapper(where=self._where)
            if isinstance(data, ExceptionWrapper):
                wrapped = _of_a_known_type(data, error)
            self._end.send((number, wrapped, (*NOTHING, 0)))
        self._send_ns = perf_counter_ns() - began


class _Source:
    """What comes to a worker, for its claims."""

    def __init__(self, end: WorkerEnd, rest: Rest) -> None:
        self._end = end
        self._rest = rest

    def receive(self) -> Any:  # noqa: ANN401 - a message
        try:
            return self._rest.during(self._end.receive)
        except EOFError:
            return None  # the main process is gone

    def poll(self) -> Any:  # noqa: ANN401 - a message
        return self._end.receive(0)


def _of_a_known_type(wrapped: ExceptionWrapper, why: Exception) -> ExceptionWrapper:
    """Return an exception whose class cannot be pickled as a RuntimeError with the same words."""
    wrapped.exc_msg += f"(a RuntimeError here, because its class cannot be pickled: {why})\n"
    wrapped.exc_type = RuntimeError
    return wrapped
