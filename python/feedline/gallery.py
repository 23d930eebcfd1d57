"""Samples to look at: some pictures of a pipeline as one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from feedline import _letters
from feedline._columns import label_field
from feedline._png import png

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from feedline._columns import Fields

__all__ = ["Gallery"]

Pixels = npt.NDArray[np.uint8]

# Of classes in masks, boxes and points; easy to tell apart, also for the colour-blind.
_COLOURS = np.array(
    [
        (230, 159, 0),
        (86, 180, 233),
        (0, 158, 115),
        (240, 228, 66),
        (0, 114, 178),
        (213, 94, 0),
        (204, 121, 167),
    ],
    np.uint8,
)

# Between pictures.
_GAP = 6


class Gallery:
    """A picture of some samples, made by `Pipeline.show`.

    Notebooks show it; `save` writes it to a PNG file.

    Parameters
    ----------
    pixels
        Bytes of shape (height, width, 3).
    samples
        How many samples are on it.
    """

    def __init__(self, pixels: Pixels, samples: int) -> None:
        self.pixels = pixels
        self.samples = samples

    def __repr__(self) -> str:
        height, width, _ = self.pixels.shape
        about = f"{self.samples} samples, {width} x {height} pixels"
        return f"<Gallery of {about}; .save('samples.png') writes it to a file>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a PNG file.

        Parameters
        ----------
        path
            The file; one that is there is replaced.
        """
        Path(path).write_bytes(png(self.pixels))

    def _repr_png_(self) -> bytes:
        return png(self.pixels)


class Normalization(NamedTuple):
    """What was done to the numbers of a picture: ``(x / 255 - mean) / std``."""

    mean: Sequence[float]
    std: Sequence[float]


class Look(NamedTuple):
    """How a picture's field is looked at."""

    place: int
    """Which field of a sample it is."""
    layout: str | None
    """``"chw"`` or ``"hwc"``; None to tell it by the shape."""
    scale: Normalization | None
    """What is undone; None to tell it by the values."""


def pictures_of(fields: Fields) -> list[int]:
    """Return which fields are pictures: those called so, or else the first of such a shape."""
    shaped = [i for i, field in enumerate(fields) if _is_picture(field)]
    called = [i for i in shaped if _kind(fields[i][0]) == "image"]
    return called or [i for i in shaped if _kind(fields[i][0]) != "mask"][:1]


def _is_picture(field: tuple[str, str, list[int | None], str]) -> bool:
    _, dtype, shape, rule = field
    if rule not in ("fixed", "longest", "padded") or dtype.startswith("complex"):
        return False
    if len(shape) == 3:
        return shape[0] in (1, 3, 4) or shape[2] in (1, 3, 4)
    # Two axes may be anything else, too: a table, a spectrum.
    return len(shape) == 2 and all(axis is None or axis >= 8 for axis in shape)


def _kind(name: str) -> str:
    """Return what a field is by its name, whichever view it is of."""
    start, _, number = name.rpartition("_")
    return start if number.isdigit() else name


def drawn(
    samples: Sequence[Sequence[Any]],
    fields: Fields,
    looks: list[Look],
    *,
    classes: list[str] | None,
    captions: Sequence[str],
    columns: int | None,
    size: int,
) -> Gallery:
    """Draw samples side by side, each with its caption.

    Parameters
    ----------
    samples
        Each with the values of its fields.
    fields
        As the source has them.
    looks
        The pictures of a sample.
    classes
        Names of the classes, where they are known.
    captions
        What stands under those that have no label.
    columns
        Samples per row; None for about as many as there are rows.
    size
        How large a picture is at most, in pixels.
    """
    label = label_field(fields)
    place = None if label is None else [name for name, *_ in fields].index(label)
    tiles = []
    for look in looks:
        values = [np.asarray(sample[look.place], np.float64) for sample in samples]
        pixels = _as_bytes([_hwc(value, look.layout) for value in values], look.scale)
        view = fields[look.place][0].removeprefix("image")
        tiles.append(
            [
                _tile(picture, sample, fields, view, size)
                for picture, sample in zip(pixels, samples, strict=True)
            ]
        )
    cells = []
    for i, sample in enumerate(samples):
        caption = captions[i] if place is None else _caption(sample[place], classes)
        cells.append(_cell([view[i] for view in tiles], caption, size))
    return Gallery(_grid(cells, columns), len(samples))


