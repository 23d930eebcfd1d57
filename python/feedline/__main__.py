"""The `feedline` command: ``python -m feedline`` is the same."""

from __future__ import annotations

import os
import signal
import sys

from feedline._feedline import cli


def main() -> int:
    """Run the command with this process's arguments and return its exit code."""
    # The command is native code from here on; Python's own handler would run after its end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Loaders under test run in child processes of the same interpreter.
    os.environ.setdefault("FEEDLINE_PYTHON", sys.executable)
    return cli(["feedline", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
