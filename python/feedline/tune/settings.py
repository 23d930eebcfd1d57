"""A point of the search: what a loader can be told."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Setting"]


class Setting(NamedTuple):
    """Settings of a loader.

    Attributes
    ----------
    workers
        How many; 0: the loop makes batches itself.
    mode
        ``"process"`` or ``"thread"`` of the drop-in, ``"native"`` of `feedline.Loader`.
    prefetch
        Batches ahead: of each worker, or in all where the loader is native.
    order
        ``"planned"`` or ``"ready"``.
    batch_size
        Samples of a batch.
    """

    workers: int
    mode: str
    prefetch: int
    order: str
    batch_size: int

    def arguments(self) -> dict[str, int | str]:
        """Return them as the loader's arguments."""
        found: dict[str, int | str] = {
            "batch_size": self.batch_size,
            "num_workers": self.workers,
        }
        if self.mode == "native":
            return found | {"prefetch": self.prefetch, "order": self.order}
        if self.workers:
            found |= {"prefetch_factor": self.prefetch, "worker_mode": self.mode}
        return found

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.arguments().items())
