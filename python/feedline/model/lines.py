"""A loader as a line of stages, and how evenly its work is shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from feedline import _feedline
from feedline.model.whole import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "Imbalance",
    "Loading",
    "Stage",
    "Tandem",
    "expected_imbalance",
    "imbalance",
    "loading",
    "tandem",
]


@dataclass(frozen=True)
class Loading:
    """A loader whose workers fill each batch together, and the training loop that takes them.

    Attributes
    ----------
    throughput
        Samples per second.
    wait
        Mean wait of the training loop for a batch, in seconds.
    waiting_share
        Share of time in which it waits.
    ready
        Mean number of finished batches that wait for it.
    utilisation
        Share of time in which a worker works.
    knee
        Workers that are just enough; `None` without a step.
    one_more
        By which share one more worker raises throughput.
    """

    throughput: float
    wait: float
    waiting_share: float
    ready: float
    utilisation: float
    knee: float | None
    one_more: float


def loading(
    workers: int,
    *,
    cost: float,
    step: float = 0.0,
    batch_size: int = 64,
    prefetch: int = 2,
    spread: float = 0.5,
) -> Loading:
    """Tell what a loader does whose workers share nothing: no cores, disk or lock.

    Parameters
    ----------
    workers
        How many.
    cost
        What a sample costs a worker, in seconds.
    step
        The training step, in seconds.
    batch_size
        Samples of a batch.
    prefetch
        Batches read ahead.
    spread
        Standard deviation of the cost over its mean.

    Examples
    --------
    >>> from feedline import model
    >>> few = model.loading(4, cost=0.010, step=0.080)
    >>> few.throughput, few.knee, round(few.waiting_share, 2)
    (400.0, 8.0, 0.5)
    """
    workers, batch_size = count("workers", workers), count("batch_size", batch_size)
    prefetch = count("prefetch", prefetch)
    return Loading(*_feedline.model_loading(workers, batch_size, prefetch, cost, spread, step))


@dataclass(frozen=True)
class Stage:
    """One stage of a line.

    Parameters
    ----------
    time
        What a sample takes in it, in seconds.
    spread
        Standard deviation of that over its mean.
    workers
        How many work on different samples at a time.
    """

    time: float
    spread: float = 1.0
    workers: int = 1


@dataclass(frozen=True)
class Tandem:
    """A line of stages.

    Attributes
    ----------
    throughput
        Samples per second.
    bottleneck
        The slowest stage, counted from 0.
    latency
        Mean time of a sample in the line.
    parallelisation
        Workers that work at a time, in the mean.
    utilisation
        Of each stage, the share of time in which it works.
    blocked
        Of each stage, the share of time in which it cannot hand its sample on.
    """

    throughput: float
    bottleneck: int
    latency: float
    parallelisation: float
    utilisation: list[float]
    blocked: list[float]


def tandem(stages: Sequence[Stage], buffers: Sequence[int]) -> Tandem:
    """Solve a line of stages with room for few samples in between.

    Parameters
    ----------
    stages
        In order.
    buffers
        Samples that fit between neighbouring stages: one number fewer than stages.

    Examples
    --------
    >>> from feedline import model
    >>> load, decode = model.Stage(0.004, workers=2), model.Stage(0.010, workers=4)
    >>> line = model.tandem([load, decode], buffers=[2])
    >>> line.bottleneck, line.throughput < 400
    (1, True)
    """
    rows = [(it.time, it.spread, count("workers", it.workers)) for it in stages]
    return Tandem(*_feedline.model_tandem(rows, [count("a buffer", it) for it in buffers]))


@dataclass(frozen=True)
class Imbalance:
    """How evenly work was shared: the longest time over the mean, and its inverse."""

    factor: float
    efficiency: float


def imbalance(times: Iterable[float]) -> Imbalance:
    """Compare the busy times of workers.

    Parameters
    ----------
    times
        Of each worker.

    Examples
    --------
    >>> from feedline import model
    >>> model.imbalance([2, 4]).efficiency
    0.75
    """
    return Imbalance(*_feedline.model_imbalance(list(times)))


def expected_imbalance(workers: int, samples: int, spread: float = 1.0) -> float:
    """Longest time over the mean, if each worker is given its samples in advance.

    Parameters
    ----------
    workers
        How many.
    samples
        Samples of each.
    spread
        Standard deviation of the samples' times over their mean.

    Examples
    --------
    >>> from feedline import model
    >>> round(model.expected_imbalance(8, 100), 2)
    1.14
    """
    return _feedline.model_expected_imbalance(
        count("workers", workers), count("samples", samples), spread
    )
