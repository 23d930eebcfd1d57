"""Runs the examples of one page: ``python page.py PAGE.md``, in the folder that they may fill.

All blocks of a page run in one namespace, one after the other, as a reader would type them. The
word behind the language says what a block is:

* ```` ```python ````: runs.
* ```` ```python not-run ````: code of another package, shown beside ours; it must be valid Python.
* ```` ```text output ````: what the block before it has printed; ``…`` stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("body")) + 1
        indent = len(fence["indent"])
        body = "".join(row[indent:] for row in fence["body"].splitlines(keepends=True))
        found.append(Block(page, line, fence["info"].strip(), body))
    return found


def compiled(block: Block) -> object:
    """Compile a block, so that errors name the page and its line."""
    return compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")


def run(page: Path) -> None:
    """Run a page; raise what its first wrong block raises."""
    # As in a script: what it defines is `__main__`'s, and nothing else is there.
    sys.modules["__main__"] = script = types.ModuleType("__main__")
    names = vars(script)
    printed = ""
    for block in blocks(page):
        if block.kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compiled(block), names)  # noqa: S102 - our own documentation
            printed = out.getvalue()
            sys.stdout.write(printed)
        elif block.kind == "text output":
            check(block, printed)


def check(block: Block, printed: str) -> None:
    """Raise unless the block shows what was printed."""
    shown = ".*?".join(re.escape(part) for part in block.text.strip().split("…"))
    if not re.fullmatch(shown, printed.strip(), re.DOTALL):
        msg = f"{block} shows\n{block.text}\nbut this was printed:\n{printed}"
        raise AssertionError(msg)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
