"""Where volumes come from: folders, lists, tables, and the layouts of nnU-Net and the Decathlon."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from feedline import _arguments, _stores
from feedline._feedline import Source, read_volume_file, volume_cases
from feedline.recipes import changed
from feedline.scan_headers import Volume, affine_of
from feedline.scans import Volumes

__all__ = ["OpenedVolumes", "read_volume", "volumes"]

AnyPath: TypeAlias = "str | os.PathLike[str]"

# How the names of volumes end.
_ENDINGS = (
    ".nii.gz",
    ".nii",
    ".nrrd",
    ".nhdr",
    ".mha",
    ".mhd",
    ".hdr",
    ".img",
    ".hdr.gz",
    ".img.gz",
)

# A case: its name, the files of its image, the file of its mask.
Case: TypeAlias = "tuple[str, list[str], str | None]"


def volumes(
    where: str | os.PathLike[str] | Sequence[Any],
    mask: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    *,
    named: bool = False,
    cache: str | os.PathLike[str] | None = None,
    max_bytes: int | str = "2GiB",
    progress: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Volumes:
    """Read volumes of CT and MR: NRRD, NIfTI (1 and 2) and MetaImage.

    Headers are read now, and kept in a cache folder; voxels when a loader asks for a sample, and
    then only those that are needed. Of files in gzip places to begin at are kept, too, so that a
    patch of one that was read before takes no more than the slabs around it.

    Parameters
    ----------
    where
        A folder of volumes; nnU-Net's folder of a dataset (with ``imagesTr``, ``labelsTr``); a
        ``dataset.json`` of the Decathlon's; a ``.csv`` of paths with the columns image (image_1…)
        and mask; one volume; or a list of paths, of pairs (image, mask), or of dicts with image and
        mask. An image may be a list of files, one for each channel. All of them also by URL.
    mask
        A folder with the masks, under the same names up to the extension; or for a list of images
        the list of their masks.
    named
        Whether samples are dicts (image, mask) rather than tuples.
    cache
        Where headers and places are kept; by default ``feedline/volumes`` in the user's cache
        folder (``$XDG_CACHE_HOME``).
    max_bytes
        The most bytes of a file's voxels that may be in memory: those that a patch needs, or all
        of them, and what operations make of them. More is an error of its sample.
    progress
        Whether to count files on standard error while headers are read: on a terminal as they are
        counted, elsewhere by a line every ten seconds.
    storage_options
        Credentials, endpoint and so on of the store, if `where` or `mask` are URLs; see
        docs/object-stores.md.

    Returns
    -------
    Volumes
        Of the fields image, float32 of shape (channels, z, y, x), and where there are masks mask,
        int16 of shape (z, y, x).

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or nothing in it.
    ValueError
        If images and masks do not belong together.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import nibabel, numpy as np
    >>> import feedline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for kind in ("images", "masks"):
    ...     (folder / kind).mkdir()
    ...     for name in ("a", "b"):
    ...         image = nibabel.Nifti1Image(np.zeros((40, 40, 30), np.int16), np.eye(4))
    ...         nibabel.save(image, folder / kind / f"{name}.nii.gz")
    >>> train = feedline.volumes(folder / "images", folder / "masks").zscore().random_crop(24)
    >>> for image, mask in feedline.Loader(train, batch_size=2):
    ...     print(image.shape, image.dtype, mask.shape, mask.dtype)
    (2, 1, 24, 24, 24) float32 (2, 24, 24, 24) int16
    """
    storage = _stores.plain_options(storage_options)
    if isinstance(where, (str, os.PathLike)):
        path = _place(where, storage)
        cases = _laid_out(path, mask, storage)
        stage = f"volumes({_stores.base_name(path)!r})"
    else:
        cases = _listed(where, mask, storage)
        stage = f"volumes({len(cases)} case{'s' if len(cases) != 1 else ''})"
    settings: dict[str, object] = {
        "cache": None if cache is None else str(Path(cache).absolute()),
        "max_bytes": _arguments.size("max_bytes", max_bytes),
    }
    progress = _arguments.flag("progress", progress)
    opened = OpenedVolumes(cases, settings, storage, progress=progress)
    return Volumes(opened, stage=stage, named=_arguments.flag("named", named))


def read_volume(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | str = "2GiB",
    storage_options: Mapping[str, Any] | None = None,
) -> Volume:
    """Read one volume, with all its voxels.

    Parameters
    ----------
    path
        A file in NRRD, NIfTI or MetaImage, or the URL of one.
    max_bytes
        The most bytes that its voxels may take. More is an error.
    storage_options
        Credentials, endpoint and so on of the store, if `path` is a URL; see
        docs/object-stores.md.

    Returns
    -------
    Volume
        Whose array has the file's dtype; float64 where the header scales its numbers.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is no such file, or damaged.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import nibabel, numpy as np
    >>> import feedline
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
    >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), np.eye(4)), path)
    >>> volume = feedline.read_volume(path)
    >>> volume.array.shape, volume.array.dtype.name, volume.spacing
    ((40, 50, 60), 'int16', (1.0, 1.0, 1.0))
    """
    settings: dict[str, object] = {"max_bytes": _arguments.size("max_bytes", max_bytes)}
    where = _stores.place(path, _stores.plain_options(storage_options))
    if not _stores.is_url(where):
        where = os.fsdecode(path)
    voxels, dtype, shape, spacing, affine, orientation, scaling = read_volume_file(where, settings)
    array: Any = np.frombuffer(voxels, np.dtype(dtype)).reshape(shape)
    if any(pair != (1.0, 0.0) for pair in scaling):
        # One pair for each channel.
        axes = (-1, *[1] * 3) if len(shape) == 4 else ()
        slopes, intercepts = (np.reshape([pair[i] for pair in scaling], axes) for i in (0, 1))
        array = array * slopes.astype(np.float64) + intercepts
    return Volume(array, affine_of(affine), spacing, orientation)


class OpenedVolumes:
    """Volumes whose headers were read; they pickle by their paths."""

    def __init__(
        self,
        cases: list[Case],
        settings: dict[str, object],
        storage: dict[str, str] | None = None,
        *,
        progress: bool = False,
    ) -> None:
        self._arguments = (cases, settings, storage)
        for _, images, mask in cases:
            _stores.configure(images if mask is None else [*images, mask], storage)
        self._source = Source.volumes(cases, settings | {"progress": progress})

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._arguments, len(self._source))


def _opened(
    arguments: tuple[list[Case], dict[str, object], dict[str, str] | None], length: int
) -> OpenedVolumes:
    opened = OpenedVolumes(*arguments)
    if len(opened._source) != length:
        changed("volumes(...)", length, len(opened._source))
    return opened


def _laid_out(
    where: str,
    mask: Any,  # noqa: ANN401 - checked
    storage: dict[str, str] | None,
) -> list[Case]:
    """Return the cases of a folder, a table, a `dataset.json` or a file."""
    layout = _layout(where)
    if layout in ("folder", "file"):
        if mask is not None and not isinstance(mask, (str, os.PathLike)):
            msg = f"mask must be a folder where images are one, got {mask!r}"
            raise TypeError(msg)
        if layout == "file":
            return _listed([where], None if mask is None else [mask], storage)
        beside = None if mask is None else _place(mask, storage)
        return volume_cases("folder", where, beside)
    if mask is not None:
        what = {"nnunet": "nnU-Net's folder", "decathlon": "dataset.json", "table": "a table"}
        msg = f"{what[layout]} names the masks itself; leave mask out"
        raise ValueError(msg)
    is_json = where.lower().endswith(".json")
    if layout == "nnunet" and is_json:
        where = where[: where.rindex("/")]
    if layout == "decathlon" and not is_json:
        where = _below(where, "dataset.json")
    return volume_cases(layout, where, None)


def _layout(where: str) -> str:
    if _is_folder(where):
        if _is_folder(_below(where, "imagesTr")):
            described = _below(where, "dataset.json")
            return "decathlon" if _is_decathlon(described) else "nnunet"
        return "folder"
    suffix = Path(where).suffix.lower()
    if suffix == ".json":
        return "decathlon" if _is_decathlon(where) else "nnunet"
    return "table" if suffix in (".csv", ".tsv") else "file"


def _below(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _is_folder(where: str) -> bool:
    if not _stores.is_url(where):
        return Path(where).is_dir()
    # One request less for what says by its name that it is a file.
    is_file = where.lower().endswith((*_ENDINGS, ".json", ".csv", ".tsv"))
    return not is_file and _stores.is_folder(where)


def _is_decathlon(where: str) -> bool:
    """Whether a `dataset.json` lists its files, as the Decathlon's does and nnU-Net's does not."""
    try:
        is_far = _stores.is_url(where)
        content = _stores.native("read_object")(where) if is_far else Path(where).read_bytes()
        described = json.loads(content)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(described, dict) and isinstance(described.get("training"), list)


def _listed(
    given: Any,  # noqa: ANN401 - checked
    masks: Any,  # noqa: ANN401 - checked
    storage: dict[str, str] | None,
) -> list[Case]:
    """Return the cases of a list."""
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        msg = f"where must be a path or a list of cases, got {given!r}"
        raise TypeError(msg)
    if not given:
        msg = "volumes() needs at least one case, e.g. volumes(['head.nii.gz'])"
        raise ValueError(msg)
    cases = [_case(entry, storage) for entry in given]
    if masks is None:
        return cases
    if isinstance(masks, (str, os.PathLike)) or not isinstance(masks, Sequence):
        msg = f"mask must be a list where images are one, got {masks!r}"
        raise TypeError(msg)
    if len(masks) != len(cases):
        msg = f"there are {len(cases)} images and {len(masks)} masks; pass one for each"
        raise ValueError(msg)
    named = [name for name, _, beside in cases if beside is not None]
    if named:
        msg = f"{named[0]} has a mask already; leave mask out, or pass images alone"
        raise ValueError(msg)
    return [
        (name, images, _path(beside, storage))
        for (name, images, _), beside in zip(cases, masks, strict=True)
    ]


def _case(entry: Any, storage: dict[str, str] | None) -> Case:  # noqa: ANN401 - checked
    image, mask = entry, None
    if isinstance(entry, Mapping):
        known = {"image", "mask", "label"}
        if "image" not in entry or not known.issuperset(entry):
            msg = f"a case must be a dict of image and mask, got {entry!r}"
            raise ValueError(msg)
        image, mask = entry["image"], entry.get("mask", entry.get("label"))
    elif isinstance(entry, tuple):
        if len(entry) != 2:
            msg = f"a case must be a path or (image, mask), got {entry!r}"
            raise ValueError(msg)
        image, mask = entry
    images = list(image) if isinstance(image, (list, tuple)) else [image]
    if not images:
        msg = f"a case must have an image, got {entry!r}"
        raise ValueError(msg)
    paths = [_path(one, storage) for one in images]
    return _stem(paths[0]), paths, None if mask is None else _path(mask, storage)


def _path(path: Any, storage: dict[str, str] | None) -> str:  # noqa: ANN401 - checked
    if not isinstance(path, (str, os.PathLike)):
        msg = f"a case must be a path, (image, mask) or a dict of these, got {path!r}"
        raise TypeError(msg)
    return _place(path, storage)


def _place(path: AnyPath, storage: dict[str, str] | None) -> str:
    """Return a URL, or an absolute path: images and masks may be in different places."""
    far = storage if _stores.is_url(os.fsdecode(path)) else None
    return _stores.place(path, far)


def _stem(path: str) -> str:
    """Return what a case is called: its file's name without the format."""
    name = Path(path).name
    lower = name.lower()
    for ending in (".nii.gz", ".hdr.gz", ".img.gz"):
        if lower.endswith(ending):
            return name[: -len(ending)]
    return Path(name).stem
