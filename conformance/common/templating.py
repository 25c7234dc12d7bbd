"""The environment that pages are rendered in: every value is made visible, and escaped where the page is HTML."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from npu_assay.conformance.common.escaped import visible


def html_templates(*parts: str, shown: Callable[[Any], Any] = visible) -> Environment:
    """An environment for HTML with the templates of these parts of `conformance`, the first that has one first.

    shown: what is written of a value, before it is escaped; without control characters, unless told otherwise.
    """
    return _templates(parts, shown, escaped=True)


def add_script(environment: Environment, name: str) -> None:
    """Give templates a page's `script`, and the `policy` with which no other one runs: the browser sees to it.

    Nothing is loaded or sent.
    """
    assert environment.loader is not None
    script = environment.loader.get_source(environment, name)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
    environment.globals.update(script=Markup(script), policy=policy)


def text_templates(part: str, shown: Callable[[Any], Any] = visible) -> Environment:
    """The environment for a page that is not HTML, with the templates of one part."""
    return _templates((part,), shown, escaped=False)


def _templates(parts: tuple[str, ...], shown: Callable[[Any], Any], escaped: bool) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(f"npu_assay.conformance.{part}") for part in parts]),
        autoescape=escaped,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
