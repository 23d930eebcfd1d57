"""SPDL's pipeline: threads around Python code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from spdl.pipeline import PipelineBuilder

from feedline.bench.contestants.torch_loader import batch_of, timed_collate
from feedline.bench.jobs import Batch, Traced, WorkerNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.jobs import Job


class Loading:
    """Source, concurrent pipe in input order, aggregation, sink."""

    def load(self, job: Job) -> Iterator[Batch]:
        """Start the threads."""
        traced, numbers = Traced(job.workload, job.samples), WorkerNumbers()

        def make(index: int) -> Any:  # noqa: ANN401 - tensors
            values, trace = traced.sample(index, numbers.mine())
            if not isinstance(values, torch.Tensor):
                values = torch.from_numpy(values)
            return values, torch.from_numpy(trace)

        workers = max(job.workers, 1)
        pipeline = (
            PipelineBuilder()
            .add_source(range(job.samples))
            .pipe(make, concurrency=workers, output_order="input")
            .aggregate(job.batch_size)
            .pipe(timed_collate)
            .add_sink(workers * job.prefetch)
            .build(num_threads=workers + 1)
        )

        def batches() -> Iterator[Batch]:
            with pipeline.auto_stop():
                yield from map(batch_of, pipeline.get_iterator())

        return batches()

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}
