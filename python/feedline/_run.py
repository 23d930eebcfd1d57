"""``feedline run``: a program as it is, with ours in the place of torch's DataLoader."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
from typing import TYPE_CHECKING, Any

from feedline import _program
from feedline._program import run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run what the arguments name, and return the exit code.

    Parameters
    ----------
    arguments
        What stands behind ``feedline run``.

    Raises
    ------
    SystemExit
        Whatever the program raises, and for arguments that are not understood.
    """
    options = _parser().parse_args(arguments)
    settings = {
        name: value
        for name, value in vars(options).items()
        if name not in ("program", "arguments", "module") and value is not None
    }
    if not options.module and not os.path.isfile(options.program):  # noqa: PTH113
        return _refuse(f"cannot run {options.program}: there is no such file")
    try:
        from feedline.torch import install
    except ImportError as error:
        return _refuse(f"feedline run needs torch: {error}; pip install torch")
    try:
        install(**settings)
    except ValueError as error:
        return _refuse(str(error))
    # Where this command was found; a program is found beside itself, a module here.
    del sys.path[0]
    if options.module:
        return _exit_code(_run_module, options.program, options.arguments)
    return _exit_code(run_program, options.program, options.arguments)


def _run_module(name: str, arguments: list[str]) -> None:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` has it
    if importlib.util.find_spec(name) is None:
        raise SystemExit(_refuse(f"No module named {name}"))
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _exit_code(program: Callable[[str, list[str]], None], name: str, arguments: list[str]) -> int:
    """Run a program; an exception is told as Python does, without the frames of this command."""
    try:
        program(name, arguments)
    except Exception as error:
        ours = (__file__, _program.__file__, runpy.__file__, "<frozen runpy>")
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in ours:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def _refuse(words: str) -> int:
    sys.stderr.write(f"error: {words}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="feedline run",
        description="Run a program with feedline's DataLoader in the place of torch's.",
        epilog="What stands behind the program is for the program. Exit codes are the program's; 2 "
        "if it cannot be run.",
        allow_abbrev=False,
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    for name in ("worker_mode", "assignment", "on_worker_death", "on_error"):
        _add(parser, name, metavar="WORD")
    _add(parser, "max_errors", type=int, metavar="N")
    _add(parser, "sample_timeout", type=float, metavar="SECONDS")
    _add(parser, "seed", type=int, metavar="N")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    return parser


def _add(parser: argparse.ArgumentParser, name: str, **how: Any) -> None:  # noqa: ANN401
    told = f"{name}= of loaders that do not say otherwise"
    parser.add_argument(f"--{name.replace('_', '-')}", dest=name, help=told, **how)
