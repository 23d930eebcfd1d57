"""The directive ``versions``: the packages that the tests run with, as the lock file pins them."""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

LOCK = Path(__file__).parents[2] / "requirements" / "dev.txt"


class Versions(SphinxDirective):
    """A table of packages, which are the directive's lines, and their pinned versions."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        self.env.note_dependency(str(LOCK))
        pins = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK.read_text("utf-8"), re.MULTILINE))
        rows = ["| package | version |", "| --- | --- |"]
        rows += [f"| {package} | {pins[package]} |" for package in self.content]
        table = nodes.container()
        self.state.nested_parse(StringList(rows, "versions"), self.content_offset, table)
        return [table]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("versions", Versions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
