"""Samples of text: lines of files, and files in folders that are labels."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from feedline import _arguments, _stores
from feedline._feedline import open_text_files, open_text_lines
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe

__all__ = ["text"]

_ENCODINGS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "utf-8-sig": "utf-8",
    "ascii": "utf-8",
    "latin-1": "latin-1",
    "latin1": "latin-1",
    "iso-8859-1": "latin-1",
}


def text(
    where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    labels: bool | Sequence[str] | None = None,
    encoding: str = "utf-8",
    errors: Literal["strict", "replace"] = "strict",
    skip_empty: bool = False,
    extensions: Sequence[str] = (".txt", ".gz", ".zst"),
    named: bool = False,
    cache: str | os.PathLike[str] | None = None,
    max_bytes: int | str = "64MiB",
    max_unpacked: int | str = "64GiB",
    buffer: int | str = "128MiB",
    progress: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    r"""Read text: a sample is a line of a file, or a whole file of a folder.

    Files are plain or compressed by gzip or zstd, which is told by their first bytes. Lines end by
    ``\n`` or ``\r\n``, which is no part of them; what follows the last ``\n`` is a line if there is
    anything. Empty lines are samples like others unless `skip_empty` leaves them out. A byte order
    mark at the start of a file is left out.

    Where lines begin is found once, when a file is first opened, and kept in a cache folder in
    about two bytes a line. So a file of any size is shuffled line by line, and opened at once the
    next time, until it changes. Up to `buffer` bytes of all files are held in memory. What a
    compressed file of lines unpacks to is, too; where it is too much, it is unpacked once, into the
    cache folder.

    Parameters
    ----------
    where
        A file, a pattern such as ``"part-{00..15}.txt"`` or ``"*.txt.gz"``, or a list of them:
        samples are lines. Or a folder: samples are the files below it. All of them also by URL.
    labels
        Whether the folders in the folder are labels, as in the IMDB reviews
        (``train/pos/0_9.txt``): by default if there are any. A list of folders takes those alone,
        numbered in this order.
    encoding
        ``"utf-8"`` or ``"latin-1"``.
    errors
        What becomes of bytes that are no text: an error of their sample, or ``U+FFFD``.
    skip_empty
        Whether lines without a byte are no samples.
    extensions
        Endings of the names of a folder's files that count.
    named
        Whether samples and batches are dicts rather than tuples: of ``text``, and ``label``.
    cache
        The folder for what was found; by default ``feedline/text`` in the user's cache folder
        (``$XDG_CACHE_HOME``).
    max_bytes
        A sample with more bytes is an error and not read.
    max_unpacked
        What a compressed file of lines may unpack to; more is an error.
    buffer
        Bytes of files that are held in memory. Lines of other files are read one by one; of an
        object, each is a request.
    progress
        Whether to count on standard error while files are looked through.
    storage_options
        Credentials, endpoint and so on of the store, if `where` is a URL; see
        docs/object-stores.md.

    Returns
    -------
    Pipeline
        Of the field ``text``, and ``label`` for label folders.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is compressed and damaged, or in UTF-16; if a folder has no such files or labels.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import feedline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("the cat sat\nthe dog\n")
    >>> lines = feedline.text(folder / "*.txt", cache=folder)
    >>> print(lines)
    2 samples
      text('*.txt')
    delivers (text [*],)
    >>> vocabulary = feedline.Vocabulary.build(lines)
    >>> for (ids,) in feedline.Loader(lines.vocabulary(vocabulary).pad(4), batch_size=2):
    ...     print(ids)
    [[2 3 5 0]
     [2 4 0 0]]
    """
    options: dict[str, Any] = {
        "encoding": _encoding(encoding),
        "errors": _arguments.one_of("errors", errors, ("strict", "replace")),
        "max_bytes": _arguments.size("max_bytes", max_bytes),
    }
    progress = _arguments.flag("progress", progress)
    skip_empty = _arguments.flag("skip_empty", skip_empty)
    named = _arguments.flag("named", named)
    stages = (f"text({_shown(where)})",)
    storage = _stores.plain_options(storage_options)
    folder = _folder(where, storage)
    if folder is not None:
        if skip_empty:
            msg = "skip_empty is for lines; files of a folder are samples, empty or not"
            raise ValueError(msg)
        options |= {"extensions": _extensions(extensions), **_labels(labels, folder)}
        return _files(folder, options, named, stages, storage, progress=progress)
    if labels is not None and labels is not False:
        msg = f"labels are folders in a folder, and {_shown(where)} is no folder"
        raise ValueError(msg)
    options |= {
        "max_unpacked": _arguments.size("max_unpacked", max_unpacked),
        "buffer": _arguments.size("buffer", buffer),
        "cache": None if cache is None else str(Path(cache).absolute()),
    }
    paths = paths_of("text", where, storage)
    return _lines(paths, options, skip_empty, named, stages, storage, progress=progress)


def _folder(where: Any, storage: dict[str, str] | None) -> str | None:  # noqa: ANN401 - checked
    """Return the folder, or the URL of one, that texts are in; ``None`` where they are lines."""
    if not isinstance(where, (str, os.PathLike)):
        return None
    path = _stores.place(where, storage)
    if not _stores.is_url(path):
        return path if Path(path).is_dir() else None
    return path if not glob.has_magic(path) and _stores.is_folder(path) else None


def _lines(
    paths: list[str],
    options: dict[str, Any],
    skip_empty: bool,
    named: bool,
    stages: tuple[str, ...],
    storage: dict[str, str] | None = None,
    *,
    progress: bool = False,
) -> Pipeline:
    _stores.configure(paths, storage)
    source = open_text_lines(paths, options, skip_empty, progress)
    recipe = Recipe(_lines, (paths, options, skip_empty, named, stages, storage))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def _files(
    folder: str,
    options: dict[str, Any],
    named: bool,
    stages: tuple[str, ...],
    storage: dict[str, str] | None = None,
    *,
    progress: bool = False,
) -> Pipeline:
    _stores.configure([folder], storage)
    source = open_text_files(folder, options, progress)
    recipe = Recipe(_files, (folder, options, named, stages, storage))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def paths_of(
    source: str,
    where: Any,  # noqa: ANN401 - checked
    storage: dict[str, str] | None,
) -> list[str]:
    """Name all files and objects that paths, URLs and patterns stand for, in their order."""
    if isinstance(where, (str, os.PathLike)):
        given = [where]
    elif isinstance(where, Sequence) and not isinstance(where, (bytes, bytearray)):
        given = list(where)
    else:
        msg = f"{source} takes a file, a pattern, or a list of them, got {where!r}"
        raise TypeError(msg)
    paths: list[str] = []
    for pattern in given:
        paths += _stores.found(pattern, storage)
    if not paths:
        msg = f"{source} needs at least one file"
        raise ValueError(msg)
    return [_stores.place(path, storage) for path in paths]


def _encoding(encoding: Any) -> str:  # noqa: ANN401 - checked
    if not isinstance(encoding, str):
        msg = f'encoding must be "utf-8" or "latin-1", got {encoding!r}'
        raise TypeError(msg)
    known = _ENCODINGS.get(encoding.lower().replace("_", "-"))
    if known is None:
        msg = f'encoding must be "utf-8" or "latin-1", got {encoding!r}; convert the files to UTF-8'
        raise ValueError(msg)
    return known


def _extensions(extensions: Any) -> list[str]:  # noqa: ANN401 - checked
    if isinstance(extensions, str) or not all(isinstance(each, str) for each in extensions):
        msg = f"extensions must be a list of endings such as ['.txt'], got {extensions!r}"
        raise TypeError(msg)
    return list(extensions)


def _labels(labels: Any, folder: str) -> dict[str, Any]:  # noqa: ANN401 - checked
    if labels is None and _stores.is_url(folder):
        labels = _stores.has_folders(folder)
    if labels is None:
        entries = (entry for entry in Path(folder).iterdir() if not entry.name.startswith("."))
        labels = any(entry.is_dir() for entry in entries)
    if isinstance(labels, bool):
        return {"labels": labels, "chosen": None}
    named = not isinstance(labels, (str, bytes)) and isinstance(labels, Sequence)
    if not named or not labels or not all(isinstance(label, str) for label in labels):
        msg = f"labels must be a truth value or a list of folders, got {labels!r}"
        raise TypeError(msg)
    if len(set(labels)) < len(labels):
        msg = f"labels must name each folder once, got {labels!r}"
        raise ValueError(msg)
    return {"labels": True, "chosen": list(labels)}


def _shown(where: Any) -> str:  # noqa: ANN401 - checked elsewhere
    if isinstance(where, (str, os.PathLike)):
        # Only the last part of it; an escaped name stays on its line.
        return repr(os.path.basename(os.fsdecode(where).rstrip("/")))  # noqa: PTH119 - a pattern
    return f"{len(where)} files" if isinstance(where, Sequence) else repr(where)
