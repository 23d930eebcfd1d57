"""Single fields of all samples, without making the rest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from feedline._feedline import NativeLoader

if TYPE_CHECKING:
    import numpy.typing as npt

    from feedline._feedline import Source

__all__ = ["column", "label_field"]

Fields = list[tuple[str, str, list[int | None], str]]

# What labels are called: the field itself, or its part of a shard by its last extension.
_NAMES = ("label", "labels", "target", "targets", "class", "cls", "y")

# Samples per batch: enough that their number does not matter.
_BATCH = 8192


def label_field(fields: Fields) -> str | None:
    """Return the field that says of which class a sample is: a whole number, by its name or place.

    Parameters
    ----------
    fields
        As the source has them.

    Returns
    -------
    str or None
        The first with one of the names above. Where fields have no names, the last one, if others
        are before it.
    """
    whole = [name for name, dtype, shape, _ in fields if _is_whole(dtype) and not shape]
    for known in _NAMES:
        for name in whole:
            if name.rsplit(".", 1)[-1].lower() == known:
                return name
    last = fields[-1][0] if len(fields) > 1 else ""
    return last if last.isdigit() and last in whole else None


def _is_whole(dtype: str) -> bool:
    return dtype.lstrip("u").startswith("int")


def column(source: Source, name: str) -> npt.NDArray[Any] | None:
    """Return a field of fixed shape of all samples; None where that takes whole samples."""
    narrow = source.only([name])
    if narrow is None:
        return None
    total = len(narrow)
    if total == 0:
        ((_, dtype, shape, _),) = narrow.fields()
        return np.empty((0, *(axis or 0 for axis in shape)), dtype)
    settings: dict[str, object] = {"batch_size": min(total, _BATCH), "epochs": 1}
    if total <= _BATCH:
        # Threads are not worth their start.
        settings["num_workers"] = 0
    loader = NativeLoader(narrow, False, "numpy", settings)
    return np.concatenate([batch[0] for batch in loader.epoch()])
