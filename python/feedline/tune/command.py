"""``feedline tune``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from feedline._arguments import size
from feedline._command import add_answers, answer, complain, run, seconds
from feedline.tune.report import TuneReport, trial_text
from feedline.tune.search import tune
from feedline.tune.targets import TargetError, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.tune.trials import Trial

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What comes after ``feedline tune``.

    Returns
    -------
    int
        The exit code: 0; 2 for arguments that make no sense; 3 if nothing can be tuned; 130 after
        Ctrl-C.
    """
    asked = _parser().parse_args(arguments)
    return run(lambda: _tuned(asked))


def _tuned(asked: argparse.Namespace) -> int:
    try:
        # What a script of the user's prints is no part of the answer.
        with contextlib.redirect_stdout(sys.stderr):
            target = opened(asked.target, batch_sizes=asked.batch_sizes)
            found = tune(
                target,
                seconds=asked.seconds,
                step=asked.step,
                memory=asked.memory,
                told=None if asked.quiet else _told,
            )
    except (TargetError, ValueError) as problem:
        return complain(str(problem))
    answer(TuneReport(asked.target, target, found), asked)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="feedline tune", description="Find good settings of a loader with few measurements."
    )
    parser.add_argument(
        "target",
        metavar="SOURCE | script.py:make_loader",
        help="a folder or file that feedline reads; or a function that returns a DataLoader or a "
        "feedline.Loader, and may take num_workers, worker_mode, prefetch, order, batch_size",
    )
    add_answers(parser, "what was found")
    parser.add_argument("--quiet", action="store_true", help="do not tell of each point")
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=1.0,
        metavar="S",
        help="measure each point for so long (default: %(default)g)",
    )
    parser.add_argument(
        "--step",
        type=seconds,
        default=0.0,
        metavar="S",
        help="seconds of a training step (default: none, as fast as it goes)",
    )
    parser.add_argument(
        "--memory", type=_bytes, metavar="BYTES", help='what a loader may take, such as "2GiB"'
    )
    parser.add_argument(
        "--batch-sizes",
        type=_sizes,
        default=(),
        metavar="N,N",
        help="sizes of a batch to choose from (default: the loader's own)",
    )
    return parser


def _bytes(text: str) -> int:
    try:
        found = size("BYTES", text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    if not found:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text!r}")
    return found


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = (0,)
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"must be sizes such as 32,64, got {text!r}")
    return sizes


def _told(trial: Trial) -> None:
    sys.stderr.write(trial_text(trial) + "\n")
    sys.stderr.flush()
