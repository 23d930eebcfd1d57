"""Grain's map datasets, read by threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grain
import numpy as np

from feedline.bench.requests import DeliveredBatch, Traced, WorkerNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.requests import LoadRequest


class WorkloadSamples:
    """A workload as a random access data source."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._numbers = WorkerNumbers()

    def __len__(self) -> int:
        return len(self._traced)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - arrays
        values, trace = self._traced.sample(int(index), self._numbers.mine())
        return np.asarray(values), trace


class Loading:
    """`grain.MapDataset`, batched, read ahead by threads."""

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the threads."""
        data = grain.MapDataset.source(WorkloadSamples(Traced(request.workload, request.samples)))
        options = grain.ReadOptions(
            num_threads=request.workers,
            prefetch_buffer_size=max(request.workers * request.prefetch * request.batch_size, 1),
        )
        batches = data.to_iter_dataset(options).batch(request.batch_size)
        return (DeliveredBatch(values, trace) for values, trace in batches)

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}
