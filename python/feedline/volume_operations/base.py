"""What operations on volumes are made of: calls in a chain, checked as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from feedline import _arguments

if TYPE_CHECKING:
    from feedline.scans import Volumes

# A call: its name and its arguments, completed.
VolumeCall: TypeAlias = "tuple[str, dict[str, object]]"

# Two ends of a range, for each axis.
Ranges: TypeAlias = "tuple[tuple[float, float], tuple[float, float], tuple[float, float]]"


class VolumeChain:
    """A chain of calls; what operations on volumes are added to."""

    def _then(self, name: str, **arguments: object) -> Volumes:
        """Append a call to the chain."""
        raise NotImplementedError


def size_of(name: str, size: int | Sequence[int]) -> tuple[int, int, int]:
    """Return voxels along z, y and x; one number is for all."""
    sides = list(size) if isinstance(size, Sequence) else [size] * 3
    if len(sides) != 3:
        msg = f"{name} must be one number or (z, y, x), got {size!r}"
        raise ValueError(msg)
    z, y, x = (_arguments.whole(name, side, 1) for side in sides)
    return z, y, x


def axis_of(name: str, axis: int) -> int:
    """Return one of the axes z, y and x, which may be counted from the last."""
    return _arguments.whole(name, axis, -3, 2) % 3


def axes_of(name: str, axes: int | Sequence[int]) -> list[int]:
    """Return some of the axes z, y and x, each once."""
    given = list(axes) if isinstance(axes, Sequence) else [axes]
    found = [axis_of(name, axis) for axis in given]
    if len(set(found)) < len(found):
        msg = f"{name} must name each axis once, got {axes!r}"
        raise ValueError(msg)
    return found


def span(name: str, values: float | Sequence[float]) -> tuple[float, float]:
    """Return the two ends of a range, of which one may be given for both."""
    ends = list(values) if isinstance(values, Sequence) else [values, values]
    if len(ends) != 2:
        msg = f"{name} must be one number or (min, max), got {values!r}"
        raise ValueError(msg)
    return float(_arguments.real(name, ends[0])), float(_arguments.real(name, ends[1]))


def around(name: str, values: float | Sequence[float]) -> tuple[float, float]:
    """Return the two ends of a range; one number is for both sides of 0."""
    if isinstance(values, Sequence):
        return span(name, values)
    reach = float(_arguments.real(name, values))
    if reach < 0:
        msg = f"{name} must be at least 0, or (min, max), got {values!r}"
        raise ValueError(msg)
    return -reach, reach


def ranges(
    name: str, values: float | Sequence[float] | Sequence[Sequence[float]], *, centred: bool
) -> Ranges:
    """Return a range for each axis: one for all, or three."""
    end = around if centred else span
    if not isinstance(values, Sequence):
        one = end(name, values)
        return one, one, one
    parts: list[float | Sequence[float]] = list(values)
    if len(parts) == 3:
        z, y, x = (end(name, part) for part in parts)
        return z, y, x
    numbers = [part for part in parts if not isinstance(part, Sequence)]
    if len(parts) != 2 or len(numbers) != 2:
        msg = f"{name} must be a number, (min, max), or one of these for each axis, got {values!r}"
        raise ValueError(msg)
    both = span(name, numbers)
    return both, both, both
