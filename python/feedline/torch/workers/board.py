"""What workers and the main process see of offered batches: cells, and memory to fill.

Cells are words that all of them see. The first five are each worker's own: three say which sample
it is at, serial, position (counted from 1; 0: none) and since when, in nanoseconds of the system's
monotonic clock, which is the same in all processes; two how long it sleeps (see `rest`). They are
notes for whoever watches, not claims.
"""

from __future__ import annotations

import sys
import threading
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Protocol

from feedline.torch.workers.offer import CLOSED, Claim, Offer, tag
from feedline.torch.workers.slots import HEAD, digest, fields_in, layout_bytes
from feedline.torch.workers.stacking import empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from feedline._transport import Hub, WorkerEnd

__all__ = ["NOTES", "Board", "HubBoard", "ThreadBoard", "WorkerBoard"]

# Cells per worker that say what it is doing.
NOTES = 5


class Board(Protocol):
    """What a worker has of it."""

    def load(self, cell: int) -> int:
        """Return what is in a cell."""

    def store(self, cell: int, value: int) -> None:
        """Put a value into a cell."""

    def exchange(self, cell: int, expected: int, value: int) -> bool:
        """Put a value into a cell if another is there; whether it was."""

    def keep(self, claim: Claim, worker: int) -> bool:
        """Whether the unit is still this worker's; from now on it is, until it sends the part."""

    def fields(self, offer: Offer, layout: Sequence[Any]) -> list[torch.Tensor] | None:
        """Return where to write the samples of a batch; None if it has another layout."""


class WorkerBoard:
    """A worker process's."""

    def __init__(self, end: WorkerEnd) -> None:
        self._end = end.native
        self.load = end.native.load
        self.store = end.native.store
        self.exchange = end.native.exchange

    def keep(self, claim: Claim, worker: int) -> bool:
        """Return True: a process whose unit is taken away is killed first."""
        return True

    def fields(self, offer: Offer, layout: Sequence[Any]) -> list[torch.Tensor] | None:
        """Return where to write the samples of a batch, made now if nobody has."""
        rows, mark = offer.rows, digest(layout)
        size = layout_bytes(layout, rows)
        place = self.load(offer.cell)
        if not place:
            place = self._made(offer.cell, size, mark)
        head: Any = self._end.open_place(place, HEAD)
        if bytes(memoryview(head)[:8]) != mark:
            return None
        return fields_in(self._end.open_place(place, size), layout, rows)

    def _made(self, cell: int, size: int, mark: bytes) -> int:
        memory: Any = self._end.allocate(size)
        view = memoryview(memory)
        view[:8], view[8:16] = mark, size.to_bytes(8, "little")
        # Lent before it is told: the main process may give it back at any time after.
        place = self._end.lend(memory)
        if self.exchange(cell, 0, place):
            return place
        self._end.take_back(place)
        return self.load(cell)


class HubBoard:
    """The main process's, of workers that are processes."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub.native
        self.load = hub.native.load
        self.store = hub.native.store
        self.exchange = hub.native.exchange
        # What was borrowed of batches that are not complete: their owners are gone.
        self._secured: dict[int, Any] = {}
        self.cells: int = hub.native.cells

    def secure(self, offers: Sequence[Offer], dead: int) -> None:
        """Borrow what is being filled in the memory of a dead worker, before that is let go."""
        for offer in offers:
            place = self.load(offer.cell)
            if place and self._hub.owner(place) == dead:
                # Two loans of what was lent once: who would count them is gone.
                head: Any = self._hub.borrow(place, HEAD)
                size = int.from_bytes(memoryview(head)[8:16], "little")
                self._secured[offer.serial] = self._hub.borrow(place, size)

    def take(self, offer: Offer, layout: Sequence[Any]) -> list[torch.Tensor] | None:
        """Return the fields of a batch that is complete."""
        memory = self._secured.pop(offer.serial, None)
        place = self.load(offer.cell)
        if memory is None and place:
            memory = self._hub.borrow(place, layout_bytes(layout, offer.rows))
        # What is lent once is borrowed once.
        self.store(offer.cell, 0)
        return None if memory is None else fields_in(memory, layout, offer.rows)

    def drop(self, offer: Offer) -> None:
        """Give the memory of a batch back that nobody wants and nobody writes to any more."""
        place = self.load(offer.cell)
        if place and self._secured.pop(offer.serial, None) is None:
            self._hub.borrow(place, HEAD)


class ThreadBoard:
    """One for all, where workers are threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.cells = sys.maxsize
        self._cells: dict[int, int] = {}
        self._fields: dict[int, tuple[Any, list[torch.Tensor]]] = {}

    def load(self, cell: int) -> int:
        """Return what is in a cell."""
        return self._cells.get(cell, 0)

    def store(self, cell: int, value: int) -> None:
        """Put a value into a cell."""
        with self._lock:
            self._cells[cell] = value

    def exchange(self, cell: int, expected: int, value: int) -> bool:
        """Put a value into a cell if another is there; whether it was."""
        with self._lock:
            if self._cells.get(cell, 0) != expected:
                return False
            self._cells[cell] = value
            return True

    def keep(self, claim: Claim, worker: int) -> bool:
        """Whether the unit is still this worker's; from now on it is, until it sends the part.

        The main process takes a unit away by an exchange too, so one of the two fails.
        """
        mine = tag(claim.offer.serial, worker + 1)
        kept = tag(claim.offer.serial, CLOSED)
        return self.exchange(claim.offer.cell + 1 + claim.unit, mine, kept)

    def fields(self, offer: Offer, layout: Sequence[Any]) -> list[torch.Tensor] | None:
        """Return where to write the samples of a batch, made now if nobody has."""
        with self._lock:
            found = self._fields.get(offer.serial)
            if found is None:
                made = [empty((offer.rows, *field.shape), field.dtype) for field in layout]
                found = self._fields[offer.serial] = layout, made
        return found[1] if found[0] == layout else None

    def take(self, offer: Offer, layout: Sequence[Any]) -> list[torch.Tensor] | None:
        """Return the fields of a batch that is complete."""
        found = self._fields.pop(offer.serial, None)
        return None if found is None else found[1]

    def drop(self, offer: Offer) -> None:
        """Let go of the memory of a batch that nobody wants."""
        self._fields.pop(offer.serial, None)


def note(board: Board, worker: int, serial: int, position: int) -> None:
    """Say that a worker begins a sample."""
    first = NOTES * worker
    board.store(first + 2, monotonic_ns())
    board.store(first, serial)
    board.store(first + 1, position + 1)


def note_nothing(board: Board, worker: int) -> None:
    """Say that it has done so."""
    board.store(NOTES * worker + 1, 0)


def noted(board: Any, worker: int) -> tuple[int, int, int] | None:  # noqa: ANN401 - a board
    """Return serial, position and time of the sample that a worker is at, if it is at one."""
    first = NOTES * worker
    position = board.load(first + 1)
    if not position:
        return None
    serial, since = board.load(first), board.load(first + 2)
    # It may have gone on meanwhile.
    return (serial, position - 1, since) if board.load(first + 1) == position else None
