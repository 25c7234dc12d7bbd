"""The page from its template: what it writes is escaped and free of control characters, and nothing else runs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment
from markupsafe import Markup

from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.common.templating import add_script, html_templates
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.report.matrix import Tally
from npu_assay.conformance.report.page.data import as_script, page_data
from npu_assay.conformance.report.page.summary import cases_link, summary
from npu_assay.conformance.report.svg import lsb_by_row, lsb_histogram, sqnr_plot
from npu_assay.conformance.report.templating import GLOBALS, shown

if TYPE_CHECKING:
    from npu_assay.conformance.report.page.changes import Since


def html(report: Report, since: Since | None = None) -> str:
    """The run as one self-contained HTML file. since: what is new, where the run is compared with an earlier one."""
    waived = {failure.result.case for failure in report.failures if failure.waived}
    return (
        _templates()
        .get_template("report.html")
        .render(
            report=report,
            since=since,
            waived=waived,
            summary=summary(report.results, waived),
            data=as_script(page_data(report, {} if since is None else since.marks)),
            nothing=Tally(),
            lsb=lsb_histogram(report.results),
            lsb_rows=lsb_by_row(report.results),
            sqnr=sqnr_plot(report.results),
        )
    )


@cache
def _templates() -> Environment:
    environment = html_templates("report.page", shown=shown)
    assert environment.loader is not None
    style = environment.loader.get_source(environment, "report.css")[0]
    environment.globals.update(GLOBALS)
    environment.globals.update(counted=counted, cases_link=cases_link, style=Markup(style))
    add_script(environment, "report.js")
    return environment