def together(galleries: Sequence[Gallery], columns: int | None) -> Gallery:
    """Return galleries of equal size as one.

    Parameters
    ----------
    galleries
        What is put together, as `drawn` made it.
    columns
        How many stand in a row; None for about as many as there are rows.
    """
    cells = [one.pixels[_GAP:-_GAP, _GAP:-_GAP] for one in galleries]
    return Gallery(_grid(cells, columns), sum(one.samples for one in galleries))


def _hwc(value: npt.NDArray[np.float64], layout: str | None) -> npt.NDArray[np.float64]:
    if value.ndim == 2:
        value = value[..., None]
    elif layout == "chw" or (layout is None and _is_chw(value.shape)):
        value = value.transpose(1, 2, 0)
    return value[..., :3]


def _is_chw(shape: tuple[int, ...]) -> bool:
    return shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4)


def _as_bytes(pictures: list[npt.NDArray[np.float64]], scale: Normalization | None) -> list[Pixels]:
    """Return what people can see; what was normalised, or is in no known range, is stretched."""
    if scale is not None:
        mean, std = np.asarray(scale.mean), np.asarray(scale.std)
        pictures = [(picture * std + mean) * 255 for picture in pictures]
    else:
        known = [picture[np.isfinite(picture)] for picture in pictures]
        low = min((values.min() for values in known if values.size), default=0.0)
        high = max((values.max() for values in known if values.size), default=1.0)
        if low >= 0 and high <= 1:
            low, high = 0.0, 1.0
        elif low >= 0 and high <= 255:
            low, high = 0.0, 255.0
        pictures = [(picture - low) * (255 / ((high - low) or 1)) for picture in pictures]
    clean = [np.nan_to_num(picture, nan=0, posinf=255, neginf=0) for picture in pictures]
    made = [np.clip(np.rint(picture), 0, 255).astype(np.uint8) for picture in clean]
    return [picture if picture.shape[2] == 3 else picture[..., :1].repeat(3, 2) for picture in made]


