"""How the workers of a loader get their work, and what happens when something goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import default_collate

from feedline._torch_private import _DatasetKind, collate_tensor_fn, default_collate_fn_map
from feedline.torch.iterators.left_open import LeftOpen, why_fixed
from feedline.torch.states.layout import Stateful

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.torch.dataloader import DataLoader

__all__ = ["Manner", "collate_anywhere", "manner_of", "refuse_unfit"]

# The mark of a collate function that may run elsewhere than in a worker.
_ANYWHERE = "_feedline_anywhere"


def collate_anywhere(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Declare that a collate function may be called with samples that several workers have made.

    With ``assignment="dynamic"`` and processes it is then called in the main process, so it should
    do little more than put things together. Its samples must not change when they are pickled.

    Parameters
    ----------
    function
        What is passed as `collate_fn`, with its own name: not a lambda that is made anew.

    Returns
    -------
    Callable
        The same function.

    Examples
    --------
    >>> from feedline.torch import DataLoader, collate_anywhere
    >>> @collate_anywhere
    ... def as_it_is(samples):
    ...     return samples
    >>> loader = DataLoader(range(4), batch_size=2, collate_fn=as_it_is)
    >>> list(loader)
    [[0, 1], [2, 3]]
    """
    setattr(function, _ANYWHERE, True)
    return function


class Manner(NamedTuple):
    """What follows from a loader's settings for one iterator."""

    # Whether batches are offered (see `offer`); else each is sent to the worker that torch chose.
    is_offered: bool = False
    is_dynamic: bool = False
    is_shared: bool = False
    uses_slots: bool = False
    # Whether the dataset makes a batch in one call.
    uses_getitems: bool = False
    restarts: bool = False
    sample_timeout: float | None = None
    # Whether nobody was promised a number of workers: then random numbers are the samples' own.
    is_open: bool = False

    @property
    def is_moving(self) -> bool:
        """Whether workers may be added and parked."""
        return self.is_open and self.is_dynamic

    @property
    def is_supervised(self) -> bool:
        """Whether workers may be replaced."""
        return self.restarts or self.sample_timeout is not None


def manner_of(loader: DataLoader[Any]) -> Manner:
    """Return how the workers of a loader work, as it is set now."""
    restarts = loader.on_worker_death == "restart"
    if _is_fixed(loader):
        # Threads share one dataset, whose state is not that of any one of them.
        return Manner(restarts=restarts and loader.worker_mode == "process")
    is_open = isinstance(loader.num_workers, LeftOpen) and why_fixed(loader) is None
    by_default = "static" if loader.seed is None and not is_open else "dynamic"
    wanted = loader.assignment or by_default
    is_dynamic = wanted == "dynamic"
    default = loader.collate_fn is default_collate
    plain = default and default_collate_fn_map.get(torch.Tensor) is collate_tensor_fn
    getitems = bool(getattr(loader.dataset, "__getitems__", None))
    is_shared = (
        is_dynamic
        and loader._auto_collation
        and (plain or hasattr(loader.collate_fn, _ANYWHERE))
        and not getitems
    )
    is_offered = (
        is_dynamic or restarts or loader.sample_timeout is not None or loader.on_error != "raise"
    )
    return Manner(
        is_offered=is_offered,
        is_dynamic=is_dynamic,
        is_shared=is_shared,
        uses_slots=is_shared and plain,
        uses_getitems=getitems and loader.on_error == "raise",
        restarts=restarts,
        sample_timeout=loader.sample_timeout,
        is_open=is_open,
    )


def _is_fixed(loader: DataLoader[Any]) -> bool:
    """Whether the dataset itself says what each worker makes, so that no other may."""
    return loader._dataset_kind == _DatasetKind.Iterable or isinstance(loader.dataset, Stateful)


def refuse_unfit(loader: DataLoader[Any]) -> None:
    """Refuse settings that a dataset's kind or the workers cannot have.

    Raises
    ------
    ValueError
        With what to do instead.
    """
    if _is_fixed(loader):
        iterable = loader._dataset_kind == _DatasetKind.Iterable
        why = "is iterable" if iterable else "has a state of its own"
        for name, wanted in (
            ('assignment="dynamic"', loader.assignment == "dynamic"),
            (f'on_error="{loader.on_error}"', loader.on_error != "raise"),
            ("sample_timeout", loader.sample_timeout is not None),
        ):
            if wanted:
                msg = (
                    f"{name} needs samples that any worker can make, and this dataset {why}: what "
                    "a worker makes next depends on what it made before; leave it out"
                )
                raise ValueError(msg)
    if loader.sample_timeout is not None:
        if loader.num_workers == 0:
            msg = "sample_timeout needs workers, which can be given up; pass num_workers above 0"
            raise ValueError(msg)
        if loader.dataset_lock and loader.worker_mode == "thread":
            msg = (
                "sample_timeout gives up a thread that is stuck, and with dataset_lock that has "
                'the lock for ever; leave one of them out, or use worker_mode="process"'
            )
            raise ValueError(msg)
