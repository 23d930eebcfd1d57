"""``feedline doctor``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedline.doctor.diagnosis import diagnose
from feedline.doctor.page import as_page
from feedline.doctor.report import as_data, as_text
from feedline.doctor.running import ScriptError, watch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from feedline.doctor.diagnosis import Diagnosis

__all__ = ["main"]

_FAILED, _CANCELLED = 3, 130


def main(arguments: Sequence[str]) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What comes after ``feedline doctor``.

    Returns
    -------
    int
        The exit code: 0; 2 for arguments that make no sense; 3 if nothing can be said of the
        script; 130 after Ctrl-C.
    """
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _leave)
    if asked.page is not None and not asked.page.parent.is_dir():
        return _complain(f"cannot write {asked.page}: there is no folder {asked.page.parent}", 2)
    show = _show if asked.verbose else None
    limits = {"seconds": asked.seconds, "limit": asked.limit, "loader": asked.loader}
    try:
        run = watch(asked.script, asked.arguments, show=show, **limits)
        found = diagnose(run)
        tried = None
        if asked.tries and found.change is not None and found.change.settings:
            tried = _tried(asked, found, limits)
    except ScriptError as problem:
        return _unseen(str(problem), problem.output, is_quiet=asked.verbose)
    except KeyboardInterrupt:
        return _CANCELLED
    # Of several ranks the first one speaks; what the others see is much the same.
    if int(os.environ.get("RANK", "0")) == 0:
        if asked.page is not None:
            asked.page.write_text(as_page(asked.script, found, tried), encoding="utf-8")
        told = (
            json.dumps(as_data(asked.script, found, tried))
            if asked.json
            else as_text(asked.script, found, tried)
        )
        _say(told)
    return 0


def _tried(asked: argparse.Namespace, before: Diagnosis, limits: dict[str, Any]) -> dict[str, Any]:
    """Make the change and measure it."""
    assert before.change is not None  # noqa: S101 - the caller looked
    settings = before.change.settings
    try:
        run = watch(asked.script, asked.arguments, settings=settings, **limits)
    except ScriptError as problem:
        return {"settings": settings, "problem": str(problem)}
    after = diagnose(run)
    return {
        "settings": settings,
        "before": before.period,
        "after": after.period,
        "gain": before.period / after.period,
        "bottleneck": after.bottleneck,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="feedline doctor",
        description="Run a part of a training script and say what holds it up.",
        epilog="The script's own effects, such as files that it writes, are not undone.",
    )
    parser.add_argument("--json", action="store_true", help="the diagnosis as JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write it as a page (HTML)")
    parser.add_argument(
        "--try",
        dest="tries",
        action="store_true",
        help="make the change that is worth most, if it is a setting, and measure it",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="watch the loader for at most so long (default: %(default)g)",
    )
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="give the script up after so long (default: %(default)g)",
    )
    parser.add_argument(
        "--loader",
        type=int,
        default=0,
        metavar="N",
        help="watch the N-th loader that the script iterates (default: the first with more than "
        "a few batches)",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show on standard error what the script prints"
    )
    parser.add_argument("script", help="the training script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be seconds above 0, got {text!r}")
    return value


def _leave(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _unseen(problem: str, output: str, *, is_quiet: bool) -> int:
    if output and not is_quiet:
        problem += "\nIt printed at the end:\n" + "\n".join(f"  {it}" for it in output.splitlines())
    return _complain(problem, _FAILED)


def _complain(problem: str, code: int) -> int:
    sys.stderr.write(f"error: {problem}\n")
    return code


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _say(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
