"""Which samples each batch of each rank has, as states that a loader actor resumes at.

An epoch is a sequence of places that all ranks share; position `p` of rank `r` is the
``p * world + r``-th place that is left (see the crate's `state` module). So the places of any batch
are known without asking anybody, and the engine makes exactly that batch when it resumes at a state
that has these places left and no other.
"""

from __future__ import annotations

import base64
import functools
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Course", "Order"]

# What makes a state worthless if it differs, and what people call it.
_IDENTITY = {
    "samples": "the number of samples",
    "seed": "the seed",
    "order": "the order",
    "plan": "the order's tables",
    "stages": "the pipeline",
    "pipeline": "the pipeline's fields or settings",
}


@dataclass(frozen=True)
class Order:
    """What a loader actor is told: resume there, as this rank, and hand over what is left.

    Attributes
    ----------
    state
        Where to resume.
    rank, world_size
        As which rank of how many; 0 of 1 but for what an epoch repeats at its end.
    first
        The position of the batch's first sample, minus the one the actor's engine gives it.
    """

    state: dict[str, Any]
    rank: int
    world_size: int
    first: int


@dataclass(frozen=True)
class Course:
    """All batches of all epochs for a number of ranks.

    Attributes
    ----------
    state
        The state of one rank alone before its first batch, as items: what identifies the plan.
    world_size
        How many ranks there are.
    epoch, start, gaps, step
        The epoch that is only a rest of one, if any: where it goes on without gaps, and the places
        before that are left; what all ranks took at a time when it was begun.
    """

    state: tuple[tuple[str, Any], ...]
    world_size: int = 1
    epoch: int = -1
    start: int = 0
    gaps: tuple[int, ...] = ()
    step: int | None = None

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Course:
        """Return the course of one rank alone, whose first state this is."""
        return cls(tuple(state.items()))

    def for_world(self, world_size: int) -> Course:
        """Return the same for another number of ranks, from the first epoch on.

        Raises
        ------
        ValueError
            If an epoch has no batch for so many, as of a loader in one process.
        """
        course = Course(self.state, world_size)
        if course.batches(0) == 0:
            msg = (
                f"{self.plan['places']} samples do not fill one batch of "
                f"{self.plan['batch_size']} on each of {world_size} ranks, so dropping the rest "
                "leaves nothing; pass a smaller batch size, or drop_last=False"
            )
            raise ValueError(msg)
        return course

    @functools.cached_property
    def plan(self) -> dict[str, Any]:
        """What identifies the plan."""
        return dict(self.state)

    def batches(self, epoch: int) -> int:
        """Batches of a rank in an epoch; the same on every rank."""
        return self._share(self._left(epoch))[0]

    def following(self, epoch: int, number: int) -> tuple[int, int]:
        """Return the batch after this one."""
        return (epoch, number + 1) if number + 1 < self.batches(epoch) else (epoch + 1, 0)

    def state_at(self, epoch: int, number: int, rank: int) -> dict[str, Any]:
        """Return the state of a rank before a batch, as a loader in one process has it."""
        plan = dict(self.plan)
        left = self._left(epoch)
        given = self._share(left)[1] * self.world_size
        plan |= {
            "epoch": epoch,
            "batch": number,
            "rank": rank,
            "world_size": self.world_size,
            "repeated": max(given - left, 0),
            "dropped": max(left - given, 0),
        }
        if epoch == self.epoch:
            plan |= _rest(self.start, self.gaps)
        if (step := self._step(epoch)) is not None:
            plan["step"] = step
        return plan

    def samples(self, epoch: int, number: int = 0, count: int | None = None) -> int:
        """Count the samples that a rank gets in an epoch, or in so many batches of it."""
        size: int = self.plan["batch_size"]
        samples = self._share(self._left(epoch))[1]
        last = samples if count is None else min((number + count) * size, samples)
        return max(last - number * size, 0)

    def order(self, epoch: int, number: int, rank: int, count: int = 1) -> Order:
        """Return what makes a batch, or several that follow each other."""
        plan = self.plan
        size, places, world = plan["batch_size"], plan["places"], self.world_size
        left = self._left(epoch)
        first = number * size
        positions = np.arange(first, first + self.samples(epoch, number, count))
        turns = positions * world + rank
        if turns[-1] >= left:
            # The epoch's start is repeated, which only a rank of all ranks knows how to do.
            return Order(self.state_at(epoch, number, rank), rank, world, 0)
        if epoch == self.epoch:
            gaps = np.array((*self.gaps, self.start))
            known = np.minimum(turns, len(self.gaps))
            turns = gaps[known] + (turns - known)
        state = plan | {"epoch": epoch} | _rest(places, turns.tolist())
        if (step := self._step(epoch)) is not None:
            state["step"] = step
        return Order(state, 0, 1, first)

    def resumed(self, state: Mapping[str, Any], *, force: bool) -> tuple[Course, int, int]:
        """Return the course that goes on at a state, its epoch and its batch."""
        try:
            return self._resumed(state, force=force)
        except (KeyError, TypeError) as error:
            msg = f"this is no state of a feedline loader: {error!r} is missing or of another kind"
            raise StateError(msg) from None

    # ---- inside

    def _resumed(self, state: Mapping[str, Any], *, force: bool) -> tuple[Course, int, int]:
        plan = self.plan
        if state["version"] != plan["version"]:
            msg = f"the state has version {state['version']}, this feedline reads {plan['version']}"
            raise StateError(msg)
        if differing := [name for name in _IDENTITY if state[name] != plan[name]]:
            what = "; ".join(
                f"{_IDENTITY[name]} was {state[name]} and is {plan[name]}" for name in differing
            )
            if not force:
                msg = f"the state does not fit: {what}; force=True goes on at the same place"
                raise StateError(msg)
        if "own_start" in state:
            msg = (
                'the state was taken with order="ready"; feedline.merge_states joins those of all '
                "ranks into one that can be loaded"
            )
            raise StateError(msg)
        epoch, number = int(state["epoch"]), int(state["batch"])
        start, gaps = int(state.get("start", 0)), _decoded(state)
        alike = all(state[name] == plan[name] for name in ("batch_size", "boundary"))
        if not alike or state["world_size"] != self.world_size:
            # All ranks are where this one is, and what they have left is dealt out anew.
            done = number * state["batch_size"] * state["world_size"]
            start, gaps, number = start + max(done - len(gaps), 0), gaps[done:], 0
        step = state.get("step")
        if start or gaps or (step is not None and step != self._step(-1)):
            course = replace(self, epoch=epoch, start=start, gaps=gaps, step=step)
        else:
            course = self.for_world(self.world_size)
        if number >= course.batches(epoch):
            return self.for_world(self.world_size), epoch + 1, 0
        return course, epoch, number

    def _left(self, epoch: int) -> int:
        """How many places an epoch has, or has left."""
        places: int = self.plan["places"]
        if epoch != self.epoch:
            return places
        return len(self.gaps) + max(places - self.start, 0)

    def _share(self, left: int) -> tuple[int, int]:
        """How many batches and samples of so many places each rank gets."""
        plan = self.plan
        size, boundary = plan["batch_size"], plan["boundary"]
        step = size * self.world_size
        if boundary == "drop":
            return left // step, left // step * size
        if boundary == "pad":
            return -(-left // step), -(-left // step) * size
        samples = -(-left // self.world_size)
        return -(-samples // size), samples

    def _step(self, epoch: int) -> int | None:
        """Return what all ranks take at a time, where the order depends on it."""
        plan = self.plan
        if "step" not in plan:
            return None
        if epoch == self.epoch and self.step is not None:
            return self.step
        step: int = min(plan["batch_size"] * self.world_size, plan["places"])
        return step


# ---- gaps as text, as the crate's `state::gaps` writes them


def _rest(start: int, gaps: list[int] | tuple[int, ...]) -> dict[str, Any]:
    """Return the parts of a state that say what is left: some places, and all from `start` on."""
    # Gaps that touch what follows belong to it.
    gaps = list(gaps)
    while gaps and gaps[-1] + 1 == start:
        start = gaps.pop()
    parts: dict[str, Any] = {"start": start} if start else {}
    if not gaps:
        return parts
    runs, begin = [], gaps[0]
    for last, place in itertools.pairwise(gaps):
        if place != last + 1:
            runs += [last + 1 - begin, place - last - 1]
            begin = place
    runs.append(gaps[-1] + 1 - begin)
    text = b"".join(map(_packed, [start - gaps[0], *runs]))
    return parts | {"gaps": "r" + base64.urlsafe_b64encode(text).decode().rstrip("=")}


def _packed(number: int) -> bytes:
    """Return a number in seven bits per byte, lowest first."""
    packed = bytearray()
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def _decoded(state: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the places that a state has left before its start."""
    text: str = state.get("gaps", "")
    if not text:
        return ()
    content = base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
    numbers, used = _numbers(content)
    start = int(state["start"])
    at = start - numbers[0]
    if text[0] == "b":
        bits = np.unpackbits(np.frombuffer(content[used:], np.uint8), bitorder="little")
        return tuple((np.flatnonzero(bits) + at).tolist())
    gaps: list[int] = []
    for place, run in enumerate(numbers[1:]):
        if place % 2 == 0:
            gaps += range(at, at + run)
        at += run
    return tuple(gaps)


def _numbers(content: bytes) -> tuple[list[int], int]:
    """Return the numbers of a text, and how many bytes the first one takes."""
    numbers, number, shift, first = [], 0, 0, 0
    for place, byte in enumerate(content):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            first = first or place + 1
            number = shift = 0
    return numbers, first
