"""Tensors: which bytes of a storage travel, and who shares them.

Tensors that view one storage arrive viewing one storage, as with torch's own transport. But a row
of a huge tensor must not drag the whole of it along, which torch avoids by moving the storage into
shared memory for good. So what travels is decided when all tensors of the message are known:

* a storage of which the message shows at least half, or a small one, travels as a whole;
* of any other only the stretches that are shown, each with all that overlap it.

While the message is pickled, each tensor gets the number of its *view*; the `Manifest` then says
for each view which *piece* it is in and at which byte of the storage that piece begins.

What torch itself treats specially stays torch's: other devices, sparse and nested tensors (whose
parts are storages again), subclasses, and tensors in torch's shared memory, which are shared
rather than copied because the user asked for it.
"""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch.nn.parameter import Parameter

from feedline import _feedline
from feedline._torch_private import reduce_storage, reduce_tensor, set_conj, set_neg

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SMALL", "Manifest", "Pieces"]

#: What has fewer bytes travels inside its message: copying it is cheaper than memory of its own.
SMALL = 8192

#: Pieces begin at multiples of it in their storage, so that every dtype stays aligned.
ALIGN = 64

_DTYPES = {
    value: name
    for name, value in sorted(vars(torch).items(), reverse=True)
    if isinstance(value, torch.dtype)
}
_NAMES = {name: value for value, name in _DTYPES.items()}


class _Storage(NamedTuple):
    """A storage that a message shows, the bytes of it that each view shows, and their numbers."""

    storage: torch.UntypedStorage
    size: int
    shown: list[tuple[int, int, int]]


class Manifest:
    """The tensors of a message that is being pickled."""

    def __init__(self) -> None:
        self._storages: dict[int, _Storage] = {}
        self._views = 0

    def register(self, table: dict[type, Any]) -> None:
        """Put the functions that reduce tensors into a pickler's dispatch table."""
        table[torch.Tensor] = self._reduce_tensor
        table[Parameter] = self._reduce_tensor
        table[torch.UntypedStorage] = self._reduce_storage

    def is_empty(self) -> bool:
        """Whether no tensor was seen."""
        return self._views == 0

    def _show(self, storage: torch.UntypedStorage, start: int, stop: int) -> int:
        key = storage._cdata
        known = self._storages.get(key)
        if known is None:
            known = self._storages[key] = _Storage(storage, storage.nbytes(), [])
        view = self._views
        self._views += 1
        known.shown.append((start, stop, view))
        return view

    def _reduce_storage(self, storage: torch.UntypedStorage) -> tuple[Any, ...]:
        size = storage.nbytes()
        if size == 0 or storage.device.type != "cpu" or storage.is_shared():
            return cast(tuple[Any, ...], reduce_storage(storage))
        return _rebuild_storage, (self._show(storage, 0, size),)

    def _reduce_tensor(self, tensor: torch.Tensor) -> str | tuple[Any, ...]:
        if (
            tensor.layout is not torch.strided
            or tensor.device.type != "cpu"
            or tensor.is_nested
            or tensor._backward_hooks
            or (tensor.requires_grad and not tensor.is_leaf)
        ):
            return cast(tuple[Any, ...], reduce_tensor(tensor))
        if tensor.is_quantized:
            # torch's transport forgets scales and zero points; its pickling knows them.
            return cast(tuple[Any, ...], tensor.__reduce_ex__(2))
        storage = tensor.untyped_storage()
        if storage.is_shared() and not (tensor.is_conj() or tensor.is_neg()):
            return cast(tuple[Any, ...], reduce_tensor(tensor))
        width = tensor.element_size()
        offset = int(tensor.storage_offset())
        size = tuple(tensor.size())
        stride = tensor.stride()
        if tensor.is_contiguous():
            last = tensor.numel()
        elif 0 in size:
            last = 0
        else:
            last = 1 + int(sum([(n - 1) * step for n, step in zip(size, stride, strict=True)]))
        view = self._show(storage, offset * width, (offset + last) * width)
        kind = (
            (_GRAD if tensor.requires_grad else 0)
            | (_CONJ if tensor.is_conj() else 0)
            | (_NEG if tensor.is_neg() else 0)
            | (_PARAMETER if type(tensor) is Parameter else 0)
        )
        dtype = _DTYPES[tensor.dtype]
        if kind:
            return _rebuild_kind, (kind, view, dtype, offset, size, stride)
        return _rebuild, (view, dtype, offset, size, stride)

    def pack(self, buffers: list[Any], small: int) -> tuple[list[Any], list[int]]:
        """Append the buffers of pieces from `small` bytes on, and say where each view is.

        Returns
        -------
        pieces
            For each piece its bytes, or the number of its buffer.
        places
            For each view, its piece, and the byte of the storage at which that begins.
        """
        pieces: list[Any] = []
        places = [0] * (2 * self._views)
        for storage, size, shown in self._storages.values():
            address = storage.data_ptr()
            for start, stop, views in _stretches(size, shown):
                number = len(pieces)
                length = stop - start
                if length < small:
                    pieces.append(_feedline.bytes_at(address + start, length))
                else:
                    pieces.append(len(buffers))
                    buffers.append(_feedline.memory_at(address + start, length, storage))
                for view in views:
                    places[2 * view] = number
                    places[2 * view + 1] = start
        return pieces, places


