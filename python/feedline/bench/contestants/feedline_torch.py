"""`feedline.torch.DataLoader`: the drop-in, with the very dataset that torch's gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedline.bench.contestants import torch_loader
from feedline.bench.jobs import Traced
from feedline.torch import DataLoader

if TYPE_CHECKING:
    from feedline.bench.jobs import Job


class Loading(torch_loader.Loading):
    """The drop-in at its defaults."""

    def loader(self, job: Job) -> Any:  # noqa: ANN401 - a subclass of torch's
        """Make the loader."""
        return DataLoader(
            torch_loader.Samples(Traced(job.workload, job.samples)),
            batch_size=job.batch_size,
            num_workers=job.workers,
            prefetch_factor=job.prefetch if job.workers else None,
            collate_fn=torch_loader.timed_collate,
        )
