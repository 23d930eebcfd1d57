"""A batch of the engine's as the samples it is made of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

__all__ = ["samples_of"]

Fields = list[tuple[str, str, list[int | None], str]]


def samples_of(batch: Any, fields: Fields) -> list[Any]:  # noqa: ANN401 - the engine's batch
    """Return the samples of a batch: tuples, or dicts where the batch is one.

    What was padded to the longest of the batch is as long as it was before; what was padded to a
    given shape stays so. Both have their lengths or masks behind them, as in the batch. What was
    packed is each sample's own, without offsets.

    Parameters
    ----------
    batch
        What the engine made, as NumPy or torch.
    fields
        As the source has them.
    """
    named = isinstance(batch, dict)
    arrays = iter(batch.values() if named else batch)
    names: list[str] = []
    columns: list[list[Any]] = []
    for name, _, shape, rule in fields:
        values = next(arrays)
        names.append(name)
        if rule == "packed":
            offsets = next(arrays).tolist()
            columns.append([values[begin:end] for begin, end in pairwise(offsets)])
            continue
        columns.append(list(values))
        if rule == "masked":
            masks = list(next(arrays))
            columns[-1] = [value[mask] for value, mask in zip(values, masks, strict=True)]
            names.append(f"{name}_mask")
            columns.append([mask[mask] for mask in masks])
        if rule == "longest, left":
            lengths = next(arrays)
            columns[-1] = [
                value[len(value) - own :]
                for value, own in zip(values, lengths.tolist(), strict=True)
            ]
            names.append(f"{name}_lengths")
            columns.append(list(lengths))
        if rule in ("longest", "padded"):
            lengths = next(arrays)
            if rule == "longest":
                columns[-1] = [
                    value[_own_part(shape, own)]
                    for value, own in zip(values, lengths.tolist(), strict=True)
                ]
            names.append(f"{name}_lengths")
            columns.append(list(lengths))
    rows = zip(*columns, strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows] if named else list(rows)


def _own_part(shape: list[int | None], lengths: int | list[int]) -> tuple[slice, ...]:
    """Return where a sample is within what it was padded to."""
    ends = iter(lengths if isinstance(lengths, list) else [lengths])
    return tuple(slice(next(ends)) if axis is None else slice(None) for axis in shape)
