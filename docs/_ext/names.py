"""Links from names in the text to their pages.

In Markdown a name is code, as everywhere: `feedline.Loader`, `loader.stats()`. Where there is a
page of it, here or in the documentation of torch, torchvision, NumPy and Python, it becomes a link.
In docstrings, where the default role is `name`, likewise. A name that begins with ``feedline.``
and has no page is a warning, so that no page speaks of what is not there any more.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxRole

DOTTED = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(.*\))?$", re.DOTALL)

# Names of variables that pages use for objects of one class.
VARIABLES = {
    "Images": "feedline.Images",
    "Loader": "feedline.Loader",
    "Pipeline": "feedline.Pipeline",
    "images": "feedline.Images",
    "loader": "feedline.Loader",
    "np": "numpy",
    "pipeline": "feedline.Pipeline",
}

# Names as annotations spell them, and those under which they are documented.
ALIASES = {
    "ArrayLike": "numpy.typing.ArrayLike",
    "Dataset": "torch.utils.data.Dataset",
    "Sampler": "torch.utils.data.Sampler",
    "numpy.random._generator.Generator": "numpy.random.Generator",
}


def reference(text: str, target: str, env: BuildEnvironment) -> addnodes.pending_xref:
    """Return a link to be resolved once all pages are read."""
    link = addnodes.pending_xref(
        "", refdomain="py", reftype="obj", reftarget=target, refdoc=env.docname, refexplicit=True
    )
    link["py:module"] = env.ref_context.get("py:module")
    link["py:class"] = env.ref_context.get("py:class")
    link["may_fail"] = not target.startswith("feedline.")
    link += nodes.literal(text, text, classes=["xref", "py", "py-obj"])
    return link


class Name(SphinxRole):
    """Text in single backquotes within a docstring."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return a link if it can be a name, else code."""
        found = DOTTED.match(self.text)
        if found or self.text.isidentifier():
            target = found["name"] if found else self.text
            first, _, rest = target.partition(".")
            if rest and first in {"Images", "Loader", "Pipeline"}:
                target = f"feedline.{target}"
            return [reference(self.text, target, self.env)], []
        return [nodes.literal(self.text, self.text)], []


class LinkNames(SphinxTransform):
    """Make links of code in the text that is a dotted name."""

    default_priority = 400

    def apply(self) -> None:
        """Replace the nodes."""
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, (nodes.reference, addnodes.pending_xref)):
                continue
            found = DOTTED.match(node.astext())
            if found is None:
                continue
            first, _, rest = found["name"].partition(".")
            target = f"{VARIABLES.get(first, first)}.{rest}"
            if first in VARIABLES or first in {"feedline", "numpy", "torch", "torchvision"}:
                link = reference(node.astext(), target, self.env)
                link["may_fail"] = first != "feedline"
                node.replace_self(link)


def by_its_name(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element
) -> None:
    """Have intersphinx look for the documented name."""
    del app, env, content
    name = node["reftarget"]
    for short, module in (("np.", "numpy."), ("npt.", "numpy.typing.")):
        if name.startswith(short):
            name = module + name.removeprefix(short)
    node["reftarget"] = ALIASES.get(name, name)


def as_code(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Leave a name without a page as the code it is."""
    del app, env
    return content if node.get("may_fail") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the role, the transform, and what is done with names that lead nowhere."""
    app.add_role("name", Name())
    app.add_transform(LinkNames)
    # Before and after intersphinx, which knows the names of other projects.
    app.connect("missing-reference", by_its_name, priority=400)
    app.connect("missing-reference", as_code, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
