"""Which samples of a pipeline: by index, by mask, by slice, or all of them several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from feedline._feedline import Source

__all__ = ["Choice", "chosen", "count", "described", "indices_of", "joined", "number"]

# Listed samples, equally spaced ones, which take no memory however many, or how often all come.
Choice = npt.NDArray[np.int64] | range | int


def indices_of(which: Any, total: int) -> npt.NDArray[np.int64] | range:  # noqa: ANN401 - checked
    """Return which of `total` samples are meant by what a user gives."""
    if isinstance(which, slice):
        return range(total)[which]
    if isinstance(which, range):
        return _inside(which, total)
    given = np.asarray(which)
    if given.dtype == bool:
        if given.shape != (total,):
            msg = f"a mask needs one value per sample, {total}, got shape {given.shape}"
            raise IndexError(msg)
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        what = f"{given.dtype} of shape {given.shape}"
        msg = f"select takes a list of integers, a list of truth values or a slice, got {what}"
        raise TypeError(msg)
    least, most = (given.min(), given.max()) if given.size else (0, 0)
    if least < -total or (most >= total and given.size):
        _refuse(given[(given < -total) | (given >= total)][0], total)
    indices = given.astype(np.int64)
    if least < 0:
        indices[indices < 0] += total
    return indices


def _inside(which: range, total: int) -> npt.NDArray[np.int64] | range:
    if which and min(which[0], which[-1]) < 0:
        return indices_of(np.asarray(which), total)
    for index in (which[0], which[-1]) if which else ():
        if index >= total:
            _refuse(index, total)
    return which


def _refuse(index: int, total: int) -> None:
    msg = f"index {index} is out of range for {total} samples"
    raise IndexError(msg)


def chosen(source: Source, choice: Choice) -> Source:
    """Return the samples of a choice."""
    if isinstance(choice, int):
        return source.repeated(choice)
    if isinstance(choice, range):
        return source.spaced(choice.start if choice else 0, choice.step, len(choice))
    return source.select(np.ascontiguousarray(choice).view(np.uint64))


def joined(first: Choice, second: Choice) -> Choice | None:
    """Return the one choice that is two in turn; None where it takes both."""
    if isinstance(first, int) or isinstance(second, int):
        return first * second if isinstance(first, int) and isinstance(second, int) else None
    if isinstance(first, np.ndarray):
        return first[np.asarray(second, np.int64)]
    if isinstance(second, np.ndarray):
        return first.start + first.step * second
    begin, step = first.start + first.step * second.start, first.step * second.step
    return range(begin, begin + step * len(second), step)


def count(choice: Choice, total: int) -> int:
    """Return how many of `total` samples a choice has."""
    return total * choice if isinstance(choice, int) else len(choice)


def described(choice: Choice, total: int) -> str:
    """Return how a pipeline tells of a choice among `total` samples."""
    if isinstance(choice, int):
        return f"repeat({choice})"
    return f"select({len(choice)} of {total})"


def number(choice: Choice, index: int, total: int) -> int:
    """Return which of `total` samples is at a place of a choice."""
    return index % total if isinstance(choice, int) else int(choice[index])
