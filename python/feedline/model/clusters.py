"""Nodes that load for nodes that train: what bounds them, and how many are needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from feedline.model.whole import count

__all__ = ["Cluster", "cluster"]


@dataclass(frozen=True)
class Cluster:
    """Loader nodes that feed trainers.

    Attributes
    ----------
    throughput
        Samples per second of all trainers together.
    waiting_share
        Share of time in which a trainer waits.
    bound_by
        What is too small first; ``"training"`` where nothing is.
    limits
        Samples per second that each part could do, by name.
    enough_loaders
        Loader nodes that are just enough, as far as they are what is too small.
    """

    throughput: float
    waiting_share: float
    bound_by: str
    limits: dict[str, float]
    enough_loaders: int


def cluster(
    trainers: int,
    loaders: int,
    *,
    cost: float,
    cores: int,
    step: float,
    batch_size: int,
    sample_bytes: float,
    read_bytes: float = 0.0,
    network: float,
    storage: float = math.inf,
    orders: float = math.inf,
) -> Cluster:
    """Tell what trainers get of loader nodes by way of a network: as much as its narrowest part.

    Each node has one full-duplex link to a network that is as wide as all links together. Loader
    nodes read samples, make batches of them, and send each to one trainer.

    Parameters
    ----------
    trainers
        Processes that train, each on a node of its own, or with so much of a node's link.
    loaders
        Nodes that load.
    cost
        What a sample costs a core of them, in seconds.
    cores
        Cores of each that load.
    step
        Seconds of a training step.
    batch_size
        Samples of a batch.
    sample_bytes
        Bytes of a sample in a batch.
    read_bytes
        Bytes of a sample in its file.
    network
        Bytes per second of a node's link, each way.
    storage
        Bytes per second of what the files are on, for all.
    orders
        Batches per second that whoever gives them out can give out.

    Examples
    --------
    >>> from feedline import model
    >>> found = model.cluster(
    ...     4, 1, cost=0.001, cores=32, step=0.1, batch_size=256, sample_bytes=150_000, network=1e9
    ... )
    >>> found.bound_by, round(found.throughput), found.enough_loaders
    ("the loaders' links, out", 6667, 2)
    """
    trainers, loaders = count("trainers", trainers), count("loaders", loaders)
    cores, batch_size = count("cores", cores), count("batch_size", batch_size)
    positive = {
        "trainers": trainers,
        "loaders": loaders,
        "cores": cores,
        "batch_size": batch_size,
        "cost": cost,
        "step": step,
        "sample_bytes": sample_bytes,
        "network": network,
        "storage": storage,
        "orders": orders,
    }
    for name, value in positive.items():
        if not value > 0:
            msg = f"{name} is {value}; pass a number above 0"
            raise ValueError(msg)
    if not read_bytes >= 0:
        msg = f"read_bytes is {read_bytes}; pass a number from 0 on"
        raise ValueError(msg)
    # What one loader node can do, each way of it.
    node = {
        "the loaders' cores": cores / cost,
        "the loaders' links, out": network / sample_bytes,
        "the loaders' links, in": network / read_bytes if read_bytes else math.inf,
    }
    elsewhere = {
        "training": trainers * batch_size / step,
        "the trainers' links": trainers * network / sample_bytes,
        "storage": storage / read_bytes if read_bytes else math.inf,
        "orders": orders * batch_size,
    }
    limits = elsewhere | {name: loaders * rate for name, rate in node.items()}
    # Of equal ones the first: nothing is too small that is as large as what training takes.
    bound_by = min(limits, key=lambda name: limits[name])
    return Cluster(
        limits[bound_by],
        1 - limits[bound_by] / limits["training"],
        bound_by,
        limits,
        math.ceil(min(elsewhere.values()) / min(node.values())),
    )
