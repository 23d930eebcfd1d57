"""What loaders under test load: every sample is a function of its index alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from feedline.bench.reviews import Reviews
from feedline.bench.volume_patches import PlainPatches
from feedline.image_operations.finish import IMAGENET_MEAN, IMAGENET_STD

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Delay", "ImageFolders", "Preprocessed", "Workload", "workload"]


class Workload(Protocol):
    """Samples by index, made by Python code."""

    #: How many different samples there are; ``None``: any number.
    size: int | None

    def ready(self) -> None:
        """Import what samples need, before workers are forked."""

    def sample(self, index: int) -> Any:  # noqa: ANN401 - an array
        """Make a sample."""


class Delay:
    """Arrays whose making waits, as for a disk or a network.

    Parameters
    ----------
    delay_s
        Seconds that each sample waits.
    shape
        Shape of a sample, float32.

    Examples
    --------
    >>> Delay(0.0, [2, 3]).sample(7).shape
    (2, 3)
    """

    size = None

    def __init__(self, delay_s: float, shape: list[int]) -> None:
        self._delay_s = delay_s
        self._base = np.random.default_rng(0).random(shape, np.float32)

    def ready(self) -> None:
        """Need nothing more."""

    def sample(self, index: int) -> Any:  # noqa: ANN401 - an array
        """Wait, then make a sample."""
        time.sleep(self._delay_s)
        return self._base + np.float32(index % 1024)


class ImageFolders:
    """Pictures of class folders, by the standard preprocessing of ImageNet models.

    Parameters
    ----------
    folder
        Folder with a folder of pictures for each class.

    Attributes
    ----------
    paths
        The files, in the order of their indices.
    """

    def __init__(self, folder: str) -> None:
        endings = {".jpg", ".jpeg", ".png", ".webp"}
        found = sorted(Path(folder).glob("*/*"))
        self.paths = [str(path) for path in found if path.suffix.lower() in endings]
        self.size: int | None = len(self.paths)
        self._open: Any = None
        self._transform: Any = None

    def ready(self) -> None:
        """Import torchvision and Pillow."""
        import PIL.Image

        self._open = PIL.Image.open
        self._transform = _imagenet()

    def sample(self, index: int) -> Any:  # noqa: ANN401 - a tensor
        """Decode, resize, crop and normalise a picture."""
        with self._open(self.paths[index]) as image:
            return self._transform(image.convert("RGB"))


def _imagenet() -> Any:  # noqa: ANN401 - a transform
    from torchvision import transforms

    normalize = transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD)
    return transforms.Compose(
        [
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            normalize,
        ]
    )


class Preprocessed:
    """One ``.npy`` file for each sample, ready for a model.

    Parameters
    ----------
    folder
        Folder of the files.

    Attributes
    ----------
    paths
        The files, in the order of their indices.
    """

    def __init__(self, folder: str) -> None:
        self.paths = [str(path) for path in sorted(Path(folder).glob("*.npy"))]
        self.size: int | None = len(self.paths)

    def ready(self) -> None:
        """Need nothing more."""

    def sample(self, index: int) -> Any:  # noqa: ANN401 - an array
        """Read a file."""
        return np.load(self.paths[index])


def workload(described: Mapping[str, Any]) -> Workload:
    """Make the workload that a request describes.

    Parameters
    ----------
    described
        Its ``kind`` and parameters.

    Returns
    -------
    Workload
        The workload.

    Raises
    ------
    ValueError
        If there is no such kind.
    """
    parameters = dict(described)
    kind = parameters.pop("kind")
    kinds: dict[str, Any] = {
        "delay": Delay,
        "images": ImageFolders,
        "preprocessed": Preprocessed,
        "reviews": Reviews,
        "volumes": PlainPatches,
    }
    if kind not in kinds:
        msg = f"no workload {kind!r}; there are: {', '.join(kinds)}"
        raise ValueError(msg)
    made: Workload = kinds[kind](**parameters)
    if made.size == 0:
        msg = f"{parameters.get('folder')} holds nothing for workload {kind!r}"
        raise ValueError(msg)
    return made
