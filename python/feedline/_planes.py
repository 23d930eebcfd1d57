"""Slices of volumes to look at: one across each axis, the way that radiologists hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline._columns import Fields
    from feedline.scan_headers import VolumeHeader
    from feedline.volume_operations import VolumeCall

__all__ = ["Placed", "fields", "pictures", "placed"]

# Which world axis a letter is of: from left to right, from back to front, from the feet up.
_WORLD = {"R": 0, "L": 0, "A": 1, "P": 1, "S": 2, "I": 2}

# The most pixels of a side.
_LARGEST = 1024


class Placed(NamedTuple):
    """How the voxels of an array lie: for each of its axes, z, y and x."""

    letters: str
    """Which way it points."""
    spacing: tuple[float, float, float]
    """Millimetres from voxel to voxel."""


def placed(header: VolumeHeader, calls: Sequence[VolumeCall]) -> Placed:
    """Return how voxels lie after operations; what is random does not count, it shall be seen."""
    letters, spacing = header.orientation[::-1], header.spacing
    for name, arguments in calls:
        if name == "reorient":
            wanted = str(arguments["axcodes"])[::-1]
            worlds = [_WORLD[letter] for letter in letters]
            z, y, x = (spacing[worlds.index(_WORLD[letter])] for letter in wanted)
            letters, spacing = wanted, (z, y, x)
        elif name == "resample":
            given = cast("tuple[float | None, ...]", arguments["spacing"])
            z, y, x = (
                before if new is None else new for new, before in zip(given, spacing, strict=True)
            )
            spacing = (z, y, x)
    return Placed(letters, spacing)


def pictures(row: Sequence[Any], placed: Placed, flat: int | None, patches: int) -> list[Any]:
    """Return the pictures of a sample, then their masks if it has one.

    Parameters
    ----------
    row
        The image and the mask, if there is one.
    placed
        How their voxels lie.
    flat
        The axis that they do not have.
    patches
        How many patches are drawn.
    """
    image: npt.NDArray[Any] = np.asarray(row[0], np.float32)
    mask = None if len(row) < 2 else np.asarray(row[1])
    axes = 4 if flat is None else 3
    if image.ndim == axes:
        image, mask = image[None], None if mask is None else mask[None]
    drawn, masks = [], []
    for i in range(patches):
        first, labels = image[i, 0], None if mask is None else mask[i]
        if flat is not None:
            first = np.expand_dims(first, flat)
            labels = None if labels is None else np.expand_dims(labels, flat)
        scaled: npt.NDArray[Any] = _scaled(first)
        for axis in range(3) if flat is None else [flat]:
            at = _place(first.shape[axis], labels, axis)
            drawn.append(_held(np.take(scaled, [at], axis).squeeze(axis), placed, axis))
            if labels is not None:
                masks.append(_held(labels.take(at, axis), placed, axis))
    return [*drawn, *masks]


def fields(count: int, *, masks: bool) -> Fields:
    """Return the fields of such pictures, as `feedline.gallery` knows them."""
    names = [f"image_{i}" for i in range(count)]
    if masks:
        names += [f"mask_{i}" for i in range(count)]
    return [(name, "float32", [None, None], "fixed") for name in names]


def _scaled(image: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return numbers from 0 to 1: without the few that are far from all others."""
    known = image[np.isfinite(image)]
    if not known.size or (known.min() >= 0 and known.max() <= 1):
        return image
    low, high = np.percentile(known, (0.5, 99.5))
    if high <= low:
        low, high = known.min(), known.max()
    scaled: npt.NDArray[np.float32] = np.clip((image - low) / ((high - low) or 1), 0, 1)
    return scaled.astype(np.float32)


def _place(side: int, labels: npt.NDArray[Any] | None, axis: int) -> int:
    """Return the slice with the most labelled voxels, or the middle."""
    if labels is not None:
        others = tuple(other for other in range(3) if other != axis)
        counts = (labels > 0).sum(axis=others)
        if counts.any():
            return int(counts.argmax())
    return side // 2


def _held(plane: npt.NDArray[Any], placed: Placed, across: int) -> npt.NDArray[Any]:
    """Return a slice with head or front up, right or front to the left, and true proportions."""
    rows, columns = (axis for axis in range(3) if axis != across)
    if _WORLD[placed.letters[rows]] < _WORLD[placed.letters[columns]]:
        plane, rows, columns = plane.T, columns, rows
    for axis, of in enumerate((rows, columns)):
        if placed.letters[of] in "RAS":
            plane = np.flip(plane, axis)
    finest = min(placed.spacing[rows], placed.spacing[columns])
    for axis, of in enumerate((rows, columns)):
        side = plane.shape[axis]
        wanted = min(round(side * placed.spacing[of] / finest), max(side, _LARGEST))
        if wanted > side:
            plane = plane.take(((np.arange(wanted) + 0.5) * side / wanted).astype(int), axis)
    return plane
