"""Whole numbers, checked before they go to the native half."""

from __future__ import annotations

__all__ = ["count", "size"]


def count(name: str, value: int) -> int:
    """Check a count of things; that it is not 0 is checked where it matters."""
    return _within(name, value, 2**32 - 1)


def size(name: str, value: int) -> int:
    """Check a number of bytes."""
    return _within(name, value, 2**63 - 1)


def _within(name: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; pass a whole number")
    whole = value.__index__()
    if not 0 <= whole <= most:
        raise ValueError(f"{name} is {whole}; pass a whole number from 0 to {most}")
    return whole
