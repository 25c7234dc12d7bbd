"""report.md and report.html from their templates, and the files that a run adds to its folder."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from conformance.report.data import CHECKS, SIDES, Report, Tally, sentence
from conformance.report.junit import junit
from conformance.report.svg import lsb_histogram, sqnr_plot


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("conformance.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def markdown(report: Report) -> str:
    """The run as Markdown, for a code review or a terminal."""
    return _templates().get_template("report.md").render(report=report, checks=CHECKS, sides=SIDES)


def html(report: Report) -> str:
    """The run as one self-contained HTML file."""
    return (
        _templates()
        .get_template("report.html")
        .render(
            report=report,
            checks=CHECKS,
            nothing=Tally(),
            sentence=sentence,
            lsb=lsb_histogram(report.results),
            sqnr=sqnr_plot(report.results),
        )
    )


def reports(report: Report) -> dict[str, str]:
    """All report files, by name."""
    return {"junit.xml": junit(report), "report.md": markdown(report), "report.html": html(report)}
