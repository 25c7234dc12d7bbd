"""report.md and report.html from their templates, and the files that a run adds to its folder."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from npu_assay.conformance.common.escaped import plain_lines, visible
from npu_assay.conformance.compare.drift import FILE as DRIFT
from npu_assay.conformance.compare.drift import drift_text
from npu_assay.conformance.compare.drift_text import WORDS, counts_text, drift_markdown, place
from npu_assay.conformance.record.levels import JUDGED
from npu_assay.conformance.report.data import CHECKS, Report, sentence
from npu_assay.conformance.report.junit import junit
from npu_assay.conformance.report.matrix import Tally
from npu_assay.conformance.report.svg import lsb_by_row, lsb_histogram, sqnr_plot
from npu_assay.conformance.report.words import LISTED, TRUST_MEANS, cases_text, listed, runs_text, trait_text


class Lines(str):
    """A text of several lines that a template writes as they are: code, or Markdown of our own."""

    __slots__ = ()


def _visible(value: Any) -> Any:
    """What a template writes, without control characters; `safe` is for what this package made."""
    return plain_lines(value) if isinstance(value, Lines) else visible(value)


def _in_markdown(value: Any) -> Any:
    """The same, so that no text of a backend begins an element of HTML."""
    text = _visible(value)
    return text.replace("<", "&lt;") if type(value) is str else text


@lru_cache(maxsize=2)
def _templates(form: str) -> Environment:
    """The templates of "md" or "html" reports."""
    environment = Environment(
        loader=PackageLoader("npu_assay.conformance.report"),
        autoescape=select_autoescape(["html"]),
        finalize=_in_markdown if form == "md" else _visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(cases_text=cases_text, listed=listed, trait_text=trait_text, runs_text=runs_text)
    environment.globals.update(listed_most=LISTED, checks=CHECKS, trust_means=TRUST_MEANS, judged=JUDGED)
    environment.globals.update(words=WORDS, counts_text=counts_text, place=place, lines=Lines)
    environment.globals.update(drift_markdown=drift_markdown)
    return environment


def markdown(report: Report) -> str:
    """The run as Markdown, for a code review or a terminal."""
    return _templates("md").get_template("report.md").render(report=report)


def html(report: Report) -> str:
    """The run as one self-contained HTML file."""
    return (
        _templates("html")
        .get_template("report.html")
        .render(
            report=report,
            nothing=Tally(),
            sentence=sentence,
            lsb=lsb_histogram(report.results),
            lsb_rows=lsb_by_row(report.results),
            sqnr=sqnr_plot(report.results),
        )
    )


def reports(report: Report) -> dict[str, str]:
    """All report files, by name."""
    return {
        DRIFT: drift_text(report.drift),
        "junit.xml": junit(report),
        "report.md": markdown(report),
        "report.html": html(report),
    }
