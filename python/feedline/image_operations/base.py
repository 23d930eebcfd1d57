"""What operations are made of: calls appended to a chain, checked as they are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from feedline import _arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.pictures import Images

# A call: its name and its arguments, completed.
Call: TypeAlias = "tuple[str, dict[str, object]]"

# The number above which Pillow refuses.
MOST_PIXELS = 178_956_970


class Chain:
    """A chain of calls; what operations are added to."""

    def _add(self, name: str, **arguments: object) -> Images:
        """Append a call to the chain."""
        raise NotImplementedError

    def _added(self, name: str, function: Callable[[Images], Images]) -> list[Call]:
        """Return the calls that a function appends."""
        raise NotImplementedError

    def _split(self, chains: Sequence[Sequence[Call]]) -> Images:
        """Make a view of each of several continuations."""
        raise NotImplementedError


def probability(name: str, value: float) -> float:
    """Return a number from 0 to 1."""
    number = float(_arguments.real(name, value))
    if not 0 <= number <= 1:
        msg = f"{name} must be a probability from 0 to 1, got {value!r}"
        raise ValueError(msg)
    return number


def size_of(name: str, size: int | Sequence[int]) -> tuple[int, int]:
    """Return height and width."""
    sides = list(size) if isinstance(size, Sequence) else [size]
    if len(sides) not in (1, 2):
        msg = f"{name} must be one number or (height, width), got {size!r}"
        raise ValueError(msg)
    return _arguments.whole(name, sides[0], 1), _arguments.whole(name, sides[-1], 1)


def pair(name: str, values: Sequence[float]) -> tuple[float, float]:
    """Return two numbers."""
    given: object = values
    if not isinstance(given, Sequence) or len(given) != 2:
        msg = f"{name} must be two numbers, got {values!r}"
        raise TypeError(msg)
    return float(_arguments.real(name, values[0])), float(_arguments.real(name, values[1]))


def one_or_two(name: str, values: float | Sequence[float]) -> tuple[float, float]:
    """Return two numbers, of which one may be given for both."""
    return pair(name, values if isinstance(values, Sequence) else (values, values))


def numbers(name: str, values: float | Sequence[float]) -> list[float]:
    """Return one number or more."""
    given = values if isinstance(values, Sequence) else [values]
    return [float(_arguments.real(name, value)) for value in given]


def fill_of(name: str, values: float | Sequence[float]) -> list[float]:
    """Return a color: one value, or one per channel."""
    color = numbers(name, values)
    if len(color) not in (1, 3) or not all(math.isfinite(number) for number in color):
        msg = f"{name} must be one finite number or one per channel, got {values!r}"
        raise ValueError(msg)
    return color


def fill_if(name: str, values: float | Sequence[float] | None) -> list[float] | None:
    """Return a color, or none."""
    return None if values is None else fill_of(name, values)


def angles(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    """Return the least and the largest angle."""
    if isinstance(value, Sequence):
        return pair(name, value)
    reach = float(_arguments.real(name, value))
    if reach < 0:
        msg = f"{name} must be at least 0, or two numbers, got {value!r}"
        raise ValueError(msg)
    return -reach, reach


def interpolation_of(interpolation: str) -> str:
    """Return how moved pixels are made."""
    return _arguments.one_of("interpolation", interpolation, ("nearest", "bilinear"))


def resampling(interpolation: str, antialias: bool) -> dict[str, object]:
    """Return how resized pixels are made."""
    ways = ("nearest", "bilinear", "bicubic")
    return {
        "interpolation": _arguments.one_of("interpolation", interpolation, ways),
        "antialias": _arguments.flag("antialias", antialias),
    }
