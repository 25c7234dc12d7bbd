"""The environment that pages are rendered in: every value is escaped, and no control character is left."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from npu_assay.conformance.common.escaped import visible


def html_templates(*parts: str) -> Environment:
    """An environment with the templates of these parts of `conformance`, the first that has one first."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(f"npu_assay.conformance.{part}") for part in parts]),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
