"""Loaders that go on from run to run: a part of their batches is a side of a contest."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import feedline
import feedline.torch
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from feedline.measure import Run

# Others are done if they use less than this many cores; and for how long to wait for that.
_QUIET, _PATIENCE = 0.15, 10.0


class Stream:
    """Batches of a loader without end, taken by a loop whose step takes `step` seconds."""

    def __init__(self, loader: Iterable[Any], batch: int) -> None:
        self.step = 0.0
        self.loader = loader
        self._batch = batch
        self._batches = itertools.chain.from_iterable(itertools.repeat(loader))

    def _ahead(self) -> int:
        """How many batches may lie ready."""
        if isinstance(self.loader, feedline.Loader | feedline.torch.DataLoader):
            return 2 + int(self.loader.stats()["prefetch"])
        workers: int = getattr(self.loader, "num_workers", 0)
        return 2 + workers * (getattr(self.loader, "prefetch_factor", None) or 0)

    def drop(self, batches: int) -> None:
        """Take so many batches."""
        for _ in range(batches):
            next(self._batches)

    def take(self, seconds: float) -> float:
        """Take batches for so long; return samples per second."""
        began, taken = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds or taken == 0:
            next(self._batches)
            taken += self._batch
            if self.step:
                time.sleep(self.step)
        return taken / elapsed

    def side(self, batches: int) -> Callable[[Run], Outcome]:
        """So many batches as a side of a contest, after those that lay ready beforehand.

        The side before has left workers that fill what they may read ahead; they are waited for.
        """

        def run_batches(run: Run) -> Outcome:
            wait_for_quiet()
            self.drop(self._ahead())
            run.start()
            self.drop(batches)
            run.stop()
            return Outcome(batches * self._batch)

        return run_batches


def wait_for_quiet() -> None:
    """Wait until the cores are idle, for some seconds at most."""
    end = time.monotonic() + _PATIENCE
    before = _busy()
    while time.monotonic() < end:
        time.sleep(0.1)
        now = _busy()
        # In hundredths of a second, of all cores.
        if now - before <= _QUIET * 10:
            return
        before = now


def _busy() -> int:
    fields = [int(it) for it in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4]
