"""GitHub Actions: annotations of what is wrong, and a summary of the job. A step shows ten errors and drops others."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from npu_assay.conformance.ci.annotation import annotation, running
from npu_assay.conformance.common.escaped import counted, listed, plain
from npu_assay.conformance.common.markup import code, markdown_table
from npu_assay.conformance.common.toml import LARGEST
from npu_assay.conformance.record.folder import writing
from npu_assay.conformance.record.waivers import Waiver, grouped
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.report.findings import Finding
from npu_assay.files import read_regular

SUMMARY, WORKSPACE = "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"
MOST = 9  # annotations of a kind: with the one that counts the rest, GitHub's ten
SHOWN = 20  # findings in a summary
SOON = datetime.timedelta(days=14)  # before a waiver ends


def tell(
    report: Report, folder: Path, table: Path, environment: Mapping[str, str], waivers: Path | None = None
) -> tuple[str, ...]:
    """Append the summary that the job asks for; returns the lines with annotations, which go to stdout.

    table: the file that promises; waivers: that of the known failures, if one was given. Nothing is done outside of
    GitHub Actions. Raises PackageError when the summary cannot be written.
    """
    if not running(environment):
        return ()
    if path := environment.get(SUMMARY):
        with writing(Path(path)), Path(path).open("a", encoding="utf-8") as file:
            file.write(summary(report, folder))
    return tuple(annotated(report, table, environment.get(WORKSPACE, ""), waivers))


def annotated(report: Report, table: Path, workspace: str = "", waivers: Path | None = None) -> Iterator[str]:
    """One error for each finding, at the line of the table that promises the operator, and for each objection.

    Objections to waivers stand at the case's line of `waivers`. Both kinds take turns; the rest is counted.
    Waivers that will end soon are warnings.
    """
    file = _file(table, workspace)
    turns = zip_longest(report.findings, _objections(report))
    errors = [each for both in turns for each in both if each is not None]
    for each in errors[:MOST]:
        if isinstance(each, Finding):
            yield _error(report, _text(report, each), file, _line(table, _key(each.where[0][0])))
        elif (waiver := _waiver(report, each)) is None:
            yield _error(report, plain(each), file)
        else:
            yield _error(report, plain(each), *_place(waiver, waivers, workspace))
    if (rest := len(errors) - MOST) > 0:
        yield _error(report, f"and {rest} more, see the report", file)
    yield from _ending(report, waivers, workspace)


def _ending(report: Report, path: Path | None, workspace: str) -> Iterator[str]:
    """A warning for used waivers that end soon after the run, those of one reason, owner and day together."""
    last = datetime.date.fromisoformat(report.certificate.made) + SOON
    ending = [group for group in _used(report) if group[0].expires <= last]
    for group in ending[:MOST]:
        one, cases = group[0], counted(len(group), "case")
        text = plain(f"the waiver of {one.owner} for {cases} ends on {one.expires}: {one.reason}")
        yield annotation(
            "warning", plain(report.title), f"{text}\nexample: {plain(one.case)}", *_place(one, path, workspace)
        )
    if (rest := len(ending) - MOST) > 0:
        yield annotation(
            "warning", plain(report.title), f"and {counted(rest, 'more waiver')} that will end, see the summary"
        )


def _used(report: Report) -> tuple[tuple[Waiver, ...], ...]:
    """The waivers of cases that fail and are waived."""
    waived = {failure.result.case for failure in report.failures if failure.waived}
    return grouped(waiver for waiver in report.certificate.waivers if waiver.case in waived)


def _objections(report: Report) -> Iterator[str]:
    """What speaks against a run besides its findings."""
    certificate = report.certificate
    for text in certificate.objections:
        if text != certificate.selection.objection and (not report.findings or _waiver(report, text)):
            yield text


def _waiver(report: Report, objection: str) -> Waiver | None:
    """The waiver that an objection is about."""
    return next((each for each in report.certificate.waivers if objection.startswith(f"{each.name} ")), None)


def _place(waiver: Waiver, path: Path | None, workspace: str) -> tuple[str, int]:
    """The file of a waiver and its case's line there; no file where none was given, as to `assay merge`."""
    if path is None:
        return "", 0
    return _file(path, workspace), _line(path, rf"""case\s*=\s*(["']){re.escape(waiver.case)}\1""")


def _error(report: Report, text: str, file: str, line: int = 0) -> str:
    return annotation("error", plain(report.title), text, file, line)


def _text(report: Report, finding: Finding) -> str:
    first = report.first(finding)
    return "\n".join(
        [
            plain(f"{finding.symptom.what}: {counted(len(finding.cases), 'case')}"),
            plain(f"where: {listed([row for row, _, _ in finding.where])}"),
            plain(f"example: {first.result.case}"),
            *map(plain, map(str, first.result.failures)),
            plain(f"again: {first.command}"),
        ]
    )


def _file(path: Path, workspace: str) -> str:
    """A file's path from the top of the checkout, as annotations name files."""
    inside = os.path.relpath(path, workspace) if workspace else str(path)
    return str(path) if inside.startswith("..") else inside


def _key(row: str) -> str:
    """The pattern of how a row begins in a table's file."""
    return rf"""(\[\s*operators\s*\.\s*)?(["']){re.escape(row)}\2\s*[=\]]"""


def _line(path: Path, pattern: str) -> int:
    """The first line of a file that begins as a pattern says, from 1; 0 where none does."""
    try:
        lines = read_regular(path, LARGEST).decode().splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    found = re.compile(rf"\s*{pattern}")
    return next((number for number, line in enumerate(lines, 1) if found.match(line)), 0)


def summary(report: Report, folder: Path) -> str:
    """The job's summary, in Markdown."""
    return "\n".join(_summary(report, folder)) + "\n\n"


def _summary(report: Report, folder: Path) -> Iterator[str]:
    certificate = report.certificate
    yield f"### {report.verdict[:1].upper()}{report.verdict[1:]}: {code(report.title)}"
    yield ""
    yield markdown_table(certificate.counts, [certificate.counts.values()], " --: |")
    yield ""
    yield from (f"- {code(text)}" for text in certificate.objections)
    yield from _waived(report)
    for finding in report.findings[:SHOWN]:
        yield from _finding(report, finding)
    if len(report.findings) > SHOWN:
        yield f"\n... and {counted(len(report.findings) - SHOWN, 'more finding')}."
    yield f"\nReport: {code(str(folder / 'report.html'))}"


def _waived(report: Report) -> Iterator[str]:
    """What is waived: why, by whom and until when."""
    if used := _used(report):
        yield from ("", "| waived | checks | reason | owner | last day |", "|--:|---|---|---|---|")
    for group in used:
        checks = code(", ".join(dict.fromkeys(check for waiver in group for check in waiver.checks)))
        one = group[0]
        yield f"| {counted(len(group), 'case')} | {checks} | {code(one.reason)} | {code(one.owner)} | {one.expires} |"


def _finding(report: Report, finding: Finding) -> Iterator[str]:
    first = report.first(finding)
    yield f"\n**{counted(len(finding.cases), 'case')}** {code(finding.symptom.what)}"
    yield ""
    yield from (f"- {code(row)}: {failing} of {cases}" for row, failing, cases in finding.where[:MOST])
    yield f"- example {code(first.result.case)}"
    yield from (f"- {failure.check}: {code(failure.message)}" for failure in first.result.failures)
    yield f"- again {code(first.command)}"
