"""What the commands share that are Python's own: arguments, complaints, answers and pages."""

from __future__ import annotations

import argparse
import html
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["CANCELLED", "FAILED", "MISUSED", "Bar", "Report", "answer", "bars", "complain", "page"]

# Exit codes: arguments that make no sense; nothing can be said; Ctrl-C.
MISUSED, FAILED, CANCELLED = 2, 3, 130


class Report(Protocol):
    """What a command found."""

    def text(self) -> str:
        """Return it as people read it."""

    def data(self) -> dict[str, Any]:
        """Return it as plain data, ready for `json`."""

    def page(self) -> str:
        """Return it as HTML: one file that needs nothing else."""


def add_answers(parser: argparse.ArgumentParser, what: str) -> None:
    """Let a command be asked for JSON and for a page."""
    parser.add_argument("--json", action="store_true", help=f"{what} as JSON")
    parser.add_argument("--page", type=_writable, metavar="FILE", help="also write a page (HTML)")


def answer(report: Report, asked: argparse.Namespace) -> None:
    """Say what was found, in the forms that were asked for."""
    if asked.page is not None:
        asked.page.write_text(report.page(), encoding="utf-8")
    told = json.dumps(report.data()) if asked.json else report.text()
    try:
        sys.stdout.write(told + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(command: Callable[[], int]) -> int:
    """Run a command, which Ctrl-C ends, and so does whoever asks it to end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for asks_to_end in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(asks_to_end, signal.default_int_handler)
    try:
        return command()
    except KeyboardInterrupt:
        return CANCELLED


def complain(problem: str, code: int = FAILED) -> int:
    """Say what is wrong, and return the exit code."""
    sys.stderr.write(f"error: {problem}\n")
    return code


def seconds(text: str) -> float:
    """Read a time from an argument."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be seconds above 0, got {text!r}")
    return value


def _writable(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"cannot write {path}: there is no folder {path.parent}")
    return path


class Bar(NamedTuple):
    """A row of a chart: its name, its length, and the length in words."""

    name: str
    value: float
    words: str


def bars(rows: Iterable[Bar]) -> str:
    """Return a chart as HTML."""
    rows = list(rows)
    most = max((row.value for row in rows), default=0.0) or 1.0
    drawn = (
        f"<tr><th>{html.escape(row.name)}<td><i "
        f"style='width:{100 * row.value / most:.1f}%'></i><td class=n>{html.escape(row.words)}"
        for row in rows
    )
    return "<table>" + "\n".join(drawn) + "</table>"


def page(title: str, heading: str, *parts: str) -> str:
    """Return a page of HTML.

    Parameters
    ----------
    title
        Its title, as text.
    heading, parts
        Its heading and what follows, as HTML.
    """
    return _PAGE.format(title=html.escape(title), heading=heading, body="\n".join(parts))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 b {{ color: #b3421b; }}
table {{ width: 100%; border-spacing: 0 .3rem; }}
th {{ text-align: left; font-weight: normal; width: 50%; }}
td i {{ display: block; height: 1rem; background: #3b78b5; min-width: 1px; }}
td.n {{ width: 5rem; text-align: right; font-variant-numeric: tabular-nums; }}
pre {{ overflow-x: auto; padding: .8rem; background: #8882; }}
@media (prefers-color-scheme: dark) {{
  h1 b {{ color: #f09070; }}
  td i {{ background: #74aee6; }}
}}
</style>
<h1>{heading}</h1>
{body}
</html>
"""
