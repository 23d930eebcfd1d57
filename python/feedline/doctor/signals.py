"""What the processes of a watched script are told: a byte in a file that all of them map."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FOLDER", "PASS", "TRY", "WATCH", "Signal"]

# The environment variable that names the folder; whoever has it belongs to the run.
FOLDER = "FEEDLINE_DOCTOR"

# Of a change that is tried nothing is kept, but looking costs the same as before.
PASS, WATCH, TRY = 0, 1, 2


class Signal:
    """Whether what happens now counts.

    Parameters
    ----------
    folder
        The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "signal"
        if not path.exists():
            path.write_bytes(bytes(1))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 1)

    @property
    def phase(self) -> int:
        """`PASS`, `WATCH` or `TRY`."""
        return self._map[0]

    @phase.setter
    def phase(self, phase: int) -> None:
        self._map[0] = phase
