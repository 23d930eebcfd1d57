"""Queues: how long what arrives at random has to wait."""

from __future__ import annotations

from dataclasses import dataclass

from feedline import _feedline
from feedline.model.whole import count

__all__ = ["Cheapest", "Little", "Queue", "cheapest_workers", "little", "mg1", "mgc", "mm1", "mmc"]


@dataclass(frozen=True)
class Queue:
    """A queue with random (Poisson) arrivals, first come first served.

    The mean wait is ``C / (service * servers - arrival) * (1 + spread**2) / 2``, with Erlang's C,
    the share that finds all servers busy. Random arrivals are a limit of all queues here: a worker
    that asks for the next sample when it is done makes no queue.

    Attributes
    ----------
    utilisation
        Share of time in which a server is busy.
    probability_of_waiting
        Share of arrivals that find all servers busy.
    mean_wait
        Mean time until service begins.
    mean_time
        Mean time from arrival to departure.
    mean_in_queue
        Mean number waiting.
    mean_in_system
        Mean number waiting or being served.
    """

    arrival: float
    service: float
    servers: int
    spread: float
    utilisation: float
    probability_of_waiting: float
    mean_wait: float
    mean_time: float
    mean_in_queue: float
    mean_in_system: float

    def waits_longer_than(self, time: float) -> float:
        """Share of arrivals that wait longer than a time; exact if service times are exponential.

        Parameters
        ----------
        time
            Seconds.

        Examples
        --------
        >>> from feedline import model
        >>> round(model.mm1(arrival=8, service=10).waits_longer_than(0.5), 3)
        0.294
        """
        return _feedline.model_waits_longer_than(
            self.arrival, self.service, self.servers, self.spread, time
        )


def mm1(arrival: float, service: float) -> Queue:
    """One server, exponential service times (M/M/1).

    Parameters
    ----------
    arrival
        How many come per second.
    service
        How many the server can do per second, which must be more.

    Examples
    --------
    >>> from feedline import model
    >>> model.mm1(arrival=8, service=10).mean_in_system
    4.0
    >>> model.mm1(arrival=10, service=10)
    Traceback (most recent call last):
    ValueError: 10 arrive per unit of time and at most 10 are served, so the queue grows for ever; \
pass a smaller arrival rate, faster service or more servers
    """
    return mgc(arrival, service, 1, 1.0)


def mmc(arrival: float, service: float, servers: int) -> Queue:
    """Several servers, exponential service times (M/M/c).

    Parameters
    ----------
    arrival
        How many come per second.
    service
        How many one server can do per second.
    servers
        How many serve.

    Examples
    --------
    >>> from feedline import model
    >>> queue = model.mmc(arrival=2, service=1, servers=3)
    >>> round(queue.probability_of_waiting, 6)  # four ninths
    0.444444
    """
    return mgc(arrival, service, servers, 1.0)


def mg1(arrival: float, service: float, spread: float) -> Queue:
    """One server, service times of any distribution (M/G/1); the means are exact.

    Parameters
    ----------
    arrival
        How many come per second.
    service
        How many the server can do per second.
    spread
        Standard deviation of the service times over their mean: 0 if all are the same.

    Examples
    --------
    >>> from feedline import model
    >>> model.mg1(8, 10, spread=0).mean_wait / model.mm1(8, 10).mean_wait
    0.5
    """
    return mgc(arrival, service, 1, spread)


def mgc(arrival: float, service: float, servers: int, spread: float) -> Queue:
    """Several servers, service times of any distribution (M/G/c), approximately.

    Within about a tenth for a spread up to 1 and some ten servers; too high for many servers with
    little load.

    Parameters
    ----------
    arrival
        How many come per second.
    service
        How many one server can do per second.
    servers
        How many serve.
    spread
        Standard deviation of the service times over their mean.

    Examples
    --------
    >>> from feedline import model
    >>> model.mgc(30, 10, servers=5, spread=1) == model.mmc(30, 10, servers=5)
    True
    """
    servers = count("servers", servers)
    found = _feedline.model_queue(arrival, service, servers, spread)
    return Queue(arrival, service, servers, spread, *found)


@dataclass(frozen=True)
class Little:
    """Little's law: ``number = rate * time``, in every system that is stable."""

    number: float
    rate: float
    time: float


def little(
    *, number: float | None = None, rate: float | None = None, time: float | None = None
) -> Little:
    """Find the third of the three numbers of Little's law.

    Parameters
    ----------
    number
        Mean number inside.
    rate
        How many come, and go, per second.
    time
        Mean time inside.

    Examples
    --------
    >>> from feedline import model
    >>> model.little(rate=500, time=0.04).number  # samples under way, and so a buffer's size
    20.0
    """
    return Little(*_feedline.model_little(number, rate, time))


@dataclass(frozen=True)
class Cheapest:
    """The number of workers that costs least, what it costs per second, and the mean wait."""

    workers: int
    cost: float
    wait: float


def cheapest_workers(
    arrival: float,
    service: float,
    *,
    spread: float = 1.0,
    worker_cost: float = 1.0,
    waiting_cost: float,
) -> Cheapest:
    """Weigh workers against waiting: ``worker_cost * workers + waiting_cost * number waiting``.

    Parameters
    ----------
    arrival
        How many are asked for per second.
    service
        How many a worker makes per second.
    spread
        Standard deviation of the service times over their mean.
    worker_cost
        What a worker costs per second.
    waiting_cost
        What a second costs for which a request waits: an idle accelerator's price.

    Examples
    --------
    >>> from feedline import model
    >>> model.cheapest_workers(30, 10, waiting_cost=20).workers
    7
    """
    found = _feedline.model_cheapest_workers(arrival, service, spread, worker_cost, waiting_cost)
    return Cheapest(*found)
