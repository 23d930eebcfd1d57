"""The process of a watched script: ``-m feedline.doctor.patient FOLDER script.py [args]``."""

from __future__ import annotations

import ctypes
import io
import json
import os
import signal
import sys
from multiprocessing import current_process
from pathlib import Path
from typing import Any

from feedline._program import run_program
from feedline.doctor.course import Course, Enough
from feedline.doctor.hooks import install

__all__ = ["main"]

_DIE_WITH_PARENT = 1


class _Input(io.FileIO):
    """Standard input, which is empty; whoever reads it is told of in the end."""

    def __init__(self, course: Course) -> None:
        super().__init__(0, "rb", closefd=False)
        self._course = course

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - any buffer
        self._course.reads_input = True
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._course.reads_input = True
        return super().readall()


def main(arguments: list[str]) -> None:
    """Run a script with its arguments and leave in the folder what was seen of it.

    Parameters
    ----------
    arguments
        The run's folder, which has ``order.json``, the script and its arguments.
    """
    folder = Path(arguments[0])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    # Where processes put their sockets; those that are killed leave theirs behind. A socket's path
    # may have 108 letters.
    if len(str(folder)) < 80:
        current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]
    order = json.loads((folder / "order.json").read_text())
    course = Course(
        folder,
        seconds=order["seconds"],
        watch_seconds=order["watch_seconds"],
        wanted=order["loader"],
        replay=order["replay"],
    )
    install(course, folder, order["settings"])
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_Input(course)))
    ended: dict[str, Any] = {"how": "end"}
    try:
        run_program(arguments[1], arguments[2:])
    except Enough:
        pass
    except SystemExit as left:
        ended = {"how": "exit", "code": left.code if isinstance(left.code, int) else 1}
        raise
    except BaseException as error:
        ended = {"how": "error", "type": type(error).__name__, "message": str(error)[:500]}
        raise
    finally:
        course.write(ended)


if __name__ == "__main__":
    sys.path.pop(0)  # `-m` put the working folder there
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main(sys.argv[1:])
