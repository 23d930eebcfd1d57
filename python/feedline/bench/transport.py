"""Handing samples over: threads, shared memory, pipe and queue, in several formats.

A message is what a worker hands over: an index, a label and an array. The sender sends as many as
fit into the time; the receiver decodes each and says when it had the last. Latency is half of a
round trip, the median of some.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import pickle
import queue
import struct
import threading
import time
from multiprocessing import shared_memory
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["measure"]

#: Round trips behind a latency.
TRIPS = 15

#: The most messages of one measurement.
MOST = 20_000

#: Blocks of shared memory that a sender fills in turn.
BLOCKS = 4

Message = tuple[int, int, np.ndarray]


class Format(Protocol):
    """Messages as bytes."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""

    def decode(self, data: bytes | memoryview) -> Message:
        """Make a message of bytes."""


class Raw:
    """Two numbers, then the array's bytes; decoding looks at them where they are."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""
        index, label, array = message
        return struct.pack("<qq", index, label) + array.tobytes()

    def decode(self, data: bytes | memoryview) -> Message:
        """Make a message of bytes."""
        index, label = struct.unpack_from("<qq", data)
        return index, label, np.frombuffer(data, np.uint8, offset=16)


class Pickle:
    """Python's own format, protocol 5."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""
        return pickle.dumps(message, protocol=5)

    def decode(self, data: bytes | memoryview) -> Message:
        """Make a message of bytes."""
        message: Message = pickle.loads(data)
        return message


