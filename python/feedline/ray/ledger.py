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
#: batches; one that gave no sign of life for so many is gone.
PATIENCE, GONE = 30.0, 15.0
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
    # From its next batch on, so many are under way.
    planned: int = 0

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
    shared
        Whether readers are of several jobs and leave batches as they are. Those of the same batches
        that are at most `ahead` apart are *near*: the faster one waits, and each batch is made once
        for both.
    """

    def __init__(
        self, memory: int, ahead: int, epochs: int | None = None, *, shared: bool = False
    ) -> None:
        self.memory = memory
        self.ahead = ahead
        self._shared = shared
        self.batches: dict[BatchName, Batch] = {}
        self.courses: list[Course] = []
        self.made_again = 0
        self._epochs = epochs
        self._readers: dict[str, _Reader] = {}
        # Those of the same batches, by course and rank.
        self._groups: dict[tuple[int, int], list[_Reader]] = {}
        self._begun, self._made_bytes = 0, 0
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
            if (name.course, name.rank) == (known, rank) and batch.handed and not self._shared:
                self._drop(name)
        self.forget(now)

    def leave(self, reader: str, now: float) -> None:
        """Keep nothing for a reader any more."""
        self._readers.pop(reader, None)
        self.forget(now)

    def forget(self, now: float) -> None:
        """Drop readers that are gone, and what no other wants any more."""
        self._readers = {
            name: reader for name, reader in self._readers.items() if now - reader.seen <= GONE
        }
        self._groups = {}
        for reader in self._readers.values():
            self._groups.setdefault((reader.course, reader.rank), []).append(reader)
            reader.planned = 0
        for name in list(self.batches):
            if not self._is_wanted(name, now):
                self._drop(name)

    def knows(self, reader: str, now: float) -> bool:
        """Whether a reader has joined; it is known to be alive then."""
        if reader in self._readers:
            self._readers[reader].seen = now
        return reader in self._readers

    def __len__(self) -> int:
        return len(self._readers)

    def has_fellows(self, reader: str) -> bool:
        """Whether others read the same batches."""
        return any(True for _ in self._fellows(self._readers[reader]))

    def ask(self, reader: str, epoch: int, number: int, done: tuple[int, int], now: float) -> Any:  # noqa: ANN401 - what the actor returned
        """Return what a reader wants if it is made, after it has all before `done`."""
        this = self._readers[reader]
        if self._pauses(this, now):
            # Nothing was kept for it meanwhile.
            this.planned = 0
        this.asked = this.seen = now
        # Calls overtake each other; what it has, it has.
        if (this.epoch, this.number) < done:
            self._advance(this, *done, now)
        batch = self.batches.get(self.name(reader, epoch, number))
        if batch is None or not batch.made:
            return None
        batch.handed = True
        return batch.content

    def name(self, reader: str, epoch: int, number: int) -> BatchName:
        """Return which batch of all that is."""
        this = self._readers[reader]
        return BatchName(this.course, epoch, this.rank, number)

    def lost(self, reader: str, epoch: int, number: int) -> None:
        """Have a batch made again whose content cannot be had."""
        name = self.name(reader, epoch, number)
        batch = self.batches.get(name)
        if batch is not None and batch.made:
            self._drop(name)
            self.made_again += 1

    # ---- actors

    def next(self, now: float) -> BatchName | None:
        """Return the planned batch that is wanted first, if it may be begun now."""
        room = self.memory - self.booked >= self._typical_bytes
        wishes: list[tuple[int, int, BatchName]] = []
        for reader in self._readers.values():
            name = None if self._pauses(reader, now) else self._planned(reader)
            if name is None:
                continue
            behind = self._behind(reader, now)
            # The next batch of each reader is always begun, or nobody would go on.
            is_next = reader.planned == 0 and not behind
            # Jobs that share go side by side; within one, a reader behind is often a dead one.
            apart = reader.planned + (behind if self._shared else 0)
            if apart < self.ahead and (room or is_next):
                wishes.append((reader.planned, reader.rank, name))
        return min(wishes)[2] if wishes else None

    def assign(self, name: BatchName, actor: str, now: float) -> None:
        """Note that an actor has begun a batch."""
        if name not in self.batches:
            self.batches[name] = Batch()
            self._begun += 1
        self.batches[name].makers[actor] = now

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
        self._begun, self._made_bytes = self._begun - 1, self._made_bytes + nbytes
        batch.makers.clear()
        return True

    def died(self, actor: str) -> int:
        """Return all that an actor was at to the plan, and say how many batches that was."""
        mine = [name for name, batch in self.batches.items() if actor in batch.makers]
        for name in mine:
            batch = self.batches[name]
            del batch.makers[actor]
            if not batch.makers:
                self._drop(name)
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
        return self._made_bytes + int(self._begun * self._typical_bytes)

    # ---- inside

    def _drop(self, name: BatchName) -> None:
        """Forget a batch; whoever wants it has it made again."""
        batch = self.batches.pop(name)
        if batch.made:
            self._made_bytes -= batch.nbytes
        else:
            self._begun -= 1
        for reader in self._groups.get((name.course, name.rank), ()):
            place = self._distance(reader, name.epoch, name.number)
            if 0 <= place < reader.planned:
                reader.planned = place

    def _advance(self, reader: _Reader, epoch: int, number: int, now: float) -> None:
        """Note that a reader has all batches before this one."""
        steps = self._distance(reader, epoch, number)
        had = [
            reader.name(ahead, self.courses, self._epochs)
            for ahead in range(min(steps, self.ahead))
        ]
        reader.epoch, reader.number = epoch, number
        reader.planned = max(reader.planned - steps, 0)
        for name in had:
            if name is not None and name in self.batches and not self._is_wanted(name, now):
                self._drop(name)

    def _is_wanted(self, name: BatchName, now: float) -> bool:
        """Whether a reader comes to a batch soon; one that is far behind has it made again."""
        return any(
            0 <= self._distance(reader, name.epoch, name.number) < self.ahead
            and not self._pauses(reader, now)
            for reader in self._groups.get((name.course, name.rank), ())
        )

    def _planned(self, reader: _Reader) -> BatchName | None:
        """Return the first batch of a reader that is not under way, if it is not far away."""
        while reader.planned < self.ahead:
            name = reader.name(reader.planned, self.courses, self._epochs)
            if name is None or name not in self.batches:
                return name
            reader.planned += 1
        return None

    def _behind(self, reader: _Reader, now: float) -> int:
        """Return by how many batches the last of those near it is behind a reader."""
        apart = [
            self._distance(other, reader.epoch, reader.number)
            for other in self._fellows(reader)
            if not self._pauses(other, now)
        ]
        return max((batches for batches in apart if 0 <= batches <= self.ahead), default=0)

    def _distance(self, reader: _Reader, epoch: int, number: int) -> int:
        """Return how many batches after a reader's next one another is."""
        apart, course = number - reader.number, self.courses[reader.course]
        for between in range(reader.epoch, epoch):
            apart += course.batches(between)
        for between in range(epoch, reader.epoch):
            apart -= course.batches(between)
        return apart

    def _pauses(self, reader: _Reader, now: float) -> bool:
        """Whether it has asked for nothing for long while others want the same batches."""
        return now - reader.asked > PATIENCE and any(True for _ in self._fellows(reader))

    def _fellows(self, reader: _Reader) -> Iterator[_Reader]:
        """Yield the other readers of the same batches."""
        for other in self._groups.get((reader.course, reader.rank), ()):
            if other is not reader:
                yield other
