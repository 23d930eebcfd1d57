"""What is known of volumes without reading their voxels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from feedline._feedline import Source

__all__ = ["Volume", "VolumeHeader", "VolumeHeaders", "affine_of"]


class VolumeHeader(NamedTuple):
    """What the header of a volume says; axes are those of the array, (z, y, x).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import nibabel, numpy as np
    >>> import feedline
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
    >>> affine = np.diag([0.5, 0.5, 2.0, 1.0])
    >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), affine), path)
    >>> header = feedline.volumes([path]).headers[0]
    >>> header.shape, header.spacing, header.orientation, header.dtype
    ((40, 50, 60), (2.0, 0.5, 0.5), 'RAS', 'int16')
    """

    name: str
    """What the case is called."""
    images: tuple[Path, ...]
    """The files of the image: one, or one for each channel."""
    mask: Path | None
    """The file of the mask."""
    shape: tuple[int, int, int]
    """Voxels along z, y and x."""
    channels: int
    """Channels of the image."""
    spacing: tuple[float, float, float]
    """Millimetres from voxel to voxel along z, y and x."""
    affine: npt.NDArray[np.float64]
    """From (z, y, x, 1) to millimetres to the right, the front and the head: nibabel's affine with
    its first three columns backwards."""
    orientation: str
    """Which way the axes point, x first, such as ``"RAS"``."""
    dtype: str
    """The type of the numbers in the file."""


class Volume(NamedTuple):
    """A volume that was read by `feedline.read_volume`."""

    array: npt.NDArray[np.generic]
    """Voxels of shape (z, y, x), or (channels, z, y, x) where the file has more than three axes."""
    affine: npt.NDArray[np.float64]
    """As `VolumeHeader.affine`."""
    spacing: tuple[float, float, float]
    """Millimetres from voxel to voxel along z, y and x."""
    orientation: str
    """Which way the axes point, x first, such as ``"RAS"``."""


class VolumeHeaders(Sequence[VolumeHeader]):
    """The headers of all volumes, made when they are asked for.

    Parameters
    ----------
    source
        Opened volumes.
    indices
        Which of them.
    """

    def __init__(self, source: Source, indices: Sequence[int]) -> None:
        self._source = source
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> VolumeHeader: ...
    @overload
    def __getitem__(self, index: slice) -> VolumeHeaders: ...
    def __getitem__(self, index: int | slice) -> VolumeHeader | VolumeHeaders:
        if isinstance(index, slice):
            return VolumeHeaders(self._source, self._indices[index])
        return self._header(self._indices[index])

    def __iter__(self) -> Iterator[VolumeHeader]:
        return map(self._header, self._indices)

    def __repr__(self) -> str:
        return f"<headers of {len(self)} volumes>"

    def _header(self, index: int) -> VolumeHeader:
        name, images, mask, shape, channels, spacing, affine, orientation, dtype = (
            self._source.volume_header(index)
        )
        paths = tuple(Path(image) for image in images)
        beside = None if mask is None else Path(mask)
        placed = affine_of(affine)
        return VolumeHeader(
            name, paths, beside, shape, channels, spacing, placed, orientation, dtype
        )


def affine_of(rows: list[list[float]]) -> npt.NDArray[np.float64]:
    """Return the affine of its first three rows."""
    return np.array([*rows, [0.0, 0.0, 0.0, 1.0]], np.float64)
