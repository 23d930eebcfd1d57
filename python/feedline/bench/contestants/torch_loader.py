"""torch's DataLoader."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from feedline.bench.contestants import review_batches
from feedline.bench.requests import DeliveredBatch, Traced
from feedline.bench.reviews import Reviews

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.requests import LoadRequest


class WorkloadSamples(Dataset[Any]):
    """A workload as a map-style dataset."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced

    def __len__(self) -> int:
        return len(self._traced)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - tensors
        info = get_worker_info()
        values, trace = self._traced.sample(index, 0 if info is None else info.id)
        if not isinstance(values, torch.Tensor):
            values = torch.from_numpy(values)
        return values, torch.from_numpy(trace)


def timed_collate(samples: list[Any]) -> tuple[Any, Any, float]:
    """Put samples together and say how long it took."""
    began = time.monotonic()
    values, trace = default_collate(samples)
    return values, trace, time.monotonic() - began


class Loading:
    """torch's DataLoader as people use it."""

    def loader(self, request: LoadRequest) -> DataLoader[Any]:
        """Make the loader."""
        return DataLoader(
            WorkloadSamples(Traced(request.workload, request.samples)),
            batch_size=request.batch_size,
            num_workers=request.workers,
            prefetch_factor=request.prefetch if request.workers else None,
            collate_fn=timed_collate,
        )

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the workers."""
        if isinstance(request.workload, Reviews):
            files = review_batches.ReviewFiles(request.workload, request.samples)
            return review_batches.batches_of(review_batches.review_loader(files, request))
        return map(batch_of, iter(self.loader(request)))

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}


def batch_of(delivered: tuple[Any, Any, float]) -> DeliveredBatch:
    """Name the parts of what was collated."""
    values, trace, collated_s = delivered
    return DeliveredBatch(values, trace.numpy(), collated_s)
