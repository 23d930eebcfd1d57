"""Rows of tables: Parquet and Arrow files, Arrow data in memory, CSV and JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from feedline import _arguments, _feedline, _stores
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe

__all__ = ["arrow", "csv", "jsonl", "parquet"]

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
    image_root: str | os.PathLike[str] | None = None,
    named: bool = True,
    progress: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Read rows of Parquet files; batches are dicts by column.

    Numbers keep their dtype; dates, times and timestamps are integers in the column's unit (since
    1970, UTC; times of seconds are kept in milliseconds by Parquet); decimals are float64; strings
    are text, binary data is bytes, dictionaries are what they stand for. Lists of numbers are
    ragged fields, fixed-size lists arrays. The children of a struct are columns ``name.child``; a
    struct of ``bytes`` and ``path`` is the bytes of an image.

    Nothing but the footers is read when files are opened. A table that takes no more than `buffer`
    bytes of memory is decoded once, by all workers, and its rows are shuffled exactly. Of larger
    ones as much as fits is kept, and rows are shuffled within a window that passes over the row
    groups, which come in random order.

    Parameters
    ----------
    paths
        A file, a pattern such as ``"train/*.parquet"``, or a list of them, with one schema; also by
        URL. What a ``*`` stands for comes in the order of the names.
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
    image_root
        The folder that files must be in which rows name: the ``path`` of an image without bytes.
        By default that of the table's own file. Files of more than 256 MiB, pipes and devices are
        refused.
    named
        Whether samples and batches are dicts by column rather than tuples.
    progress
        Whether to count files on standard error while they are opened.
    storage_options
        Credentials, endpoint and so on of the store, if paths are URLs; see
        docs/object-stores.md.

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
    settings = table_settings(
        columns, nulls, null_flags, ragged, fill, buffer, shuffle_window, image_root
    )
    storage = _stores.plain_options(storage_options)
    return opened(
        "parquet",
        files("parquet", paths, storage),
        settings,
        (f"parquet({_shown(paths)})",),
        _arguments.flag("named", named),
        storage,
        progress=_arguments.flag("progress", progress),
    )


def arrow(
    source: Any,  # noqa: ANN401 - paths, or what has Arrow data
    *,
    columns: Sequence[str] | None = None,
    nulls: Mapping[str, Any] | None = None,
    null_flags: Sequence[str] = (),
    ragged: Literal["longest", "packed"] = "longest",
    fill: float = 0,
    shuffle_window: int | None = None,
    buffer: int | str = "1GiB",
    image_root: str | os.PathLike[str] | None = None,
    named: bool = True,
    progress: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Read rows of Arrow data: IPC files, IPC streams, or what is in memory.

    What columns become is as for `feedline.parquet`. Data in memory is not copied: texts, bytes and
    lists are read where they are, and numbers, where they take no more than `buffer` bytes, are
    laid out row by row the first time that they are wanted, because that makes shuffled rows
    several times as fast.

    Parameters
    ----------
    source
        A file, a pattern or a list of them, with one schema, also by URL; files and streams are
        told apart by content. Or an object with ``__arrow_c_stream__``: a table or a record batch
        reader of pyarrow, a frame of pandas or polars.
    columns, nulls, null_flags, ragged, fill, shuffle_window, buffer, named, progress
        As for `feedline.parquet`.
    image_root
        As for `feedline.parquet`; by default rows in memory may name files anywhere.
    storage_options
        As for `feedline.parquet`.

    Returns
    -------
    Pipeline
        Of one field per column.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `source` is neither a path nor Arrow data.
    ValueError
        If a file is damaged or cut off, there is no such column, or a column has a type that
        batches have no form for.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import feedline
    >>> table = pa.table({"x": [1, 2, 3], "tags": [[1.0], [], [2.0, 3.0]]})
    >>> for batch in feedline.Loader(feedline.arrow(table), batch_size=3):
    ...     print(batch["x"], batch["tags"].tolist(), batch["tags_lengths"].ravel())
    [1 2 3] [[1.0, 0.0], [0.0, 0.0], [2.0, 3.0]] [1 0 2]
    """
    settings = table_settings(
        columns, nulls, null_flags, ragged, fill, buffer, shuffle_window, image_root
    )
    named = _arguments.flag("named", named)
    progress = _arguments.flag("progress", progress)
    if hasattr(source, "__arrow_c_stream__"):
        stages = (f"arrow({type(source).__name__})",)
        return streamed(source, type(source).__name__, settings, stages, named)
    storage = _stores.plain_options(storage_options)
    found = files("arrow", source, storage)
    stages = (f"arrow({_shown(source)})",)
    return opened("arrow", found, settings, stages, named, storage, progress=progress)


