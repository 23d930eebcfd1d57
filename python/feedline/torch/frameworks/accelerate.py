"""Accelerate makes the loader it is given anew; this has it make ours, with all of its settings.

`prepare` and `skip_first_batches` read the settings they know by name and make torch's loader, or
torchdata's, of them. Accelerate has no place where another class could be said. So three names of
`accelerate.data_loader` are replaced when it reads the settings of a loader of ours for the first
time, one of which, `pin_memory_device`, carries what torch's loader does not have:

- `DataLoader` makes ours where a setting carries something;
- so does `DataLoaderAdapter`, what `prepare` returns, where it makes its `base_dataloader`;
- its states of dispatched batches are put right in our way, for all layouts of a state.

For torch's own loaders nothing changes. Accelerate decides which rank gets what, as always: of a
loader with ``seed=`` it deals out the batches of the order that follows from the seed.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
import warnings
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch.utils.data

from feedline.torch.frameworks.rebuilding import Carrying
from feedline.torch.order.seeded_sampler import SeededSampler, seeded_sampler
from feedline.torch.states.layout import read

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["is_kept", "keep", "release"]

_MODULE = "accelerate.data_loader"

# What is replaced, and what was there. Empty: nothing is.
_before: dict[str, Any] = {}
_state = {"released": False, "warned": False}


def is_kept() -> bool:
    """Whether Accelerate makes our loaders, where it is given one."""
    return bool(_before)


def keep() -> None:
    """Have Accelerate make our loaders where it is given one.

    Loaders of ours call it themselves, so this is needed only after `release`. If the installed
    Accelerate is made otherwise than those this was written for, a warning says so.
    """
    _state["released"] = False
    _keep(importlib.import_module(_MODULE))


def release() -> None:
    """Put everything in Accelerate back, and leave it so until `keep` is called.

    Loaders that were prepared before stay as they are. What is prepared from now on is torch's.
    """
    _state["released"] = True
    if not _before:
        return
    module = sys.modules[_MODULE]
    module.DataLoader = torch.utils.data.DataLoader  # type: ignore[attr-defined]
    for name in _METHODS:
        setattr(module.DataLoaderAdapter, name, _before[name])
    _before.clear()


def keep_if_used() -> None:
    """Do `keep` if Accelerate was imported, and nobody wants otherwise."""
    module = sys.modules.get(_MODULE)
    if module is None or _before or _state["released"]:
        return
    _keep(module)


def _keep(module: ModuleType) -> None:
    if _before:
        return
    missing = _missing(module)
    if missing:
        if not _state["warned"]:
            _state["warned"] = True
            warnings.warn(
                f"accelerate {version('accelerate')} is made otherwise than those feedline knows "
                f"({missing}): prepare and skip_first_batches will put torch's DataLoader in place "
                "of feedline's, without its worker_mode, seed and other new arguments. Do not "
                "prepare the loader: it finds its rank itself with seed=, and "
                "feedline.torch.to_device puts batches on a device",
                stacklevel=4,
            )
        return
    module.DataLoader = _torchs_or_ours  # type: ignore[attr-defined]
    for name, method in _METHODS.items():
        _before[name] = getattr(module.DataLoaderAdapter, name)
        setattr(module.DataLoaderAdapter, name, method)


def _missing(module: ModuleType) -> str:
    """Return what is not there of what is replaced or relied on; empty if all is."""
    if "pin_memory_device" not in getattr(module, "_PYTORCH_DATALOADER_KWARGS", ()):
        return "it does not hand on pin_memory_device"
    if not isinstance(getattr(module, "DataLoader", None), type):
        return "it does not name torch's DataLoader"
    adapter = getattr(module, "DataLoaderAdapter", None)
    if adapter is None:
        return "it has no DataLoaderAdapter"
    taken = list(inspect.signature(adapter.__init__).parameters)
    if taken != ["self", "dataset", "use_stateful_dataloader", "batch_sampler", "kwargs"]:
        return "DataLoaderAdapter takes other arguments"
    used = ("DataLoaderDispatcher", "DataLoaderShard", "SkipDataLoader")
    gone = [name for name in used if not issubclass(getattr(module, name, object), adapter)]
    gone += [name for name in ("_update_state_dict", *_METHODS) if not hasattr(adapter, name)]
    return f"{' and '.join(gone)} changed" if gone else ""


# ---- in Accelerate's place


def _torchs_or_ours(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any loader
    """Make a loader as `torch.utils.data.DataLoader` does, or one of ours."""
    if not isinstance(kwargs.get("pin_memory_device"), Carrying):
        return torch.utils.data.DataLoader(*args, **kwargs)
    return _ours(*args, **kwargs)


def _begin_adapter(
    self: Any,  # noqa: ANN401 - Accelerate's
    dataset: Any,  # noqa: ANN401 - the user's
    use_stateful_dataloader: bool = False,
    batch_sampler: Any = None,  # noqa: ANN401 - any
    **kwargs: Any,  # noqa: ANN401 - torch's arguments
) -> None:
    """Begin what `prepare` returns: in place of `DataLoaderAdapter.__init__`."""
    if not isinstance(kwargs.get("pin_memory_device"), Carrying):
        _before["__init__"](
            self,
            dataset,
            use_stateful_dataloader=use_stateful_dataloader,
            batch_sampler=batch_sampler,
            **kwargs,
        )
        return
    self.use_stateful_dataloader = use_stateful_dataloader
    self.base_dataloader = _ours(dataset, batch_sampler=batch_sampler, **kwargs)
    if not use_stateful_dataloader:
        # As with torch's loader, which has no state; taking one costs, and draws what comes next.
        self._update_state_dict = _nothing
        return
    self.dl_state_dict = self.base_dataloader.state_dict()


def _nothing() -> None:
    pass


def _put_right(self: Any) -> None:  # noqa: ANN401 - Accelerate's
    """Put the state right: in place of `DataLoaderAdapter.adjust_state_dict_for_prefetch`.

    A dispatcher takes as many batches as there are ranks, and a state before each of them. The one
    before the first is where to go on.
    """
    from feedline.torch.dataloader import DataLoader

    if not isinstance(self.base_dataloader, DataLoader):
        _before["adjust_state_dict_for_prefetch"](self)
        return
    dispatches = issubclass(type(self), sys.modules[_MODULE].DataLoaderDispatcher)
    if not dispatches or self.split_batches:
        return
    now = read(self.dl_state_dict)
    if now.finished or now.num_yielded % self.state.num_processes == 0:
        self._before_group = self.dl_state_dict
    self.dl_state_dict = dict(self._before_group)


_METHODS = {"__init__": _begin_adapter, "adjust_state_dict_for_prefetch": _put_right}


def _ours(dataset: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the user's, torch's arguments
    from feedline.torch.dataloader import DataLoader

    carrying: Carrying = kwargs["pin_memory_device"]
    batch_sampler = kwargs.get("batch_sampler")
    if batch_sampler is None and "sampler" not in kwargs and carrying.sampler is not None:
        # Accelerate forgets the sampler of a loader of single samples.
        kwargs["sampler"] = _for_all_ranks(carrying.sampler)
    elif (seeded := seeded_sampler(batch_sampler)) is not None:
        kwargs["batch_sampler"] = _asking(batch_sampler, seeded, _for_all_ranks(seeded))
    return DataLoader(dataset, **kwargs | carrying.settings)


def _for_all_ranks(sampler: SeededSampler) -> SeededSampler:
    """Return a sampler of the order that Accelerate deals out."""
    if not sampler.has_own_ranks:
        return sampler.whole()
    if sys.modules[_MODULE].PartialState().num_processes > 1:
        warnings.warn(
            "Accelerate deals out the batches of a loader to its ranks: rank= and world_size= of "
            "the loader are not used. Leave them out, or do not prepare the loader",
            stacklevel=6,
        )
        return sampler.whole()
    return sampler


def _asking(around: Any, old: SeededSampler, new: SeededSampler) -> Any:  # noqa: ANN401
    """Return a copy of a batch sampler, with those it asks, that asks another sampler."""
    around = copy.copy(around)
    inside = vars(around).get("batch_sampler")
    if inside is not None and seeded_sampler(inside) is old:
        around.batch_sampler = _asking(inside, old, new)
    # Also where it asks another batch sampler: here Accelerate looks whom to tell the epoch.
    around.sampler = new
    return around
