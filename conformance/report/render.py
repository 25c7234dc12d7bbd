"""report.md from its template, and the files that a run adds to its folder."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment

from npu_assay.conformance.common.templating import text_templates
from npu_assay.conformance.compare.drift import FILE as DRIFT
from npu_assay.conformance.compare.drift import drift_text
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.report.junit import junit
from npu_assay.conformance.report.page import html as html
from npu_assay.conformance.report.templating import GLOBALS, shown


def _in_markdown(value: Any) -> Any:
    """A text in which no text of a backend begins an element of HTML."""
    text = shown(value)
    return text.replace("<", "&lt;") if type(value) is str else text


@cache
def _templates() -> Environment:
    environment = text_templates("report", _in_markdown)
    environment.globals.update(GLOBALS)
    return environment


def markdown(report: Report) -> str:
    """The run as Markdown, for a code review or a terminal."""
    return _templates().get_template("report.md").render(report=report)


def reports(report: Report) -> dict[str, str]:
    """All report files, by name."""
    return {
        DRIFT: drift_text(report.drift),
        "junit.xml": junit(report),
        "report.md": markdown(report),
        "report.html": html(report),
    }
