"""Targets: numbers that are known beforehand."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from feedline.torch.compiled.transforms import flat
from feedline.torch.compiled.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["numbers", "transformed"]


def transformed(targets: Sequence[Any], transform: Any) -> tuple[Sequence[Any], list[Any], str]:  # noqa: ANN401
    """Do to all targets what a target transform does, as far as it is known.

    Known is what depends on nothing but the target: ``int``, ``float``, and looking it up in a dict
    or a list (``names.__getitem__``).

    Returns
    -------
    tuple
        The targets, the steps that are left, and why.
    """
    steps = flat(transform)
    for count, step in enumerate(steps):
        function = _known(step)
        if function is None:
            return targets, steps[count:], "not known here"
        try:
            targets = [function(target) for target in targets]
        except Exception as error:
            # Raised where it belongs: at the sample.
            return targets, steps[count:], f"it raises {type(error).__name__}"
    return targets, [], ""


def _known(step: Any) -> Callable[[Any], Any] | None:  # noqa: ANN401
    if step in (int, float):
        return step  # type: ignore[no-any-return]
    if type(step) is nn.Identity:
        return lambda target: target
    if isinstance(step, types.BuiltinMethodType | types.MethodWrapperType):
        holder = step.__self__
        looks_up = type(holder) in (dict, list, tuple) and step.__name__ in ("__getitem__", "get")
        return step if looks_up else None
    return None


def numbers(targets: Sequence[Any]) -> np.ndarray:
    """Return targets as `default_collate` would make a tensor of them.

    Raises
    ------
    Unknown
        If they are no numbers of one kind.
    """
    kinds = set(map(type, targets))
    if kinds <= {int}:
        try:
            return np.asarray(targets, np.int64)
        except OverflowError:
            kinds = {object}
    if kinds == {float}:
        return np.asarray(targets, np.float64)
    named = ", ".join(sorted(kind.__qualname__ for kind in kinds))
    msg = f"targets are {named}, not whole numbers or floats alone"
    raise Unknown(msg)
