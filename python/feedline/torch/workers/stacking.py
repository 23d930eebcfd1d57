"""torch's `default_collate` as its workers have it, without shared memory."""

from __future__ import annotations

from typing import Any

import torch

from feedline._torch_private import collate, collate_tensor_fn, default_collate_fn_map

__all__ = ["collate_in_own_memory"]


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
    out = first.new_empty((len(batch), *first.shape))
    return torch.stack(batch, 0, out=out)
