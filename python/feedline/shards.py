"""Samples in tar shards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feedline import _arguments, _stores
from feedline._feedline import open_tar
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe

__all__ = ["tar"]


def tar(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    parts: Sequence[str] | None = None,
    *,
    streaming: bool = False,
    window: int | None = None,
    buffer: int | str = "1GiB",
    named: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    max_bytes: int | str = "256MiB",
    storage_options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Pipeline:
    """Read samples from tar shards in WebDataset's layout.

    Neighbouring members whose paths agree up to the first dot of the file name are one sample:
    ``0001.jpg`` and ``0001.cls`` are the parts ``jpg`` and ``cls`` of sample ``0001``. Parts are
    read by their last extension: ``cls`` (and ``class``, ``index``, ``id``, ``count``) as int64,
    ``txt`` and ``json`` as text, ``npy`` as arrays of the first sample's dtype and shape, others as
    bytes.

    Each shard is looked through once, when it is first opened; what was found is kept in a cache
    folder and used until the shard changes. A shard that was cut off, or whose headers are
    damaged, is an error now, never a shorter epoch.

    Parameters
    ----------
    path
        A shard, a pattern such as ``"shard-{000..015}.tar"`` or ``"train/*.tar"``, or a list of
        them. What a ``*`` stands for comes in the order of the names. Shards may be URLs of an
        object store: ``"s3://bucket/shard-{000..015}.tar"``.
    parts
        The parts to read, by their extensions; by default those of the first sample.
        ``"jpg;png"`` takes whichever is there and is called ``jpg``; ``"__key__"`` is the sample's
        name.
    streaming
        Read shards from front to back instead of picking samples out of them. Shuffling then takes
        the shards in random order and shuffles within a window. Compressed shards (``.tar.gz``,
        ``.tar.zst``) can only be read so; for slow disks it is the better way too.
    window
        With `streaming`: how many consecutive samples are shuffled with each other. By default
        1,024, or fewer where two such windows would not fit into `buffer`.
    buffer
        With `streaming`: how many bytes of samples may wait in memory to be shuffled, such as
        ``"1GiB"``. A loader's `memory` does not cover them: they come on top.
    named
        Whether samples and batches are dicts by part rather than tuples in the order of `parts`.
    cache_dir
        Where to keep what was found in the shards; by default ``feedline/tar`` in the user's cache
        folder (``$XDG_CACHE_HOME``).
    max_bytes
        A sample with more bytes is an error and not read.
    storage_options
        For URLs: credentials, endpoint, what is kept on disk; see the page on object stores.
        Without, what the environment says.
    progress
        Whether to count members on standard error while shards are looked through: on a terminal
        as they are counted, elsewhere by a line every ten seconds.

    Returns
    -------
    Pipeline
        Of one field per part.

    Raises
    ------
    FileNotFoundError
        If there is no such shard.
    ValueError
        If a shard is damaged, cut off, or compressed and not streamed; if no sample has such a
        part; if the window does not fit into the buffer.

    Examples
    --------
    >>> import io, pathlib, tarfile, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with tarfile.open(folder / "shard-0.tar", "w") as shard:
    ...     for name, content in [
    ...         ("a.txt", b"one"),
    ...         ("a.cls", b"1"),
    ...         ("b.txt", b"two"),
    ...         ("b.cls", b"2"),
    ...     ]:
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len(content)
    ...         shard.addfile(member, io.BytesIO(content))
    >>> pairs = tar(folder / "shard-{0..0}.tar", ["txt", "cls"], cache_dir=folder)
    >>> print(pairs)
    2 samples
      tar('shard-{0..0}.tar')
    delivers {txt: text [*], cls: int64 []}
    >>> from feedline import Loader
    >>> for batch in Loader(pairs, batch_size=2):
    ...     print(batch["txt"], batch["cls"])
    ['one', 'two'] [1 2]
    """
    streaming = _arguments.flag("streaming", streaming)
    if window is not None:
        window = _arguments.whole("window", window, 1)
        if not streaming:
            msg = (
                "window is for streaming=True; without it all samples are shuffled with each other"
            )
            raise ValueError(msg)
    options = _stores.plain_options(storage_options)
    return _opened(
        _shards(path, options),
        None if parts is None else _parts(parts),
        None if cache_dir is None else os.fsdecode(cache_dir),
        _arguments.size("max_bytes", max_bytes),
        streaming,
        window,
        _arguments.size("buffer", buffer),
        (f"tar({_shown(path)})",),
        _arguments.flag("named", named),
        options,
        progress=_arguments.flag("progress", progress),
    )


def _opened(
    shards: list[str],
    parts: list[str] | None,
    cache_dir: str | None,
    max_bytes: int,
    streaming: bool,
    window: int | None,
    buffer: int,
    stages: tuple[str, ...],
    named: bool = True,
    storage_options: dict[str, str] | None = None,
    *,
    progress: bool = False,
) -> Pipeline:
    # Another process knows nothing of the stores yet.
    _stores.configure(shards, storage_options)
    options = (parts, cache_dir, max_bytes, streaming, window, buffer)
    source = open_tar(shards, *options, progress)
    # Those that were found, whatever a pattern would find now, from whatever folder.
    shards = [_stores.place(shard, storage_options) for shard in shards]
    cache_dir = None if cache_dir is None else str(Path(cache_dir).absolute())
    settings = (parts, cache_dir, max_bytes, streaming, window, buffer)
    arguments = (shards, *settings, stages, named, storage_options)
    return Pipeline(source, named=named, stages=stages, recipe=Recipe(_opened, arguments))


def _shards(path: Any, options: dict[str, str] | None) -> list[str]:  # noqa: ANN401 - checked
    """Name all shards, in their order."""
    if isinstance(path, (str, os.PathLike)):
        given = [path]
    elif isinstance(path, Sequence) and not isinstance(path, (bytes, bytearray)):
        given = list(path)
    else:
        msg = f"path must be a shard, a pattern, or a list of them, got {path!r}"
        raise TypeError(msg)
    shards: list[str] = []
    for pattern in given:
        shards += _stores.found(pattern, options)
    if not shards:
        msg = "tar() needs at least one shard, e.g. tar('shard-{000..015}.tar')"
        raise ValueError(msg)
    return shards


def _parts(parts: Any) -> list[str]:  # noqa: ANN401 - checked
    if isinstance(parts, str):
        msg = f"parts must be a list of extensions, got the text {parts!r}; pass [{parts!r}]"
        raise TypeError(msg)
    named = list(parts)
    for part in named:
        if not isinstance(part, str) or not part:
            msg = f"parts must be extensions such as 'jpg', got {part!r}"
            raise TypeError(msg) if not isinstance(part, str) else ValueError(msg)
    if not named:
        msg = "parts must name at least one extension, e.g. ['jpg', 'cls']"
        raise ValueError(msg)
    return named


def _shown(path: Any) -> str:  # noqa: ANN401 - checked by now
    if isinstance(path, (str, os.PathLike)):
        # Only the last part of it; an escaped name stays on its line.
        return repr(os.path.basename(os.fsdecode(path)))  # noqa: PTH119 - a pattern is no path
    return f"{len(path)} shards"
