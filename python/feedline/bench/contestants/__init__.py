"""Loaders under test, by name."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from feedline.bench.jobs import Contestant

__all__ = ["NAMES", "absence", "contestant"]

#: The module of each, in the order of reports.
NAMES = {
    "torch": "torch_loader",
    "feedline": "feedline_loader",
}


def contestant(name: str) -> Contestant:
    """Load a contestant's code, and with it the packages that it needs."""
    module = importlib.import_module(f"feedline.bench.contestants.{NAMES[name]}")
    return cast("Contestant", module.Loading())


#: What each needs, told here so that finding out imports nothing.
_NEEDS = {
    "torch": ("torch",),
    "feedline": (),
}


def absence(name: str) -> str | None:
    """Say why a contestant cannot take part; ``None`` if it can."""
    for package in _NEEDS[name]:
        if not _is_there(package):
            return f"{package} is not installed"
    return None


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a parent package
        return False
