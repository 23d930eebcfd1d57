"""Batches by torch's own iterators, where ours cannot be had.

That is so where torch lacks what `feedline._torch_private` lists, and for worker processes on other
systems than Linux. The loader then is torch's in all it does, and says once what is lost.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset

from feedline._torch_private import OLDEST, SEEN, MapDataPipe, lost
from feedline.torch.iterators.wrapped import is_of_pipelines
from feedline.torch.states.layout import Stateful

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader

__all__ = ["lost_by", "warn_of"]

# What has no effect in torch's own iterators, and the value that asks for nothing.
_OURS = {
    "assignment": (None, "static"),
    "dataset_lock": (False,),
    "memory": (None,),
    "on_error": ("raise",),
    "on_worker_death": ("error",),
    "sample_timeout": (None,),
    "seed": (None,),
    "worker_mode": ("process",),
}

_warned: set[str] = set()


def lost_by(loader: DataLoader[Any]) -> str | None:
    """Return why a loader's batches must come from torch's own iterator, or None."""
    if loader.num_workers == 0 or is_of_pipelines(loader.dataset):
        return lost("inline")
    mode: str = loader.worker_mode
    if mode == "auto" and isinstance(loader.dataset, IterableDataset | MapDataPipe | Stateful):
        mode = "process"  # nothing else fits these
    return lost(mode)


def warn_of(loader: DataLoader[Any], reason: str, stacklevel: int) -> None:
    """Warn, once for each reason, of what is lost.

    Parameters
    ----------
    loader
        Whose batches torch makes.
    reason
        Why.
    stacklevel
        How far up the user's code is, counted from the caller.
    """
    if reason in _warned:
        return
    _warned.add(reason)
    ignored = [
        f"{name}="
        for name, usual in _OURS.items()
        if (value := getattr(loader, name, usual[0])) not in usual and value is not None
    ]
    # The sampler that a seed makes is asked by torch's iterator as well.
    also = f", and {', '.join(ignored)} without effect" if ignored else ""
    also = also.replace("seed=", "seed= (but for the order)")
    hint = f"feedline was seen to work with torch {OLDEST} to {SEEN}"
    if reason == lost("process") and lost("thread") is None:
        hint = 'worker_mode="thread" or num_workers=0 keeps all of that'
    warnings.warn(
        f"{reason}: batches come from torch's own iterator, without feedline's transport, "
        f"stats() and explain(); state_dict() is empty, so that a resumed epoch begins anew{also}. "
        f"{hint}",
        stacklevel=stacklevel + 1,
    )
