"""What workers need, pickled once for all of them.

`multiprocessing` pickles a process's arguments anew for each process, and blocks until the child
has read them: with a large dataset, workers start one after the other. A payload is pickled once,
into memory that all children inherit; what `multiprocessing` sends each is a file descriptor.

Objects that travel as descriptors themselves (shared tensors, pipes, locks) ask who is being
started while they are pickled. Here that is the payload: it collects their descriptors and hands
them to each child in turn, where they are found by their place in the list.
"""

from __future__ import annotations

import mmap
import os
import pickle
from multiprocessing import context, reduction
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Payload"]


class Payload:
    """An object on its way to several child processes.

    Pickled as an argument of a process that is being started, it arrives as the object. Close it
    when all have been started.

    Parameters
    ----------
    content
        The object. Whatever pickling it raises is raised here.

    Examples
    --------
    >>> Payload([1, 2]).content()
    [1, 2]
    """

    DupFd: Any  # `multiprocessing` looks for it on whatever is being started

    def __init__(self, content: Any) -> None:  # noqa: ANN401 - whatever can be pickled
        self._inside: list[int] = []
        self._fd = os.memfd_create("feedline-payload", os.MFD_CLOEXEC)
        try:
            before = context.get_spawning_popen()
            context.set_spawning_popen(self)  # type: ignore[arg-type]
            try:
                with os.fdopen(os.dup(self._fd), "wb", buffering=1 << 20) as file:
                    _Pickler(file).dump(content)
            finally:
                context.set_spawning_popen(before)
        except BaseException:
            self.close()
            raise

    def duplicate_for_child(self, fd: int) -> int:
        """Take in a descriptor that something inside travels as. Returns its place."""
        self._inside.append(os.dup(fd))
        return len(self._inside) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        inside = [reduction.DupFd(fd) for fd in self._inside]
        return _unpack, (reduction.DupFd(self._fd), inside)

    def content(self) -> Any:  # noqa: ANN401 - what was packed
        """Unpickle it here; what travels as a descriptor is duplicated."""
        return _unpickled(os.dup(self._fd), [os.dup(fd) for fd in self._inside])

    def close(self) -> None:
        """Let go of the memory; children that were started have it still."""
        fds, self._inside = [self._fd, *self._inside], []
        self._fd = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        self.close()


class NotOnceError(Exception):
    """Something inside can be unpickled by one process only."""


class _Pickler(reduction.ForkingPickler):
    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - anything
        if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta"):
            # Memory of a device is handed over with a count of who has it: one receiver each.
            raise NotOnceError
        return NotImplemented


class _Place(NamedTuple):
    """A descriptor inside a payload, before it is unpacked."""

    place: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.place,)


Payload.DupFd = staticmethod(_Place)


class _Arrived(NamedTuple):
    """A descriptor that came with a payload."""

    fd: int

    def detach(self) -> int:
        """Return the descriptor, which is the caller's from now on."""
        return self.fd


# Descriptors of the payload that is being unpacked, by their place.
_unpacking: list[int] = []


def _arrived(place: int) -> _Arrived:
    return _Arrived(_unpacking[place])


def _unpack(payload: Any, inside: Sequence[Any]) -> Any:  # noqa: ANN401 - descriptors on their way
    return _unpickled(payload.detach(), [fd.detach() for fd in inside])


def _unpickled(payload: int, inside: list[int]) -> Any:  # noqa: ANN401 - what was packed
    _unpacking[:] = inside
    try:
        with mmap.mmap(payload, 0, access=mmap.ACCESS_READ) as memory:
            return pickle.loads(memory)
    finally:
        _unpacking.clear()
        os.close(payload)
