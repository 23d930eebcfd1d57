"""torch's `default_collate` as its workers have it, without shared memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from feedline._torch_private import collate, collate_tensor_fn, default_collate_fn_map

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["collate_in_own_memory", "empty"]

# From so many bytes on, NumPy asks the system for huge pages.
_HUGE = 4 << 20
_ALIGN = 64


def collate_in_own_memory(batch: Any) -> Any:  # noqa: ANN401 - the user's samples
    """Do what torch's `default_collate` does, without shared memory for tensors."""
    kinds = default_collate_fn_map
    if kinds.get(torch.Tensor) is collate_tensor_fn:
        kinds = {**kinds, torch.Tensor: _stack}
    return collate(batch, collate_fn_map=kinds)


def _stack(batch: Any, *, collate_fn_map: Any = None) -> torch.Tensor:  # noqa: ANN401
    first = batch[0]
    if first.is_nested or first.layout != torch.strided:
        # torch refuses some of these, in its own words.
        stacked: torch.Tensor = collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
        return stacked
    # As in torch's workers the first sample decides on the dtype.
    shape = (len(batch), *first.shape)
    is_plain = type(first) is torch.Tensor and first.is_cpu and not first.is_quantized
    out = empty(shape, first.dtype) if is_plain else first.new_empty(shape)
    return torch.stack(batch, 0, out=out)


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor with nothing in it yet; a large one in NumPy's memory.

    Memory of large batches is new each time, and the system gives it page by page when it is first
    written to. In small pages that takes longer than writing: torch asks for no others by itself.

    Examples
    --------
    >>> empty((2, 3), torch.float32).shape
    torch.Size([2, 3])
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _HUGE:
        return torch.empty(shape, dtype=dtype)
    memory = np.empty(size + _ALIGN, np.uint8)
    start = -memory.ctypes.data % _ALIGN
    return torch.from_numpy(memory[start : start + size]).view(dtype).view(shape)
