"""Sphinx settings: prose in Markdown, the Python API from numpydoc-style docstrings."""

import sys
from importlib import metadata
from inspect import getattr_static
from pathlib import Path

from sphinx.application import Sphinx

import feedline.measure
import feedline.model
import feedline.ray
import feedline.stats
import feedline.torch
from feedline.image_operations import ImageOperations

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "feedline"
author = "The feedline authors"
copyright = "The feedline authors"  # noqa: A001 (Sphinx reads this name)
release = metadata.version("feedline")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    # Our own, in _ext.
    "drawings",
    "names",
    "versions",
]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_*", "inventories"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Every name in a docstring or page must lead somewhere, or be listed here.
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"(feedline\.torch\.\w+\.)?T(_co)?"),  # type variables
    ("py:class", "Pixels"),  # an array of bytes
    ("py:.*", r"(feedline\.(ray\.)?loader\.)?Batch"),
    ("py:class", "ray.data.Dataset"),  # whose pages are not among the inventories
    ("py:class", "BaseContext"),  # multiprocessing's, which has no page of its own
]

# ---- the reference: one page per object


def told_about(kind: type) -> dict[str, list[str]]:
    """Return the names that a class's page tells about: those that feedline gives it."""
    # What every pipeline can do is told on the page of Pipeline, what is done to images on that of
    # Images, wherever it is defined.
    told_elsewhere: set[str] = set()
    if kind is feedline.Pipeline:
        told_elsewhere = {name for base in ImageOperations.__mro__[:-1] for name in vars(base)}
    elif kind is feedline.Images:
        told_elsewhere = {*vars(feedline.Pipeline)} - {*vars(feedline.Images)}
    ours = [base for base in kind.__mro__ if base.__module__.startswith("feedline")]
    names = dict.fromkeys(name for base in ours for name in vars(base) if name[0] != "_")
    found: dict[str, list[str]] = {"properties": [], "methods": []}
    for name in names:
        if name not in told_elsewhere:
            # Plain attributes are told in the docstring.
            if isinstance(getattr_static(kind, name), property):
                found["properties"].append(name)
            elif callable(getattr(kind, name)):
                found["methods"].append(name)
    return found


# The modules of the reference; each says itself what is public.
modules = [
    feedline,
    feedline.errors,
    feedline.measure,
    feedline.model,
    feedline.ray,
    feedline.stats,
    feedline.torch,
]
autosummary_generate = True
autosummary_context = {
    "told_about": {
        f"{module.__name__}.{name}": told_about(value)
        for module in modules
        for name, value in vars(module).items()
        if name in module.__all__ and isinstance(value, type)
    }
}
# File systems that do not tell case apart hold the class and the function in one folder.
autosummary_filename_map = {
    f"{module.__name__}.{name}": f"{module.__name__}.{name}-class"
    for module in modules
    for name in module.__all__
    if name != name.lower() and name.lower() in module.__all__
}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "name"


def setup(app: Sphinx) -> None:
    """Hide how pipelines are made inside: users call functions for it."""
    app.connect("autodoc-process-signature", without_constructor)


MADE_BY_FUNCTIONS = (feedline.Gallery, feedline.Images, feedline.Pipeline)


def without_constructor(
    app: Sphinx, what: str, name: str, value: object, *rest: object
) -> tuple[str, None] | None:
    """Return an empty signature for classes that users do not make themselves."""
    del app, what, name, rest
    return ("", None) if value in MADE_BY_FUNCTIONS else None


# ---- names of other projects: small lists of our own, so that a build needs no network

inventories = Path(__file__).parent / "inventories"
intersphinx_mapping = {
    project: (url, str(inventories / f"{project}.inv"))
    for project, url in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "torch": "https://docs.pytorch.org/docs/stable/",
        "torchvision": "https://docs.pytorch.org/vision/stable/",
    }.items()
}

# ---- the look

html_theme = "furo"
html_title = "feedline"
html_static_path = ["_static"]
html_css_files = ["feedline.css"]
html_favicon = "_static/logo.svg"
html_logo = "_static/logo.svg"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1d4fd7",
        "color-brand-content": "#1d4fd7",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7fb0ff",
        "color-brand-content": "#7fb0ff",
    },
}
# The button copies what is to be typed, without prompts.
copybutton_exclude = ".linenos, .gp, .go"
