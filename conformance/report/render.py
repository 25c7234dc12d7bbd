"""The reports of a run: Markdown, the page, and the other files that a run adds to its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npu_assay.conformance.common.escaped import Lines, visible
from npu_assay.conformance.common.templating import rendered
from npu_assay.conformance.compare.drift import FILE as DRIFT
from npu_assay.conformance.compare.drift import drift_text
from npu_assay.conformance.compare.drift_text import counted_words, counts_text, drift_markdown, place
from npu_assay.conformance.record.levels import JUDGED
from npu_assay.conformance.report.data import CHECKS, Report
from npu_assay.conformance.report.junit import junit
from npu_assay.conformance.report.matrix import Tally
from npu_assay.conformance.report.page.data import as_script, page_data
from npu_assay.conformance.report.page.summary import cases_link, summary
from npu_assay.conformance.report.svg import lsb_by_row, lsb_histogram, sqnr_plot
from npu_assay.conformance.report.words import (
    LISTED,
    TRUST_MEANS,
    runs_text,
    trait_text,
    variation_lines,
)

if TYPE_CHECKING:
    from npu_assay.conformance.report.page.changes import Since

SHARED: dict[str, Any] = {
    "checks": CHECKS,
    "judged": JUDGED,
    "lines": Lines,
    "listed_most": LISTED,
    "runs_text": runs_text,
    "trait_text": trait_text,
    "trust_means": TRUST_MEANS,
    "variation_lines": variation_lines,
}
"""Names that both templates know."""


def _in_markdown(value: Any) -> Any:
    """A text in which no text of a backend begins an element of HTML."""
    text = visible(value)
    return text.replace("<", "&lt;") if type(value) is str else text


def markdown(report: Report) -> str:
    """The run as Markdown, for a code review or a terminal."""
    return rendered("report", "report.md", _in_markdown, report=report, drift_markdown=drift_markdown, **SHARED)


def html(report: Report, since: Since | None = None) -> str:
    """The run as one self-contained HTML file. since: what is new, where the run is compared with an earlier one."""
    waived = {failure.result.case for failure in report.failures if failure.waived}
    return rendered(
        "report.page",
        "report.html",
        script="report.js",
        report=report,
        since=since,
        waived=waived,
        summary=summary(report.results, waived),
        data=as_script(page_data(report, {} if since is None else since.marks)),
        nothing=Tally(),
        lsb=lsb_histogram(report.results),
        lsb_rows=lsb_by_row(report.results),
        sqnr=sqnr_plot(report.results),
        cases_link=cases_link,
        counts_text=counts_text,
        place=place,
        counted_words=counted_words,
        **SHARED,
    )


def reports(report: Report) -> dict[str, str]:
    """All report files, by name."""
    return {
        DRIFT: drift_text(report.drift),
        "junit.xml": junit(report),
        "report.md": markdown(report),
        "report.html": html(report),
    }
