"""Handing samples over: threads, shared memory, pipe and queue, in several formats.

A message is what a worker hands over: an index, a label and an array. The sender sends as many as
fit into the time; the receiver decodes each and says when it had the last. Latency is half of a
round trip, the median of some.

Shared memory is feedline's own transport, the one under its process workers: what a format can hand
over in parts is written once and viewed where it is. The other ways take one piece of bytes.
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
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from feedline import _feedline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Part = bytes | memoryview

__all__ = ["measure"]

#: Round trips behind a latency.
TRIPS = 15

#: The most messages of one measurement.
MOST = 20_000

#: Messages that may be on their way at a time.
AHEAD = 4

Message = tuple[int, int, np.ndarray]


class MessageFormat(Protocol):
    """Messages as bytes."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""

    def parts(self, message: Message) -> list[Part]:
        """Make parts of a message, for a way that need not join them."""

    def decode(self, parts: Sequence[Part]) -> Message:
        """Make a message of bytes, or of parts."""


class Raw:
    """Two numbers, then the array's bytes; decoding looks at them where they are."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""
        return b"".join(self.parts(message))

    def parts(self, message: Message) -> list[Part]:
        """Leave the array where it is."""
        index, label, array = message
        return [struct.pack("<qq", index, label), array.data]

    def decode(self, parts: Sequence[Part]) -> Message:
        """Make a message of bytes, or of parts."""
        index, label = struct.unpack_from("<qq", parts[0])
        return index, label, np.frombuffer(parts[-1], np.uint8, offset=16 if len(parts) == 1 else 0)


class Pickle:
    """Python's own format, protocol 5: arrays beside the pickle where the way allows it."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""
        return pickle.dumps(message, protocol=5)

    def parts(self, message: Message) -> list[Part]:
        """Leave the array where it is."""
        beside: list[pickle.PickleBuffer] = []
        inside = pickle.dumps(message, protocol=5, buffer_callback=beside.append)
        return [inside, *(buffer.raw() for buffer in beside)]

    def decode(self, parts: Sequence[Part]) -> Message:
        """Make a message of bytes, or of parts."""
        message: Message = pickle.loads(parts[0], buffers=parts[1:])
        return message


class Json:
    """Text; the array in base 64."""

    def encode(self, message: Message) -> bytes:
        """Make bytes of a message."""
        index, label, array = message
        text = base64.b64encode(array.tobytes()).decode()
        return json.dumps({"index": index, "label": label, "array": text}).encode()

    def parts(self, message: Message) -> list[Part]:
        """Make one part."""
        return [self.encode(message)]

    def decode(self, parts: Sequence[Part]) -> Message:
        """Make a message of bytes."""
        read = json.loads(bytes(parts[0]))
        array = np.frombuffer(base64.b64decode(read["array"]), np.uint8)
        return read["index"], read["label"], array


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

    def parts(self, message: Message) -> list[Part]:
        """Make one part."""
        return [self.encode(message)]

    def decode(self, parts: Sequence[Part]) -> Message:
        """Make a message of bytes."""
        sample = self._kind.FromString(bytes(parts[0]))
        return sample.index, sample.label, np.frombuffer(sample.array, np.uint8)


FORMATS: dict[str, Callable[[], MessageFormat]] = {
    "raw": Raw,
    "pickle": Pickle,
    "JSON": Json,
    "protobuf": Protobuf,
}


class Way(Protocol):
    """A way between a worker and a consumer. What the consumer says are empty requests."""

    def send(self, form: MessageFormat, message: Message | None) -> None:
        """Send a message to the consumer, or that there are no more."""

    def receive(self) -> Sequence[Part] | None:
        """Wait for a message; ``None`` if there are no more."""

    def ask(self) -> None:
        """Send a request to the worker."""

    def asked(self) -> None:
        """Wait for a request."""

    def release(self) -> None:
        """Say that the consumer needs the last message no longer."""

    def close(self) -> None:
        """Let go of what the way needed."""


class Queues:
    """Two queues: of threads, or of processes."""

    def __init__(self, there: Any, back: Any) -> None:  # noqa: ANN401 - of either kind
        self._there, self._back = there, back

    def send(self, form: MessageFormat, message: Message | None) -> None:
        """Send a message."""
        self._there.put(None if message is None else form.encode(message))

    def receive(self) -> Sequence[Part] | None:
        """Wait for a message."""
        data: bytes | None = self._there.get()
        return None if data is None else [data]

    def ask(self) -> None:
        """Send a request."""
        self._back.put(b"?")

    def asked(self) -> None:
        """Wait for a request."""
        self._back.get()

    def release(self) -> None:
        """Do nothing: bytes are owned."""

    def close(self) -> None:
        """Do nothing: queues go by themselves."""