def csv(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    types: Mapping[str, Any] | None = None,
    header: bool | Sequence[str] = True,
    delimiter: str = ",",
    quote: str | None = '"',
    nulls: Mapping[str, Any] | None = None,
    null_flags: Sequence[str] = (),
    cache: str | os.PathLike[str] | None = None,
    max_bytes: int | str = "16MiB",
    buffer: int | str = "128MiB",
    named: bool = True,
    progress: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    r"""Read rows of delimited text; batches are dicts by column.

    Each file is gone through once, to find where its rows begin; what was found is kept in a cache
    folder and used until the file changes. Rows are then read one by one, in any order, so a file
    of any length is shuffled exactly with little memory. Quotes are those of Python's ``csv``
    module: cells in quotes may have delimiters and line breaks in them. Empty lines are no rows.

    A row that cannot be read (too few or too many cells, a quote that is never closed, a number
    that is none or out of range) is an error of that row, with its file and line.

    Parameters
    ----------
    paths
        A file, a pattern such as ``"train/*.csv"``, or a list of them, with the same columns; also
        by URL.
    columns
        The columns to read, in this order; by default all.
    types
        Types by column: a dtype of numbers or bools, ``"text"`` or ``"bytes"``. Those of other
        columns are taken from the first 1,000 rows: int64, float64, bool, and otherwise text.
    header
        Whether the first row has the columns' names; or the names, where it has not. Without names
        columns are called ``"0"``, ``"1"``…
    delimiter
        What is between cells: one ASCII character, such as ``"\t"``.
    quote
        What is around cells; ``None`` where quotes have no meaning.
    nulls
        What stands for empty cells, by column. By default they are NaN in columns of floats, the
        empty text in columns of text, and an error of their row in others.
    null_flags
        Columns that get a field ``<name>_is_null`` of bools. Empty cells of theirs are NaN, zero
        or empty where `nulls` does not say more.
    cache
        The folder that keeps what was found; by default ``feedline/tables`` in the user's cache
        folder (``$XDG_CACHE_HOME``).
    max_bytes
        A row of more bytes is an error and not read.
    buffer
        Bytes of objects that are read whole and held in memory. Of others each row is a request.
    named
        Whether samples and batches are dicts by column rather than tuples.
    progress
        Whether to count bytes on standard error while files are gone through.
    storage_options
        Credentials, endpoint and so on of the store, if paths are URLs; see
        docs/object-stores.md.

    Returns
    -------
    Pipeline
        Of one field per column.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If there is no such column, or files have different ones.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import feedline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "x.csv").write_text('name,age,score\n"Ann, B.",31,0.5\nCid,7,\n')
    >>> rows = feedline.csv(folder / "x.csv", cache=folder)
    >>> print(rows)
    2 samples
      csv('x.csv')
    delivers {name: text [*], age: int64 [], score: float64 []}
    >>> for batch in feedline.Loader(rows, batch_size=2):
    ...     print(batch["name"], batch["age"], batch["score"])
    ['Ann, B.', 'Cid'] [31  7] [0.5 nan]
    """
    settings: dict[str, Any] = {
        "columns": None if columns is None else names("columns", columns),
        "types": _types(types),
        "names": _header(header),
        "delimiter": _letter("delimiter", delimiter),
        "quote": None if quote is None else _letter("quote", quote),
        "nulls": null_values(nulls),
        "null_flags": names("null_flags", null_flags),
        **_rows(cache, max_bytes, buffer),
    }
    if settings["quote"] == settings["delimiter"]:
        msg = f"quote and delimiter must differ, got {quote!r} for both"
        raise ValueError(msg)
    stages = (f"csv({_shown(paths)})",)
    named = _arguments.flag("named", named)
    progress = _arguments.flag("progress", progress)
    storage = _stores.plain_options(storage_options)
    found = files("csv", paths, storage)
    return opened("csv", found, settings, stages, named, storage, progress=progress)


def jsonl(
    paths: Paths,
    *,
    fields: Sequence[str] | None = None,
    types: Mapping[str, Any] | None = None,
    nulls: Mapping[str, Any] | None = None,
    null_flags: Sequence[str] = (),
    ragged: Literal["longest", "packed"] = "longest",
    fill: float = 0,
    cache: str | os.PathLike[str] | None = None,
    max_bytes: int | str = "16MiB",
    buffer: int | str = "128MiB",
    named: bool = True,
    progress: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    r"""Read lines of JSON, an object each; batches are dicts by path.

    Files are gone through once and rows read one by one, as `feedline.csv` does it. Of a line only
    those values are looked at that are asked for. A line that is no object, or has a value of
    another type than its field, is an error of that line, with its file and number.

    Parameters
    ----------
    paths
        A file, a pattern such as ``"train/*.jsonl"``, or a list of them; also by URL.
    fields
        Paths of the values to read: ``"text"``, ``"user.name"`` for a value in an object,
        ``"scores.0"`` or ``"scores[0]"`` for an item of a list. By default all values that the
        first 1,000 lines have.
    types
        Types by path: a dtype of numbers or bools, ``"text"``, or a list of numbers such as
        ``"list[float32]"``. Those of other fields are taken from the first lines: int64, float64,
        bool, text, and lists of numbers, which are ragged fields.
    nulls
        What stands for values that are null or missing, by path. By default they are NaN in fields
        of floats, and an error of their line in others.
    null_flags
        Fields that get another one ``<name>_is_null`` of bools. Nulls of theirs are NaN, zero or
        empty where `nulls` does not say more.
    ragged
        How lists of different lengths share a batch: padded with `fill` to the longest, or one
        after the other.
    fill
        The padding of lists.
    cache, max_bytes, buffer, named, progress, storage_options
        As for `feedline.csv`.

    Returns
    -------
    Pipeline
        Of one field per path.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If no line has such a field, or its values have no form in a batch.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import feedline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "x.jsonl").write_text(
    ...     '{"text": "one", "user": {"age": 3}}\n{"text": "two", "user": {"age": 4}}\n'
    ... )
    >>> lines = feedline.jsonl(folder / "x.jsonl", fields=["text", "user.age"], cache=folder)
    >>> for batch in feedline.Loader(lines, batch_size=2):
    ...     print(batch["text"], batch["user.age"])
    ['one', 'two'] [3 4]
    """
    settings: dict[str, Any] = {
        "fields": None if fields is None else names("fields", fields),
        "types": _types(types),
        "nulls": null_values(nulls),
        "null_flags": names("null_flags", null_flags),
        "ragged": _arguments.one_of("ragged", ragged, ("longest", "packed")),
        "fill": float(_arguments.real("fill", fill)),
        **_rows(cache, max_bytes, buffer),
    }
    stages = (f"jsonl({_shown(paths)})",)
    named = _arguments.flag("named", named)
    progress = _arguments.flag("progress", progress)
    storage = _stores.plain_options(storage_options)
    found = files("jsonl", paths, storage)
    return opened("jsonl", found, settings, stages, named, storage, progress=progress)


def streamed(
    held: Any,  # noqa: ANN401 - what has Arrow data
    name: str,
    settings: dict[str, Any],
    stages: tuple[str, ...],
    named: bool,
) -> Pipeline:
    """Open a table that is in memory, the first time and again; it pickles by value."""
    source = native("open_stream")(name, held, settings, None)
    recipe = Recipe(streamed, (held, name, settings, stages, named))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def opened(
    kind: str,
    paths: list[str],
    settings: dict[str, Any],
    stages: tuple[str, ...],
    named: bool,
    storage: dict[str, str] | None = None,
    *,
    progress: bool = False,
) -> Pipeline:
    """Open a table of files, the first time and again."""
    root = settings.get("image_root")
    _stores.configure([*paths, *([] if root is None else [root])], storage)
    source = native("open_table")(kind, paths, settings, progress)
    # Those that were found, whatever a pattern would find now, from whatever folder.
    paths = [_stores.place(path, storage) for path in paths]
    recipe = Recipe(opened, (kind, paths, settings, stages, named, storage))
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
    image_root: str | os.PathLike[str] | None,
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
        "image_root": None if image_root is None else _root(image_root),
    }


def _root(image_root: str | os.PathLike[str]) -> str:
    root = os.fsdecode(image_root)
    return root if _stores.is_url(root) else _stores.place(image_root, None)


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


def files(
    function: str,
    paths: Any,  # noqa: ANN401 - checked
    storage: dict[str, str] | None,
) -> list[str]:
    """Name all files and objects, in their order."""
    if isinstance(paths, (str, os.PathLike)):
        given = [paths]
    elif isinstance(paths, Sequence) and not isinstance(paths, (bytes, bytearray)):
        given = list(paths)
    else:
        msg = f"paths must be a file, a pattern, or a list of them, got {paths!r}"
        raise TypeError(msg)
    found: list[str] = []
    for pattern in given:
        found += _stores.found(pattern, storage, braces=False)
    if not found:
        msg = f"{function}() needs at least one file"
        raise ValueError(msg)
    return found


def _rows(
    cache: str | os.PathLike[str] | None, max_bytes: int | str, buffer: int | str
) -> dict[str, Any]:
    return {
        "cache_dir": None if cache is None else str(Path(os.fsdecode(cache)).absolute()),
        "max_bytes": _arguments.size("max_bytes", max_bytes),
        "buffer": _arguments.size("buffer", buffer),
    }


def _types(types: Any) -> dict[str, str]:  # noqa: ANN401 - checked
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        msg = f'types must be a dict of types by column, such as {{"x": "float32"}}, got {types!r}'
        raise TypeError(msg)
    return {str(name): _type(kind) for name, kind in types.items()}


def _type(kind: Any) -> str:  # noqa: ANN401 - checked
    """Return a type's name: text, a list's as it is, or that of a dtype."""
    if isinstance(kind, str) and (kind in ("text", "bytes") or kind.startswith("list[")):
        return kind
    if kind in (str, bytes):
        return "text" if kind is str else "bytes"
    try:
        return str(np.dtype(kind).name)
    except TypeError:
        msg = f'a type must be a dtype, "text", "bytes" or such as "list[int64]", got {kind!r}'
        raise TypeError(msg) from None


def _header(header: Any) -> list[str] | None:  # noqa: ANN401 - checked
    """Return the names, none of them for those by place; ``None`` where the file has them."""
    if isinstance(header, (bool, np.bool_)):
        return None if header else []
    listed = names("header", header)
    if not listed or len(set(listed)) != len(listed):
        msg = f"header must be True, False, or names that differ from each other, got {header!r}"
        raise ValueError(msg)
    return listed


def _letter(argument: str, letter: Any) -> int:  # noqa: ANN401 - checked
    if not isinstance(letter, str):
        msg = f"{argument} must be one character, got {letter!r}"
        raise TypeError(msg)
    if len(letter) != 1 or not letter.isascii() or letter in "\r\n":
        msg = f"{argument} must be one ASCII character that ends no line, got {letter!r}"
        raise ValueError(msg)
    return ord(letter)


def _shown(paths: Any) -> str:  # noqa: ANN401 - checked by now
    if isinstance(paths, (str, os.PathLike)):
        return repr(os.path.basename(os.fsdecode(paths)))  # noqa: PTH119 - a pattern is no path
    return f"{len(paths)} files"
