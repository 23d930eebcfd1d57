"""Scans to measure with: organs of a few labels in noise, which gzip makes about half as large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nibabel
import nrrd
import numpy as np
import torch
import torch.utils.data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    Shape = tuple[int, int, int]
    Window = tuple[slice, slice, slice]
    Array = npt.NDArray[Any]


def scan(shape: Shape, seed: int) -> tuple[Array, Array]:
    """An image like CT, int16, and its mask, uint8; axes are (z, y, x)."""
    rng = np.random.default_rng(seed)
    image = rng.integers(-24, 24, shape, dtype=np.int16)
    mask = np.zeros(shape, np.uint8)
    z, y, x = np.ogrid[tuple(slice(-1, 1, side * 1j) for side in shape)]
    for label in (1, 2, 3):
        at = rng.uniform(-0.4, 0.4, 3)
        radius = rng.uniform(0.55, 0.8) / label
        organ = (z - at[0]) ** 2 + (y - at[1]) ** 2 + (x - at[2]) ** 2 < radius**2
        mask[organ] = label
    # Organs a little brighter than what is around them, in a body, in air.
    body = (y**2 + x**2 < 0.9).astype(np.int16)
    image += np.array([0, 60, 110, 180], np.int16)[mask]
    image += body * 1030 - 1000
    return image, mask


def write_nifti(path: Path, array: Array, spacing: tuple[float, float, float]) -> None:
    """Write a NIfTI-1 file, in gzip if its name says so; spacing is (z, y, x)."""
    image = nibabel.Nifti1Image(array.transpose(), np.diag([*reversed(spacing), 1.0]))
    nibabel.save(image, path)


def write_nrrd(path: Path, array: Array) -> None:
    """Write an NRRD file in gzip."""
    nrrd.write(str(path), array, {"encoding": "gzip"}, index_order="C", compression_level=6)


class Patches(torch.utils.data.Dataset):
    """Patches of given places: what `read` gives of a file is float32, and int16 of its mask."""

    def __init__(
        self, files: list[tuple[str, ...]], size: Shape, read: Callable[[str, Window], Array]
    ) -> None:
        self.files = files
        self.size = size
        self.read = read

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, at: tuple[int, Shape]) -> tuple[torch.Tensor, ...]:
        index, start = at
        z, y, x = (slice(a, a + side) for a, side in zip(start, self.size, strict=True))
        window = (z, y, x)
        image, *mask = (self.read(path, window) for path in self.files[index])
        pixels = torch.from_numpy(np.ascontiguousarray(image, np.float32)[None])
        return pixels, *(torch.from_numpy(np.ascontiguousarray(one, np.int16)) for one in mask)
