"""junit.xml: one suite per operator, one test case per case. An unspecified case counts as skipped.

One on which the goldens disagree is an error, which is not the backend's failure.
"""

from __future__ import annotations

from xml.etree import ElementTree

from npu_assay.conformance.record.levels import named
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.report.data import FailedCase, Report
from npu_assay.conformance.report.matrix import Tally


def junit(report: Report) -> str:
    """The whole run as JUnit XML."""
    root = ElementTree.Element("testsuites", name=named(report.title, report.certificate.level))
    failed = {failure.result.case: failure for failure in report.failures}
    for row, tally in report.rows:
        if tally.cases:
            suite = ElementTree.SubElement(root, "testsuite", {"name": row, **_counts(tally)})
            properties = ElementTree.SubElement(suite, "properties")
            for name, value in (("trust", report.certificate.trust), ("level", report.certificate.level)):
                ElementTree.SubElement(properties, "property", name=name, value=value)
            for result in report.results:
                if result.row == row:
                    _case(suite, result, failed.get(result.case))
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n' + _printable(ElementTree.tostring(root, encoding="unicode")) + "\n"
    )


def _counts(tally: Tally) -> dict[str, str]:
    counts = {"tests": tally.cases, "failures": tally.failed, "skipped": tally.unspecified}
    undecided = {"errors": tally.undecided} if tally.undecided else {}
    return {name: str(count) for name, count in (counts | undecided).items()}


def _case(suite: ElementTree.Element, result: CaseResult, failure: FailedCase | None) -> None:
    name = result.case.removeprefix(f"{result.row}/")
    case = ElementTree.SubElement(suite, "testcase", classname=result.row, name=name)
    if failure is not None:
        messages = [f"[{f.check}] {f.message}" for f in result.failures]
        kind = "error" if result.status == "undecided" else "failure"
        found = ElementTree.SubElement(case, kind, message=messages[0])
        found.text = "\n".join([*messages, failure.asked, failure.sentence, failure.command])
    elif result.status == "unspecified":
        ElementTree.SubElement(case, "skipped", message=f"the table is silent; the backend says {result.verdict}")


def _printable(text: str) -> str:
    """XML 1.0 has no way to write most control characters."""
    return "".join(c if c >= " " or c in "\t\n\r" else "?" for c in text)