class Piped:
    """Two pipes between processes."""

    def __init__(self) -> None:
        self._there = multiprocessing.Pipe(duplex=False)
        self._back = multiprocessing.Pipe(duplex=False)

    def send(self, form: MessageFormat, message: Message | None) -> None:
        """Send a message."""
        self._there[1].send_bytes(b"" if message is None else form.encode(message))

    def receive(self) -> Sequence[Part] | None:
        """Wait for a message."""
        data = self._there[0].recv_bytes()
        return [data] if data else None

    def ask(self) -> None:
        """Send a request."""
        self._back[1].send_bytes(b"?")

    def asked(self) -> None:
        """Wait for a request."""
        self._back[0].recv_bytes()

    def release(self) -> None:
        """Do nothing: bytes are owned."""

    def close(self) -> None:
        """Close both."""
        for end in (*self._there, *self._back):
            end.close()


class Shared:
    """feedline's transport. A worker may be some messages ahead, as with `prefetch_factor`."""

    def __init__(self) -> None:
        self._hub = _feedline.TransportHub(1)
        self._end = self._hub.worker_end(0)
        self._requests, self._may_send = 0, AHEAD

    def send(self, form: MessageFormat, message: Message | None) -> None:
        """Write each part once into shared memory."""
        if message is None:
            self._end.send(b"end", [])
            return
        while self._may_send == 0:
            self._hear()
        self._may_send -= 1
        self._end.send(b"", form.parts(message))

    def receive(self) -> Sequence[Part] | None:
        """Wait for a message and view its parts."""
        parcel = self._hub.receive()
        if parcel is None or parcel[1]:
            return None
        # A buffer, though stubs for this Python have no way to say so.
        return [memoryview(cast("Any", part)) for part in parcel[2]]

    def ask(self) -> None:
        """Send a request."""
        self._hub.send(0, b"?")

    def asked(self) -> None:
        """Wait for a request."""
        while self._requests == 0:
            self._hear()
        self._requests -= 1

    def release(self) -> None:
        """Let the worker make one more; its blocks went back with the last view."""
        self._hub.send(0, b"+")

    def _hear(self) -> None:
        if self._end.receive() == b"+":
            self._may_send += 1
        else:
            self._requests += 1

    def close(self) -> None:
        """Give the memory back."""
        self._hub.close()


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

    Raises
    ------
    OSError
        Shared memory was asked for and this is not Linux.

    Examples
    --------
    >>> measure("threads", "raw", 1000, 0.01)["bytes"] > 0
    True
    """
    # Made before anybody waits: what cannot be made must not leave the other side waiting.
    used, coding = _way(way), FORMATS[form]()
    serve: Any = {"target": _serve, "args": (used, coding, size, seconds)}
    context = multiprocessing.get_context("fork")
    sender: Any = threading.Thread(**serve) if way == "threads" else context.Process(**serve)
    sender.start()
    try:
        return _receive(used, coding, size)
    finally:
        sender.join()
        used.close()


def _way(way: str) -> Way:
    if way == "threads":
        return Queues(queue.Queue(AHEAD), queue.Queue(AHEAD))
    if way == "queue":
        context = multiprocessing.get_context("fork")
        return Queues(context.Queue(AHEAD), context.Queue(AHEAD))
    if way == "pipe":
        return Piped()
    if not hasattr(_feedline, "TransportHub"):
        raise OSError("feedline's shared memory needs Linux; leave it out with --set ways=['pipe']")
    return Shared()


def _serve(way: Way, coding: MessageFormat, size: int, seconds: float) -> None:
    """Answer some messages one by one, then send as many as fit into the time."""
    array = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    for index in range(TRIPS):
        way.asked()
        way.send(coding, (index, 0, array))
    way.asked()
    end = time.monotonic() + seconds
    for index in range(MOST):
        way.send(coding, (index, index % 10, array))
        if time.monotonic() >= end:
            break
    way.send(coding, None)


def _receive(way: Way, decoding: MessageFormat, size: int) -> dict[str, float]:
    trips = []
    for _ in range(TRIPS):
        asked = time.monotonic()
        way.ask()
        _take(way, decoding, size)
        trips.append(time.monotonic() - asked)
    began = time.monotonic()
    way.ask()
    items = 0
    while _take(way, decoding, size):
        items += 1
    seconds = time.monotonic() - began
    latency = sorted(trips)[TRIPS // 2] / 2
    return {"seconds": seconds, "items": items, "bytes": items * size, "latency_s": latency}


def _take(way: Way, decoding: MessageFormat, size: int) -> bool:
    """Take a message and touch its array, as a consumer would; false at the end."""
    parts = way.receive()
    if parts is None:
        return False
    _, _, array = decoding.decode(parts)
    if len(array) != size:
        msg = f"a message of {len(array)} bytes came, {size} were sent"
        raise ValueError(msg)
    array.max()
    del array, parts
    way.release()
    return True
