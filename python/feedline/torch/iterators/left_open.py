"""What a user leaves open: numbers that are decided while a loader runs.

torch, and frameworks that make a loader anew, know numbers only. So a setting that is left open is
a number, with what a controller may do: it passes every check that torch makes of the number, and
whoever reads it by name and hands it on hands on that it is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedline._feedline import usable_cores
from feedline._torch_private import MapDataPipe, _DatasetKind
from feedline.auto import Auto, as_auto
from feedline.torch.states.layout import Stateful

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader

__all__ = [
    "LeftOpen",
    "auto_of",
    "open_prefetch",
    "open_workers",
    "why_fixed",
]

# torch's own, for each worker.
_AHEAD = 2


class LeftOpen(int):
    """A number that may be changed while the loader runs.

    Attributes
    ----------
    auto
        Where it begins and ends, if that was said.

    Examples
    --------
    >>> left_open = LeftOpen.at(3, Auto())
    >>> left_open, left_open.auto
    (3, Auto(start=None, most=None))
    """

    auto: Auto

    @classmethod
    def at(cls, number: int, auto: Auto) -> LeftOpen:
        """Return such a number."""
        made = cls(number)
        made.auto = auto
        return made


def auto_of(value: object) -> Auto | None:
    """Return what a controller may do with a setting; None where it is given."""
    return value.auto if isinstance(value, LeftOpen) else None


def open_workers(value: Any) -> Any:  # noqa: ANN401 - what the user passed
    """Return a number of workers for what the user passed: as many as cores, where it is open."""
    auto = _auto("num_workers", value)
    return value if auto is None else _begun(auto, usable_cores())


def open_prefetch(value: Any, workers: Any) -> Any:  # noqa: ANN401 - what the user passed
    """Return batches for each worker; where the number of workers is open, they are by default."""
    if value is None and isinstance(workers, LeftOpen):
        value = "auto"
    auto = _auto("prefetch_factor", value)
    return value if auto is None else _begun(auto, _AHEAD)


def _auto(name: str, value: object) -> Auto | None:
    """Return what was left open; numbers are torch's to check."""
    return None if isinstance(value, LeftOpen) else as_auto(name, value)


def _begun(auto: Auto, usual: int) -> LeftOpen:
    """Return the number to begin with: what was said, or what is usual and allowed."""
    return LeftOpen.at(auto.start or min(usual, auto.most or usual), auto)


def why_fixed(loader: DataLoader[Any]) -> str | None:
    """Return why the number of Python workers cannot change within an epoch; None if it can.

    Those of whom it can make samples with random numbers of their own, so that it does not matter
    who makes which; others are torch's to the letter.
    """
    if loader._dataset_kind == _DatasetKind.Iterable:
        return "each worker has its own iterator of an iterable dataset"
    if isinstance(loader.dataset, MapDataPipe):
        return "a DataPipe is split between copies of it"
    if isinstance(loader.dataset, Stateful):
        return "each worker has its own copy of a dataset that has a state"
    return None
