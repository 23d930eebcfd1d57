"""What `stats()` of both loaders returns: one schema, told field by field in docs/stats.md."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = [
    "BatchTimes",
    "Change",
    "ConsumerStats",
    "ControlStats",
    "MemoryStats",
    "PaddedStats",
    "SeriesPoint",
    "Setting",
    "StageStats",
    "Stats",
    "StealStats",
    "StoreStats",
    "Times",
    "WorkerStats",
]


class Times(TypedDict):
    """A distribution of times."""

    count: int
    mean_ns: float
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int


class StageStats(TypedDict):
    """One stage of the work."""

    stage: Literal["load", "decode", "transform", "fetch", "collate", "transport"]
    bytes: int
    total_ns: int
    times: Times


class WorkerStats(TypedDict):
    """One worker."""

    worker: int
    samples: int
    jobs: int
    busy_ns: int
    idle_for_consumer_ns: int
    idle_without_work_ns: int
    stages: list[StageStats]


class ConsumerStats(TypedDict):
    """The training loop's side."""

    step_ns: int
    wait_ns: int
    handover_ns: int
    waits: Times


class BatchTimes(TypedDict):
    """The stretches of a batch's way, end to end."""

    queued_ns: int
    building_ns: int
    collating_ns: int
    shelved_ns: int


class SeriesPoint(TypedDict):
    """A quantity at one moment."""

    at_ns: int
    value: int


class StealStats(TypedDict):
    """How often workers took work from each other."""

    tried: int
    won: int
    jobs: int
    cost_ns: int


class MemoryStats(TypedDict):
    """Bytes and blocks of the loader."""

    undelivered: int
    idle: int
    held_by_user: int
    peak: int
    allocated_blocks: int
    reused_blocks: int


class PaddedStats(TypedDict):
    """How much of padded fields holds values."""

    values: int
    places: int


class Setting(TypedDict):
    """What a controller moves."""

    workers: int
    prefetch: int


# `from` is a word of Python's.
Change = TypedDict("Change", {"at_ns": int, "from": Setting, "to": Setting, "why": str})
Change.__doc__ = """One thing that a controller did, and why."""


class ControlStats(TypedDict):
    """What a controller did: ``num_workers="auto"``, ``prefetch="auto"``."""

    setting: Setting
    most_workers: int
    most_prefetch: int
    cores: int
    stays: str
    changes: list[Change]
    changed: int


class StoreStats(TypedDict):
    """What a bucket or a web server was asked by this process so far."""

    url: str
    requests: int
    bytes: int
    hedged: int
    retried: int
    broken: int
    cached: int
    missed: int
    in_flight: int
    ahead: int
    not_kept: str


class Stats(TypedDict):
    """What a loader has done so far, and where the time went."""

    mode: Literal["native", "inline", "thread", "process"]
    num_workers: int
    elapsed_ns: int
    batches: int
    samples: int
    bytes: int
    errors: int
    lost_workers: int
    consumer: ConsumerStats
    workers: list[WorkerStats]
    stages: list[StageStats]
    batch_parts: BatchTimes
    recent_batches: list[BatchTimes]
    occupancy: list[SeriesPoint]
    imbalance: float
    efficiency: float
    steals: StealStats
    memory: MemoryStats
    padded: PaddedStats
    prefetch: int
    control: ControlStats | None
    ready: int
    stores: list[StoreStats]
