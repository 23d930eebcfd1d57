"""A pipeline as a Dataset of Ray Data."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal, cast

import feedline
from feedline._arguments import real, whole
from feedline._feedline import NativeLoader
from feedline.errors import FeedlineError
from feedline.pipeline import check_pipeline
from feedline.ray.course import Course
from feedline.ray.settings import check

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import ray.data
    from numpy.typing import ArrayLike

    from feedline.pipeline import Pipeline
    from feedline.ray.rows import Field

__all__ = ["read"]

#: Bytes of rows that are made together. Ray Data joins or splits blocks as it likes.
_TOGETHER = 16 << 20
#: Samples that are made to see what a row is.
_LOOKED_AT = 4


def read(
    pipeline: Pipeline,
    *,
    columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    shuffle: bool = False,
    sampler: Sequence[int] | None = None,
    weights: ArrayLike | None = None,
    balance: bool = False,
    num_samples: int | None = None,
    replacement: bool = True,
    seed: int = 0,
    epoch: int = 0,
    on_error: Literal["raise", "skip", "replace"] = "raise",
    sample_timeout: float | None = None,
    num_cpus: float = 1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> ray.data.Dataset:
    """Return one epoch of a pipeline as a Ray ``Dataset``, a row for each sample.

    Rows are those of a `feedline.Loader` with the same settings, in its order: what is random
    depends on `seed`, `epoch` and sample, not on who makes it, nor on how many blocks there are.

    Parameters
    ----------
    pipeline
        What to read. It travels by its recipe, as with `feedline.ray.Loader`.
    columns
        Their names. ``None``: those of the pipeline's fields, which are numbers where fields have
        no names.
    batch_size
        Rows that are made together. ``None``: about 16 MiB of them. Needed where the pipeline works
        on whole batches (``map_batches``, ``mixup``), as these depend on it.
    shuffle, sampler, weights, balance, num_samples, replacement, seed
        As `feedline.Loader` has them; `sampler` must be a sequence.
    epoch
        Which epoch: another has another order, and other random numbers.
    on_error, sample_timeout
        As `feedline.Loader` has them.
    num_cpus
        CPUs of each read task; it has as many threads, at least one.
    concurrency, override_num_blocks
        As `ray.data.read_datasource` has them.

    Returns
    -------
    ray.data.Dataset
        Arrays are columns of Ray's tensor type, of numbers for single ones; values of differing
        length are lists (of differing shape: tensors of variable shape), without what a batch would
        be filled up with, nor a column of their lengths.

    Raises
    ------
    TypeError, ValueError
        For settings that cannot work; the message says what to pass instead.

    Notes
    -----
    Ray Data hands out blocks as they are done. ``DataContext.get_current().execution_options``
    has ``preserve_order``, with which rows come in the order of the epoch.

    Examples
    --------
    >>> import feedline.ray  # doctest: +SKIP
    >>> rows = feedline.ray.read(
    ...     feedline.images("photos/train", classes=True).resize((224, 224)), shuffle=True, seed=1
    ... )  # doctest: +SKIP
    >>> for batch in rows.iter_torch_batches(batch_size=64):  # doctest: +SKIP
    ...     train(batch["image"], batch["label"])
    """
    # It takes a second to import, and a loader has no need of it.
    import ray.data

    from feedline.ray.rows import Rows

    with warnings.catch_warnings():
        # It warns of settings of its own, which nobody has set, when it is first asked for them.
        warnings.simplefilter("ignore", DeprecationWarning)
        ray.data.DataContext.get_current()

    epoch = whole("epoch", epoch, 0)
    cpus = real("num_cpus", num_cpus)
    check_pipeline("feedline.ray.read", pipeline)
    operations = pipeline._batch_operations()
    if operations and batch_size is None:
        msg = (
            f"{operations[0]} works on whole batches, so rows depend on how many are made "
            "together; pass batch_size="
        )
        raise ValueError(msg)
    settings: dict[str, Any] = {
        "shuffle": shuffle,
        "sampler": sampler,
        "weights": weights,
        "balance": balance,
        "num_samples": num_samples,
        "replacement": replacement,
        "seed": seed,
        "on_error": on_error,
        "sample_timeout": sample_timeout,
        "num_workers": 0,
        "rank": 0,
        "world_size": 1,
    }
    fields = _fields(pipeline, columns)
    look = feedline.Loader(pipeline, batch_size=batch_size or _LOOKED_AT, **settings)
    check("feedline.ray.read", pipeline, look)
    first = _first(look, fields)
    if batch_size is None:
        row = max(1, 0 if first is None else first.nbytes // max(1, first.num_rows))
        batch_size = max(1, min(_TOGETHER // row, 65536))
        look = feedline.Loader(pipeline, batch_size=batch_size, **settings)
    if not ray.is_initialized():
        ray.init()
    source = Rows(
        pipeline,
        look._described(look._share)[3],
        Course.of(look.state_dict()),
        epoch,
        fields,
        first,
        # Such an operation may return any number of rows.
        counted=on_error != "skip" and not operations,
        workers=max(1, math.ceil(cpus)),
    )
    return ray.data.read_datasource(
        source, num_cpus=cpus, concurrency=concurrency, override_num_blocks=override_num_blocks
    )


def _fields(pipeline: Pipeline, columns: Sequence[str] | None) -> list[Field]:
    """Return what each column has."""
    from feedline.ray.rows import Field

    names = pipeline.fields
    wanted = names if columns is None else list(columns)
    fits = len(set(wanted)) == len(wanted) == len(names) and not isinstance(columns, str)
    if not fits or not all(isinstance(cast(object, column), str) for column in wanted):
        msg = (
            f"columns must be a list of names, one for each of the fields {names}, got {columns!r}"
        )
        raise ValueError(msg)
    return [
        Field(column, name, dtype, rule)
        for column, (name, dtype, _, rule) in zip(wanted, pipeline._delivered(), strict=True)
    ]


def _first(look: feedline.Loader, fields: list[Field]) -> pa.Table | None:
    """Return some rows, to tell schema and size by, if they can be made."""
    from feedline.ray.rows import rows_of, table

    source, _, output, settings = look._described(look._share)
    try:
        batch = next(NativeLoader(source, True, output, settings).epoch(), None)
    except FeedlineError:
        # Whoever reads it gets the error, with the sample's name.
        return None
    return table(fields, batch) if batch is not None and rows_of(fields[0], batch) else None
