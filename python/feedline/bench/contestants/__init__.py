"""Loaders under test, by name."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from feedline.bench.requests import Contestant

__all__ = ["NAMES", "absence", "contestant"]

#: The module of each, in the order of reports, and the packages that it needs; told here so
#: that finding out who can take part imports nothing.
NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "torch": ("torch_loader", ("torch",)),
    "datasets": ("datasets_loader", ("torch", "datasets")),
    "torchdata": ("torchdata_nodes", ("torch", "torchdata")),
    "feedline": ("feedline_loader", ()),
    "feedline.torch": ("feedline_torch", ("torch",)),
    "spdl": ("spdl_pipeline", ("torch", "spdl.pipeline")),
    "grain": ("grain_loader", ("grain",)),
    "tf.data": ("tf_data", ("tensorflow",)),
    "dali": ("dali_pipeline", ("nvidia.dali",)),
    "torch+monai": ("torch_monai", ("torch", "monai", "nibabel")),
    "torch+nibabel": ("torch_plain", ("torch", "nibabel")),
    "torch+pynrrd": ("torch_plain", ("torch", "nrrd")),
}

#: What to install for a package that is called otherwise.
DISTRIBUTIONS = {
    "spdl.pipeline": "spdl",
    "nvidia.dali": "nvidia-dali-cuda120",
    "nrrd": "pynrrd",
}


def contestant(name: str) -> Contestant:
    """Load a contestant's code, and with it the packages that it needs."""
    module = importlib.import_module(f"feedline.bench.contestants.{NAMES[name][0]}")
    return cast("Contestant", module.Loading())


def absence(name: str) -> str | None:
    """Say why a contestant cannot take part; ``None`` if it can."""
    for package in NAMES[name][1]:
        if not _is_there(package):
            name = DISTRIBUTIONS.get(package, package)
            return f"{name} is not installed (`pip install {name}`)"
    return None


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a parent package
        return False
