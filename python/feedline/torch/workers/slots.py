"""Samples of one batch, made by several workers, in one piece of memory.

Arrays of a sample are written straight to where they are in the batch: field by field, each with a
row per sample. What is left of the sample (its structure, numbers, text) travels in the part, with
a `Slot` where each array was. The main process runs torch's own `collate` on these remains; where
it finds nothing but slots of one field it has the batch's tensor already.

Who owns the memory: a worker process makes an extent in its own region, lends it to the main
process, and publishes the place (see `board`). It is the main process that gives it back, when the
last tensor of the batch is dropped or the batch is given up. Threads have a tensor per field.

The first sample that is done decides on the *layout*, the kinds, types and shapes of arrays. One
with another layout is sent as it is. Then, and where samples were skipped, the main process makes
ordinary arrays of all slots and collates as torch's workers do: the result is theirs, or the error.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from feedline._torch_private import collate, default_collate_fn_map

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Slot", "collated", "digest", "fields_in", "filled", "layout_bytes", "split"]

# Arrays of fewer bytes are not worth a slot.
LEAST = 512

# What precedes the fields in memory that processes share: the layout's digest and the length.
HEAD = 64

_ALIGN = 64


class Slot(NamedTuple):
    """Where an array of a sample is."""

    field: int
    position: int


class _Field(NamedTuple):
    """An array of every sample: whether it was NumPy's, its type and its shape."""

    numpy: bool
    dtype: torch.dtype
    shape: tuple[int, ...]

    def bytes(self, rows: int) -> int:
        """Return how long it is with so many rows."""
        size = rows * math.prod(self.shape) * self.dtype.itemsize
        return -(-size // _ALIGN) * _ALIGN


def split(sample: Any, position: int) -> tuple[Any, list[torch.Tensor], tuple[Any, ...]]:  # noqa: ANN401
    """Take the arrays out of a sample.

    Returns
    -------
    rest
        The sample with slots instead.
    arrays
        What was there, as tensors.
    layout
        What they are like; an empty one if there are none.

    Examples
    --------
    >>> rest, arrays, layout = split((torch.zeros(500), 7), position=2)
    >>> rest
    (Slot(field=0, position=2), 7)
    >>> layout[0].shape
    (500,)
    """
    arrays: list[torch.Tensor] = []
    layout: list[_Field] = []

    def walk(value: Any) -> Any:  # noqa: ANN401 - any part of a sample
        kind = type(value)
        if kind is tuple or kind is list:
            return kind([walk(item) for item in value])
        if kind is dict:
            return {name: walk(item) for name, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*[walk(item) for item in value])
        if kind is np.ndarray and value.dtype.kind in "biufc" and value.nbytes >= LEAST:
            try:
                tensor = torch.as_tensor(value)
            except (TypeError, ValueError):
                return value  # torch refuses it, where it is collated
        elif kind is torch.Tensor and _is_plain(value) and value.nbytes >= LEAST:
            tensor = value
        else:
            return value
        arrays.append(tensor)
        layout.append(_Field(kind is np.ndarray, tensor.dtype, tuple(tensor.shape)))
        return Slot(len(layout) - 1, position)

    return walk(sample), arrays, tuple(layout)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_nested or tensor.is_quantized or tensor.requires_grad)
        and not (tensor.is_conj() or tensor.is_neg())
    )


def filled(fields: Sequence[torch.Tensor], arrays: Sequence[torch.Tensor], position: int) -> None:
    """Write the arrays of one sample to their places."""
    for field, array in zip(fields, arrays, strict=True):
        field[position].copy_(array)


def layout_bytes(layout: Sequence[_Field], rows: int) -> int:
    """Return how much memory a batch takes, with what precedes it."""
    return HEAD + sum(field.bytes(rows) for field in layout)


def fields_in(memory: Any, layout: Sequence[_Field], rows: int) -> list[torch.Tensor]:  # noqa: ANN401
    """Return the fields of a batch, which is in this memory."""
    tensors, offset = [], HEAD
    for field in layout:
        count = rows * math.prod(field.shape)
        flat = torch.frombuffer(memory, dtype=field.dtype, count=count, offset=offset)
        tensors.append(flat.view(rows, *field.shape))
        offset += field.bytes(rows)
    return tensors


def digest(layout: Sequence[_Field]) -> bytes:
    """Return a few bytes that tell a layout from others, the same in every process."""
    return hashlib.blake2b(repr(layout).encode(), digest_size=8).digest()


def collated(
    samples: Sequence[Any],
    fields: Sequence[torch.Tensor] | None,
    layout: Sequence[_Field] | None,
    collate_fn: Callable[[Any], Any] | None,
    *,
    is_uniform: bool = True,
) -> Any:  # noqa: ANN401 - the user's batch
    """Put a batch together.

    Parameters
    ----------
    samples
        All of them, in order; where there are fields, with slots for them.
    fields, layout
        The arrays of all samples, if there are any.
    collate_fn
        A function of the user's; None: torch's `default_collate`, as workers have it.
    is_uniform
        Whether every sample has its arrays in the fields.
    """
    if fields is None or layout is None:
        return _plainly(samples) if collate_fn is None else collate_fn(list(samples))
    if collate_fn is None and is_uniform and len(samples) == len(fields[0]):

        def gather(slots: Sequence[Slot], *, collate_fn_map: Any = None) -> Any:  # noqa: ANN401
            field = slots[0].field
            if any(type(slot) is not Slot or slot.field != field for slot in slots):
                raise _MixedError
            return fields[field]

        try:
            return collate(list(samples), collate_fn_map={Slot: gather, **default_collate_fn_map})
        except _MixedError:
            pass
    restored = [_restored(sample, fields, layout) for sample in samples]
    return _plainly(restored) if collate_fn is None else collate_fn(restored)


class _MixedError(Exception):
    """Not every sample has the same field at the same place."""


def _restored(value: Any, fields: Sequence[torch.Tensor], layout: Sequence[_Field]) -> Any:  # noqa: ANN401
    kind = type(value)
    if kind is Slot:
        row = fields[value.field][value.position]
        return row.numpy() if layout[value.field].numpy else row
    if kind is tuple or kind is list:
        return kind([_restored(item, fields, layout) for item in value])
    if kind is dict:
        return {name: _restored(item, fields, layout) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*[_restored(item, fields, layout) for item in value])
    return value


def _plainly(samples: Sequence[Any]) -> Any:  # noqa: ANN401 - the user's batch
    from feedline.torch.workers.stacking import collate_in_own_memory

    return collate_in_own_memory(list(samples))
