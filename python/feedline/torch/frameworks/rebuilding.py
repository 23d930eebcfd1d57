"""A loader of ours in place of another one: the settings that torch's does not have."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, Self

# Not asked for later: `install` puts ours in its place.
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import IterableDataset

from feedline.torch.order.seeded_sampler import SeededSampler

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader

__all__ = ["Carrying", "new_settings"]

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


class Carrying(str):
    """A value of torch's, text, that brings along what torch's loader does not have.

    It goes wherever the settings of a loader are read by name and handed on, also through loaders
    of torch's. Everybody else sees the text.

    Attributes
    ----------
    settings
        The new settings of the loader it was read from.
    sampler
        That of a loader of single samples with a seed.
    """

    __slots__ = ("sampler", "settings")

    settings: dict[str, Any]
    sampler: SeededSampler | None

    @classmethod
    def of(cls, loader: DataLoader[Any], text: str) -> Self:
        """Return a text that carries the settings of a loader."""
        carrying = cls(text)
        carrying.settings = new_settings(loader)
        single = loader.batch_sampler is None and not isinstance(loader.dataset, IterableDataset)
        sampler = loader.sampler if single else None
        carrying.sampler = sampler if isinstance(sampler, SeededSampler) else None
        return carrying

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)
