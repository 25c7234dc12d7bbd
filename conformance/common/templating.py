"""Pages and texts from templates: every value is made visible, and escaped where the page is HTML."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from npu_assay.conformance.common.escaped import counted, listed, visible
from npu_assay.conformance.common.memory import keep

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a page may do: nothing is loaded or sent, and no script runs but its own. The browser sees to it."""


def rendered(part: str, name: str, shown: Callable[[Any], Any] = visible, script: str = "", **values: Any) -> str:
    """A template of a part of `conformance`, or of what all parts share, with these values.

    shown: what is written of a value, before it is escaped; without control characters, unless told otherwise.
    script: the file of the page's own script.
    """
    environment = _environment(part, shown, name.endswith(".html"), script)
    return environment.get_template(name).render(values)


@keep(64)
def _environment(part: str, shown: Callable[[Any], Any], escaped: bool, script: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(f"npu_assay.conformance.{each}") for each in (part, "common")])
    environment = Environment(
        loader=loader,
        autoescape=escaped,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = loader.get_source(environment, script)[0] if script else ""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    own = f"; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" if script else ""
    environment.globals.update(counted=counted, listed=listed, script=Markup(text), policy=POLICY + own)
    return environment
