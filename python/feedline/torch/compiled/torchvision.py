"""torchvision's datasets: folders of files, and those that are arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from feedline._feedline import Source
from feedline.picture_sources import _settings
from feedline.pictures import Images
from feedline.sources import arrays
from feedline.torch.compiled.pictures import known_pictures
from feedline.torch.compiled.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from feedline.torch.compiled.known import Known

__all__ = ["Listings", "torchvision_datasets"]

# What is decoded natively; what a file is, its content says.
DECODED = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})

# Pillow knows no limit to the bytes of a file.
_NO_LIMIT = 2**62


def torchvision_datasets(listings: Listings) -> dict[type, Callable[[Any], Known]]:
    """Return torchvision's datasets that are known, and what compiles each."""
    from torchvision import datasets

    gray = (datasets.MNIST, datasets.FashionMNIST, datasets.KMNIST)
    colored = (datasets.CIFAR10, datasets.CIFAR100)
    return {
        datasets.ImageFolder: listings.known,
        datasets.DatasetFolder: listings.known,
        **dict.fromkeys(gray, _mnist),
        **dict.fromkeys(colored, _cifar),
    }


class ListedFiles:
    """Files given one by one; they pickle by their paths."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._source = Source.listed_files(paths, _NO_LIMIT)

    def __reduce__(self) -> tuple[Any, ...]:
        return ListedFiles, (self._paths,)


class Listings:
    """The files of folders, listed once.

    So a million files are not gone through again each epoch; a list that has changed is.
    """

    def __init__(self) -> None:
        self._listed: dict[int, tuple[list[Any], ListedFiles, list[Any]]] = {}

    def known(self, dataset: Any) -> Known:  # noqa: ANN401 - a DatasetFolder
        """Return what is known of an ``ImageFolder`` or a ``DatasetFolder``."""
        from torchvision import get_image_backend
        from torchvision.datasets import folder

        if dataset.loader is not folder.default_loader:
            msg = "it has a loader of its own"
            raise Unknown(msg)
        if get_image_backend() != "PIL":
            msg = f"torchvision's image backend is {get_image_backend()}"
            raise Unknown(msg)
        if not dataset.samples:
            msg = "it has no samples"
            raise Unknown(msg)
        files, targets = self._files(dataset.samples)
        name = f"{type(dataset).__name__}({Path(dataset.root).name!r})"
        settings = _settings("rgb", True, False, _most_pixels(), _NO_LIMIT, False)
        return known_pictures(name, Images(files, stage=name, settings=settings), targets, dataset)  # type: ignore[arg-type]

    def _files(self, samples: list[Any]) -> tuple[ListedFiles, list[Any]]:
        kept = self._listed.get(id(samples))
        # Quick, as long as the pairs are the same objects.
        if kept is not None and kept[0] == samples:
            return kept[1:]
        paths = tuple(os.fspath(path) for path, _ in samples)
        endings = {path[path.rfind(".") :].lower() for path in paths}
        if unknown := sorted(endings - DECODED):
            msg = f"it has files that end in {', '.join(unknown)}, which are not decoded natively"
            raise Unknown(msg)
        kept = list(samples), ListedFiles(paths), [target for _, target in samples]
        self._listed = {id(samples): kept, **self._listed}
        while len(self._listed) > _MOST_LISTINGS:
            self._listed.popitem()
        return kept[1:]


# More than anybody joins.
_MOST_LISTINGS = 64


def _most_pixels() -> int:
    """Return how many pixels Pillow takes.

    Raises
    ------
    Unknown
        If it takes files that were cut off.
    """
    from PIL import Image, ImageFile

    if ImageFile.LOAD_TRUNCATED_IMAGES:
        msg = "Pillow's LOAD_TRUNCATED_IMAGES is set, and natively files that were cut off raise"
        raise Unknown(msg)
    most = Image.MAX_IMAGE_PIXELS
    return _NO_LIMIT if most is None else 2 * int(most)


def _mnist(dataset: Any) -> Known:  # noqa: ANN401
    data, targets = dataset.data, dataset.targets
    if type(data) is not torch.Tensor or data.dtype != torch.uint8 or data.dim() != 3:
        msg = "its data are no bytes of shape (pictures, height, width)"
        raise Unknown(msg)
    if type(targets) is not torch.Tensor or targets.dim() != 1 or targets.is_floating_point():
        msg = "its targets are no whole numbers in a tensor"
        raise Unknown(msg)
    return _arrays(dataset, data, "hw", targets.tolist())


def _cifar(dataset: Any) -> Known:  # noqa: ANN401
    data = dataset.data
    if type(data) is not np.ndarray or data.dtype != np.uint8 or data.shape[3:] != (3,):
        msg = "its data are no bytes of shape (pictures, height, width, 3)"
        raise Unknown(msg)
    return _arrays(dataset, data, "hwc", dataset.targets)


def _arrays(dataset: Any, data: Any, layout: Any, targets: Sequence[Any]) -> Known:  # noqa: ANN401
    if not 0 < len(data) == len(targets):
        msg = f"it has {len(data)} pictures and {len(targets)} targets"
        raise Unknown(msg)
    name = type(dataset).__name__
    images = arrays(data).images(0, layout=layout)
    return known_pictures(name, images, targets, dataset)
