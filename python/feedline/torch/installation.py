"""Ours in the place of torch's DataLoader, for code that one cannot edit.

`install` looks for torch's class in every module that has been imported, under whatever name, and
puts ours there; modules that are imported later get ours from torch. `uninstall` takes all of it
back. What holds the class elsewhere keeps torch's: subclasses that exist already, function
defaults, containers. Whoever makes a loader of those is warned.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import warnings
from abc import ABCMeta
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch.utils.data
from torch.utils.data import IterableDataset

from feedline._arguments import whole
from feedline._torch_private import IterDataPipe, MapDataPipe
from feedline.torch.dataloader import DataLoader
from feedline.torch.states.layout import Stateful

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["install", "installed", "uninstall"]

logger = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)

_torchs: Any = torch.utils.data.DataLoader
_signature = inspect.signature(DataLoader.__init__)
_ours = set(_signature.parameters) - set(inspect.signature(_torchs.__init__).parameters)

# What is asked for where a loader's own code does not say otherwise; None: not installed.
_settings: dict[str, Any] | None = None

# What `install` has put in the place of torch's `__init__`, and what was there; who was warned of.
_inits: tuple[Any, Any] = (None, None)
_warned: set[type] = set()


class _AsTorchs(ABCMeta):
    """Whoever asks whether a loader is a DataLoader means torch's class, of which ours is one."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Installed:
            return isinstance(instance, _torchs)
        return super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls is Installed:
            return issubclass(subclass, _torchs)
        return super().__subclasscheck__(subclass)


class Installed(DataLoader[T_co], metaclass=_AsTorchs):
    """`feedline.torch.DataLoader` in torch's place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - torch's arguments
        super().__init__(*args, **{**_fitting(args, kwargs), **kwargs})


def install(**settings: Any) -> None:  # noqa: ANN401 - the drop-in's arguments
    """Put `feedline.torch.DataLoader` in the place of torch's, everywhere.

    Parameters
    ----------
    settings
        The drop-in's own arguments (`worker_mode`, `assignment`, `seed`, ...) for loaders whose
        code says nothing of them. What a loader cannot have is left out: an iterable dataset's
        samples cannot be given to any worker, and without workers none can be given up.

    Raises
    ------
    TypeError
        For a name that is torch's, or nobody's.
    ValueError
        For a value that it cannot have.

    Examples
    --------
    >>> import torch, feedline.torch
    >>> feedline.torch.install()
    >>> torch.utils.data.DataLoader(range(4)).explain()
    'No batch has been delivered yet: iterate first.'
    >>> feedline.torch.uninstall()
    >>> hasattr(torch.utils.data.DataLoader, "explain")
    False
    """
    global _settings, _inits
    for name, value in settings.items():
        if name not in _ours:
            msg = f"install() takes what feedline's DataLoader has and torch's has not: {name!r} "
            raise TypeError(msg + f"is none of {', '.join(sorted(_ours))}")
        # As the loader does, so that a wrong value is told here and not somewhere in a program.
        setattr(DataLoader.__new__(DataLoader), name, value)
        if name == "seed" and value is not None:
            whole(name, value, 0)
    _settings = dict(settings)
    _replace(_torchs, Installed)
    if _torchs.__init__ is not _inits[0]:
        _inits = (_warning(_torchs.__init__), _torchs.__init__)
        _torchs.__init__ = _inits[0]


def uninstall() -> None:
    """Put torch's DataLoader back, everywhere. Loaders that were made meanwhile stay ours."""
    global _settings
    _settings = None
    _replace(Installed, _torchs)
    if _torchs.__init__ is _inits[0]:
        _torchs.__init__ = _inits[1]


@contextmanager
def installed(**settings: Any) -> Iterator[None]:  # noqa: ANN401 - the drop-in's arguments
    """Put `feedline.torch.DataLoader` in the place of torch's inside a ``with`` block.

    Parameters
    ----------
    settings
        As `install` has them.

    Examples
    --------
    >>> import torch, feedline.torch
    >>> with feedline.torch.installed(worker_mode="thread"):
    ...     loader = torch.utils.data.DataLoader(range(4), batch_size=2, num_workers=1)
    >>> loader.worker_mode
    'thread'
    """
    before = _settings
    install(**settings)
    try:
        yield
    finally:
        if before is None:
            uninstall()
        else:
            install(**before)


def _replace(old: type, new: type) -> None:
    """Put one class where another is, in every module but ours."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "feedline":
            continue
        # Some things in there are no modules, and some modules import more when they are asked.
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):
            for key in [key for key, value in list(names.items()) if value is old]:
                names[key] = new


def _warning(init: Any) -> Any:  # noqa: ANN401 - of any loader
    """Return an `__init__` that warns of loaders that should be ours and are not."""

    @functools.wraps(init)
    def init_and_warn(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - torch's
        kind = type(self)
        if _settings is not None and not isinstance(self, DataLoader) and kind not in _warned:
            _warned.add(kind)
            if kind is _torchs:
                who = "torch's DataLoader was kept where install() does not look"
                where = "what keeps it"
            else:
                who = f"{kind.__qualname__} was derived from torch's DataLoader before install()"
                where = kind.__module__
            warnings.warn(
                f"{who}, so its batches come from torch's loader and not from feedline's. Call "
                f"install() before importing {where}, or start the program by `feedline run`",
                stacklevel=2,
            )
        init(self, *args, **kwargs)

    return init_and_warn


def _fitting(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a loader with these arguments can have; tell of the others."""
    settings = dict(_settings or {})
    try:
        given = _signature.bind_partial(None, *args, **kwargs).arguments
    except TypeError:
        return settings  # torch says what is wrong with them
    dataset = given.get("dataset")
    unfit: dict[str, str] = {}
    if given.get("sampler") is not None or given.get("batch_sampler") is not None:
        unfit |= dict.fromkeys(("rank", "world_size"), "it has a sampler of its own")
    if given.get("multiprocessing_context") is not None:
        unfit["worker_mode"] = "it says how processes start"
    if isinstance(dataset, IterDataPipe | MapDataPipe):
        unfit["worker_mode"] = "its dataset is a DataPipe"
    if not given.get("num_workers"):
        unfit["sample_timeout"] = "it has no workers"
    if isinstance(dataset, IterableDataset | Stateful):
        why = "its dataset decides what each worker makes"
        unfit |= dict.fromkeys(("assignment", "on_error", "max_errors", "sample_timeout"), why)
    for name in settings.keys() & unfit.keys() - kwargs.keys():
        del settings[name]
        _tell(f"{name}= does not fit a DataLoader, and is left out: {unfit[name]}")
    return settings


@functools.cache
def _tell(words: str) -> None:
    """Say something, once."""
    logger.warning(words)
