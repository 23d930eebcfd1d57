"""How values whose shape differs from sample to sample share a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from feedline import _arguments

__all__ = ["check_fill", "rules"]


def rules(
    ragged: Any,  # noqa: ANN401 - checked
    fill: float,
) -> dict[str, tuple[str, list[int] | None, float]]:
    """Return the rules as the engine takes them: by name, with a shape where there is one."""
    if ragged is None:
        return {}
    if not isinstance(ragged, Mapping):
        msg = f'ragged must be a dict of rules by field, such as {{0: "longest"}}, got {ragged!r}'
        raise TypeError(msg)
    fill = float(_arguments.real("fill", fill))
    return {str(name): (*_rule(name, rule), fill) for name, rule in ragged.items()}


def _rule(name: str | int, rule: object) -> tuple[str, list[int] | None]:
    if rule in ("longest", "packed"):
        return str(rule), None
    if isinstance(rule, (tuple, list)):
        return "padded", [_arguments.whole(f"ragged[{name!r}]", axis, 0) for axis in rule]
    msg = f'ragged[{name!r}] must be "longest", "packed" or a shape to pad to, got {rule!r}'
    raise ValueError(msg) if isinstance(rule, str) else TypeError(msg)


def check_fill(name: str, dtype: str, fill: float) -> None:
    """Refuse what no value of the field can be."""
    if dtype == "bool":
        fits = fill in (0, 1)
    elif dtype.lstrip("u").startswith("int"):
        bounds = np.iinfo(dtype)
        # The engine takes it as a float64, which has not every large integer.
        fits = math.isfinite(fill) and int(fill) == fill == int(float(fill))
        fits = fits and bounds.min <= fill <= bounds.max
    else:
        return
    if not fits:
        msg = f"fill must be a value of {dtype}, the dtype of field {name!r}, got {fill!r}"
        raise ValueError(msg)
