"""What is tuned: a source of data, or a function of the user's that makes a loader."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from feedline._feedline import usable_cores
from feedline._show import NotShownError
from feedline._show import opened as opened_source
from feedline.doctor.probe import kept, rebuilt
from feedline.loader import Loader
from feedline.scans import Volumes
from feedline.tune.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Target", "TargetError", "opened"]

_WORKERS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_PREFETCH = {"native": (1, 2, 4, 8), "process": (1, 2, 4), "thread": (1, 2, 4)}
# Samples of a batch, and voxels of a patch along each axis, where nothing is said.
_SIZES, _PATCH = {"volumes": 2}, 64
# What a function may take, by what it decides.
_NAMES = {
    "num_workers": "workers",
    "worker_mode": "mode",
    "prefetch": "prefetch",
    "prefetch_factor": "prefetch",
    "order": "order",
    "batch_size": "batch_size",
}


class TargetError(ValueError):
    """What cannot be tuned; the message says why and what to do."""


class Target(NamedTuple):
    """Something that makes a loader of any settings.

    Attributes
    ----------
    make
        Makes it.
    now
        Its settings as they are.
    axes
        What can be chosen: values by the names of `Setting`.
    paste
        Returns the code that makes a loader of settings.
    """

    make: Callable[[Setting], Iterable[Any]]
    now: Setting
    axes: dict[str, tuple[Any, ...]]
    paste: Callable[[Setting], str]

    def usual_prefetch(self) -> int:
        """Return the batches ahead to begin with; without workers they mean nothing."""
        return 2 if 2 in self.axes["prefetch"] else int(self.axes["prefetch"][0])

    def grid(self) -> list[Setting]:
        """Return every point; without workers there is one for each batch size and order."""
        found: list[Setting] = []
        for mode in self.axes["mode"]:
            for size in self.axes["batch_size"]:
                for order in self.axes["order"]:
                    for workers in self.axes["workers"]:
                        if not workers and mode != self.axes["mode"][0]:
                            continue
                        ahead = self.axes["prefetch"] if workers else (self.usual_prefetch(),)
                        found += [Setting(workers, mode, it, order, size) for it in ahead]
        return found


def opened(what: str, *, batch_sizes: Sequence[int] = ()) -> Target:
    """Open what is to be tuned.

    Parameters
    ----------
    what
        A path that `feedline show` opens, or ``script.py:function``.
    batch_sizes
        Sizes to choose from (default: the one that the loader has; 32 for a path).

    Returns
    -------
    Target
        What makes its loaders.

    Raises
    ------
    TargetError
        If there is nothing that can be tuned.
    """
    script, colon, name = what.rpartition(":")
    if colon and script.endswith(".py"):
        return _of_function(script, name, tuple(batch_sizes))
    return _of_source(what, tuple(batch_sizes))


def _workers() -> tuple[int, ...]:
    most = max(8, 2 * usable_cores())
    return tuple(workers for workers in _WORKERS if workers <= most)


def _axes(mode: str, batch_sizes: tuple[int, ...], now: Setting) -> dict[str, tuple[Any, ...]]:
    native = mode == "native"
    return {
        "workers": _workers(),
        "mode": ("native",) if native else ("process", "thread"),
        "prefetch": _PREFETCH[mode],
        "order": ("planned", "ready") if native else ("planned",),
        "batch_size": batch_sizes or (now.batch_size,),
    }


def _of_source(source: str, batch_sizes: tuple[int, ...]) -> Target:
    try:
        kind, pipeline, code = opened_source(source)
    except (NotShownError, OSError, ValueError) as error:
        raise TargetError(f"cannot tune {source}: {error}") from error
    if kind in ("images", "tar"):
        pipeline = pipeline.random_resized_crop(224).flip().normalize()
        code += ".random_resized_crop(224).flip().normalize()"
    elif isinstance(pipeline, Volumes):
        pipeline = pipeline.pad(_PATCH).random_crop(_PATCH)
        code += f".pad({_PATCH}).random_crop({_PATCH})"
    size = batch_sizes[0] if batch_sizes else _SIZES.get(kind, 32)
    now = _native_now(Loader(pipeline, batch_size=size, shuffle=True))

    def make(setting: Setting) -> Iterable[Any]:
        options: Any = setting.arguments()
        return Loader(pipeline, shuffle=True, **options)

    def paste(setting: Setting) -> str:
        return f"import feedline\n\nloader = feedline.Loader({code}, shuffle=True, {setting})"

    return Target(make, now, _axes("native", batch_sizes, now), paste)


def _of_function(script: str, name: str, batch_sizes: tuple[int, ...]) -> Target:
    function = _imported(script, name)
    taken = _taken(function)
    given_first = {"batch_size": batch_sizes[0]} if batch_sizes and "batch_size" in taken else {}
    try:
        first = function(**given_first)
    except (Exception, SystemExit) as error:
        raise TargetError(f"{name} of {script} raises when called: {error!r}") from error
    is_torch = hasattr(first, "prefetch_factor")
    if not is_torch and not isinstance(first, Loader):
        raise TargetError(
            f"{name} of {script} returned {type(first).__name__}; let it return torch's "
            "DataLoader, feedline's, or a feedline.Loader"
        )
    now = _now(first) if is_torch else _native_now(first)
    if batch_sizes and taken and "batch_size" not in taken:
        raise TargetError(
            f"{name} of {script} takes no batch_size; let it take one, or leave --batch-sizes out"
        )
    if batch_sizes and not taken and is_torch and first.batch_size is None:
        raise TargetError(
            f"the loader of {name} has a batch sampler of its own, which says how large a batch "
            "is; leave --batch-sizes out"
        )
    axes = _axes("process" if is_torch else "native", batch_sizes, now)
    if not taken and not is_torch:
        raise TargetError(
            f"{name} of {script} makes a feedline.Loader and takes no settings; let it take "
            "num_workers, prefetch and order"
        )
    if taken:
        # Only what it takes can be chosen.
        free = {_NAMES[key] for key in taken}
        axes = {
            key: values if key in free else (getattr(now, key),) for key, values in axes.items()
        }

    def given(setting: Setting) -> dict[str, Any] | None:
        """Return what the function is called with; None if its loader is made again instead."""
        if setting == now:  # as it is, with torch's loader if it is torch's
            return given_first
        if not taken:
            return None
        found = {key: getattr(setting, _NAMES[key]) for key in taken}
        if "prefetch_factor" in found and not setting.workers:
            found["prefetch_factor"] = None
        return found

    def make(setting: Setting) -> Iterable[Any]:
        if (arguments := given(setting)) is not None:
            return function(**arguments)  # type: ignore[no-any-return]
        options: dict[str, Any] = dict(setting.arguments())
        return rebuilt(first, **options)  # type: ignore[no-any-return]

    def paste(setting: Setting) -> str:
        if (arguments := given(setting)) is not None:
            words = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            return f"{_import_of(script, name)}\n\nloader = {name}({words})"
        return _again(first, _import_of(script, name), name, setting)

    return Target(make, now, axes, paste)


def _import_of(script: str, name: str) -> str:
    module = Path(script).stem
    if module.isidentifier() and not iskeyword(module):
        return f"from {module} import {name}"
    return f"import importlib\n\n{name} = importlib.import_module({module!r}).{name}"


def _again(loader: Any, head: str, name: str, setting: Setting) -> str:  # noqa: ANN401 - torch's
    """Return the code that makes a function's loader again with other settings."""
    options: dict[str, Any] = dict(setting.arguments())
    if loader.batch_size is None:
        del options["batch_size"]
        if loader.batch_sampler is None:
            options = {"batch_size": None, **options}
    same = [f"{it}=made.{it}" for it in kept(loader, **{"num_workers": 0, **options})]
    words = ["made.dataset", *same, *(f"{key}={value!r}" for key, value in options.items())]
    lines = "".join(f"    {word},\n" for word in words)
    return (
        f"{head}\nfrom feedline.torch import DataLoader\n\n"
        f"made = {name}()\nloader = DataLoader(\n{lines})"
    )


