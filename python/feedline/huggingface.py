"""Datasets of Hugging Face's `datasets` package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from feedline import _arguments
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe
from feedline.tables import names, native, table_settings

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["huggingface"]


def huggingface(
    dataset: Any,  # noqa: ANN401 - `datasets` need not be installed
    *,
    columns: Sequence[str] | None = None,
    nulls: Mapping[str, Any] | None = None,
    null_flags: Sequence[str] = (),
    ragged: Literal["longest", "packed"] = "longest",
    fill: float = 0,
    buffer: int | str = "1GiB",
    image_root: str | os.PathLike[str] | None = None,
    named: bool = True,
) -> Pipeline:
    """Read the rows of a ``datasets.Dataset``, on disk or in memory; batches are dicts by column.

    The dataset's Arrow data is read natively. Of a dataset on disk no more than `buffer` bytes are
    read into memory; a larger one is read where ``datasets`` has mapped it. Rows are those of
    ``dataset[i]``: after ``select``, ``shuffle``, ``filter``, ``train_test_split`` and the like,
    and with the columns that ``set_format`` and ``select_columns`` leave. Its own transforms
    (``set_transform``) are not run; use `Pipeline.map`.

    Class labels are int64, and their names the pipeline's `classes`. Images are their encoded
    bytes, which ``.images("image")`` decodes. Lists of numbers are ragged fields. What other
    columns become is as for `feedline.parquet`.

    Parameters
    ----------
    dataset
        A ``datasets.Dataset``: one split, such as ``load_dataset(...)["train"]``.
    columns
        The columns to read, in this order; by default all.
    nulls, null_flags, ragged, fill, named
        As for `feedline.parquet`.
    buffer
        Numbers that take no more bytes are laid out in memory row by row, which makes shuffled
        rows several times as fast. Data on disk of no more bytes is read from its files as rows are
        wanted, and kept. Of more, rows are read through the mapping, each time after checking that
        the file has not changed.
    image_root
        The folder that images must be in which rows name by their path; by default any.

    Returns
    -------
    Pipeline
        Of one field per column.

    Raises
    ------
    TypeError
        If it is no ``datasets.Dataset``.
    ValueError
        If there is no such column, or a column has a type that batches have no form for.

    Examples
    --------
    >>> import datasets
    >>> import feedline
    >>> rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 0]})
    >>> for batch in feedline.Loader(feedline.huggingface(rows.select([2, 0])), batch_size=2):
    ...     print(batch["text"], batch["label"])
    ['c', 'a'] [0 0]
    """
    if isinstance(dataset, Mapping):
        splits = ", ".join(repr(split) for split in dataset)
        msg = f"dataset has several splits; pass one of them, e.g. dataset[...] of {splits}"
        raise TypeError(msg)
    if not all(hasattr(dataset, name) for name in ("data", "_indices", "features")):
        msg = (
            f"dataset must be a datasets.Dataset, got {type(dataset).__name__}; "
            "for one that is streamed use feedline.iterable"
        )
        raise TypeError(msg)
    if columns is None:
        chosen = getattr(dataset, "_format_columns", None)
        columns = list(dataset.column_names) if chosen is None else list(chosen)
    settings = table_settings(
        names("columns", columns), nulls, null_flags, ragged, fill, buffer, None, image_root
    )
    return _rows(dataset, settings, _arguments.flag("named", named))


def _rows(dataset: Any, settings: dict[str, Any], named: bool) -> Pipeline:  # noqa: ANN401
    rows = None
    if dataset._indices is not None:
        listed = dataset._indices.table.column(0).to_numpy()
        rows = np.ascontiguousarray(listed, np.uint64)
    source = native("open_stream")("dataset", dataset.data.table, settings, rows)
    label = _label(dataset.features, settings["columns"])
    if label is not None:
        source = source.with_classes(label)
    stages = (f"huggingface({len(source)} rows)",)
    recipe = Recipe(_rows, (dataset, settings, named))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def _label(features: Mapping[str, Any], columns: list[str]) -> list[str] | None:
    """Return the names of the classes, where exactly one column has such."""
    labels = [features[name] for name in columns if hasattr(features.get(name), "int2str")]
    return list(labels[0].names) if len(labels) == 1 else None
