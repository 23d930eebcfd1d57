"""Pickling: what a pipeline is made of, rather than the native objects it has become.

A pipeline pickles as its `Recipe`, the function that makes it and that function's arguments. Among
these are other pipelines, so that one which is used twice is pickled, and made again, once. What
a user has given is wrapped where pickling it needs care: functions in `Portable`, arrays in
`Held`.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import pickle
import sys
import threading
import types
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.pipeline import Pipeline

__all__ = ["Held", "Portable", "Recipe", "again", "changed"]

# Copies of cloudpickle that come with others, whose users have it without having installed it.
_CLOUDPICKLES = ("ray.cloudpickle", "joblib.externals.cloudpickle", "pyspark.cloudpickle")


class Recipe(NamedTuple):
    """What makes a pipeline: a function at the top level of a module, and its arguments."""

    make: Callable[..., Pipeline]
    arguments: tuple[Any, ...]


def again(recipe: Recipe, length: int | None) -> Pipeline:
    """Make a pipeline anew, of as many samples as it had, if that was known."""
    pipeline = recipe.make(*recipe.arguments)
    if length is not None and len(pipeline) != length:
        changed(pipeline._stages[0], length, len(pipeline))
    return pipeline


def changed(what: str, length: int, now: int) -> NoReturn:
    """Refuse samples that are others than those of the pipeline that was pickled."""
    msg = (
        f"{what} has changed: it had {length} samples when the pipeline was pickled and has {now} "
        "now; make the pipeline anew"
    )
    raise ValueError(msg)


class Portable:
    """A user's function, which pickles by cloudpickle where pickle alone cannot, or should not.

    Parameters
    ----------
    operation
        What it was given to, for the error message.
    function
        Anything that can be called.
    """

    def __init__(self, operation: str, function: Callable[..., Any]) -> None:
        self.operation = operation
        self.function = function

    def __deepcopy__(self, memo: dict[int, Any]) -> Portable:
        # Nothing leaves the process, so any function will do.
        return Portable(self.operation, copy.deepcopy(self.function, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        plain = (Portable, (self.operation, self.function))
        if _is_importable(self.function) or self.function in _packing.functions:
            return plain
        _packing.functions.append(self.function)
        try:
            can_be_plain = _can_be_pickled(self.function)
            by_value = _cloudpickle()
            if by_value is not None and not (can_be_plain and _is_known_elsewhere(self.function)):
                try:
                    return _unpacked, (self.operation, by_value.dumps(self.function))
                except (AttributeError, TypeError, pickle.PicklingError):
                    if not can_be_plain:
                        raise
        finally:
            _packing.functions.pop()
        if not can_be_plain:
            name = getattr(self.function, "__qualname__", repr(self.function))
            msg = (
                f"{self.operation}'s function {name} cannot be pickled: install cloudpickle, or "
                "use a function that is defined at the top level of a module"
            )
            raise pickle.PicklingError(msg)
        return plain


class _Packing(threading.local):
    """The functions that are being pickled: they may lead back to the pipeline that calls them."""

    def __init__(self) -> None:
        self.functions: list[Callable[..., Any]] = []


_packing = _Packing()


def _unpacked(operation: str, pickled: bytes) -> Portable:
    return Portable(operation, pickle.loads(pickled))


def _is_importable(function: object) -> bool:
    """Whether another process finds it under its name."""
    if not isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
        return False
    module = sys.modules.get(function.__module__ or "")
    if module is None or not _is_known_elsewhere(function):
        return False
    found: object = module
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _is_known_elsewhere(function: object) -> bool:
    """Whether it is no part of the program itself, which another process may not have."""
    if isinstance(function, functools.partial):
        return _is_known_elsewhere(function.func)
    if isinstance(function, types.MethodType):
        function = type(function.__self__)
    elif not isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
        function = type(function)
    return function.__module__ != "__main__"


def _can_be_pickled(function: object) -> bool:
    try:
        pickle.dumps(function)
    except (AttributeError, TypeError, pickle.PicklingError):
        return False
    return True


def _cloudpickle() -> Any:  # noqa: ANN401 - a module that need not be installed
    if importlib.util.find_spec("cloudpickle") is not None:
        return importlib.import_module("cloudpickle")
    return next((sys.modules[name] for name in _CLOUDPICKLES if name in sys.modules), None)


class Held:
    """An array or a tensor whose memory a source reads; it pickles by value.

    Parameters
    ----------
    array
        Which one.
    """

    def __init__(self, array: Any) -> None:  # noqa: ANN401 - an array, or a tensor of torch's
        self.array = array

    def __reduce__(self) -> tuple[Any, ...]:
        if not hasattr(self.array, "data_ptr"):
            return Held, (self.array,)
        # As an array: a tensor that is sent to another process moves into shared memory, away from
        # where the source reads, and a part of a tensor takes all of it along.
        dtype = str(self.array.dtype).removeprefix("torch.")
        shape = tuple(self.array.shape)
        return _held_tensor, (dtype, shape, _as_bytes(self.array))


def _as_bytes(tensor: Any) -> Any:  # noqa: ANN401 - torch need not be installed
    import torch

    return tensor.contiguous().flatten().view(torch.uint8).numpy()


def _held_tensor(dtype: str, shape: tuple[int, ...], content: Any) -> Held:  # noqa: ANN401 - an array
    import torch

    return Held(torch.from_numpy(content).view(getattr(torch, dtype)).reshape(shape))
