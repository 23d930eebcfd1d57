"""`default_collate` straight into shared memory."""

from __future__ import annotations

import math
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import torch

from feedline._torch_private import collate_tensor_fn, default_collate_fn_map
from feedline._transport.tensors import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from feedline._transport.hub import WorkerEnd

__all__ = ["collate_into", "stack_into"]


@contextmanager
def collate_into(end: WorkerEnd) -> Iterator[None]:
    """Let torch's `default_collate` stack tensors into the memory that `end` shares.

    Inside, torch's own `default_collate_fn_map` has another function for tensors, so it works
    wherever torch's `collate` runs: as the loader's default, from a user's collate function, inside
    dicts, for arrays. Results are torch's in all but where the memory is. Does nothing when
    somebody has put a function of their own into the map. Use it around a worker process's loop:
    the map is global.
    """
    table = default_collate_fn_map
    theirs = table.get(torch.Tensor)
    if theirs is not collate_tensor_fn:
        yield
        return
    stack = table[torch.Tensor] = stack_into(end)
    try:
        yield
    finally:
        if table.get(torch.Tensor) is stack:
            table[torch.Tensor] = theirs


def stack_into(end: WorkerEnd) -> Callable[..., torch.Tensor]:
    """Return what does torch's `collate_tensor_fn` in the memory that `end` shares."""

    def stack(batch: Sequence[torch.Tensor], *, collate_fn_map: object = None) -> torch.Tensor:
        elem = batch[0]
        # Before anything else is asked of it: a nested tensor has no size.
        if (
            type(elem) is torch.Tensor
            and elem.layout is torch.strided
            and elem.device.type == "cpu"
            and not (elem.is_nested or elem.is_quantized or elem.requires_grad)
            and not (elem.is_conj() or elem.is_neg())
        ):
            shape = (len(batch), *elem.size())
            size = elem.element_size() * math.prod(shape)
            if size < SMALL:
                out = torch.empty(shape, dtype=elem.dtype)
            else:
                memory = torch.frombuffer(end.native.allocate(size), dtype=elem.dtype)
                out = memory.view(shape)
            # What does not fit is refused by torch's own function, in its words.
            with suppress(Exception):
                return torch.stack(batch, 0, out=out)  # type: ignore[arg-type]
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)  # type: ignore[arg-type, no-any-return]

    return stack
