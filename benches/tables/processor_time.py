"""How long this thread was on a processor.

Two clocks say so, and both say too much. The thread's own CPU clock (`time.thread_time`) charges
a thread that is woken by another processor from the wake-up on: Linux does not look at the clock
again when it switches to the woken thread, so the time that the interrupt takes to get there
counts, too; on virtual machines that is some 40 us, more than all that a batch costs. Perf's task
clock starts when the thread does, but it goes on while the hypervisor runs somebody else. What was
used is at most the lesser of the two.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import time

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
SOFTWARE, TASK_CLOCK = 1, 1
ATTRIBUTE_BYTES = 128
THIS_THREAD, ANY_PROCESSOR, NO_GROUP = 0, -1, -1


class ProcessorTime:
    """A stopwatch for the thread that made it, with both clocks.

    Where perf's clock is not to be had, the thread's has to do.
    """

    def __init__(self) -> None:
        self._counter = _task_clock()
        self._charged = self._ran = 0.0

    def start(self) -> None:
        """Count from here.

        The clocks are read once in vain: their own code may be as cold as what is measured.
        """
        self._read()
        charged, ran = self._read()
        self._charged -= charged
        self._ran -= ran

    def stop(self) -> None:
        """Count up to here."""
        charged, ran = self._read()
        self._charged += charged
        self._ran += ran

    @property
    def seconds(self) -> float:
        """What was counted."""
        return min(self._charged, self._ran)

    def _read(self) -> tuple[float, float]:
        charged = time.thread_time()
        if self._counter is None:
            return charged, charged
        return charged, int.from_bytes(os.read(self._counter, 8), sys.byteorder) / 1e9


def _task_clock() -> int | None:
    """Perf's task clock of this thread, as a file descriptor."""
    number = PERF_EVENT_OPEN.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return None
    header = struct.pack("<IIQ", SOFTWARE, ATTRIBUTE_BYTES, TASK_CLOCK)
    attribute = ctypes.create_string_buffer(header, ATTRIBUTE_BYTES)
    system = ctypes.CDLL(None).syscall
    counter = system(number, attribute, THIS_THREAD, ANY_PROCESSOR, NO_GROUP, 0)
    return counter if counter >= 0 else None
