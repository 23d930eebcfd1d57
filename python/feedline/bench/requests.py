"""What a loader under test is asked to do, and what it delivers."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from feedline.bench.workloads import Workload

__all__ = ["Contestant", "DeliveredBatch", "LoadRequest", "Traced", "WorkerNumbers"]


@dataclass(frozen=True)
class LoadRequest:
    """A request to load some batches.

    Attributes
    ----------
    described
        The workload as the request describes it: loaders with a native way take it from here.
    workload
        The same as Python code.
    workers, prefetch
        Workers, and batches ahead for each of them.
    trace
        How many samples should tell who made them when.
    batch_size, batches
        How much to load. Samples are taken in order, from the start again when they run out.
    pin_memory
        Whether batches are to be in page-locked memory.
    """

    described: Mapping[str, Any]
    workload: Workload
    workers: int
    prefetch: int
    batch_size: int
    batches: int
    trace: int = 0
    pin_memory: bool = False

    @property
    def samples(self) -> int:
        """How many samples are loaded."""
        return self.batch_size * self.batches


@dataclass
class DeliveredBatch:
    """What a loader delivered.

    Attributes
    ----------
    values
        The samples, as one array or tensor.
    trace
        For each sample its worker, index, begin and end (monotonic seconds), if known.
    collated_s
        Seconds it took to put them together, if known.
    labels
        What a model is to say about them, where one is trained.
    mask
        Their masks, where they have some.
    """

    values: Any
    trace: Any = None
    collated_s: float | None = None
    labels: Any = None
    mask: Any = None


class Contestant(Protocol):
    """A loader under test."""

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Begin to load. Starting workers belongs to it, and is measured."""

    def figures(self) -> dict[str, float]:
        """Tell what only the loader knows, after the last batch."""


class Traced:
    """A workload that notes who made which sample when.

    Examples
    --------
    >>> from feedline.bench.workloads import Delay
    >>> values, trace = Traced(Delay(0.0, [1]), samples=4).sample(2, worker=1)
    >>> trace.tolist()[:2]
    [1.0, 2.0]
    """

    def __init__(self, workload: Workload, samples: int) -> None:
        workload.ready()
        self._workload = workload
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def sample(self, index: int, worker: int) -> tuple[Any, Any]:
        """Make a sample and say how."""
        size = self._workload.size
        began = time.monotonic()
        values = self._workload.sample(index if size is None else index % size)
        return values, np.array([worker, index, began, time.monotonic()])


class WorkerNumbers:
    """Small numbers for threads, in the order in which they come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[int, int] = {}

    def mine(self) -> int:
        """Return the calling thread's number."""
        thread = threading.get_ident()
        with self._lock:
            return self._numbers.setdefault(thread, len(self._numbers))
