"""Samples of token shards, for those who pretrain language models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from feedline import _arguments
from feedline._feedline import open_tokens
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe
from feedline.text_sources import paths_of

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

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
    named: bool = False,
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
        A shard, a pattern such as ``"train_*.bin"``, or a list of them.
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
    named
        Whether samples and batches are dicts rather than tuples: of ``tokens`` and ``targets``.

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
    }
    if samples is not None and windows != "random":
        msg = f'samples says how many random windows there are; windows is "{windows}"'
        raise ValueError(msg)
    paths = [str(Path(path).absolute()) for path in paths_of("tokens", where)]
    name = repr(Path(paths[0]).name) if len(paths) == 1 else f"{len(paths)} shards"
    return _tokens(paths, settings, name, _arguments.flag("named", named))


def _one_of_windows(windows: Any) -> Any:  # noqa: ANN401 - checked
    return _arguments.one_of("windows", windows, ("random", "sequential", "documents"))


def _tokens(paths: list[str], settings: dict[str, Any], name: str, named: bool) -> Pipeline:
    source, count = open_tokens(paths, settings)
    kind = settings["windows"]
    told = "documents" if kind == "documents" else f"{count} tokens, {kind}"
    stages = (f"tokens({name}, {told})",)
    recipe = Recipe(_tokens, (paths, settings, name, named))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)
