"""The main process's side of offered batches; `feedline.torch.workers.offer` tells the protocol.

Everything here happens under one lock: batches are offered by the thread that iterates, and parts
arrive there or, with ``pin_memory``, in torch's thread for that.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any

from feedline._torch_private import ExceptionWrapper
from feedline.errors import BatchError, SampleError
from feedline.torch.iterators.faults import Raised, check, sample_error
from feedline.torch.workers.board import NOTES
from feedline.torch.workers.offer import CLOSED, Failed, Made, Offer, Park, Part, Tolerated, tag
from feedline.torch.workers.slots import collated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from feedline.torch.iterators.budget import Budget
    from feedline.torch.iterators.diary import Diary

__all__ = ["Offers"]

# A batch that one worker makes in less is not shared: what that saves, handing over costs.
WHOLE_NS = 10_000_000
# What a unit should take: little enough to be even, enough not to be felt.
UNIT_NS = 2_000_000
# Units of a batch per worker as long as nothing was measured.
FIRST_UNITS = 4

# A sample during which so many workers have died is an error of the sample.
MOST_DEATHS = 3


class _Open:
    """A batch on offer."""

    def __init__(self, offer: Offer, number: int, first: int, only: int | None) -> None:
        self.offer = offer
        self.number = number
        # The place of its first sample in the epoch.
        self.first = first
        self.only = only
        self.is_wanted = True
        self.done: dict[int, Any] = {}
        # By position: samples that the main process has given up.
        self.errors: dict[int, SampleError] = {}
        self.failure: Exception | None = None
        # What was sent of it, and what was filled; 0 among threads, which send nothing.
        self.bytes = 0


class Offers:
    """All batches on offer.

    Parameters
    ----------
    board
        Where units are claimed and batches filled.
    send
        Sends a message to some workers.
    workers
        How many work.
    most
        How many there may ever be.
    is_dynamic
        Whether any worker may make a batch, and not only the one that torch chose.
    is_shared
        Whether several workers may make one.
    is_batched
        Whether the sampler yields several indices at a time.
    is_listed
        Whether they must be a list: they are used one by one.
    collate_fn
        How a shared batch is put together; None: as torch's `default_collate` does in workers.
    where
        How exceptions name a worker, before its number.
    on_error
        What a sample costs that cannot be made.
    diary
        Where the bytes of shared batches are counted.
    budget
        Who wants to know how large batches are.
    """

    def __init__(
        self,
        board: Any,  # noqa: ANN401 - a HubBoard or a ThreadBoard
        send: Callable[[Iterable[int], Any], None],
        workers: int,
        most: int,
        *,
        is_dynamic: bool,
        is_shared: bool,
        is_batched: bool,
        is_listed: bool,
        collate_fn: Callable[[Any], Any] | None,
        where: str,
        on_error: str,
        diary: Diary,
        budget: Budget,
    ) -> None:
        self.board = board
        self._send = send
        # The first so many work, those behind them are parked.
        self.active = workers
        self._is_dynamic = is_dynamic
        self._is_shared = is_shared
        self._is_batched = is_batched
        self._is_listed = is_listed
        self._collate_fn = collate_fn
        self._where = where
        self._on_error = on_error
        self._diary = diary
        self._budget = budget
        self._open: dict[int, _Open] = {}
        self._serial = 0
        self._samples = 0
        # Nanoseconds per sample, as far as it was measured.
        self._each = 0.0
        self._next_cell = NOTES * most
        self._free_cells: defaultdict[int, list[int]] = defaultdict(list)
        self._deaths: Counter[tuple[int, int | None]] = Counter()
        # Batches that are complete, or given up, with their numbers.
        self.ready: deque[tuple[int, Any]] = deque()
        self.lock = threading.RLock()

    def begin(self, samples: int) -> None:
        """Begin an epoch, of which so many samples were delivered before."""
        with self.lock:
            self._samples = samples

    def add(self, number: int, worker: int, index: Any, epoch: int) -> None:  # noqa: ANN401
        """Offer a batch, whose number and worker are torch's."""
        with self.lock:
            if self._is_listed and not isinstance(index, list):
                index = list(index)
            rows = len(index) if self._is_batched else 0
            self._serial += 1
            unit = self._unit(rows)
            units = -(-rows // unit) if unit else 1
            cell = self._cells(units + 1)
            if cell is None:
                unit, units = 0, 1
                cell = self._cells(2)
            if cell is None:
                msg = f"{len(self._open)} batches are under way; lower prefetch_factor"
                raise BatchError(msg)
            offer = Offer(self._serial, index, rows, epoch, cell, unit)
            self.board.store(cell, 0)
            for place in range(units):
                self.board.store(cell + 1 + place, tag(offer.serial))
            only = None if self._is_dynamic else worker
            self._open[offer.serial] = one = _Open(offer, number, self._samples, only)
            self._samples += rows or 1
            self._tell(one)

    def _unit(self, rows: int) -> int:
        """Return how many samples a unit shall have; 0: all."""
        if not self._is_shared or rows < 2:
            return 0
        if not self._each:
            unit = -(-rows // (FIRST_UNITS * self.active))
        elif rows * self._each <= WHOLE_NS:
            return 0
        else:
            unit = max(1, int(UNIT_NS / self._each))
        return unit if unit < rows else 0

    def _cells(self, count: int) -> int | None:
        """Return the first of so many neighbouring cells; None if there are no more."""
        size = 1 << (count - 1).bit_length()
        if self._free_cells[size]:
            return self._free_cells[size].pop()
        if self._next_cell + size > self.board.cells:
            return None
        first, self._next_cell = self._next_cell, self._next_cell + size
        return first

    def _tell(self, one: _Open) -> None:
        self._send(range(self.active) if one.only is None else (one.only,), one.offer)

    def let_work(self, workers: int) -> None:
        """Let the first so many work, and park the others."""
        with self.lock:
            before, self.active = self.active, workers
            if workers < before:
                self._send(range(workers, before), Park())
            for worker in range(before, workers):
                for offer in self.of_worker(worker):
                    self._send((worker,), offer)

    def of_worker(self, worker: int) -> list[Offer]:
        """Return what a new worker must be told."""
        with self.lock:
            if worker >= self.active:
                return []
            return [
                one.offer
                for one in self._open.values()
                if one.is_wanted and one.only in (None, worker)
            ]

    def all(self) -> list[Offer]:
        """Return all offers."""
        return [one.offer for one in self._open.values()]

    def claimed(self, worker: int) -> Made | None:
        """Return the unit that a worker has and is not done with."""
        with self.lock:
            for serial, one in self._open.items():
                for unit in range(one.offer.units):
                    cell = one.offer.cell + 1 + unit
                    if unit not in one.done and self.board.load(cell) == tag(serial, worker + 1):
                        return Made(serial, unit)
            return None

    def index_of(self, serial: int, position: int) -> Any:  # noqa: ANN401 - an index
        """Return the index of a sample, if it is under way."""
        one = self._open.get(serial)
        if one is None:
            return None
        return one.offer.index[position] if one.offer.rows else one.offer.index

    def arrived(
        self,
        worker: int,
        made: Made,
        data: Any,  # noqa: ANN401 - a batch, a part or an exception
        took: tuple[int, ...],
        size: int = 0,
    ) -> None:
        """Take what a worker has made, and sent as so many bytes."""
        with self.lock:
            if took[0]:
                each = took[1] / took[0]
                self._each += (each - self._each) * (0.05 if self._each else 1)
            one = self._open.get(made.serial)
            if one is not None and made.unit not in one.done:
                one.done[made.unit] = data
                one.bytes += size
                self._finish(one, worker)

    def _finish(self, one: _Open, worker: int) -> None:
        """Put a batch together if all of it is there."""
        if len(one.done) < one.offer.units:
            return
        offer = one.offer
        del self._open[offer.serial]
        for key in [key for key in self._deaths if key[0] == offer.serial]:
            del self._deaths[key]
        data: Any = None
        try:
            if one.is_wanted:
                data = self._together(one)
        except Exception as error:
            if isinstance(error, BatchError):
                data = Raised(error)
            else:
                data = ExceptionWrapper(where=f"{self._where} {worker}")
        self.board.drop(offer)
        self._free_cells[1 << offer.units.bit_length()].append(offer.cell)
        if one.is_wanted:
            if one.bytes:
                self._budget.seen(one.bytes)
            else:
                self._budget.weigh(data)
            self.ready.append((one.number, data))

    def _together(self, one: _Open) -> Any:  # noqa: ANN401 - the user's batch
        if one.failure is not None:
            return Raised(one.failure)
        offer, parts = one.offer, [one.done[unit] for unit in range(one.offer.units)]
        for part in parts:
            if isinstance(part, ExceptionWrapper):
                return part
        failed: list[Failed]
        if not offer.unit:
            data, failed = parts[0], []
            if isinstance(data, Tolerated):
                data, failed = data.data, data.failed
            made = len(offer.span(0)) - sum(fault.replaced_by is None for fault in failed)
            return self._tolerated(one, failed, made, lambda: data)
        failed = [fault for part in parts for fault in part.failed]
        if failed and self._on_error == "raise" and failed[0].why is not None:
            return failed[0].why
        samples = {at: sample for part in parts for at, sample in part.samples.items()}
        return self._tolerated(one, failed, len(samples), lambda: self._joined(one, parts, samples))

    def _joined(self, one: _Open, parts: list[Part], samples: dict[int, Any]) -> Any:  # noqa: ANN401
        layout = next((part.layout for part in parts if part.layout is not None), None)
        fields = None if layout is None else self.board.take(one.offer, layout)
        if fields is not None:
            size = sum(field.nbytes for field in fields)
            self._diary.filled(size)
            if one.bytes:
                one.bytes += size
        return collated(
            [samples[at] for at in sorted(samples)],
            fields,
            layout,
            self._collate_fn,
            is_uniform=not any(part.is_mixed for part in parts),
        )

    def _tolerated(
        self, one: _Open, failed: list[Failed], made: int, batch: Callable[[], Any]
    ) -> Any:  # noqa: ANN401 - the user's batch
        if not failed:
            return batch()
        errors = []
        for fault in failed:
            error = one.errors.get(fault.position)
            if error is None:
                error = sample_error(fault, one.offer.epoch, one.first)
            error.replaced_by = fault.replaced_by
            errors.append(error)
        check(self._on_error, failed, made, errors)
        return Tolerated(batch(), errors)

    # ---- what ends otherwise

    def withdraw(self) -> None:
        """Want nothing any more of what is on offer: another epoch begins."""
        with self.lock:
            for one in list(self._open.values()):
                one.is_wanted = False
                self._close(one)
                self._finish(one, 0)

    def _close(self, one: _Open) -> None:
        """Let nobody begin a unit that is still open."""
        serial = one.offer.serial
        for unit in range(one.offer.units):
            cell = one.offer.cell + 1 + unit
            if self.board.exchange(cell, tag(serial), tag(serial, CLOSED)):
                one.done[unit] = None

    def give_up(self, made: Made, error: Exception, position: int | None) -> None:
        """Make no more attempts at a sample, or at a whole unit; its worker is gone."""
        with self.lock:
            one = self._open[made.serial]
            tolerated = self._on_error != "raise" and one.offer.rows > 0
            if tolerated and position is not None and isinstance(error, SampleError):
                one.errors[position] = error
                one.offer = one.offer._replace(lost=(*one.offer.lost, position))
                self.reopen(made)
                return
            one.failure = error
            one.done[made.unit] = None
            self._close(one)
            self._finish(one, 0)

    def reopen(self, made: Made) -> None:
        """Offer a unit again; its worker is gone.

        A worker that is looking at the offer as it was may claim the unit before it hears that a
        sample of it is lost. Then that is tried once more, and found lost again.
        """
        with self.lock:
            one = self._open[made.serial]
            if not one.is_wanted or one.failure is not None:
                one.done[made.unit] = None
                self._finish(one, 0)
                return
            self.board.store(one.offer.cell + 1 + made.unit, tag(made.serial))
            self._tell(one)

    def take_away(self, made: Made, worker: int) -> bool:
        """Take a unit from a thread, which may just be done with it; whether it was not."""
        cell = self._open[made.serial].offer.cell + 1 + made.unit
        return bool(
            self.board.exchange(cell, tag(made.serial, worker + 1), tag(made.serial, CLOSED))
        )

    def died(self, made: Made, position: int | None) -> bool:
        """Count a death during a sample, or outside of any; whether it was one too many."""
        with self.lock:
            key = made.serial, position
            self._deaths[key] += 1
            return self._deaths[key] >= MOST_DEATHS

    def error_of(
        self,
        made: Made,
        position: int | None,
        what: str,
        failure: str,
    ) -> Exception:
        """Return the error of a sample that its worker did not survive."""
        one = self._open[made.serial]
        if position is None:
            msg = f"a batch could not be made (samples {_some(one.offer)}): {what}"
            return BatchError(msg)
        index = self.index_of(made.serial, position)
        return SampleError(
            f"sample {index} {what}",
            index=index if isinstance(index, int) else -1,
            position=one.first + position,
            epoch=one.offer.epoch,
            stage="load",
            failure=failure,
        )


def _some(offer: Offer) -> str:
    if not offer.rows:
        return str(offer.index)
    return ", ".join(map(str, list(offer.index)[:5])) + (", …" if offer.rows > 5 else "")
