"""Messages as bytes and buffers, and back.

A message is pickled with protocol 5 and with what `multiprocessing` knows to pickle. Large arrays
leave the pickle as buffers of their own (PEP 574), tensors as pieces of their storages (see
`tensors.py`); small ones stay inside. A payload is::

    8 bytes    where the manifest begins
    pickle     the message, which refers to tensors' pieces by number
    pickle     the manifest: where each piece is

and goes with a list of buffers, first those of the arrays, in the order in which the pickle needs
them, then those of the tensors.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline._transport import tensors
from feedline._transport.tensors import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Buffer = bytes | bytearray | memoryview

__all__ = ["decode", "encode", "encode_task"]

_HEAD = 8


def encode(message: object) -> tuple[Buffer, list[Any]]:
    """Return a message's payload and the buffers that go with it.

    The buffers are views: send them before anything they show changes.
    """
    outside: list[Any] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        if memoryview(buffer).nbytes < SMALL:
            return True
        outside.append(buffer.raw())
        return False

    return _encode(message, outside, keep_inside, SMALL), outside


def encode_task(message: object) -> Buffer:
    """Return a message's payload, with everything inside it.

    >>> decode(encode_task([3, 1, 4]), [])
    [3, 1, 4]
    """
    return _encode(message, [], None, sys.maxsize)


def _encode(
    message: object,
    outside: list[Any],
    keep_inside: Callable[[pickle.PickleBuffer], bool] | None,
    small: int,
) -> Buffer:
    manifest = tensors.Manifest()
    file = io.BytesIO()
    file.write(bytes(_HEAD))
    pickler = pickle.Pickler(file, protocol=5, buffer_callback=keep_inside)
    # Made anew each time, because anybody may register a type at any time; ours come last.
    table: dict[type, Any] = {
        **copyreg.dispatch_table,
        **ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
        np.ndarray: _reduce_array,
    }
    manifest.register(table)
    pickler.dispatch_table = table
    pickler.dump(message)
    if manifest.is_empty():
        return file.getbuffer()
    end = file.tell()
    pickle.dump(manifest.pack(outside, small), file, protocol=5)
    payload = file.getbuffer()
    payload[:_HEAD] = end.to_bytes(_HEAD, "little")
    return payload


def decode(payload: Buffer, buffers: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return the message. Its arrays and tensors keep the buffers alive that they view.

    >>> payload, buffers = encode({"x": np.arange(3)})
    >>> decode(payload, buffers)
    {'x': array([0, 1, 2])}
    """
    view = memoryview(payload)
    end = int.from_bytes(view[:_HEAD], "little")
    if end == 0:
        return pickle.loads(view[_HEAD:], buffers=buffers)
    with tensors.Pieces(pickle.loads(view[end:]), buffers):
        return pickle.loads(view[_HEAD:end], buffers=buffers)


def _reduce_array(array: np.ndarray[Any, Any]) -> str | tuple[Any, ...]:
    if not (array.flags.forc or array.nbytes < SMALL or array.dtype.hasobject):
        by_stride = sorted(range(array.ndim), key=array.strides.__getitem__, reverse=True)
        if not array.transpose(by_stride).flags.c_contiguous:
            # Pickle would put these bytes inside itself, in this very order. (What is contiguous
            # but for the order of its axes, NumPy hands out as it is.)
            array = array.copy(order="C")
    return array.__reduce_ex__(5)
