"""feedline's own loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import feedline
from feedline.bench.jobs import Batch, Traced, WorkerNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.jobs import Job


class Loading:
    """`feedline.Loader`; Python samples are made by its threads, files natively."""

    def __init__(self) -> None:
        self._loader: feedline.Loader | None = None

    def load(self, job: Job) -> Iterator[Batch]:
        """Start the workers."""
        self._loader = feedline.Loader(
            self._pipeline(job),
            batch_size=job.batch_size,
            num_workers=job.workers,
            prefetch=job.prefetch * max(job.workers, 1),
            epochs=1,
        )
        return map(_batch, iter(self._loader))

    def _pipeline(self, job: Job) -> feedline.Pipeline:
        traced, numbers = Traced(job.workload, job.samples), WorkerNumbers()

        def make(index: int) -> Any:  # noqa: ANN401 - arrays
            return traced.sample(int(index), numbers.mine())

        return feedline.arrays(np.arange(job.samples)).map(make)

    def figures(self) -> dict[str, float]:
        """Tell how long batches were put together, from the loader's own counts."""
        if self._loader is None:
            return {}
        stats = self._loader.stats()
        self._loader = None
        batches = max(stats["batches"], 1)
        return {"collate_s": stats["batch_parts"]["collating_ns"] / 1e9 / batches}


def _batch(delivered: tuple[Any, ...]) -> Batch:
    values, *trace = delivered
    return Batch(values, trace[0] if trace else None)
