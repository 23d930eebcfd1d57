"""The `feedline` command: ``python -m feedline`` is the same."""

from __future__ import annotations

import os
import signal
import sys

from feedline._feedline import cli

# Subcommands that are Python: what each does, for the help.
_IN_PYTHON = {"doctor": "Run a part of a training script and say what holds it up"}


def main() -> int:
    """Run the command with this process's arguments and return its exit code."""
    # Loaders under test run in child processes of the same interpreter.
    os.environ.setdefault("FEEDLINE_PYTHON", sys.executable)
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "doctor":
        from feedline.doctor.command import main as doctor  # needed by few

        return doctor(arguments[1:])
    # The command is native code from here on; Python's own handler would run after its end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = cli(["feedline", *arguments])
    if arguments in (["--help"], ["-h"], ["help"], []):
        print("\nIn Python:")
        for name, about in _IN_PYTHON.items():
            print(f"  {name:9} {about}")
    return code


if __name__ == "__main__":
    sys.exit(main())
