"""The site of these pages: `sphinx-build -W docs OUT`. Every link within it is checked while it is built."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from npu_assay import __version__

project = "npu-assay"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
smartquotes = False  # two dashes are an option's
default_role = "code"  # docstrings have code between single backticks
html_theme = "furo"
html_title = f"npu-assay {__version__}"
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 4
autodoc_typehints = "none"
autodoc_default_options = {"undoc-members": False}


def flush_left(app: Sphinx, what: str, name: str, about: object, options: Any, lines: list[str]) -> None:
    """Docstrings are plain paragraphs: an indented line goes on with the one before it, and is no quotation."""
    lines[:] = [line.strip() for line in lines]


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", flush_left)
