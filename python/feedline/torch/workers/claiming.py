"""A worker's side of offered batches: claiming units, and making parts of them."""

from __future__ import annotations

import queue
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from feedline._torch_private import ExceptionWrapper
from feedline.torch.workers.board import note, note_nothing
from feedline.torch.workers.fetching import locked
from feedline.torch.workers.offer import Claim, Failed, Made, Offer, Park, Part, Tolerated, tag
from feedline.torch.workers.slots import filled, split

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from feedline.torch.workers.board import Board
    from feedline.torch.workers.fetching import Terms

__all__ = ["Claims", "GivenUp", "Maker", "Source", "substitutes"]

# How many substitutes are tried for one sample before it is given up; as the engine does.
SUBSTITUTES = 16


class GivenUp(BaseException):
    """The unit was taken away from this worker, which has a successor."""


class Source(Protocol):
    """Where a worker gets its messages."""

    def receive(self) -> Any:  # noqa: ANN401 - a message
        """Wait for the next one."""

    def poll(self) -> Any:  # noqa: ANN401 - a message
        """Return the next one, or raise `queue.Empty`."""


class Claims:
    """The offers that a worker knows.

    Parameters
    ----------
    source
        Where offers and other tasks come from.
    board
        Where units are claimed.
    worker_id
        Which worker this is.
    """

    def __init__(self, source: Source, board: Board, worker_id: int) -> None:
        self._source = source
        self._board = board
        self._worker = worker_id
        # By serial, with the first unit that may be open.
        self._known: dict[int, tuple[Offer, int]] = {}

    def receive(self) -> Any:  # noqa: ANN401 - a task
        """Return a claim, or another task: the oldest offer first, and never one that is over."""
        while True:
            try:
                message = self._source.poll()
            except queue.Empty:
                claim = self._claim()
                if claim is not None:
                    return claim
                message = self._source.receive()
            if isinstance(message, Offer):
                # Perhaps once more, because units of it are open again.
                self._known[message.serial] = message, 0
                continue
            if isinstance(message, Park):
                self._known.clear()
                continue
            # The end, or another epoch: nobody wants what was offered before.
            self._known.clear()
            return message

    def _claim(self) -> Claim | None:
        for serial in sorted(self._known):
            offer, first = self._known[serial]
            for unit in range(first, offer.units):
                cell = offer.cell + 1 + unit
                if self._board.exchange(cell, tag(serial), tag(serial, self._worker + 1)):
                    self._known[serial] = offer, unit + 1
                    return Claim(offer, unit)
            del self._known[serial]
        return None


