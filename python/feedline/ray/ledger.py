"""What is to be made next, for whom it is kept, and when it may be forgotten.

A batch is *planned* (nobody has begun it), *assigned* (an actor makes it), *made* (it is in the
object store) and *delivered* (each reader that wants it says that it has it). Only its name is ever
needed to make it, so death at any moment leads back to planned, and nothing but the reader's own
count decides what it gets. Nothing here calls Ray, sleeps or reads a clock: times are given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.ray.course import Course

__all__ = ["Batch", "BatchName", "Ledger"]

#: A reader that has asked for nothing for so many seconds is not waited for by another of the same
#: batches; one that gave no sign of life for as long is gone.
PATIENCE = 30.0
#: An assigned batch that is a reader's next is given to a second actor after so many seconds, and
#: so many times what a batch takes.
OVERDUE, OVERDUE_TIMES = 1.0, 4.0


class BatchName(NamedTuple):
    """Which batch it is."""

    course: int
    epoch: int
    rank: int
    number: int


@dataclass
class Batch:
    """A batch that is assigned or made."""

    # Who makes it and since when, while it is not made.
    makers: dict[str, float] = field(default_factory=dict)
    made: bool = False
    nbytes: int = 0
    # What the actor has returned, once it is made.
    content: Any = None
    # Whether a reader has it in its hands, and may have written into it.
    handed: bool = False


@dataclass
class _Reader:
    course: int
    rank: int
    epoch: int
    number: int
    # When it asked last, and when it was last known to be alive.
    asked: float
    seen: float

    def name(self, ahead: int, courses: list[Course], epochs: int | None) -> BatchName | None:
        """Return the batch that it wants after so many others."""
        course, epoch, number = courses[self.course], self.epoch, self.number + ahead
        while number >= (batches := course.batches(epoch)):
            epoch, number = epoch + 1, number - batches
        if epochs is not None and epoch >= epochs:
            return None
        return BatchName(self.course, epoch, self.rank, number)


class Ledger:
    """The batches under way for all readers.

    Parameters
    ----------
    memory
        How many bytes of batches may be under way that no reader has yet.
    ahead
        How many batches of one reader may be.
    epochs
        How many epochs there are, if that is limited.
    """

    def __init__(self, memory: int, ahead: int, epochs: int | None = None) -> None:
        self.memory = memory
        self._ahead = ahead
        self.batches: dict[BatchName, Batch] = {}
        self.courses: list[Course] = []
        self.made_again = 0
        self._epochs = epochs
        self._readers: dict[str, _Reader] = {}
        self._typical_bytes = 0.0
        self._typical_seconds = 0.0

    # ---- readers

    def join(
        self, reader: str, course: Course, rank: int, epoch: int, number: int, now: float
    ) -> None:
        """Let a reader begin, or begin anew, at a batch."""
        if course not in self.courses:
            self.courses.append(course)
        known = self.courses.index(course)
        self._readers[reader] = _Reader(known, rank, epoch, number, now, now)
        # What it had in its hands before is not what was made any more, if it wrote into it.
        for name, batch in list(self.batches.items()):
            if (name.course, name.rank) == (known, rank) and batch.handed:
                del self.batches[name]
        self._forget(now)

    def leave(self, reader: str, now: float) -> None:
        """Keep nothing for a reader any more."""
        self._readers.pop(reader, None)
        self._forget(now)

    def knows(self, reader: str, now: float) -> bool:
        """Whether a reader has joined; it is known to be alive then."""
        if reader in self._readers:
            self._readers[reader].seen = now
        return reader in self._readers

    def __len__(self) -> int:
        return len(self._readers)

    def ask(self, reader: str, epoch: int, number: int, done: tuple[int, int], now: float) -> Any:  # noqa: ANN401 - what the actor returned
        """Return what a reader wants if it is made, after it has all before `done`."""
        this = self._readers[reader]
        this.asked = this.seen = now
        # Calls overtake each other; what it has, it has.
        if (this.epoch, this.number) < done:
            this.epoch, this.number = done
            self._forget(now)
        name = BatchName(this.course, epoch, this.rank, number)
        batch = self.batches.get(name)
        if batch is None or not batch.made:
            return None
        batch.handed = True
        return batch.content

    def lost(self, reader: str, epoch: int, number: int) -> None:
        """Have a batch made again whose content cannot be had."""
        this = self._readers[reader]
        name = BatchName(this.course, epoch, this.rank, number)
        batch = self.batches.get(name)
        if batch is not None and batch.made:
            del self.batches[name]
            self.made_again += 1

    # ---- actors

    def next(self, now: float) -> BatchName | None:
        """Return the planned batch that is wanted first, if it may be begun now."""
        room = self.memory - self.booked
        for ahead, reader, name in self._wishes(now):
            if name in self.batches:
                continue
            if room >= self._typical_bytes or (ahead == 0 and not self._is_waited_for(reader, now)):
                return name
            if ahead > 0:
                return None
        return None

    def assign(self, name: BatchName, actor: str, now: float) -> None:
        """Note that an actor has begun a batch."""
        self.batches.setdefault(name, Batch()).makers[actor] = now

    def finish(
        self,
        name: BatchName,
        actor: str,
        content: Any,  # noqa: ANN401 - what the actor returned
        nbytes: int,
        now: float,
    ) -> bool:
        """Note that an actor has made a batch; whether that is still news."""
        batch = self.batches.get(name)
        if batch is None or batch.made or actor not in batch.makers:
            return False
        seconds = now - batch.makers[actor]
        weight = 0.2 if self._typical_seconds else 1.0
        self._typical_bytes += weight * (nbytes - self._typical_bytes)
        self._typical_seconds += weight * (seconds - self._typical_seconds)
        batch.made, batch.content, batch.nbytes = True, content, nbytes
        batch.makers.clear()
        return True

    def died(self, actor: str) -> int:
        """Return all that an actor was at to the plan, and say how many batches that was."""
        mine = [name for name, batch in self.batches.items() if actor in batch.makers]
        for name in mine:
            batch = self.batches[name]
            del batch.makers[actor]
            if not batch.makers:
                del self.batches[name]
        return len(mine)

    def overdue(self, now: float) -> Iterator[tuple[BatchName, set[str]]]:
        """Yield next batches of readers that take longer than others do, and who makes them."""
        limit = max(OVERDUE, OVERDUE_TIMES * self._typical_seconds)
        for reader in self._readers.values():
            name = reader.name(0, self.courses, self._epochs)
            batch = self.batches.get(name) if name is not None else None
            if name is None or batch is None or batch.made or not batch.makers:
                continue
            # Each further one is given longer: the batch may just be a heavy one.
            if now - max(batch.makers.values()) > limit * 2 ** (len(batch.makers) - 1):
                yield name, set(batch.makers)

    @property
    def booked(self) -> int:
        """Bytes of batches that are made or begun and that some reader does not have yet."""
        return sum(
            batch.nbytes if batch.made else int(self._typical_bytes)
            for batch in self.batches.values()
        )

    # ---- inside

    def _wishes(self, now: float) -> Iterator[tuple[int, _Reader, BatchName]]:
        """Yield what readers want, the next batch of each first, then the one after it."""
        readers = [reader for reader in self._readers.values() if not self._pauses(reader, now)]
        readers.sort(key=lambda reader: reader.rank)
        for ahead in range(self._ahead):
            wanted = [
                (reader, reader.name(ahead, self.courses, self._epochs)) for reader in readers
            ]
            readers = [reader for reader, name in wanted if name is not None]
            for reader, name in wanted:
                if name is not None:
                    yield ahead, reader, name

    def _is_waited_for(self, reader: _Reader, now: float) -> bool:
        """Whether another reader of the same batches is behind this one, and still reads."""
        here = (reader.epoch, reader.number)
        return any(
            (other.epoch, other.number) < here and not self._pauses(other, now)
            for other in self._fellows(reader)
        )

    def _pauses(self, reader: _Reader, now: float) -> bool:
        """Whether it has asked for nothing for long while others want the same batches."""
        return now - reader.asked > PATIENCE and any(True for _ in self._fellows(reader))

    def _fellows(self, reader: _Reader) -> Iterator[_Reader]:
        """Yield the other readers of the same batches."""
        for other in self._readers.values():
            if other is not reader and (other.course, other.rank) == (reader.course, reader.rank):
                yield other

    def _forget(self, now: float) -> None:
        """Drop readers that are gone, and what no other wants any more."""
        self._readers = {
            name: reader for name, reader in self._readers.items() if now - reader.seen <= PATIENCE
        }
        begin: dict[tuple[int, int], tuple[int, int]] = {}
        for reader in self._readers.values():
            if not self._pauses(reader, now):
                whose, here = (reader.course, reader.rank), (reader.epoch, reader.number)
                begin[whose] = min(begin.get(whose, here), here)
        for name in list(self.batches):
            first = begin.get((name.course, name.rank))
            if first is None or (name.epoch, name.number) < first:
                del self.batches[name]
