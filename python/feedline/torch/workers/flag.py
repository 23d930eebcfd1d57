"""A flag that all processes of a loader see."""

from __future__ import annotations

import mmap
import os
from multiprocessing import reduction
from typing import Any

__all__ = ["Flag"]


class Flag:
    """Set once by the main process, read by its workers; no lock, nothing to wait for.

    Unlike an event of `multiprocessing` it takes no semaphore, so there is nothing to clean up, and
    a child that dies cannot hold it.

    Examples
    --------
    >>> flag = Flag()
    >>> flag.is_set()
    False
    >>> flag.set()
    >>> flag.is_set()
    True
    """

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            fd = os.memfd_create("feedline-flag", os.MFD_CLOEXEC)
            os.ftruncate(fd, mmap.PAGESIZE)
        # Python keeps a duplicate of the descriptor with the mapping; it is let go by `started`.
        self._fd = fd
        self._page = mmap.mmap(fd, mmap.PAGESIZE)

    def set(self) -> None:
        """Set it, for ever."""
        self._page[0] = 1

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._page[0] == 1

    def close_descriptor(self) -> None:
        """Give up the descriptor, once no other process needs it to map the flag."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close_descriptor()

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (reduction.DupFd(self._fd),)


def _open(fd: Any) -> Flag:  # noqa: ANN401 - a descriptor on its way
    return Flag(fd.detach())
