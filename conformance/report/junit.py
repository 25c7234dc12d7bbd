"""junit.xml: one suite per operator, one test case per case. Unspecified and waived cases count as skipped.

One in which the suite is at fault is an error, which is not the backend's failure. Where no case fails but the run has
not passed, as with waivers that have expired, a suite `certificate` fails once for each reason.
"""

from __future__ import annotations

from xml.etree import ElementTree

from npu_assay.conformance.common.escaped import plain_lines
from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.levels import named
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.report.data import FailedCase, Report


def junit(report: Report) -> str:
    """The whole run as JUnit XML."""
    root = ElementTree.Element("testsuites", name=named(report.title, report.certificate.level))
    failed = {failure.result.case: failure for failure in report.failures}
    waivers = {waiver.case: waiver for waiver in report.certificate.waivers}
    for row, tally in report.rows:
        if tally.cases:
            suite = _suite(root, row, report.certificate)
            for result in report.results:
                if result.row == row:
                    _case(suite, result, failed.get(result.case), waivers.get(result.case))
    if not report.certificate.passed and all(failure.waived for failure in report.failures):
        suite = _suite(root, "certificate", report.certificate)
        for objection in report.certificate.reservations:
            case = ElementTree.SubElement(suite, "testcase", classname="certificate", name=objection)
            ElementTree.SubElement(case, "failure", message=objection)
    for suite in root:
        _count(suite)
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n' + plain_lines(ElementTree.tostring(root, encoding="unicode")) + "\n"
    )


def _suite(root: ElementTree.Element, name: str, certificate: Certificate) -> ElementTree.Element:
    suite = ElementTree.SubElement(root, "testsuite", name=name)
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (("trust", certificate.trust), ("level", certificate.level)):
        ElementTree.SubElement(properties, "property", name=key, value=value)
    return suite


def _count(suite: ElementTree.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for kind, key in (("failure", "failures"), ("skipped", "skipped"), ("error", "errors")):
        count = sum(case.find(kind) is not None for case in cases)
        if count or kind != "error":
            suite.set(key, str(count))


def _case(suite: ElementTree.Element, result: CaseResult, failure: FailedCase | None, waiver: Waiver | None) -> None:
    name = result.case.removeprefix(f"{result.row}/")
    case = ElementTree.SubElement(suite, "testcase", classname=result.row, name=name)
    if failure is not None:
        messages = list(map(str, result.failures))
        kind, message = "error" if result.status == "undecided" else "failure", messages[0]
        if failure.waived and waiver is not None:  # a reader of JUnit knows no waivers: red is what is not waived
            kind, message = "skipped", f"waived until {waiver.expires} by {waiver.owner}: {waiver.reason}"
        found = ElementTree.SubElement(case, kind, message=message)
        found.text = "\n".join([*messages, failure.asked, failure.sentence, failure.command])
    elif result.status == "unspecified":
        ElementTree.SubElement(case, "skipped", message=f"the table is silent; the backend says {result.verdict}")
