"""Bytes: how many are held, and what it costs to move them."""

from __future__ import annotations

from dataclasses import dataclass

from feedline import _feedline
from feedline.model.whole import count, size

__all__ = [
    "Bandwidth",
    "Pinning",
    "Transfer",
    "bandwidth",
    "batch_memory",
    "largest_batch",
    "pinning",
    "process_memory",
    "transfer",
]


def batch_memory(batch_size: int, sample_bytes: int, *, stages: int = 1, depth: int = 2) -> int:
    """Bytes of all batches under way: ``batch_size * sample_bytes * (stages - 1 + depth)``.

    Parameters
    ----------
    batch_size
        Samples of a batch.
    sample_bytes
        What a sample takes.
    stages
        In how many forms a batch exists: raw, decoded, finished.
    depth
        Batches read ahead.

    Examples
    --------
    >>> from feedline import model
    >>> model.batch_memory(64, 602_112, stages=3, depth=2)
    154140672
    """
    sample_bytes = size("sample_bytes", sample_bytes)
    batch_size, depth = count("batch_size", batch_size), count("depth", depth)
    return _feedline.model_batches(batch_size, sample_bytes, count("stages", stages), depth)


def process_memory(workers: int, *, private: int, batch_bytes: int, prefetch: int = 2) -> int:
    """Bytes of worker processes: ``workers * (private + prefetch * batch_bytes)``.

    Parameters
    ----------
    workers
        How many.
    private
        What a worker has for itself.
    batch_bytes
        What a batch takes.
    prefetch
        Batches of each.

    Examples
    --------
    >>> from feedline import model
    >>> model.process_memory(2, private=10, batch_bytes=100, prefetch=3)
    620
    """
    private, batch_bytes = size("private", private), size("batch_bytes", batch_bytes)
    workers, prefetch = count("workers", workers), count("prefetch", prefetch)
    return _feedline.model_processes(workers, private, batch_bytes, prefetch)


def largest_batch(limit: int, sample_bytes: int, *, stages: int = 1, depth: int = 2) -> int:
    """Find the largest batch size that fits a limit.

    Parameters
    ----------
    limit
        Bytes that all batches may take.
    sample_bytes
        What a sample takes.
    stages
        In how many forms a batch exists.
    depth
        Batches read ahead.

    Examples
    --------
    >>> from feedline import model
    >>> model.largest_batch(2**30, 602_112, stages=3)
    445
    """
    limit, sample_bytes = size("limit", limit), size("sample_bytes", sample_bytes)
    stages, depth = count("stages", stages), count("depth", depth)
    return _feedline.model_largest_batch(limit, sample_bytes, stages, depth)


@dataclass(frozen=True)
class Transfer:
    """Moving one message.

    Attributes
    ----------
    time
        Seconds of a message.
    utilisation
        Share of the time in which bytes move.
    in_flight
        Messages under way that use the whole bandwidth.
    """

    time: float
    utilisation: float
    in_flight: float


def transfer(bytes: float, *, latency: float = 0.0, bandwidth: float) -> Transfer:  # noqa: A002
    """Move a message: ``time = latency + bytes / bandwidth``.

    Parameters
    ----------
    bytes
        Size of the message.
    latency
        Seconds before its first byte.
    bandwidth
        Bytes per second from then on.

    Examples
    --------
    >>> from feedline import model
    >>> model.transfer(1e6, latency=1e-3, bandwidth=1e9)
    Transfer(time=0.002, utilisation=0.5, in_flight=2.0)
    """
    return Transfer(*_feedline.model_transfer(bytes, latency, bandwidth))


@dataclass(frozen=True)
class Bandwidth:
    """A bandwidth that several share.

    Attributes
    ----------
    each
        What each gets, in bytes per second.
    all
        What all get together.
    saturated_by
        Users that still get what they would use alone; `None` if nobody said what that is.
    """

    each: float
    all: float
    saturated_by: int | None


def bandwidth(
    total: float, *, users: int, contention: float = 0.0, demand: float | None = None
) -> Bandwidth:
    """Share a bandwidth: ``each = total / users / (1 + contention * (users - 1))``.

    Parameters
    ----------
    total
        All of it, in bytes per second.
    users
        How many use it.
    contention
        What each further user takes from all: 0 for memory and flash.
    demand
        What one would use alone, in bytes per second.

    Examples
    --------
    >>> from feedline import model
    >>> model.bandwidth(1000.0, users=4, demand=100.0)
    Bandwidth(each=250.0, all=1000.0, saturated_by=10)
    """
    found = _feedline.model_bandwidth(total, contention, count("users", users), demand)
    return Bandwidth(*found)


@dataclass(frozen=True)
class Pinning:
    """What page-locked memory gains and takes.

    Attributes
    ----------
    speedup
        Times as fast a copy to the device.
    saved
        Seconds saved for each batch.
    locked
        Bytes that are locked.
    share
        Their share of the machine's memory.
    """

    speedup: float
    saved: float
    locked: int
    share: float


def pinning(
    batch_bytes: int,
    *,
    memory: int,
    depth: int = 2,
    pinned: float = 24e9,
    pageable: float = 8e9,
    step: float | None = None,
) -> Pinning:
    """Compare copying a batch to a device from page-locked and from ordinary memory.

    Parameters
    ----------
    batch_bytes
        Size of a batch.
    memory
        Memory of the machine.
    depth
        Batches that are locked at a time.
    pinned, pageable
        Bytes per second to the device from either.
    step
        Seconds of the training step beside which the copy runs, if it does.

    Examples
    --------
    >>> from feedline import model
    >>> model.pinning(100, memory=10_000, depth=4, pinned=50, pageable=10)
    Pinning(speedup=5.0, saved=8.0, locked=400, share=0.04)
    """
    batch_bytes, memory = size("batch_bytes", batch_bytes), size("memory", memory)
    depth = count("depth", depth)
    return Pinning(*_feedline.model_pinning(batch_bytes, depth, pinned, pageable, step, memory))