class Maker:
    """Makes parts of batches.

    Parameters
    ----------
    terms
        What to make them of.
    worker_id
        Which worker this is.
    where
        How exceptions name it.
    board
        Where batches are filled and samples noted; None: there are whole ones only, and no notes.
    lock
        Held while the dataset is used.
    """

    def __init__(
        self,
        terms: Terms,
        worker_id: int,
        where: str,
        board: Board | None,
        lock: threading.Lock | None,
    ) -> None:
        self._terms = terms
        self._worker = worker_id
        self._where = where
        self._board: Any = board
        self._lock = lock
        # Samples, and nanoseconds of fetching and collating them.
        self.took = (0, 0, 0)

    def __call__(self, claim: Claim, dataset: Any) -> Any:  # noqa: ANN401 - a batch, or a part
        """Make a unit.

        Returns
        -------
        Any
            The batch, if the unit is one, with what failed if that is tolerated; else a `Part`.

        Raises
        ------
        GivenUp
            It is not this worker's any more.
        """
        offer = claim.offer
        began = perf_counter_ns()
        self.took = (0, 0, 0)
        try:
            if not offer.unit:
                return self._whole(claim, dataset, began)
            samples, failed = self._samples(claim, dataset)
        except Exception:
            # Not what ends the worker: then the note says what it was at.
            self._note_nothing()
            raise
        self._note_nothing()
        fetched = perf_counter_ns()
        if not self._board.keep(claim, self._worker):
            raise GivenUp
        part = self._part(offer, samples, failed)
        self.took = len(samples), fetched - began, perf_counter_ns() - fetched
        return part

    def _whole(self, claim: Claim, dataset: Any, began: int) -> Any:  # noqa: ANN401
        offer, terms = claim.offer, self._terms
        failed: list[Failed] = []
        data: Any
        if not terms.auto_collation:
            data = self._sample(offer, 0, offer.index, dataset)
        elif terms.on_error == "raise" and getattr(dataset, "__getitems__", None):
            self._note(offer, 0)
            with locked(self._lock):
                data = dataset.__getitems__(offer.index)
        elif terms.on_error == "raise" and not terms.is_watched:
            # As torch's fetcher does: nobody asks which sample it is at.
            with locked(self._lock):
                data = [dataset[index] for index in offer.index]
        else:
            samples, failed = self._samples(claim, dataset)
            data = list(samples.values())
        self._note_nothing()
        fetched = perf_counter_ns()
        if not failed or data:
            data = terms.collate_fn(data)
        count = len(offer.span(0)) - sum(fault.replaced_by is None for fault in failed)
        self.took = count, fetched - began, perf_counter_ns() - fetched
        return Tolerated(data, failed) if failed else data

    def _part(self, offer: Offer, samples: dict[int, Any], failed: list[Failed]) -> Part:
        if not self._terms.uses_slots:
            return Part(samples, failed)
        used, is_mixed = None, False
        for position, sample in samples.items():
            rest, arrays, layout = split(sample, position)
            fields = self._board.fields(offer, layout) if layout else None
            if fields is None:
                is_mixed = True
                continue
            filled(fields, arrays, position)
            samples[position], used = rest, layout
        return Part(samples, failed, used, is_mixed)

    def _note(self, offer: Offer, position: int) -> None:
        if self._terms.is_watched:
            note(self._board, self._worker, offer.serial, position)

    def _note_nothing(self) -> None:
        if self._terms.is_watched:
            note_nothing(self._board, self._worker)

    def _samples(self, claim: Claim, dataset: Any) -> tuple[dict[int, Any], list[Failed]]:  # noqa: ANN401
        """Make the samples of a unit; if errors are to be raised, up to the first."""
        offer, policy = claim.offer, self._terms.on_error
        samples: dict[int, Any] = {}
        failed: list[Failed] = []
        for position in offer.span(claim.unit):
            index = offer.index[position]
            why: ExceptionWrapper | None = None
            if position not in offer.lost:
                try:
                    samples[position] = self._sample(offer, position, index, dataset)
                    continue
                except Exception:
                    if policy == "raise" and not offer.unit:
                        raise  # as torch's fetcher does
                    why = ExceptionWrapper(where=self._where)
            replaced_by = None
            if policy == "replace":
                for other in substitutes(offer, position):
                    try:
                        sample = self._sample(offer, position, offer.index[other], dataset)
                    except Exception:  # noqa: S112 - the next one is tried
                        continue
                    samples[position], replaced_by = sample, offer.index[other]
                    break
            failed.append(Failed(position, index, why, replaced_by))
            if policy == "raise":
                break
        return samples, failed

    def _sample(self, offer: Offer, position: int, index: Any, dataset: Any) -> Any:  # noqa: ANN401
        with locked(self._lock):
            self._note(offer, position)
            return dataset[index]


def substitutes(offer: Offer, position: int) -> Iterator[int]:
    """Return the positions of the samples to take instead: those that follow in the batch.

    So they are what the sampler chose for this rank, and the same in every run.

    Examples
    --------
    >>> list(substitutes(Offer(1, [7, 8, 9], 3, 0, 0, 0), position=1))
    [2, 0]
    """
    for step in range(1, min(offer.rows, SUBSTITUTES + 1)):
        other = (position + step) % offer.rows
        if other not in offer.lost:
            yield other


def answer(claim: Claim) -> Made:
    """Return what an answer to a claim is about."""
    return Made(claim.offer.serial, claim.unit)
