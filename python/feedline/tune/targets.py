"""What is tuned: a source of data, or a function of the user's that makes a loader."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from feedline._feedline import usable_cores
from feedline._show import NotShownError
from feedline._show import opened as opened_source
from feedline.doctor.probe import rebuilt
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

    def grid(self) -> list[Setting]:
        """Return every point; without workers there is one for each batch size and order."""
        found: list[Setting] = []
        for mode in self.axes["mode"]:
            for size in self.axes["batch_size"]:
                for order in self.axes["order"]:
                    for workers in self.axes["workers"]:
                        if not workers and mode != self.axes["mode"][0]:
                            continue
                        ahead = self.axes["prefetch"] if workers else self.axes["prefetch"][:1]
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
        return f"loader = feedline.Loader({code}, shuffle=True, {setting})"

    return Target(make, now, _axes("native", batch_sizes, now), paste)


def _of_function(script: str, name: str, batch_sizes: tuple[int, ...]) -> Target:
    function = _imported(script, name)
    taken = _taken(function)
    given_first = {"batch_size": batch_sizes[0]} if batch_sizes and "batch_size" in taken else {}
    first = function(**given_first)
    is_torch = hasattr(first, "prefetch_factor")
    if not is_torch and not isinstance(first, Loader):
        raise TargetError(
            f"{name} of {script} returned {type(first).__name__}; let it return torch's "
            "DataLoader, feedline's, or a feedline.Loader"
        )
    now = _now(first) if is_torch else _native_now(first)
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

    def make(setting: Setting) -> Iterable[Any]:
        if setting == now:  # as it is, with torch's loader if it is torch's
            return function(**given_first)  # type: ignore[no-any-return]
        if taken:
            given = {key: getattr(setting, _NAMES[key]) for key in taken}
            if "prefetch_factor" in given and not setting.workers:
                given["prefetch_factor"] = None
            return function(**given)  # type: ignore[no-any-return]
        options: dict[str, Any] = dict(setting.arguments())
        return rebuilt(first, **options)  # type: ignore[no-any-return]

    def paste(setting: Setting) -> str:
        if taken:
            given = ", ".join(f"{key}={getattr(setting, _NAMES[key])!r}" for key in taken)
            return f"loader = {name}({given})"
        return f"from feedline.torch import DataLoader\nloader = DataLoader(..., {setting})"

    return Target(make, now, axes, paste)


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
    except Exception as error:
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
