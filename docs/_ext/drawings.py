"""The directive ``drawing``: an SVG file put into the page itself.

An image in a page of its own cannot follow the page's switch between light and dark. A drawing can:
its colours are the variables of `_static/feedline.css`.
"""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Drawing(SphinxDirective):
    """Put a drawing here; its argument is a file name relative to the page."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a figure with the drawing and, below it, the directive's text."""
        relative, absolute = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(relative)
        svg = Path(absolute).read_text(encoding="utf-8")
        figure = nodes.container(classes=["drawing"])
        figure += nodes.raw("", svg, format="html")
        if self.content:
            caption = nodes.container(classes=["drawing-caption"])
            self.state.nested_parse(self.content, self.content_offset, caption)
            figure += caption
        return [figure]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
