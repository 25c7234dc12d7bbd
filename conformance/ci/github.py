"""GitHub Actions: annotations of what is wrong, and a summary of the job.

The rules of workflow commands are GitHub's: `::error file=F,line=N,title=T::MESSAGE`, in which `%`, carriage return and
newline of a message are written %25, %0D and %0A, and in properties also `:` and `,`, %3A and %2C. A step shows ten
errors; what follows them is dropped. An older form, `##[error]MESSAGE`, is a command
anywhere in a line: `plain` escapes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from npu_assay.conformance.common.escaped import counted, plain
from npu_assay.conformance.common.markup import code
from npu_assay.conformance.record.folder import writing
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.report.findings import Finding
from npu_assay.conformance.report.words import cases_text, listed

RUNNING, SUMMARY, WORKSPACE = "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"
MOST = 9  # findings annotated: with the one that counts the rest, GitHub's ten
SHOWN = 20  # findings in a summary


def message(text: str) -> str:
    """The message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def value(text: str) -> str:
    """A property of one."""
    return message(text).replace(":", "%3A").replace(",", "%2C")


def tell(report: Report, folder: Path, table: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Append the summary that the job asks for; returns the lines with annotations, which go to stdout.

    table: the file that promises. Nothing is done outside of GitHub Actions. Raises PackageError when the summary
    cannot be written.
    """
    if environment.get(RUNNING) != "true":
        return ()
    if path := environment.get(SUMMARY):
        with writing(Path(path)), Path(path).open("a", encoding="utf-8") as file:
            file.write(summary(report, folder))
    return tuple(annotated(report, table, environment.get(WORKSPACE, "")))


def annotated(report: Report, table: Path, workspace: str = "") -> Iterator[str]:
    """One error for each finding, at the line of the table that promises the operator; the rest is counted."""
    if not report.findings:
        yield from (_error(report, text, _file(table, workspace)) for text in _objections(report))
        return
    file = _file(table, workspace)
    for finding in report.findings[:MOST]:
        yield _error(report, _text(report, finding), file, _line(table, finding.where[0][0]))
    if (rest := len(report.findings) - MOST) > 0:
        yield _error(report, f"and {counted(rest, 'more finding')}, see the report", file)


def _objections(report: Report) -> tuple[str, ...]:
    """What speaks against a run in which no case fails."""
    return () if report.certificate.passed else report.certificate.objections


def _error(report: Report, text: str, file: str, line: int = 0) -> str:
    place = f"file={value(file)}," + (f"line={line}," if line else "")
    return f"::error {place}title={value(plain(report.title))}::{message(text)}"


def _text(report: Report, finding: Finding) -> str:
    first = report.first(finding)
    return "\n".join(
        [
            plain(f"{finding.symptom.what}: {cases_text(len(finding.cases))}"),
            plain(f"where: {listed([row for row, _, _ in finding.where])}"),
            plain(f"example: {first.result.case}"),
            *(plain(f"[{failure.check}] {failure.message}") for failure in first.result.failures),
            plain(f"again: {first.command}"),
        ]
    )


def _file(table: Path, workspace: str) -> str:
    """The table's path from the top of the checkout, as annotations name files."""
    inside = os.path.relpath(table, workspace) if workspace else str(table)
    return str(table) if inside.startswith("..") else inside


def _line(table: Path, row: str) -> int:
    """The line of a row in the table's file, from 1; 0 where it has none."""
    try:
        lines = table.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    key = re.compile(rf"""\s*(\[\s*operators\s*\.\s*)?(["']){re.escape(row)}\2\s*[=\]]""")
    return next((number for number, line in enumerate(lines, 1) if key.match(line)), 0)


def summary(report: Report, folder: Path) -> str:
    """The job's summary, in Markdown."""
    return "\n".join(_summary(report, folder)) + "\n\n"


def _summary(report: Report, folder: Path) -> Iterator[str]:
    certificate = report.certificate
    yield f"### {report.verdict[:1].upper()}{report.verdict[1:]}: {code(report.title)}"
    yield ""
    yield "| " + " | ".join(certificate.counts) + " |"
    yield "|" + " --: |" * len(certificate.counts)
    yield "| " + " | ".join(map(str, certificate.counts.values())) + " |"
    yield ""
    yield from (f"- {code(text)}" for text in certificate.objections)
    for finding in report.findings[:SHOWN]:
        yield from _finding(report, finding)
    if len(report.findings) > SHOWN:
        yield f"\n... and {counted(len(report.findings) - SHOWN, 'more finding')}."
    yield f"\nReport: {code(str(folder / 'report.html'))}"


def _finding(report: Report, finding: Finding) -> Iterator[str]:
    first = report.first(finding)
    yield f"\n**{cases_text(len(finding.cases))}** {code(finding.symptom.what)}"
    yield ""
    yield from (f"- {code(row)}: {failing} of {cases}" for row, failing, cases in finding.where[:MOST])
    yield f"- example {code(first.result.case)}"
    yield from (f"- {failure.check}: {code(failure.message)}" for failure in first.result.failures)
    yield f"- again {code(first.command)}"