def _stretches(size: int, shown: list[tuple[int, int, int]]) -> list[tuple[int, int, list[int]]]:
    """Cut a storage into what travels: ``(start, stop, views)`` each.

    >>> _stretches(100, [(0, 60, 0)])
    [(0, 100, [0])]
    >>> _stretches(100_000, [(0, 1000, 0), (65_000, 65_100, 1), (900, 1200, 2)])
    [(0, 1200, [0, 2]), (64960, 65100, [1])]
    """
    if len(shown) == 1 and shown[0][1] - shown[0][0] == size:
        return [(0, size, [shown[0][2]])]
    if size < SMALL or 2 * sum([stop - start for start, stop, _ in shown]) >= size:
        return [(0, size, [view for _, _, view in shown])]
    stretches: list[tuple[int, int, list[int]]] = []
    for start, stop, view in sorted(shown):
        begin = start - start % ALIGN
        if stretches and begin < stretches[-1][1]:
            first, end, views = stretches[-1]
            views.append(view)
            stretches[-1] = (first, max(end, stop), views)
        else:
            stretches.append((begin, stop, [view]))
    return stretches


class _Arriving(threading.local):
    """What each thread is unpickling."""

    pieces: Pieces | None = None


_arriving = _Arriving()


class Pieces:
    """The pieces of a message; inside a ``with`` block this thread's unpickling refers to them.

    Parameters
    ----------
    manifest
        What `Manifest.pack` returned.
    buffers
        The message's buffers.
    """

    def __init__(self, manifest: tuple[list[Any], list[int]], buffers: Sequence[Any]) -> None:
        self._pieces, self._places = manifest
        self._buffers = buffers
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._before: Pieces | None = None

    def __enter__(self) -> Pieces:
        # A message may arrive while another is being unpickled: in somebody's `__setstate__`.
        self._before, _arriving.pieces = _arriving.pieces, self
        return self

    def __exit__(self, *_: object) -> None:
        _arriving.pieces = self._before

    def storage(self, view: int) -> tuple[torch.UntypedStorage, int]:
        """Return the storage that a view is in, and at which byte of the sender's it begins."""
        piece, start = self._places[2 * view], self._places[2 * view + 1]
        storage = self._storages.get(piece)
        if storage is None:
            source = self._pieces[piece]
            if type(source) is int:
                source = self._buffers[source]
            if len(source):
                storage = torch.frombuffer(source, dtype=torch.uint8).untyped_storage()
            else:
                storage = torch.UntypedStorage(0)
            self._storages[piece] = storage
        return storage, start


_GRAD, _CONJ, _NEG, _PARAMETER = 1, 2, 4, 8


def _storage(view: int) -> tuple[torch.UntypedStorage, int]:
    pieces = _arriving.pieces
    if pieces is None:
        raise pickle.UnpicklingError("only the transport can unpickle what it pickled")
    return pieces.storage(view)


def _rebuild_storage(view: int) -> torch.UntypedStorage:
    return _storage(view)[0]


def _rebuild(
    view: int, name: str, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    storage, start = _storage(view)
    tensor = torch.empty(0, dtype=_NAMES[name])
    return tensor.set_(storage, offset - start // tensor.itemsize, size, stride)


def _rebuild_kind(
    kind: int, view: int, name: str, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    tensor = _rebuild(view, name, offset, size, stride)
    if kind & _CONJ:
        set_conj(tensor)
    if kind & _NEG:
        set_neg(tensor)
    if kind & _PARAMETER:
        return Parameter(tensor, requires_grad=bool(kind & _GRAD))
    return tensor.requires_grad_(bool(kind & _GRAD))
