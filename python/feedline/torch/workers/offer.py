"""A batch that any worker may make, also several together.

The main process *offers* batches; a worker that is free *claims* a *unit* of the oldest one that
has any left (some neighbouring samples, or the whole batch) and sends the *part* that it has made.
When all parts of a batch have come, the main process puts them together.

How a unit goes:

| state | its cell says | what happens next |
| --- | --- | --- |
| open | serial, nobody | a worker claims it, or the main process closes it: nobody wants it |
| claimed | serial, the worker | the part arrives; or the worker dies and it is open again |
| done | as before | nothing: a part that comes again is thrown away |
| closed | serial, `CLOSED` | nothing |

What must not go wrong:

* *Two workers make one unit.* The exchange of the cell lets one win (``feedline-ipc/src/cells.rs``
  has the protocol and a model of it).
* *A worker is killed.* Whatever it had sent as a whole is received first. Then its cells tell what
  it had claimed and not sent. Nothing was locked; samples that it had half written are written
  again by whoever makes them. Only then its successor starts, so that a claim of "worker 3" is
  always that of the process which is worker 3 now.
* *A worker that was away comes back to an old batch.* Serials are never used twice, so its exchange
  fails, although the cells are another batch's by now.
* *A batch is not wanted any more* (an epoch begun anew, a sample given up): open units are closed.
  Those that are claimed are waited for, because their workers may be writing to its memory.
* *A worker is parked.* It is told to forget its offers and gets no others; what it has claimed it
  makes. When it is needed again it is told all that are open. Offers and that word come through one
  queue, in order, so it never claims what it was not told since.
* *A thread that was given up wakes up.* It must take its unit in hand before it writes anything
  where others look (`Board.keep`), which fails.

Memory of a batch is made by the first worker that has a sample of it; `slots` tells how it is
filled, and who owns it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from feedline._torch_private import ExceptionWrapper

__all__ = ["CLOSED", "Claim", "Failed", "Made", "Offer", "Park", "Part", "Tolerated", "tag"]

# What stands in a cell instead of a worker when nobody shall make the unit.
CLOSED = 0xFFFF


def tag(serial: int, who: int = 0) -> int:
    """Return what a cell says of a unit: 0 is nobody, others are workers counted from 1."""
    return serial << 16 | who


class Offer(NamedTuple):
    """A batch that waits to be made."""

    # A number that no other batch of this loader's iterator ever had.
    serial: int
    # What the sampler said: indices, or one if samples are not batched.
    index: Any
    # How many there are; 0: they are not batched.
    rows: int
    epoch: int
    # The cell of its memory's place; those of its units follow.
    cell: int
    # How many samples a unit has; 0: all.
    unit: int
    # Positions whose samples were given up, so that substitutes must be made.
    lost: tuple[int, ...] = ()

    @property
    def units(self) -> int:
        """How many units there are."""
        return -(-self.rows // self.unit) if self.unit else 1

    def span(self, unit: int) -> range:
        """Return the positions of one unit; without batches there is one, 0."""
        if not self.unit:
            return range(self.rows or 1)
        return range(unit * self.unit, min((unit + 1) * self.unit, self.rows))


class Park(NamedTuple):
    """Says to a worker: forget all offers. None come until it is told them again."""


class Claim(NamedTuple):
    """A unit that a worker has."""

    offer: Offer
    unit: int


class Made(NamedTuple):
    """What a worker's answer is about."""

    serial: int
    unit: int


class Failed(NamedTuple):
    """A sample that could not be made."""

    position: int
    index: Any
    # None: the main process knows.
    why: ExceptionWrapper | None
    replaced_by: Any = None


class Part(NamedTuple):
    """What a worker has made of a unit, if that is not a batch."""

    # By position, without those that failed.
    samples: dict[int, Any]
    failed: list[Failed]
    # What is not in the samples but in the batch's memory, if anything is.
    layout: tuple[Any, ...] | None = None
    # Whether some sample has other arrays, and is here as it is.
    is_mixed: bool = False


class Tolerated:
    """A batch with samples that were skipped or replaced."""

    __slots__ = ("data", "failed")

    def __init__(self, data: Any, failed: list[Any]) -> None:  # noqa: ANN401 - the user's batch
        self.data = data
        self.failed = failed

    def __reduce__(self) -> tuple[Any, ...]:
        return Tolerated, (self.data, self.failed)

    def pin_memory(self, device: Any = None) -> Tolerated:  # noqa: ANN401 - as torch has it
        """Pin the batch; torch's thread asks what it does not know."""
        from feedline._torch_private import pin_memory

        return Tolerated(pin_memory(self.data, device), self.failed)
