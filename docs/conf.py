"""Sphinx settings: prose in Markdown, the Python API from numpydoc-style docstrings."""

from importlib import metadata

project = "feedline"
author = "The feedline authors"
copyright = "The feedline authors"  # noqa: A001 (Sphinx reads this name)
release = metadata.version("feedline")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown"}
# ARCHITECTURE.md and its neighbours link to files of the repository, which are no pages here.
suppress_warnings = ["myst.xref_missing"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"feedline {release}"

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
