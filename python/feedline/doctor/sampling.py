"""A thread that looks at the other threads of its process: where they are, and for how long.

Every few milliseconds it takes the stacks, and reads from the kernel how long each thread was on
the processor since the look before, and how long it stood in the queue for one. The rest of the
time it was waiting for something: a file, a lock, somebody else.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from feedline.doctor.signals import PASS, WATCH, Signal
from feedline.doctor.stages import Place, place_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Sampler"]

_TICK = 0.004
# How late a look must be to have waited for the interpreter's lock, and how soon others let go of
# it while looks are taken: seconds. Otherwise looks would be taken only where the lock is free.
_WAITED = 0.0002
_SWITCH = 0.0005
_WRITE = 0.5


class _Thread:
    """One thread's clocks."""

    def __init__(self, native: int) -> None:
        self.native = native
        # What `pthread_getcpuclockid` returns, of which a thread that has ended must not be asked.
        self._clock = (~native << 3) | 6
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(f"/proc/self/task/{native}/schedstat", os.O_RDONLY)
        self.at = time.perf_counter()
        try:
            self.cpu, self.queued = self._read()
        except OSError:
            self.close()
            raise
        self.used = 0.0
        self.roles: dict[str, float] = {}

    def passed(self) -> tuple[float, float, float]:
        """Return seconds since the call before: in all, on the processor, in the queue for it.

        Raises `OSError` if it has ended.
        """
        now = time.perf_counter()
        cpu, queued = self._read()
        took = now - self.at, cpu - self.cpu, queued - self.queued
        self.at, self.cpu, self.queued = now, cpu, queued
        self.used += took[1]
        return took

    def _read(self) -> tuple[float, float]:
        queued = 0.0
        if self._file >= 0:
            with contextlib.suppress(OSError, ValueError, IndexError):
                queued = int(os.pread(self._file, 100, 0).split()[1]) / 1e9
        return time.clock_gettime(self._clock), queued

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Sampler(threading.Thread):
    """Takes looks while the signal says so, and writes what it saw into a file.

    Parameters
    ----------
    folder
        Where the file goes, and where the signal is.
    is_script
        Whether this is the script's own process, not a worker.
    """

    def __init__(self, folder: Path, *, is_script: bool) -> None:
        super().__init__(name="feedline-doctor", daemon=True)
        self._signal = Signal(folder)
        self._path = folder / f"process-{os.getpid()}.json"
        self._is_script = is_script
        self._main = threading.main_thread().ident
        self._pid = os.getpid()
        self._threads: dict[int, _Thread] = {}
        self._places: dict[Place, list[float]] = {}
        self._ticks = self._late = 0
        self._seconds = self._cpu = 0.0
        self._running: list[str] = []
        self._is_sealed = False
        # Batches made, and seconds that took; written by whoever makes them.
        self.made = 0
        self.made_seconds = self.made_cpu = 0.0

    @property
    def is_watching(self) -> bool:
        """Whether what happens now counts."""
        return self._signal.phase == WATCH

    def run(self) -> None:
        """Look until the process ends."""
        try:
            while True:
                if self._signal.phase != PASS:
                    self._watch()
                time.sleep(0.01)
        except Exception as error:  # the script must not notice
            with contextlib.suppress(OSError):
                self._path.with_suffix(".error").write_text(repr(error))

    def _watch(self) -> None:
        phase = self._signal.phase
        # What a change does is timed, and these looks are as much of a burden as those before.
        self._is_sealed = phase != WATCH
        before = sys.getswitchinterval()
        sys.setswitchinterval(min(before, _SWITCH))
        began, cpu = time.perf_counter(), time.process_time()
        self._threads.clear()
        own = _Thread(threading.get_native_id())
        written = began
        try:
            while self._signal.phase == phase:
                asked = time.perf_counter()
                time.sleep(_TICK)
                late = time.perf_counter() - asked - _TICK - own.passed()[2]
                self._ticks += 1
                self._late += late > _WAITED
                self._look()
                now = time.perf_counter()
                if now - written > _WRITE:
                    self._seconds += now - began
                    self._cpu += time.process_time() - cpu
                    began, cpu, written = now, time.process_time(), now
                    self._note_running()
                    self.write()
        finally:
            sys.setswitchinterval(before)
            self._seconds += time.perf_counter() - began
            self._cpu += time.process_time() - cpu
            self._note_running()
            self.write()
            for thread in (own, *self._threads.values()):
                thread.close()

    def _look(self) -> None:
        me = threading.get_ident()
        natives = {it.ident: it.native_id for it in threading.enumerate()}
        # In a process that was forked Python still has the number that this thread had before.
        natives[self._main] = os.getpid()
        frames = sys._current_frames()
        for ident in self._threads.keys() - frames.keys():
            self._threads.pop(ident).close()
        for ident, frame in frames.items():
            if ident == me:
                continue
            native = natives.get(ident)
            if native is None:  # no thread of Python's own
                continue
            thread = self._threads.get(ident)
            if thread is not None and native != thread.native:
                # It ended, and another has its number.
                thread.close()
                thread = None
            try:
                if thread is None:
                    self._threads[ident] = _Thread(native)
                    continue
                took, cpu, queued = thread.passed()
            except OSError:  # it has just ended
                if (ended := self._threads.pop(ident, None)) is not None:
                    ended.close()
                continue
            place = place_of(frame, is_main=self._is_script and ident == self._main)
            thread.roles[place.role] = thread.roles.get(place.role, 0.0) + cpu
            seen = self._places.get(place)
            if seen is None:
                seen = self._places[place] = [0.0, 0.0, 0.0]
            seen[0] += took
            seen[1] += cpu
            seen[2] += queued
        del frames

    def _note_running(self) -> None:
        """Note what the threads do that run at least a tenth of the time."""
        running = [
            max(thread.roles, key=thread.roles.__getitem__)
            for thread in self._threads.values()
            if thread.roles and thread.used > 0.1 * self._seconds
        ]
        if len(running) >= len(self._running):
            self._running = running

    def write(self) -> None:
        """Write what was seen so far."""
        if os.getpid() != self._pid or self._is_sealed:
            return
        told: dict[str, Any] = {
            "pid": self._pid,
            "script": self._is_script,
            "seconds": self._seconds,
            "cpu": self._cpu,
            "ticks": self._ticks,
            "late": self._late,
            "running": self._running,
            "made": self.made,
            "made_seconds": self.made_seconds,
            "made_cpu": self.made_cpu,
            "places": [[*place, *seen] for place, seen in list(self._places.items())],
        }
        fresh = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):  # the folder is gone: nobody wants it any more
            fresh.write_text(json.dumps(told))
            fresh.replace(self._path)
