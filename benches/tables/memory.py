"""Peak memory of a process and all it starts."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from pathlib import Path

INTERVAL = 0.02


def tree(pid: int) -> list[int]:
    """The process and its descendants, as they are now."""
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                children = (task / "children").read_text()
                todo += [int(child) for child in children.split()]
    return found


def pss(pid: int) -> int:
    """Proportional set size of one process, in bytes; 0 for one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def peak_pss(arguments: list[str]) -> tuple[int, str]:
    """Run a Python program; the peak of its process tree's memory, and its last line of output.

    A program of its own, because what this process has loaded and cached would count on every side.
    """
    command = [sys.executable, *arguments]  # this very program, with other arguments
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        output, peak = process.stdout, 0
        # Until it speaks: at its end, torch's libraries touch 100 MB that nobody needed before.
        while output and not select.select([output], [], [], INTERVAL)[0]:
            peak = max(peak, sum(pss(pid) for pid in tree(process.pid)))
        said = output.read() if output else ""
    if process.returncode:
        msg = f"{arguments} ended with code {process.returncode}"
        raise RuntimeError(msg)
    return peak, said.strip().splitlines()[-1]
