"""torchdata's nodes: a sampler, a parallel mapper, a batcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchdata.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper

from feedline.bench.contestants.torch_loader import batch_of, timed_collate
from feedline.bench.requests import DeliveredBatch, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.requests import LoadRequest


class WorkloadSamples:
    """Makes a sample of an index, in a worker process."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced

    def __call__(self, index: int) -> Any:  # noqa: ANN401 - tensors
        """Make a sample."""
        import os

        import torch

        values, trace = self._traced.sample(index, os.getpid())
        if not isinstance(values, torch.Tensor):
            values = torch.from_numpy(values)
        return values, torch.from_numpy(trace)


class Loading:
    """`torchdata.nodes` with processes, as its documentation shows for a map-style dataset."""

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the workers."""
        make = WorkloadSamples(Traced(request.workload, request.samples))
        node: Any = SamplerWrapper(range(request.samples))
        batches: Any
        if not request.workers:
            batches = Batcher(ParallelMapper(node, make, num_workers=0), request.batch_size)
        else:
            node = ParallelMapper(
                node,
                make,
                num_workers=request.workers,
                method="process",
                multiprocessing_context="fork",
            )
            batches = Prefetcher(
                Batcher(node, request.batch_size),
                prefetch_factor=request.workers * request.prefetch,
            )
        # Workers are told apart by process number; reports count them from 0.
        numbers: dict[float, int] = {}

        def collated(samples: list[Any]) -> DeliveredBatch:
            batch = batch_of(timed_collate(samples))
            for row in batch.trace:
                row[0] = numbers.setdefault(row[0], len(numbers))
            return batch

        return map(collated, iter(Loader(batches)))

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}
