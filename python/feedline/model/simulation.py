"""A loader on a virtual clock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from feedline import _feedline

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Simulated", "SimulatedRank", "SimulatedStage", "simulate"]


@dataclass(frozen=True)
class SimulatedRank:
    """One training loop of a simulation; times in seconds.

    Attributes
    ----------
    first_batch
        From the start to its first batch.
    wait
        It waited for batches, the first one included.
    handover
        It took batches over.
    step
        Its steps.
    exchange
        It waited for other ranks, and exchanged.
    ready
        Mean number of finished batches that waited for it.
    peak_bytes
        Most bytes that were undelivered or idle.
    """

    first_batch: float
    wait: float
    handover: float
    step: float
    exchange: float
    ready: float
    peak_bytes: int


@dataclass(frozen=True)
class SimulatedStage:
    """One stage: how often it was done, and seconds that workers spent in it."""

    name: str
    count: int
    busy: float


@dataclass(frozen=True)
class Simulated:
    """What came out of a simulation.

    Attributes
    ----------
    duration
        Seconds from the start to the end of the last step.
    samples, batches
        Delivered, by all ranks.
    ranks, stages
        Each of them.
    utilisation
        Mean share of time in which a worker had a job.
    imbalance
        Longest busy time of a worker over the mean.
    completions
        Stages that were done.
    """

    duration: float
    samples: int
    batches: int
    ranks: list[SimulatedRank]
    stages: list[SimulatedStage]
    utilisation: float
    imbalance: float
    completions: int

    @property
    def throughput(self) -> float:
        """Samples per second of all ranks."""
        return self.samples / self.duration if self.duration > 0 else float("inf")

    @property
    def waiting_share(self) -> float:
        """Mean share of time in which a training loop waited for its loader."""
        waits = sum(rank.wait for rank in self.ranks)
        return waits / self.duration / len(self.ranks) if self.duration > 0 else 0.0


def simulate(settings: Mapping[str, Any]) -> Simulated:
    """Run a loader on a virtual clock, with the engine's own read-ahead and scheduling policies.

    Parameters
    ----------
    settings
        As in the file of ``feedline model simulate``, which docs/model.md tells: `samples`,
        `batch_size`, `workers`, `stages` and so on. Times and bytes may be texts: ``"80ms"``.

    Examples
    --------
    >>> from feedline import model
    >>> decode = {"name": "decode", "cost": {"mean": "10ms", "spread": 0.5}}
    >>> outcome = model.simulate(
    ...     {"samples": 6400, "batch_size": 64, "workers": 8, "step": "20ms", "stages": [decode]}
    ... )
    >>> outcome.samples, round(outcome.throughput, -1)
    (6400, 800.0)
    """
    found = json.loads(_feedline.model_simulate(json.dumps(dict(settings))))
    found["ranks"] = [SimulatedRank(**rank) for rank in found["ranks"]]
    found["stages"] = [SimulatedStage(**stage) for stage in found["stages"]]
    return Simulated(**found)