def _imported(script: str, name: str) -> Callable[..., Any]:
    path = Path(script)
    if not path.is_file():
        raise TargetError(f"there is no script {script}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{script} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise TargetError(f"{script} raises when imported: {error!r}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise TargetError(f"{script} has no function {name}")
    return function  # type: ignore[no-any-return]


def _taken(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the settings that a function takes."""
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in _NAMES:
            found.append(name)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            known = ", ".join(_NAMES)
            raise TargetError(
                f"{function.__name__} needs {name!r}, which is no setting; give it a default "
                f"(settings are {known})"
            )
    return tuple(found)


def _now(loader: Any) -> Setting:  # noqa: ANN401 - torch's
    mode = getattr(loader, "worker_mode", "process")
    mode = mode if mode in ("process", "thread") else "process"
    size = int(loader.batch_size or getattr(loader.batch_sampler, "batch_size", 0) or 1)
    return Setting(int(loader.num_workers), mode, int(loader.prefetch_factor or 2), "planned", size)


def _native_now(loader: Loader) -> Setting:
    """Return what a loader was told, or decided where it was told nothing."""
    told = loader._settings
    order = "ready" if "window" in told else "planned"
    size = int(cast("int", told["batch_size"]))
    return Setting(loader.num_workers, "native", loader.stats()["prefetch"], order, size)
