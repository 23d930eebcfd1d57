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
        return tensors_of(values), torch.from_numpy(trace)


def tensors_of(values: Any) -> Any:  # noqa: ANN401 - arrays or tensors
    """Make tensors of a sample: of an image, or of an image and its mask."""
    if isinstance(values, tuple):
        return tuple(map(tensors_of, values))
    return values if isinstance(values, torch.Tensor) else torch.from_numpy(values)


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
    image, mask = values if isinstance(values, (list, tuple)) else (values, None)
    return DeliveredBatch(image, trace.numpy(), collated_s, mask=mask)
