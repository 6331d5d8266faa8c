"""Sphinx's settings for the documentation site; `python -m docs.site` stages the sources and runs Sphinx with them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT)]

import oneloop  # noqa: E402 - found through the path above

project = "oneloop"
author = "the authors of oneloop"
version = release = oneloop.__version__
project_copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs.site.docstrings",
    "docs.site.stubs",
]
root_doc = "index"
highlight_language = "none"  # a code block without a language is text

# Markdown. Anchors are those that code hosts make: the heading in lower case, with hyphens.
myst_heading_anchors = 4

# API reference.
napoleon_use_ivar = True  # dataclasses list their attributes in the docstring: do not describe them twice
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": True}
python_maximum_signature_line_length = 100
suppress_warnings = ["ref.python"]  # several modules export the same class: an annotation may lead to any of them

html_theme = "furo"
html_title = "oneloop"
html_static_path = [str(Path(__file__).with_name("static"))]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
