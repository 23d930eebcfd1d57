"""torch's DataLoader over Hugging Face's `datasets`: the texts in an Arrow table on disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import datasets
import torch
from torch.utils.data import Dataset

from feedline.bench.contestants.review_batches import batches_of, review_loader, trace_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.requests import DeliveredBatch, LoadRequest
    from feedline.bench.reviews import Reviews


class ReviewTable(Dataset[Any]):
    """Rows of the table, looked up and padded by a worker: all of a batch at once."""

    def __init__(self, reviews: Reviews, samples: int, table: Any) -> None:  # noqa: ANN401
        reviews.ready()
        self._reviews = reviews
        self._samples = samples
        self._table = table

    def __len__(self) -> int:
        return self._samples

    def __getitems__(self, indices: list[int]) -> list[Any]:
        began = time.monotonic()
        size = self._reviews.size or 1
        places = [int(self._reviews.order[index % size]) for index in indices]
        made = self._reviews.samples(self._table[places]["text"], places)
        # They were made together: each gets its share of the time.
        share = (time.monotonic() - began) / len(indices)
        return [
            (
                torch.from_numpy(words),
                label,
                trace_of(index, began + i * share, began + (i + 1) * share),
            )
            for i, (index, (words, label)) in enumerate(zip(indices, made, strict=True))
        ]

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - tensors
        return self.__getitems__([index])[0]


class Loading:
    """torch's DataLoader over `datasets.load_from_disk`."""

    def __init__(self) -> None:
        #: Tables that were opened: opening them is no part of an epoch.
        self._tables: dict[str, Any] = {}

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the workers."""
        if request.described["kind"] != "reviews":
            msg = "datasets takes part in `feedline bench text` only"
            raise ValueError(msg)
        reviews: Any = request.workload
        table = ReviewTable(reviews, request.samples, self._table(reviews))
        return batches_of(review_loader(table, request))

    def _table(self, reviews: Reviews) -> Any:  # noqa: ANN401 - a dataset
        folder = str(reviews.table())
        if folder not in self._tables:
            if not reviews.table().exists():
                texts = datasets.Dataset.from_dict({"text": reviews.texts()})
                texts.save_to_disk(folder)
            self._tables[folder] = datasets.load_from_disk(folder)
        return self._tables[folder]

    def figures(self) -> dict[str, float]:
        """Tell nothing more."""
        return {}
