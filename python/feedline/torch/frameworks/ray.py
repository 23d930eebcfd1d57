"""Ray Train deals out samples by a loader of torch's; this has it make ours, with its settings.

`ray.train.torch.prepare_data_loader` leaves a loader alone whose sampler deals out samples to ranks
already: one with ``seed=``, or with a `DistributedSampler`. Of any other it makes torch's loader
with such a sampler, and forgets what torch's does not have. The name `DataLoader` in the modules
that do so is replaced as soon as there is a loader of ours in a process that uses Ray Train. What
is called by that name is told a dataset and some settings; where they are those of a loader of
ours, ours is made.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any
from weakref import WeakSet

import torch.utils.data

from feedline.torch.frameworks.rebuilding import new_settings

__all__ = ["keep_if_used", "release"]

# Both ways that Ray Train has.
_MODULES = ("ray.train.v2.torch.train_loop_utils", "ray.train.torch.train_loop_utils")

# What it hands on as it is.
_HANDED_ON = ("batch_size", "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout")

# Our loaders in a process that uses Ray Train.
_loaders: WeakSet[Any] = WeakSet()
_state = {"released": False, "warned": False}


def keep_if_used(loader: Any) -> None:  # noqa: ANN401 - one of ours
    """Have Ray Train make our loaders in place of this one, if it is used at all."""
    modules = [sys.modules[name] for name in _MODULES if name in sys.modules]
    if not modules or _state["released"]:
        return
    _loaders.add(loader)
    for module in modules:
        names = vars(module)
        if "DataLoader" in names:
            names["DataLoader"] = _torchs_or_ours
        elif not _state["warned"]:
            _state["warned"] = True
            warnings.warn(
                f"{module.__name__} is made otherwise than feedline knows: prepare_data_loader may "
                "put torch's DataLoader in place of feedline's. Pass seed= to the loader, or a "
                "DistributedSampler, and it leaves it alone",
                stacklevel=4,
            )


def release() -> None:
    """Put everything in Ray Train back. What is prepared from now on is torch's."""
    _state["released"] = True
    for name in _MODULES:
        names = vars(sys.modules[name]) if name in sys.modules else {}
        if names.get("DataLoader") is _torchs_or_ours:
            names["DataLoader"] = torch.utils.data.DataLoader


def _torchs_or_ours(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any loader
    """Make a loader as `torch.utils.data.DataLoader` does, or one of ours."""
    for loader in list(_loaders):
        if kwargs.get("dataset") is loader.dataset and all(
            kwargs.get(name) == getattr(loader, name) for name in _HANDED_ON
        ):
            from feedline.torch.dataloader import DataLoader

            # Ray forgets these of torch's, too.
            more = ("prefetch_factor", "persistent_workers", "in_order", "multiprocessing_context")
            settings = {name: getattr(loader, name) for name in more} | new_settings(loader)
            return DataLoader(**kwargs, **settings)
    return torch.utils.data.DataLoader(*args, **kwargs)
