"""Samples of token shards, for those who pretrain language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from feedline import _arguments, _stores
from feedline._feedline import open_tokens
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe
from feedline.text_sources import paths_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

__all__ = ["tokens"]

_DTYPES = ("uint8", "uint16", "uint32", "int32", "int64")


def tokens(
    where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    dtype: Literal["uint8", "uint16", "uint32", "int32", "int64"] | None = None,
    length: int = 1024,
    *,
    windows: Literal["random", "sequential", "documents"] = "random",
    samples: int | None = None,
    targets: bool = True,
    header: int | Literal["llm.c"] = 0,
    buffer: int | str = "256MiB",
    named: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Read token ids from shards as nanoGPT, llm.c and Megatron lay them out.

    A shard is a file of ids one after the other, in little-endian order. Where an ``.idx`` of
    Megatron lies beside a ``.bin``, it says what ids are stored as and where documents are. Several
    shards are one stream: a window may begin in one and end in the next.

    Where a random window begins depends on the loader's seed, the epoch and the sample's number
    alone, so a loader's state is as small as any, and every epoch has other windows.

    Parameters
    ----------
    where
        A shard, a pattern such as ``"train_*.bin"``, or a list of them; also by URL.
    dtype
        What ids are stored as. ``None``: as the index or the header says, otherwise ``"uint16"``.
    length
        Tokens of a window.
    windows
        ``"random"``: each begins anywhere, as nanoGPT draws them. ``"sequential"``: one behind the
        other, so that an epoch has each token once (``shuffle=True`` shuffles them).
        ``"documents"``: samples are Megatron's documents, of any length, for `pack` or `pad`.
    samples
        How many random windows an epoch has; by default as many as there are sequential ones.
    targets
        Whether the same windows one token further on come along.
    header
        Bytes before the ids that mean nothing; or ``"llm.c"``, whose 1,024 bytes are checked.
    buffer
        Shards that have no more bytes together are held in memory, once they were read. Of larger
        ones each window is read; of objects it is a request, and random windows cannot be asked
        for ahead, so prefer sequential ones, shuffled.
    named
        Whether samples and batches are dicts rather than tuples: of ``tokens`` and ``targets``.
    storage_options
        Credentials, endpoint and so on of the store, if `where` is a URL; see
        docs/object-stores.md.

    Returns
    -------
    Pipeline
        Of windows of int64: tokens and targets. Or of documents: tokens.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is no whole number of ids, or not as its header or index says; if there are fewer
        tokens than a window has.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import feedline
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.bin"
    >>> np.arange(1000, dtype=np.uint16).tofile(path)
    >>> train = feedline.tokens(path, length=4, windows="sequential")
    >>> print(train)
    249 samples
      tokens('train.bin', 1000 tokens, sequential)
    delivers (int64 [4], int64 [4])
    >>> x, y = train[2]
    >>> x, y
    (array([ 8,  9, 10, 11]), array([ 9, 10, 11, 12]))
    """
    windows = _one_of_windows(windows)
    settings: dict[str, Any] = {
        "dtype": None if dtype is None else _arguments.one_of("dtype", str(dtype), _DTYPES),
        "length": _arguments.whole("length", length, 1, 2**31 - 1),
        "windows": windows,
        "samples": None if samples is None else _arguments.whole("samples", samples, 1),
        "targets": _arguments.flag("targets", targets),
        "llmc": header == "llm.c",
        "header": 0 if header == "llm.c" else _arguments.whole("header", header, 0),
        "buffer": _arguments.size("buffer", buffer),
    }
    if samples is not None and windows != "random":
        msg = f'samples says how many random windows there are; windows is "{windows}"'
        raise ValueError(msg)
    storage = _stores.plain_options(storage_options)
    paths = paths_of("tokens", where, storage)
    name = repr(_stores.base_name(paths[0])) if len(paths) == 1 else f"{len(paths)} shards"
    return _tokens(paths, settings, name, _arguments.flag("named", named), storage)


def _one_of_windows(windows: Any) -> Any:  # noqa: ANN401 - checked
    return _arguments.one_of("windows", windows, ("random", "sequential", "documents"))


def _tokens(
    paths: list[str],
    settings: dict[str, Any],
    name: str,
    named: bool,
    storage: dict[str, str] | None = None,
) -> Pipeline:
    _stores.configure(paths, storage)
    source, count = open_tokens(paths, settings)
    kind = settings["windows"]
    told = "documents" if kind == "documents" else f"{count} tokens, {kind}"
    stages = (f"tokens({name}, {told})",)
    recipe = Recipe(_tokens, (paths, settings, name, named, storage))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)
