"""The `feedline` command: ``python -m feedline`` is the same."""

from __future__ import annotations

import sys

from feedline._feedline import cli


def main() -> int:
    """Run the command with this process's arguments and return its exit code."""
    return cli(["feedline", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
