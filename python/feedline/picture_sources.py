"""Where images come from: folders of files, parts of shards, arrays of bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from feedline import _arguments, _stores
from feedline._feedline import Source
from feedline.image_operations import MOST_PIXELS
from feedline.pictures import Images
from feedline.recipes import changed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from feedline.pipeline import Pipeline

__all__ = ["OpenedFolder", "decoded", "images"]

# As torchvision's ImageFolder, and GIF.
EXTENSIONS = (
    ".jpg",
    ".jpeg",
    ".png",
    ".ppm",
    ".bmp",
    ".pgm",
    ".tif",
    ".tiff",
    ".webp",
    ".gif",
)


def images(
    path: str | os.PathLike[str],
    *,
    classes: bool | None = None,
    masks: str | os.PathLike[str] | None = None,
    boxes: Sequence[Any] | np.ndarray | None = None,
    keypoints: Sequence[Any] | np.ndarray | None = None,
    ragged: Literal["longest", "packed"] = "longest",
    named: bool = False,
    color: Literal["rgb", "gray"] = "rgb",
    exact: bool = False,
    orientation: bool = False,
    max_pixels: int = MOST_PIXELS,
    max_bytes: int | str = "256MiB",
    max_memory: int | str = "2GiB",
    extensions: Sequence[str] = EXTENSIONS,
    allow_empty: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Images:
    """Read images from a folder: JPEG, PNG, WebP, BMP, GIF (the first frame) and TIFF.

    Formats are told apart by content, whatever files are called. Nothing is decoded before a loader
    asks for it, and then only what is needed: ``random_resized_crop(224).flip().normalize()`` is
    one pass from the file's bytes into the batch.

    Parameters
    ----------
    path
        A folder with one folder per class, as torchvision's ``ImageFolder`` takes it, or a folder
        of images without classes. Or the URL of one in an object store: ``s3://bucket/train``.
    classes
        Whether folders are classes. By default they are, if there are any.
    masks
        A folder with a segmentation mask for each image, under the same name up to the extension.
        Palette and gray values are taken as they are. Masks move with the image, always by the
        nearest pixel.
    boxes
        Bounding boxes: for each image an array of shape (n, 4), x0, y0, x1, y1 in pixels. They move
        with the image and are cut at its edges. One array of shape (images, n, 4) makes batches of
        that shape; a list of arrays may have any n and is made a batch by `ragged`.
    keypoints
        The same of points, of shape (k, 2): x, y. Points may leave the image.
    ragged
        How lists of boxes and keypoints become a batch: padded with zeros to the longest, or one
        after the other.
    named
        Whether batches are dicts (image, label, mask, boxes, keypoints) rather than tuples in that
        order.
    color
        What images are decoded to: three channels, or one.
    exact
        Whether large JPEGs must not be decoded at a fraction of their size where that is enough.
    orientation
        Whether images are turned upright by their EXIF data.
    max_pixels
        The most pixels of an image. More is an error of its sample.
    max_bytes
        The most bytes of a file. More is an error of its sample.
    max_memory
        The most bytes of memory that decoding an image may take. More is an error of its sample.
    extensions
        Extensions of the files that are images.
    allow_empty
        Whether classes may have no images.
    storage_options
        For URLs: credentials, endpoint, what is kept on disk; see the page on object stores.
        Without, what the environment says.
    progress
        Whether to show on stderr how many files were found so far: on a terminal as they are
        counted, elsewhere by a line every ten seconds.

    Returns
    -------
    Images
        Of the fields image and, where there are classes, label (an int64), then mask, boxes and
        keypoints where they are given.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or nothing in it.
    ValueError
        If a class has no images, or masks, boxes or keypoints do not fit them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> import feedline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for label, color in [("blue", (0, 0, 255)), ("red", (255, 0, 0))]:
    ...     (folder / label).mkdir()
    ...     Image.new("RGB", (60, 40), color).save(folder / label / "one.png")
    >>> train = feedline.images(folder).random_resized_crop(32).flip().normalize()
    >>> for x, y in feedline.Loader(train, batch_size=2):
    ...     print(x.shape, x.dtype, y)
    (2, 3, 32, 32) float32 [0 1]
    """
    options = _stores.plain_options(storage_options)
    where = _stores.place(path, options)
    if classes is None:
        classes = _has_folders(where)
    rule = _arguments.one_of("ragged", ragged, ("longest", "packed"))
    counted = (
        [str(extension) for extension in extensions],
        _arguments.flag("allow_empty", allow_empty),
        _arguments.size("max_bytes", max_bytes),
    )
    progress = _arguments.flag("progress", progress)
    classes = _arguments.flag("classes", classes)
    folder = OpenedFolder(where, classes, *counted, options=options, progress=progress)
    settings = _settings(color, exact, orientation, max_pixels, max_memory, named)
    if masks is not None:
        far = options if _stores.is_url(os.fsdecode(masks)) else None
        beside = _stores.place(masks, far)
        settings["masks"] = OpenedFolder(
            beside, _has_folders(beside), *counted, options=far, progress=progress
        )
    for name, given, columns in (("boxes", boxes, 4), ("keypoints", keypoints, 2)):
        if given is not None:
            settings[name], settings[f"{name}_rows"] = _table(name, given, columns, rule)
    return Images(folder, stage=f"images({_stores.base_name(where)!r})", settings=settings)


def decoded(
    pipeline: Pipeline,
    part: str | int | None,
    *,
    layout: str,
    mask: str | int | None,
    boxes: str | int | None,
    keypoints: str | int | None,
    ragged: str,
    named: bool | None,
    color: str,
    exact: bool,
    orientation: bool,
    max_pixels: int,
    max_memory: int | str,
) -> Images:
    """Take a part of encoded samples, or a field of bytes, as images; see `Pipeline.images`."""
    part, mask, boxes, keypoints = map(_field, (part, mask, boxes, keypoints))
    ragged = _arguments.one_of("ragged", ragged, ("longest", "packed"))
    layout = _arguments.one_of("layout", layout, ("auto", "hwc", "chw", "hw"))
    named = pipeline._named if named is None else named
    settings = _settings(color, exact, orientation, max_pixels, max_memory, named)
    stage = " | ".join(pipeline._stages)
    parts = pipeline._source.encoded_parts()
    if parts is None:
        for name, given, plain in (
            ("color", color, "rgb"),
            ("exact", exact, False),
            ("orientation", orientation, False),
            ("ragged", ragged, "longest"),
        ):
            if given != plain:
                msg = f"{name} is for encoded images, and these are arrays already; leave it out"
                raise ValueError(msg)
        beside = {"mask_part": mask, "boxes_part": boxes, "keypoints_part": keypoints}
        kept = {name: settings[name] for name in ("max_pixels", "max_bytes", "named")}
        settings = kept | beside | {"part": part, "layout": layout}
        return Images(pipeline, stage=stage, settings=settings)
    if layout != "auto":
        msg = "images(layout=...) is for arrays; call .layout(...) to choose the delivered axes"
        raise ValueError(msg)
    if part is None:
        kinds = tuple(extension.removeprefix(".") for extension in EXTENSIONS)
        found = [name for name in parts if name.rsplit(".", 1)[-1].lower() in (*kinds, "image")]
        found = [name for name in found if name != mask]
        if not found:
            msg = f"none of the parts {parts} is a picture by its name; pass part=..."
            raise ValueError(msg)
        part = found[0]
    settings |= {"part": part, "mask_part": mask}
    for name, chosen in (("boxes", boxes), ("keypoints", keypoints)):
        if chosen is not None:
            settings |= {f"{name}_part": chosen, f"{name}_rows": ragged}
    taken = {part, mask, boxes, keypoints}
    settings["others"] = [name for name in parts if name not in taken]
    return Images(pipeline, stage=stage, settings=settings)


def _field(name: str | int | None) -> str | None:
    """Return a field's name; fields without names go by their number."""
    return None if name is None else str(name)


