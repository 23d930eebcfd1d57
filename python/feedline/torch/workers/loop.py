"""What a worker does with its tasks, whether it is a process or a thread.

A task is what torch's iterator puts into a worker's queue: ``(number, index)`` asks for a batch,
`_ResumeIteration` begins another epoch, with a `Reseed` before it where that has another seed of
samples, ``None`` ends the worker. Where batches are offered to all workers instead, it is a
`Claim`; see `offer`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

import torch

from feedline._torch_private import (
    ExceptionWrapper,
    IterDataPipe,
    _DatasetKind,
    _IterableDatasetStopIteration,
    _ResumeIteration,
    apply_random_seed,
)
from feedline.torch.states.layout import COUNT
from feedline.torch.states.worker_state import (
    Asked,
    AskState,
    Ended,
    Stamped,
    restored,
    state_of_worker,
)
from feedline.torch.workers.claiming import GivenUp, Maker, answer
from feedline.torch.workers.fetching import NOTHING, Fetching, Terms, locked
from feedline.torch.workers.offer import Claim

if TYPE_CHECKING:
    import threading

    from feedline.torch.workers.board import Board

__all__ = ["Desk", "Reseed", "serve"]

logger = logging.getLogger(__name__)


class Reseed:
    """A task: take the random numbers of samples from another seed, from the next epoch on."""

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        return Reseed, (self.seed,)


class Desk(Protocol):
    """Where a worker gets its tasks and leaves what it made."""

    def receive(self) -> Any:  # noqa: ANN401 - a task
        """Wait for the next task; ``None`` means that there will be none."""

    def send(self, number: Any, data: Any, took: tuple[int, int, int]) -> None:  # noqa: ANN401
        """Hand over a batch, or what there is instead of one."""

    def is_over(self) -> bool:
        """Whether nobody wants batches any more."""


def serve(
    desk: Desk,
    terms: Terms,
    worker_id: int,
    *,
    where: str,
    lock: threading.Lock | None = None,
    board: Board | None = None,
) -> None:
    """Do tasks until there are no more.

    Parameters
    ----------
    desk
        Where tasks come from and batches go.
    terms
        What to make batches of.
    worker_id
        Which worker this is.
    where
        How exceptions name this worker.
    lock
        Held while the dataset is used.
    board
        Where batches are offered, if they are.
    """
    maker = None if board is None else Maker(terms, worker_id, where, board, lock)
    iterable = terms.dataset_kind == _DatasetKind.Iterable
    failure: ExceptionWrapper | None = None
    try:
        with locked(lock):
            if terms.init_fn is not None:
                terms.init_fn(worker_id)
            start = terms.state(worker_id)
            fetcher = Fetching(restored(terms, start, goes_on=terms.goes_on), lock)
    except Exception:
        failure = ExceptionWrapper(where=where)
    exhausted = False
    # Batches that were delivered before a state was taken, and are made again to get there.
    to_skip = (terms.state(worker_id) or {}).get(COUNT, 0) if terms.goes_on else 0
    while (task := desk.receive()) is not None:
        if isinstance(task, _ResumeIteration):
            # The answer says that everything of the epoch before has been sent.
            desk.send(task, None, NOTHING)
            exhausted, to_skip = False, 0
            try:
                terms = reseeded(terms, task.seed)
                with locked(lock):
                    fetcher = Fetching(terms.fetcher(), lock)
            except Exception:
                failure = ExceptionWrapper(where=where)
            continue
        if isinstance(task, Reseed):
            terms = terms._replace(seed=task.seed)
            continue
        if isinstance(task, AskState):
            told: Any = None
            if failure is None:
                try:
                    told = state_of_worker(worker_id, terms, fetcher.fetcher)
                except Exception:
                    failure = ExceptionWrapper(where=where)
            desk.send(task, told if failure is None else failure, NOTHING)
            continue
        if exhausted or desk.is_over():
            continue
        if isinstance(task, Claim):
            part: Any
            try:
                if failure is not None:
                    part, failure = failure, None
                else:
                    fetcher.begin_epoch(task.offer.epoch)
                    part = maker(task, fetcher.fetcher.dataset)  # type: ignore[misc]
            except GivenUp:
                return
            except Exception:
                part = ExceptionWrapper(where=where)
            if not task.offer.unit and board is not None and not board.keep(task, worker_id):
                return
            desk.send(answer(task), part, NOTHING if maker is None else maker.took)
            del part, task
            continue
        number, index = task
        epoch, with_state = 0, False
        if isinstance(index, Asked):
            index, epoch, with_state = index.index, index.epoch, index.with_state
        data: Any
        took = NOTHING
        if failure is not None:
            data, failure = failure, None
        else:
            try:
                # Without a name after a failed start: torch raises the same UnboundLocalError.
                fetcher.begin_epoch(epoch)
                while to_skip:
                    to_skip -= 1
                    _skip(fetcher, index)
                data = fetcher(index)
                if with_state:
                    data = Stamped(data, state_of_worker(worker_id, terms, fetcher.fetcher))
            except Exception as error:
                if iterable and isinstance(error, StopIteration):
                    data = _ended(worker_id, terms, fetcher)
                    exhausted = True
                else:
                    data = ExceptionWrapper(where=where)
            else:
                took = fetcher.took
        desk.send(number, data, took)
        # Nothing of a batch may stay here while this waits for the next task.
        del data, index, task


def _skip(fetcher: Fetching, index: Any) -> None:  # noqa: ANN401 - whatever the sampler yields
    """Make a batch and throw it away; an error costs its batch, as it did then."""
    try:
        fetcher(index)
    except StopIteration:
        raise
    except Exception as error:
        logger.debug("a batch failed again that had been delivered as %r", error)


def _ended(worker_id: int, terms: Terms, fetcher: Fetching) -> Any:  # noqa: ANN401
    """Return what says that a worker's dataset is exhausted, with its state if it can be had."""
    try:
        return Ended(worker_id, state_of_worker(worker_id, terms, fetcher.fetcher))
    except Exception:
        return _IterableDatasetStopIteration(worker_id)


def reseeded(terms: Terms, seed: int | None) -> Terms:
    """Give a data pipe its random seed; other datasets have none."""
    if not isinstance(terms.dataset, IterDataPipe):
        return terms
    if seed is None:
        msg = "shared_seed must be provided for IterDataPipe workers"
        raise AssertionError(msg)
    shared = torch.Generator()
    shared.manual_seed(seed)
    return terms._replace(dataset=apply_random_seed(terms.dataset, shared))
