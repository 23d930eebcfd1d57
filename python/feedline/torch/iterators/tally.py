"""What is counted of batches that Python makes: how many, how large, how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from feedline.stats import StageStats, Times, WorkerStats

__all__ = ["Durations", "Tally"]

# Times are told apart by their first seven bits, which is within one per cent.
_BITS = 7


class Durations:
    """Some times: their sum, number, largest and distribution."""

    __slots__ = ("_counts", "count", "most", "total")

    def __init__(self) -> None:
        self.total = self.count = self.most = 0
        self._counts: dict[int, int] = {}

    def add(self, ns: int) -> None:
        """Count one more."""
        self.total += ns
        self.count += 1
        if ns > self.most:
            self.most = ns
        shift = ns.bit_length() - _BITS
        about = ns >> shift << shift if shift > 0 else ns
        self._counts[about] = self._counts.get(about, 0) + 1

    @property
    def mean(self) -> float:
        """The mean, or 0 where there is none."""
        return self.total / self.count if self.count else 0.0

    def times(self) -> Times:
        """Return them as plain data."""
        median, ninetieth, last = (self._below(part) for part in (0.5, 0.9, 0.99))
        return {
            "count": self.count,
            "mean_ns": self.mean,
            "p50_ns": median,
            "p90_ns": ninetieth,
            "p99_ns": last,
            "max_ns": self.most,
        }

    def _below(self, part: float) -> int:
        """Return the time that such a part of them does not exceed."""
        seen = 0
        for about in sorted(self._counts):
            seen += self._counts[about]
            if seen >= part * self.count:
                return about
        return 0


class Tally:
    """What one worker has made, or all of them together."""

    __slots__ = ("batches", "busy_ns", "bytes", "collate", "fetch", "samples", "transport")

    def __init__(self) -> None:
        self.samples = self.batches = self.bytes = self.busy_ns = 0
        self.fetch, self.collate, self.transport = Durations(), Durations(), Durations()

    def stages(self) -> list[StageStats]:
        """Return its stages as plain data."""
        return [
            _stage("fetch", self.fetch, 0),
            _stage("collate", self.collate, 0),
            _stage("transport", self.transport, self.bytes),
        ]

    def stats(self, worker: int) -> WorkerStats:
        """Return it as plain data."""
        return {
            "worker": worker,
            "samples": self.samples,
            "jobs": self.batches,
            "busy_ns": self.busy_ns,
            "idle_for_consumer_ns": 0,
            "idle_without_work_ns": 0,
            "stages": self.stages(),
        }


def _stage(
    name: Literal["fetch", "collate", "transport"], durations: Durations, size: int
) -> StageStats:
    return {"stage": name, "bytes": size, "total_ns": durations.total, "times": durations.times()}
