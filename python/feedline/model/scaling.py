"""Scaling laws: how throughput grows with workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from feedline import _feedline
from feedline.model.whole import count

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Usl", "UslFit", "amdahl", "fit_usl", "gustafson", "usl"]


def amdahl(serial: float, workers: int) -> float:
    """How many times faster workers finish work of which a share cannot be shared out.

    Parameters
    ----------
    serial
        That share, from 0 to 1.
    workers
        How many.

    Examples
    --------
    >>> from feedline import model
    >>> round(model.amdahl(0.05, 20), 2)
    10.26
    """
    return _feedline.model_amdahl(serial, count("workers", workers))


def gustafson(serial: float, workers: int) -> float:
    """How much more work workers finish in the time of one, if the work grows with them.

    Parameters
    ----------
    serial
        Share of their time for what cannot be shared out, from 0 to 1.
    workers
        How many.

    Examples
    --------
    >>> from feedline import model
    >>> model.gustafson(0.1, 8)
    7.3
    """
    return _feedline.model_gustafson(serial, count("workers", workers))


@dataclass(frozen=True)
class Usl:
    """The universal scalability law at one number of workers.

    Attributes
    ----------
    speedup
        Times as fast as one.
    best_workers
        The fastest number of workers; `None` if more is never worse.
    """

    contention: float
    coherence: float
    workers: int
    speedup: float
    best_workers: int | None


def usl(contention: float, coherence: float, workers: int) -> Usl:
    """Gunther's law: ``n / (1 + contention * (n - 1) + coherence * n * (n - 1))``.

    Parameters
    ----------
    contention
        Share of the work that is done by one at a time.
    coherence
        Cost of each pair of workers, as a share of the work.
    workers
        How many.

    Examples
    --------
    >>> from feedline import model
    >>> model.usl(0.05, 0.002, workers=8).best_workers
    22
    """
    workers = count("workers", workers)
    return Usl(contention, coherence, workers, *_feedline.model_usl(contention, coherence, workers))


@dataclass(frozen=True)
class UslFit:
    """The universal scalability law behind measured rates.

    Attributes
    ----------
    single
        Rate of one worker.
    contention, coherence
        The law's numbers.
    error
        How far the law is off the rates, in the mean: 0.05 is 5 %.
    margins
        Half the widths of the 95 % intervals of the three numbers; `None` without spare rates.
    """

    single: float
    contention: float
    coherence: float
    error: float
    margins: tuple[float, float, float] | None

    def rate(self, workers: int) -> float:
        """Rate to expect of a number of workers.

        Parameters
        ----------
        workers
            How many.

        Examples
        --------
        >>> from feedline import model
        >>> fit = model.fit_usl([(1, 10), (2, 20), (4, 40)])
        >>> round(fit.rate(8))
        80
        """
        return self.single * usl(self.contention, self.coherence, workers).speedup


def fit_usl(rates: Iterable[tuple[int, float]]) -> UslFit:
    """Fit the law to measured rates, of three numbers of workers at least.

    Parameters
    ----------
    rates
        Pairs of workers and what they did per second.

    Examples
    --------
    >>> from feedline import model
    >>> published = [80.34, 146.84, 204.23, 243.19, 275.86, 309.32, 308.75, 331.83]
    >>> fit = model.fit_usl(enumerate(published, start=1))
    >>> round(fit.contention, 2), round(fit.error, 3)
    (0.07, 0.015)
    """
    found = _feedline.model_fit_usl([(count("workers", n), rate) for n, rate in rates])
    if found is None:
        raise ValueError("rates has too few numbers of workers to fit a law; pass at least three")
    return UslFit(*found)
