"""A pipeline as a source of Ray Data: the engine makes rows in read tasks."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
from ray.data import Datasource
from ray.data.block import BlockMetadata
from ray.data.datasource import ReadTask
from ray.data.extensions import ArrowTensorArray, ArrowVariableShapedTensorArray

from feedline._feedline import NativeLoader
from feedline.errors import SampleError
from feedline.ray.actor import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ray.data import DataContext

    from feedline.pipeline import Pipeline
    from feedline.ray.course import Course

__all__ = ["Field", "Rows", "rows_of", "table"]


class Field(NamedTuple):
    """A column, and the field that it is."""

    column: str
    name: str
    dtype: str
    rule: str


class Rows(Datasource):  # type: ignore[misc] # Ray's class has no types
    """What Ray Data asks for read tasks: each has neighbouring batches of the epoch."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: dict[str, object],
        course: Course,
        epoch: int,
        fields: list[Field],
        first: pa.Table | None,
        *,
        counted: bool,
        workers: int,
    ) -> None:
        super().__init__()
        self._parcel = ray.put(packed(pipeline, settings))
        self._course, self._epoch, self._fields = course, epoch, fields
        self._schema = None if first is None else first.schema
        self._row_bytes = first.nbytes / first.num_rows if first is not None else None
        self._counted, self._workers = counted, workers

    def get_name(self) -> str:
        """Say what Ray Data calls it."""
        return "Feedline"

    def estimate_inmemory_data_size(self) -> int | None:
        """Return about how many bytes all rows have, if some could be made."""
        return self._bytes_of(self._course.samples(self._epoch))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return about so many tasks, each of neighbouring batches."""
        batches = self._course.batches(self._epoch)
        parts = np.linspace(0, batches, min(parallelism, batches) + 1, dtype=int).tolist()
        return [
            self._task(first, after - first, per_task_row_limit)
            for first, after in itertools.pairwise(parts)
        ]

    def _task(self, first: int, batches: int, limit: int | None) -> ReadTask:
        order = self._course.order(self._epoch, first, 0, batches)
        # What the function needs, without the rest of this object.
        parcel, fields, workers = self._parcel, self._fields, self._workers
        rows = self._course.samples(self._epoch, first, batches)
        metadata = BlockMetadata(
            num_rows=rows if self._counted else None,
            size_bytes=self._bytes_of(rows),
            exec_stats=None,
            input_files=None,
        )

        def blocks() -> Iterator[pa.Table]:
            pipeline, settings = unpacked(ray.get(parcel), workers)
            native = NativeLoader(pipeline._source, True, "numpy", settings)
            native.load_state(json.dumps(order.state), False)
            try:
                for batch in native.epoch():
                    # One of which all samples were skipped has nothing.
                    if rows_of(fields[0], batch):
                        yield table(fields, batch)
            except SampleError as error:
                error.position += order.first if error.position >= 0 else 0
                raise

        return ReadTask(blocks, metadata, schema=self._schema, per_task_row_limit=limit)

    def _bytes_of(self, rows: int) -> int | None:
        return None if self._row_bytes is None else int(rows * self._row_bytes)


# ---- batches as tables


def rows_of(field: Field, batch: dict[str, Any]) -> int:
    """Return how many samples a batch has."""
    packed = field.rule == "packed"
    return len(batch[f"{field.name}_offsets"]) - 1 if packed else len(batch[field.name])


def table(fields: list[Field], batch: dict[str, Any]) -> pa.Table:
    """Return a batch as an Arrow table of Ray's kind."""
    return pa.table({field.column: _column(field, batch) for field in fields})


def _column(field: Field, batch: dict[str, Any]) -> pa.Array:
    value, rule = batch[field.name], field.rule
    if field.dtype == "bfloat16":
        # Arrow has no such numbers; these are the same.
        value = (value.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if not isinstance(value, np.ndarray):
        return pa.array(value, pa.string() if rule == "text" else None)
    if rule == "packed":
        offsets = batch[f"{field.name}_offsets"]
        if value.ndim == 1:
            return pa.LargeListArray.from_arrays(offsets, value)
        return _ragged(np.split(value, offsets[1:-1]))
    if rule == "masked":
        mask = batch[f"{field.name}_mask"].astype(bool)
        return _ragged([row[real] for row, real in zip(value, mask, strict=True)])
    if rule != "fixed":
        lengths = batch[f"{field.name}_lengths"].reshape(len(value), -1)
        left = rule.endswith("left")
        return _ragged([_cut(row, one, left=left) for row, one in zip(value, lengths, strict=True)])
    return pa.array(value) if value.ndim == 1 else ArrowTensorArray.from_numpy(value)


def _cut(row: np.ndarray, lengths: np.ndarray, *, left: bool) -> np.ndarray:
    """Return what is no padding."""
    if left:
        return row[len(row) - lengths[0] :]
    return row[tuple(slice(length) for length in lengths)]


def _ragged(rows: list[np.ndarray]) -> pa.Array:
    """Return rows of different lengths, as lists, or of different shapes, as tensors."""
    if rows[0].ndim == 1:
        offsets = np.cumsum([0, *map(len, rows)])
        return pa.LargeListArray.from_arrays(offsets, np.concatenate(rows))
    together = np.empty(len(rows), object)
    together[:] = rows
    return ArrowVariableShapedTensorArray.from_numpy(together)
