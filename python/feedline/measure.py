"""The measuring tool from Python: compare functions in interleaved rounds."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline._arguments import whole
from feedline._feedline import NativeContest, NativeDigest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Comparison", "Digest", "Outcome", "Run", "compare"]


class Digest:
    """A digest of arrays, to show that two sides delivered the same.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = Digest(), Digest()
    >>> for digest in (a, b):
    ...     digest.update(np.arange(4))
    ...     digest.update(np.ones(2))
    >>> a.finish() == b.finish()
    True
    """

    def __init__(self) -> None:
        self._native = NativeDigest()

    def update(self, array: Any) -> None:  # noqa: ANN401 - anything array-like
        """Take in an array's dtype, shape and content."""
        array = np.ascontiguousarray(array)
        self._native.update(f"{array.dtype.str}{array.shape}".encode())
        self._native.update(array.tobytes())

    def finish(self) -> str:
        """Return the digest of all arrays so far."""
        return self._native.finish()


@dataclass
class Outcome:
    """What one run of a side achieved.

    Attributes
    ----------
    items
        How many items it made.
    digest
        What it delivered, as a digest that must be equal on all sides.
    bytes
        How many bytes it delivered, if that is of interest.
    figures
        Other figures by name.
    """

    items: int
    digest: str | None = None
    bytes: int | None = None
    figures: dict[str, float] = field(default_factory=dict)


class Run:
    """One run of a side: says which part of it is measured."""

    def __init__(self, native: NativeContest) -> None:
        self._native = native

    def start(self) -> None:
        """Start the clock anew: what came before is set-up and does not count."""
        self._native.start()

    def stop(self) -> None:
        """Stop the clock: what comes after does not count."""
        self._native.stop()


@dataclass
class Comparison:
    """What a comparison found.

    Attributes
    ----------
    markdown
        A table with ratios, verdicts and warnings.
    data
        The same as plain data.
    passed
        Whether the outputs agreed and all requirements were reached.
    """

    markdown: str
    data: dict[str, Any]
    passed: bool

    def __str__(self) -> str:
        return self.markdown


def compare(
    title: str,
    sides: Mapping[str, Callable[[Run], Outcome]],
    *,
    unit: str = "samples",
    rounds: int = 7,
    warmup: int = 1,
    require: Sequence[str] = (),
    unchecked: str | None = None,
    versions: Mapping[str, str] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Run functions in turn, round after round, and compare them.

    Parameters
    ----------
    title
        What is compared.
    sides
        Functions by name; the first is the baseline of the ratios. Each takes a `Run` and returns
        an `Outcome`; without `Run.start` and `Run.stop` the whole call is measured.
    unit
        What an item is, in the plural.
    rounds, warmup
        How often each side is run, and how often before that without counting.
    require
        What must be reached, such as ``"feedline/torch>=3"``; shown with the table.
    unchecked
        Why outputs cannot be compared; without it all digests must be equal.
    versions
        Versions worth recording.
    out
        A file that each run is appended to as a JSON line.

    Returns
    -------
    Comparison
        The table, and whether all is as required.

    Raises
    ------
    TypeError, ValueError
        If sides or requirements make no sense, or a side returns something else.

    Examples
    --------
    >>> def squares(run):
    ...     return Outcome(items=100, digest=str(sum(i * i for i in range(100))))
    >>> found = compare("squares", {"a": squares, "b": squares}, rounds=2, warmup=0)
    >>> found.passed
    True
    """
    native = NativeContest(
        title,
        list(sides),
        unit=unit,
        rounds=whole("rounds", rounds, 1, 2**32 - 1),
        warmup=whole("warmup", warmup, 0, 2**32 - 1),
        unchecked=unchecked,
        requirements=list(require),
        versions=list((versions or {}).items()),
        out=out,
    )
    began, done, turns = time.monotonic(), 0, native.turns()
    while (turn := native.next_turn()) is not None:
        side, _ = turn
        try:
            outcome = _checked(side, sides[side](Run(native)))
        except BaseException as problem:
            native.fail(f"{type(problem).__name__}: {problem}")
            raise
        native.finish(outcome.items, outcome.digest, outcome.bytes, outcome.figures)
        done += 1
        _progress(title, done, turns, time.monotonic() - began)
    return Comparison(native.markdown(), json.loads(native.report()), native.passed())


def _checked(side: str, outcome: object) -> Outcome:
    if not isinstance(outcome, Outcome):
        msg = f"side {side!r} must return an Outcome, got {outcome!r}"
        raise TypeError(msg)
    whole(f"items of side {side!r}", outcome.items, 0)
    if outcome.bytes is not None:
        whole(f"bytes of side {side!r}", outcome.bytes, 0)
    return outcome


def _progress(title: str, done: int, turns: int, seconds: float) -> None:
    if not sys.stderr.isatty():
        return
    left = seconds / done * (turns - done)
    end = "\n" if done == turns else ""
    sys.stderr.write(f"\r\033[K{title}: {done}/{turns} runs, {left:.0f} s left{end}")
    sys.stderr.flush()
