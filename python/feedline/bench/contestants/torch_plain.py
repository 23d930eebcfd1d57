"""torch's DataLoader over volumes that nibabel or pynrrd reads, cut and z-scored by NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feedline.bench.contestants import torch_loader
from feedline.bench.volume_patches import check_volumes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.bench.requests import DeliveredBatch, LoadRequest


class Loading(torch_loader.Loading):
    """torch's DataLoader; the reader is that of the files."""

    def load(self, request: LoadRequest) -> Iterator[DeliveredBatch]:
        """Start the workers."""
        check_volumes(request)
        return super().load(request)