def _tile(picture: Pixels, sample: Sequence[Any], fields: Fields, view: str, size: int) -> Pixels:
    """Return a picture of at most `size` with its mask, boxes and points over it."""
    tile = _fitted(picture, size)
    beside = {
        name.removesuffix(view): np.asarray(value)
        for (name, *_), value in zip(fields, sample, strict=True)
        if name.removesuffix(view) in ("mask", "boxes", "keypoints")
    }
    height, width = tile.shape[:2]
    down, right = height / picture.shape[0], width / picture.shape[1]
    mask = beside.get("mask")
    if mask is not None and mask.shape == picture.shape[:2]:
        rows = ((np.arange(height) + 0.5) / down).astype(np.int64)
        columns = ((np.arange(width) + 0.5) / right).astype(np.int64)
        mask = mask[np.ix_(rows, columns)].astype(np.int64)
        known = mask > 0
        tile[known] = tile[known] // 2 + _COLOURS[mask % len(_COLOURS)][known] // 2
    line, radius = max(1, size // 64), max(1, size // 64)
    for i, box in enumerate(beside.get("boxes", np.empty((0, 4)))):
        scaled = np.asarray(box, np.float64) * (right, down, right, down)
        _outline(tile, scaled, _COLOURS[i % len(_COLOURS)], line)
    for i, point in enumerate(beside.get("keypoints", np.empty((0, 2)))):
        x, y = np.asarray(point, np.float64) * (right, down)
        if 0 <= x < width and 0 <= y < height:
            top, left = max(int(y) - radius, 0), max(int(x) - radius, 0)
            area = tile[top : int(y) + radius + 1, left : int(x) + radius + 1]
            area[:] = _COLOURS[i % len(_COLOURS)]
    return tile


def _outline(tile: Pixels, box: npt.NDArray[np.float64], colour: Pixels, line: int) -> None:
    if not np.isfinite(box).all():
        return
    height, width, _ = tile.shape
    x0, y0, x1, y1 = np.clip(np.rint(box), 0, (width, height, width, height)).astype(int)
    if x1 > x0 and y1 > y0:
        tile[y0 : y0 + line, x0:x1] = tile[max(y1 - line, y0) : y1, x0:x1] = colour
        tile[y0:y1, x0 : x0 + line] = tile[y0:y1, max(x1 - line, x0) : x1] = colour


def _fitted(picture: Pixels, size: int) -> Pixels:
    """Return a picture of at most `size`: every pixel several times, or the mean of an area."""
    longest = max(*picture.shape[:2], 1)
    if longest <= size:
        times = size // longest
        return picture.repeat(times, 0).repeat(times, 1)
    height, width = (max(round(side * size / longest), 1) for side in picture.shape[:2])
    down, right = _areas(picture.shape[0], height), _areas(picture.shape[1], width)
    means = np.einsum("ab,bcx,dc->adx", down, picture, right, optimize=True)
    shrunk: Pixels = np.rint(means).astype(np.uint8)
    return shrunk


def _areas(before: int, after: int) -> npt.NDArray[np.float64]:
    """Return how much of each pixel before is in each pixel after."""
    ends = np.linspace(0, before, after + 1)
    at = np.arange(before)
    covered = np.minimum(ends[1:, None], at + 1) - np.maximum(ends[:-1, None], at)
    parts: npt.NDArray[np.float64] = np.clip(covered, 0, None) * (after / before)
    return parts


def _caption(label: Any, classes: list[str] | None) -> str:  # noqa: ANN401 - a number or weights
    def name(number: int) -> str:
        return classes[number] if classes and 0 <= number < len(classes) else str(number)

    label = np.asarray(label)
    if label.ndim == 0:
        return name(int(label))
    # Weights of classes, after mixup.
    first = [int(i) for i in np.argsort(-label, kind="stable")[:2] if label[i] > 0]
    return " + ".join(f"{label[i]:.2g} {name(i)}" for i in first)


def _cell(tiles: list[Pixels], caption: str, size: int) -> Pixels:
    """Return the views of a sample side by side in squares, and the caption under them."""
    width = len(tiles) * size + (len(tiles) - 1) * _GAP
    cell = np.full((size + _letters.HEIGHT + 3, width, 3), 255, np.uint8)
    for i, tile in enumerate(tiles):
        height, wide, _ = tile.shape
        top, left = (size - height) // 2, i * (size + _GAP) + (size - wide) // 2
        cell[top : top + height, left : left + wide] = tile
    room = width // _letters.WIDTH
    text = caption if len(caption) <= room else caption[: max(room - 2, 1)] + ".."
    dots = _letters.drawn(text)[:, :width]
    left = (width - dots.shape[1]) // 2
    cell[size + 3 :, left : left + dots.shape[1]][dots] = 40
    return cell


def _grid(cells: list[Pixels], columns: int | None) -> Pixels:
    height, width, _ = cells[0].shape
    columns = min(columns or math.ceil(math.sqrt(len(cells) * height / width)), len(cells))
    rows = math.ceil(len(cells) / columns)
    size = (rows * (height + _GAP) + _GAP, columns * (width + _GAP) + _GAP, 3)
    grid = np.full(size, 255, np.uint8)
    for i, cell in enumerate(cells):
        row, column = divmod(i, columns)
        top, left = _GAP + row * (height + _GAP), _GAP + column * (width + _GAP)
        grid[top : top + height, left : left + width] = cell
    return grid
