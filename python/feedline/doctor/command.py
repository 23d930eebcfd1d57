"""``feedline doctor``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from feedline._command import MISUSED, add_answers, answer, complain, run, seconds
from feedline.doctor.diagnosis import diagnose
from feedline.doctor.ranks import agreed, can_agree, is_first
from feedline.doctor.report import DoctorReport
from feedline.doctor.running import ScriptError, watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.doctor.diagnosis import Diagnosis

__all__ = ["main"]


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
    return run(lambda: _examined(asked))


def _examined(asked: argparse.Namespace) -> int:
    show = _show if asked.verbose else None
    limits = {"seconds": asked.seconds, "limit": asked.limit, "loader": asked.loader}
    if asked.tries and not can_agree():
        return complain(
            "with several ranks --try needs torchrun, by whose store they agree on a change; start "
            "them with it, or leave --try out",
            MISUSED,
        )
    try:
        found = diagnose(watch(asked.script, asked.arguments, show=show, **limits))
        tried = _tried(asked, found, limits) if asked.tries else None
    except ScriptError as problem:
        return complain(f"{problem}{'' if asked.verbose else _printed(problem.output)}")
    # Of several ranks the first one speaks; what the others see is much the same.
    if is_first():
        answer(DoctorReport(asked.script, found, tried), asked)
    return 0


def _tried(
    asked: argparse.Namespace, before: Diagnosis, limits: dict[str, Any]
) -> dict[str, Any] | None:
    """Make the change and measure it, if it is a setting."""
    settings = agreed(before.change.settings if before.change is not None else {}, asked.limit)
    if not settings:
        return None
    try:
        again = watch(asked.script, asked.arguments, settings=settings, replay=False, **limits)
    except ScriptError as problem:
        return {"settings": settings, "problem": str(problem)}
    after = diagnose(again)
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
    add_answers(parser, "the diagnosis")
    parser.add_argument(
        "--try",
        dest="tries",
        action="store_true",
        help="make the change that is worth most, if it is a setting, and measure it",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=10.0,
        metavar="S",
        help="watch the loader for at most so long (default: %(default)g)",
    )
    parser.add_argument(
        "--limit",
        type=seconds,
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


def _printed(output: str) -> str:
    """Return the last lines of a script, to be told after what happened to it."""
    lines = "\n".join(f"  {it}" for it in output.splitlines())
    return f"\nIt printed at the end:\n{lines}" if lines else ""


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