def _settings(
    color: str,
    exact: bool,
    orientation: bool,
    max_pixels: int,
    max_memory: int | str,
    named: bool,
) -> dict[str, Any]:
    return {
        "color": _arguments.one_of("color", color, ("rgb", "gray")),
        "exact": _arguments.flag("exact", exact),
        "orientation": _arguments.flag("orientation", orientation),
        "max_pixels": _arguments.whole("max_pixels", max_pixels, 1),
        "max_bytes": _arguments.size("max_memory", max_memory),
        "named": _arguments.flag("named", named),
        "part": None,
        "label": True,
        "masks": None,
        "mask_part": None,
        "boxes": None,
        "boxes_part": None,
        "boxes_rows": "longest",
        "keypoints": None,
        "keypoints_part": None,
        "keypoints_rows": "longest",
        "others": [],
    }


class OpenedFolder:
    """A folder of files, opened; it pickles by its path."""

    def __init__(
        self,
        path: str,
        classes: bool,
        extensions: list[str],
        allow_empty: bool,
        max_bytes: int,
        options: dict[str, str] | None = None,
        *,
        length: int | None = None,
        progress: bool = False,
    ) -> None:
        self._arguments = (path, classes, extensions, allow_empty, max_bytes, options)
        if length is not None:
            # Another process knows nothing of the store yet.
            _stores.place(path, options)
        self._source = Source.files(path, extensions, classes, allow_empty, max_bytes, progress)
        if length is not None and length != len(self._source):
            changed(str(path), length, len(self._source))

    def __reduce__(self) -> tuple[Any, ...]:
        return _folder, (self._arguments, len(self._source))


def _folder(arguments: tuple[Any, ...], length: int) -> OpenedFolder:
    return OpenedFolder(*arguments, length=length)


def _has_folders(path: str) -> bool:
    if _stores.is_url(path):
        return _stores.has_folders(path)
    if not os.path.isdir(path):  # noqa: PTH112 - a name of any bytes
        return False
    with os.scandir(path) as entries:
        return any(entry.is_dir() for entry in entries if not entry.name.startswith("."))


def _table(
    name: str, given: Sequence[Any] | np.ndarray, columns: int, ragged: str
) -> tuple[tuple[bytes, list[int]], str]:
    """Return the numbers of all samples, where each sample's rows begin, and the rule."""
    if isinstance(given, np.ndarray) and given.ndim == 3 and given.shape[2] == columns:
        samples, rows, _ = given.shape
        values = np.ascontiguousarray(given, np.float32).tobytes()
        return (values, [i * rows for i in range(samples + 1)]), str(rows)
    tables = []
    for i, entry in enumerate(given):
        table = np.asarray(entry, np.float32)
        if table.size == 0:
            table = table.reshape(0, columns)
        if table.ndim != 2 or table.shape[1] != columns:
            msg = f"{name}[{i}] must have shape (n, {columns}), got {table.shape}"
            raise ValueError(msg)
        tables.append(table)
    counts = np.cumsum([0, *(len(table) for table in tables)])
    values = b"".join(np.ascontiguousarray(table).tobytes() for table in tables)
    return (values, [int(count) for count in counts]), ragged
