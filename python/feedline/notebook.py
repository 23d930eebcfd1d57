"""Progress in a notebook: a bar in the output of the cell, drawn anew in its place."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NotebookBar", "begin", "is_here"]


def is_here() -> bool:
    """Whether this is the kernel of a notebook, rather than a terminal or a program."""
    # Whoever runs in a kernel has imported it.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar and the figures beside it, as a notebook shows it.

    Parameters
    ----------
    done, count
        Batches so far, and in all, if that is known.
    text
        The figures.
    """

    def __init__(self, done: int, count: int | None, text: str) -> None:
        self.done = done
        self.count = count
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        if self.count is None:
            return f"<div>{self.text}</div>"
        bar = f'<progress value="{self.done}" max="{max(self.count, 1)}"></progress>'
        return f"<div>{bar} <span>{self.text}</span></div>"


def begin(count: int | None) -> Callable[[int, str, bool], None]:
    """Show an empty bar for so many batches, and return what draws it anew.

    By IPython's own displays, which every front end has, and not by widgets, which need an
    extension that fits and show nothing without it.
    """
    # By name: a package without annotations, where it is installed at all.
    ipython: Any = importlib.import_module("IPython.display")
    handle = ipython.display(NotebookBar(0, count, "waiting for the first batch"), display_id=True)

    def show(done: int, text: str, over: bool) -> None:
        del over  # the text says so
        handle.update(NotebookBar(done, count, text))

    return show