class Json:
    """Text; the array in base 64."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""
        index, label, array = message
        text = base64.b64encode(array.tobytes()).decode()
        return json.dumps({"index": index, "label": label, "array": text}).encode()

    def decode(self, data: bytes | memoryview) -> Message:
        """Make a message of bytes."""
        parts = json.loads(bytes(data))
        array = np.frombuffer(base64.b64decode(parts["array"]), np.uint8)
        return parts["index"], parts["label"], array


class Protobuf:
    """Protocol buffers, by a message type that is made on the spot."""

    def __init__(self) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        file = descriptor_pb2.FileDescriptorProto(name="sample.proto", package="feedline.bench")
        sample = file.message_type.add(name="Sample")
        kinds = descriptor_pb2.FieldDescriptorProto
        fields = [("index", kinds.TYPE_INT64), ("label", kinds.TYPE_INT64)]
        for number, (name, kind) in enumerate([*fields, ("array", kinds.TYPE_BYTES)], start=1):
            sample.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        described = pool.FindMessageTypeByName("feedline.bench.Sample")
        self._kind = message_factory.GetMessageClass(described)

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""
        index, label, array = message
        sample = self._kind(index=index, label=label, array=array.tobytes())
        data: bytes = sample.SerializeToString()
        return data

    def decode(self, data: bytes | memoryview) -> Message:
        """Make a message of bytes."""
        sample = self._kind.FromString(bytes(data))
        return sample.index, sample.label, np.frombuffer(sample.array, np.uint8)


FORMATS: dict[str, Callable[[], Format]] = {
    "raw": Raw,
    "pickle": Pickle,
    "JSON": Json,
    "protobuf": Protobuf,
}


class Channel(Protocol):
    """One direction of bytes."""

    def send(self, data: bytes | None) -> None:
        """Send bytes; ``None`` says that there are no more."""

    def receive(self) -> bytes | memoryview | None:
        """Wait for bytes."""

    def release(self) -> None:
        """Say that the last received bytes are no longer needed."""


class Queued:
    """A queue: of a thread, or of another process."""

    def __init__(self, way: Any) -> None:  # noqa: ANN401 - one of several queues
        self._queue = way

    def send(self, data: bytes | None) -> None:
        """Send bytes."""
        self._queue.put(data)

    def receive(self) -> bytes | memoryview | None:
        """Wait for bytes."""
        received: bytes | None = self._queue.get()
        return received

    def release(self) -> None:
        """Do nothing: bytes are owned."""


class Piped:
    """A pipe between processes."""

    def __init__(self) -> None:
        self._reader, self._writer = multiprocessing.Pipe(duplex=False)

    def send(self, data: bytes | None) -> None:
        """Send bytes."""
        self._writer.send_bytes(b"" if data is None else data)

    def receive(self) -> bytes | memoryview | None:
        """Wait for bytes."""
        return self._reader.recv_bytes() or None

    def release(self) -> None:
        """Do nothing: bytes are owned."""


class Shared:
    """Blocks of shared memory, used in turn; a pipe says which is full, another which is free."""

    def __init__(self, room: int) -> None:
        self._block = shared_memory.SharedMemory(create=True, size=room * BLOCKS)
        memory = self._block.buf
        if memory is None:
            msg = "the shared memory is closed"
            raise ValueError(msg)
        self._memory = memory
        self._room = room
        self._full = multiprocessing.Pipe(duplex=False)
        self._free = multiprocessing.Pipe(duplex=False)
        for number in range(BLOCKS):
            self._free[1].send_bytes(struct.pack("<q", number))
        self._held = 0
        self._view: memoryview | None = None

    def send(self, data: bytes | None) -> None:
        """Write bytes to a free block."""
        if data is None:
            self._full[1].send_bytes(struct.pack("<qq", 0, -1))
            return
        (number,) = struct.unpack("<q", self._free[0].recv_bytes())
        start = number * self._room
        self._memory[start : start + len(data)] = data
        self._full[1].send_bytes(struct.pack("<qq", number, len(data)))

    def receive(self) -> bytes | memoryview | None:
        """Wait for a full block and view it."""
        number, length = struct.unpack("<qq", self._full[0].recv_bytes())
        if length < 0:
            return None
        self._held = number
        self._view = self._memory[number * self._room :][:length]
        return self._view

    def release(self) -> None:
        """Give the block back."""
        if self._view is not None:
            self._view.release()
            self._view = None
        self._free[1].send_bytes(struct.pack("<q", self._held))

    def close(self) -> None:
        """Give the memory back."""
        self._memory = memoryview(b"")
        self._block.close()
        self._block.unlink()


def measure(way: str, form: str, size: int, seconds: float) -> dict[str, float]:
    """Send messages for some time and say how fast they came.

    Parameters
    ----------
    way
        ``"threads"``, ``"shared memory"``, ``"pipe"`` or ``"queue"``.
    form
        ``"raw"``, ``"pickle"``, ``"JSON"`` or ``"protobuf"``.
    size
        Bytes of the array.
    seconds
        How long to send, about.

    Returns
    -------
    dict
        ``seconds``, ``items``, ``bytes`` and ``latency_s``.

    Examples
    --------
    >>> measure("threads", "raw", 1000, 0.01)["bytes"] > 0
    True
    """
    there, back = _channel(way, size), _channel(way, size)
    sends = (there, back, form, size, seconds)
    context = multiprocessing.get_context("fork")
    sender: Any = (
        threading.Thread(target=_serve, args=sends)
        if way == "threads"
        else context.Process(target=_serve, args=sends)
    )
    sender.start()
    try:
        return _receive(there, back, FORMATS[form](), size)
    finally:
        sender.join()
        for channel in (there, back):
            if isinstance(channel, Shared):
                channel.close()


def _channel(way: str, size: int) -> Channel:
    if way == "threads":
        return Queued(queue.Queue(BLOCKS))
    if way == "queue":
        return Queued(multiprocessing.get_context("fork").Queue(BLOCKS))
    # Base 64 needs a third more than the array itself.
    return Piped() if way == "pipe" else Shared(size * 3 // 2 + 4096)


def _serve(there: Channel, back: Channel, form: str, size: int, seconds: float) -> None:
    """Answer some messages one by one, then send as many as fit into the time."""
    encoding = FORMATS[form]()
    array = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    for index in range(TRIPS):
        back.receive()
        back.release()
        there.send(encoding.encode((index, 0, array)))
    back.receive()
    back.release()
    end = time.monotonic() + seconds
    for index in range(MOST):
        there.send(encoding.encode((index, index % 10, array)))
        if time.monotonic() >= end:
            break
    there.send(None)


def _receive(there: Channel, back: Channel, decoding: Format, size: int) -> dict[str, float]:
    trips = []
    for _ in range(TRIPS):
        asked = time.monotonic()
        back.send(b"?")
        _take(there, decoding, size)
        trips.append(time.monotonic() - asked)
    began = time.monotonic()
    back.send(b"?")
    items = 0
    while _take(there, decoding, size):
        items += 1
    seconds = time.monotonic() - began
    latency = sorted(trips)[TRIPS // 2] / 2
    return {"seconds": seconds, "items": items, "bytes": items * size, "latency_s": latency}


def _take(there: Channel, decoding: Format, size: int) -> bool:
    """Take a message and touch its array, as a consumer would; false at the end."""
    data = there.receive()
    if data is None:
        return False
    _, _, array = decoding.decode(data)
    if len(array) != size:
        msg = f"a message of {len(array)} bytes came, {size} were sent"
        raise ValueError(msg)
    array.max()
    del array, data
    there.release()
    return True
