"""MONAI's DataLoader, which is torch's, over volumes that MONAI's transforms read and cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import monai.data

from feedline.bench.contestants import torch_loader
from feedline.bench.requests import Traced
from feedline.bench.volume_patches import MonaiPatches, check_volumes

if TYPE_CHECKING:
    from feedline.bench.requests import LoadRequest


class Loading(torch_loader.Loading):
    """MONAI as its tutorials use it."""

    def loader(self, request: LoadRequest) -> Any:  # noqa: ANN401 - a subclass of torch's
        """Make the loader."""
        check_volumes(request)
        parameters = {name: it for name, it in request.described.items() if name != "kind"}
        patches = MonaiPatches(**parameters)
        # Not exported, in the words of type checkers.
        loader: Any = vars(monai.data)["DataLoader"]
        return loader(
            torch_loader.WorkloadSamples(Traced(patches, request.samples)),
            batch_size=request.batch_size,
            num_workers=request.workers,
            prefetch_factor=request.prefetch if request.workers else None,
            collate_fn=torch_loader.timed_collate,
        )
