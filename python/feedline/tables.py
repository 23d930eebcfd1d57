"""Rows of tables: Parquet and Arrow files, Arrow data in memory, CSV and JSON lines."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from feedline import _arguments, _feedline
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe

__all__ = ["parquet"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def parquet(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    nulls: Mapping[str, Any] | None = None,
    null_flags: Sequence[str] = (),
    ragged: Literal["longest", "packed"] = "longest",
    fill: float = 0,
    shuffle_window: int | None = None,
    buffer: int | str = "1GiB",
    named: bool = True,
    progress: bool = False,
) -> Pipeline:
    """Read rows of Parquet files; batches are dicts by column.

    Numbers keep their dtype; dates, times and timestamps are integers in the column's unit (since
    1970, UTC); decimals are float64; strings are text, binary data is bytes, dictionaries are what
    they stand for. Lists of numbers are ragged fields, fixed-size lists arrays. The children of a
    struct are columns ``name.child``; a struct of ``bytes`` and ``path`` is the bytes of an image.

    Nothing but the footers is read when files are opened. A table that takes no more than `buffer`
    bytes of memory is decoded once, by all workers, and its rows are shuffled exactly. Of larger
    ones as much as fits is kept, and rows are shuffled within a window that passes over the row
    groups, which come in random order.

    Parameters
    ----------
    paths
        A file, a pattern such as ``"train/*.parquet"``, or a list of them, with one schema. What a
        ``*`` stands for comes in the order of the names.
    columns
        The columns to read, in this order; by default all.
    nulls
        What stands for nulls, by column: a number, text, bytes, or ``[]`` for lists. By default
        they are NaN in columns of floats, and an error of their row in others.
    null_flags
        Columns that get a field ``<name>_is_null`` of bools. Nulls of theirs are NaN, zero or
        empty where `nulls` does not say more.
    ragged
        How lists of different lengths share a batch: padded with `fill` to the longest, or one
        after the other.
    fill
        The padding of lists.
    shuffle_window
        How many consecutive rows are shuffled with each other. By default all, where the table
        fits into `buffer`, and otherwise as many as half of it holds.
    buffer
        How many bytes of decoded rows may be kept in memory. A loader's `memory` does not cover
        them: they come on top.
    named
        Whether samples and batches are dicts by column rather than tuples.
    progress
        Whether to count files on standard error while they are opened.

    Returns
    -------
    Pipeline
        Of one field per column.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is damaged or cut off, there is no such column, a column has a type that batches
        have no form for, or files have different schemas.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import feedline
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "x.parquet"
    >>> pq.write_table(pa.table({"x": [1.5, None, 2.5], "word": ["a", "bc", "d"]}), file)
    >>> rows = feedline.parquet(file)
    >>> print(rows)
    3 samples
      parquet('x.parquet')
    delivers {x: float64 [], word: text [*]}
    >>> for batch in feedline.Loader(rows, batch_size=3):
    ...     print(batch["x"], batch["word"])
    [1.5 nan 2.5] ['a', 'bc', 'd']
    """
    settings = table_settings(columns, nulls, null_flags, ragged, fill, buffer, shuffle_window)
    found = files("parquet", paths)
    stages = (f"parquet({_shown(paths)})",)
    named = _arguments.flag("named", named)
    return opened(
        "parquet",
        found,
        settings,
        stages,
        named,
        progress=_arguments.flag("progress", progress),
    )


def opened(
    kind: str,
    paths: list[str],
    settings: dict[str, Any],
    stages: tuple[str, ...],
    named: bool,
    *,
    progress: bool = False,
) -> Pipeline:
    """Open a table of files, the first time and again."""
    source = native("open_table")(kind, paths, settings, progress)
    # Those that were found, whatever a pattern would find now, from whatever folder.
    paths = [str(Path(path).absolute()) for path in paths]
    recipe = Recipe(opened, (kind, paths, settings, stages, named))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def native(name: str) -> Any:  # noqa: ANN401 - a function of the extension module
    """Return a function of the extension module, which may have been built without tables."""
    try:
        return getattr(_feedline, name)
    except AttributeError:
        msg = "this feedline was built without tables; build it with the cargo feature `tables`"
        raise NotImplementedError(msg) from None


def table_settings(
    columns: Any,  # noqa: ANN401 - checked
    nulls: Any,  # noqa: ANN401 - checked
    null_flags: Any,  # noqa: ANN401 - checked
    ragged: Any,  # noqa: ANN401 - checked
    fill: float,
    buffer: int | str,
    shuffle_window: int | None,
) -> dict[str, Any]:
    """Return what all tables take, as the extension module takes it."""
    if shuffle_window is not None:
        shuffle_window = _arguments.whole("shuffle_window", shuffle_window, 1)
    return {
        "columns": None if columns is None else names("columns", columns),
        "nulls": null_values(nulls),
        "null_flags": names("null_flags", null_flags),
        "ragged": _arguments.one_of("ragged", ragged, ("longest", "packed")),
        "fill": float(_arguments.real("fill", fill)),
        "buffer": _arguments.size("buffer", buffer),
        "shuffle_window": shuffle_window,
    }


def null_values(nulls: Any) -> dict[str, Any]:  # noqa: ANN401 - checked
    """Return what stands for nulls, by column."""
    if nulls is None:
        return {}
    if not isinstance(nulls, Mapping):
        msg = f'nulls must be a dict of values by column, such as {{"age": 0}}, got {nulls!r}'
        raise TypeError(msg)
    # NumPy's scalars as Python's.
    return {str(name): getattr(value, "item", lambda v=value: v)() for name, value in nulls.items()}


def names(argument: str, given: Any) -> list[str]:  # noqa: ANN401 - checked
    """Return a list of columns."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        advice = f"; pass [{given!r}]" if isinstance(given, str) else ""
        msg = f"{argument} must be a list of column names, got {given!r}{advice}"
        raise TypeError(msg)
    listed = list(given)
    for name in listed:
        if not isinstance(name, str):
            msg = f"{argument} must be names of columns, got {name!r}"
            raise TypeError(msg)
    if argument == "columns" and not listed:
        msg = "columns must name at least one column; leave it out for all of them"
        raise ValueError(msg)
    return listed


def files(function: str, paths: Any) -> list[str]:  # noqa: ANN401 - checked
    """Name all files, in their order."""
    if isinstance(paths, (str, os.PathLike)):
        given = [paths]
    elif isinstance(paths, Sequence) and not isinstance(paths, (bytes, bytearray)):
        given = list(paths)
    else:
        msg = f"paths must be a file, a pattern, or a list of them, got {paths!r}"
        raise TypeError(msg)
    found: list[str] = []
    for pattern in given:
        name = os.fsdecode(pattern)
        if glob.has_magic(name) and not os.path.lexists(name):
            # Not `Path.glob`: that takes no absolute pattern.
            matching = sorted(glob.glob(name))  # noqa: PTH207
            if not matching:
                msg = f"no file matches {name!r}"
                raise FileNotFoundError(msg)
            found += matching
        else:
            found.append(name)
    if not found:
        msg = f"{function}() needs at least one file"
        raise ValueError(msg)
    return found


def _shown(paths: Any) -> str:  # noqa: ANN401 - checked by now
    if isinstance(paths, (str, os.PathLike)):
        return repr(os.path.basename(os.fsdecode(paths)))  # noqa: PTH119 - a pattern is no path
    return f"{len(paths)} files"
