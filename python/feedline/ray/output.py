"""Batches as they come out of the object store, as arrays or tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_output", "copied"]


def as_output(batch: Any, output: str) -> Any:  # noqa: ANN401 - whatever a pipeline makes
    """Return a batch with its arrays as `output` says, without a copy."""
    if output == "numpy":
        return batch
    if isinstance(batch, dict):
        return {name: as_output(value, output) for name, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(as_output(value, output) for value in batch)
    if not isinstance(batch, np.ndarray):
        return batch
    import torch

    return torch.from_numpy(np.asarray(_Writable(batch)))


def copied(batch: Any) -> Any:  # noqa: ANN401 - whatever a pipeline makes
    """Return a batch with its arrays in memory of their own."""
    if isinstance(batch, dict):
        return {name: copied(value) for name, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map(copied, batch))
    return batch.copy() if isinstance(batch, np.ndarray) else batch


class _Writable:
    """An array of the object store, for tensors, which know no read-only memory.

    Writing is right: the store's memory is mapped for it, the batch was made for this reader, and a
    reader that begins anew has it made anew.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
