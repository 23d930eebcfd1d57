"""What users may pass: checks that name the argument and say what to pass instead."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any, cast

import numpy as np

# The largest number the engine counts to.
LARGEST = 2**64 - 1


def whole(name: str, value: Any, least: int, most: int = LARGEST) -> int:  # noqa: ANN401 - checked
    """Return an integer within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        msg = f"{name} must be an integer, got {value!r}"
        raise TypeError(msg) from None
    if number < least:
        msg = f"{name} must be at least {least}, got {number}"
        raise ValueError(msg)
    if number > most:
        msg = f"{name} must be at most {most}, got {number}"
        raise ValueError(msg)
    return number


def flag(name: str, value: Any) -> bool:  # noqa: ANN401 - checked
    """Return a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        msg = f"{name} must be True or False, got {value!r}"
        raise TypeError(msg)
    return bool(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:  # noqa: ANN401 - checked
    """Return one of several words."""
    if not isinstance(value, str) or value not in choices:
        *others, last = [f'"{choice}"' for choice in choices]
        msg = f"{name} must be {', '.join(others)} or {last}, got {value!r}"
        raise TypeError(msg) if not isinstance(value, str) else ValueError(msg)
    return value


def seconds(name: str, value: Any) -> float:  # noqa: ANN401 - checked
    """Return a span of time."""
    span = float(real(name, value))
    if not 0 < span < 2**32:
        advice = "; pass None for no limit" if span > 0 else ""
        msg = f"{name} must be a number of seconds above 0, got {value!r}{advice}"
        raise ValueError(msg)
    return span


def size(name: str, value: Any) -> int:  # noqa: ANN401 - checked
    """Return a number of bytes, given as such or as text with a unit."""
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    units |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
    if isinstance(value, str):
        text = value.strip().upper()
        number = text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ ")
        unit = text[len(number) :].strip()
        try:
            count = float(number) * units[unit]
        except (ValueError, KeyError):
            count = math.nan
    else:
        count = real(name, value)
    if not 0 <= count < 2**63:
        msg = f'{name} must be a number of bytes or a size such as "500MiB", got {value!r}'
        raise ValueError(msg)
    return int(count)


def real(name: str, value: Any) -> float:  # noqa: ANN401 - checked
    """Return a number as it is."""
    if not isinstance(value, (Real, np.bool_)):
        msg = f"{name} must be a real number, got {value!r}"
        raise TypeError(msg)
    return cast(float, value)


def function(name: str, value: object) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        msg = f"{name} must be a function, got {value!r}"
        raise TypeError(msg)
