"""Reviews in torch's DataLoader, in Python as people write it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from feedline.bench.requests import DeliveredBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.requests import LoadRequest
    from feedline.bench.reviews import Reviews


class ReviewFiles(Dataset[Any]):
    """A file for each sample, read, looked up and padded by a worker."""

    def __init__(self, reviews: Reviews, samples: int) -> None:
        reviews.ready()
        self._reviews = reviews
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - tensors
        began = time.monotonic()
        words, label = self._reviews.sample(index % (self._reviews.size or 1))
        ended = time.monotonic()
        return torch.from_numpy(words), label, trace_of(index, began, ended)


def trace_of(index: int, began: float, ended: float) -> torch.Tensor:
    """Say who made a sample when."""
    info = get_worker_info()
    worker = 0 if info is None else info.id
    return torch.tensor([worker, index, began, ended], dtype=torch.float64)


def timed_collate(samples: list[Any]) -> tuple[Any, Any, Any, float]:
    """Put samples together and say how long it took."""
    began = time.monotonic()
    words, labels, trace = default_collate(samples)
    return words, labels, trace, time.monotonic() - began


def review_loader(dataset: Dataset[Any], request: LoadRequest) -> DataLoader[Any]:
    """Make torch's loader."""
    return DataLoader(
        dataset,
        batch_size=request.batch_size,
        num_workers=request.workers,
        prefetch_factor=request.prefetch if request.workers else None,
        collate_fn=timed_collate,
        pin_memory=request.pin_memory,
    )


def batches_of(loader: DataLoader[Any]) -> Iterator[DeliveredBatch]:
    """Start the workers, and name the parts of what they deliver."""
    return map(_batch, iter(loader))


def _batch(delivered: tuple[Any, Any, Any, float]) -> DeliveredBatch:
    words, labels, trace, collated_s = delivered
    return DeliveredBatch(words, trace.numpy(), collated_s, labels=labels)
