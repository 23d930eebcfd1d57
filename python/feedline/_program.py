"""Running a script as ``python script.py`` does, inside a process that has begun already."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path

__all__ = ["run_program"]


def run_program(script: str, arguments: list[str]) -> None:
    """Run a script as the main program of this process.

    Parameters
    ----------
    script
        Its path.
    arguments
        What it finds in ``sys.argv[1:]``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    """
    path = Path(script).absolute()
    with io.open_code(str(path)) as file:
        source = file.read()
    # Workers that are started, not forked, import the main program again by this name.
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    main.__dict__["__builtins__"] = __builtins__
    main.__dict__["__cached__"] = None
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules["__main__"] = main
    exec(compile(source, str(path), "exec"), main.__dict__)  # noqa: S102 - the user's own program
