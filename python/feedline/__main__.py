"""The `feedline` command: ``python -m feedline`` is the same."""

from __future__ import annotations

import os
import signal
import sys

from feedline._feedline import cli

# Subcommands that are Python: what each does, for the help.
_IN_PYTHON = {
    "doctor": "Run a part of a training script and say what holds it up",
    "run": "Run a program with our DataLoader in the place of torch's",
    "tune": "Find good settings of a loader with few measurements",
}


def main() -> int:
    """Run the command with this process's arguments and return its exit code."""
    # Loaders under test run in child processes of the same interpreter.
    os.environ.setdefault("FEEDLINE_PYTHON", sys.executable)
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "doctor":
        from feedline.doctor.command import main as doctor  # needed by few

        return doctor(arguments[1:])
    if arguments and arguments[0] == "run":
        from feedline._run import run  # needed by few

        return run(arguments[1:])
    if arguments and arguments[0] == "tune":
        from feedline.tune.command import main as tune  # needed by few

        return tune(arguments[1:])
    # The command is native code from here on; Python's own handler would run after its end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = cli(["feedline", *arguments])
    if arguments in (["--help"], ["-h"]):
        lines = ["", "In Python:", *(f"  {name:9} {it}" for name, it in _IN_PYTHON.items())]
        try:
            print("\n".join(lines), flush=True)
        except BrokenPipeError:  # whoever read it has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
