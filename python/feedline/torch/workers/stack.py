"""What a worker process is doing, told although it is stuck.

The main process sends a signal; the handler is `faulthandler`'s, which needs neither the GIL nor
the interpreter, and writes the stacks of all threads to a file in memory. The signal is one that
nobody has a use for.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from multiprocessing import reduction
from time import monotonic, sleep
from typing import Any

__all__ = ["Stack"]

# Python's own, and torch's, are far from it.
_SIGNAL = getattr(signal, "SIGRTMAX", 0)  # Linux has it, and processes of ours

# How long a stack may take to be written.
PATIENCE = 2.0


class Stack:
    """The stack of one worker process, when asked for.

    Made by the main process, registered by the worker.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._fd = os.memfd_create("feedline-stack", os.MFD_CLOEXEC) if fd is None else fd

    def register(self) -> None:
        """Be ready to say what this process is doing."""
        faulthandler.register(_SIGNAL, file=self._fd, all_threads=False, chain=False)

    def ask(self, pid: int) -> str:
        """Return what a process is doing, the innermost call last, as tracebacks have it."""
        os.kill(pid, _SIGNAL)
        deadline, before = monotonic() + PATIENCE, -1
        while monotonic() < deadline:
            size = os.fstat(self._fd).st_size
            if size and size == before:
                break
            before = size
            sleep(0.01)
        text = os.pread(self._fd, 1 << 16, 0).decode(errors="replace")
        head, *lines = text.splitlines() or [""]
        return "\n".join(reversed(lines)) if lines else head or "(it could not be told)"

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (reduction.DupFd(self._fd),)


def _open(fd: Any) -> Stack:  # noqa: ANN401 - a descriptor on its way
    return Stack(fd.detach())
