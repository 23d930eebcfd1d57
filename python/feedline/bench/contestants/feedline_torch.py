"""`feedline.torch.DataLoader`: the drop-in, with the very dataset that torch's gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedline.bench.contestants import torch_loader
from feedline.bench.requests import Traced
from feedline.torch import DataLoader

if TYPE_CHECKING:
    from feedline.bench.requests import LoadRequest


class Loading(torch_loader.Loading):
    """The drop-in at its defaults."""

    def loader(self, request: LoadRequest) -> Any:  # noqa: ANN401 - a subclass of torch's
        """Make the loader."""
        return DataLoader(
            torch_loader.WorkloadSamples(Traced(request.workload, request.samples)),
            batch_size=request.batch_size,
            num_workers=request.workers,
            prefetch_factor=request.prefetch if request.workers else None,
            collate_fn=torch_loader.timed_collate,
        )
