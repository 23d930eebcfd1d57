"""A loader of ours in place of another one: the settings that torch's does not have."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

# Not asked for later: `install` puts ours in its place.
from torch.utils.data import DataLoader as TorchLoader

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader

__all__ = ["new_settings"]

# These say whose share it is, and whoever makes a loader anew deals out the samples itself.
_SHARE = {"rank", "world_size"}


def new_settings(loader: DataLoader[Any]) -> dict[str, Any]:
    """Return what a loader was given beyond torch's own arguments.

    Parameters
    ----------
    loader
        One of ours.

    Returns
    -------
    dict
        Arguments for another one.
    """
    return {name: getattr(loader, name) for name in _names()}


@cache
def _names() -> list[str]:
    from feedline.torch.dataloader import DataLoader

    ours, theirs = (
        inspect.signature(loader.__init__).parameters for loader in (DataLoader, TorchLoader)
    )
    return [name for name in ours if name not in theirs and name not in _SHARE]
