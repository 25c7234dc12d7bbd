"""Reports of runs that are over, from the files that they left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.compare.difference import compare, read_run, run_of
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.names import FUZZ, Contents, PackageError
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.record.table_file import table_of
from npu_assay.conformance.report.data import Report, make_report
from npu_assay.conformance.report.page.changes import since
from npu_assay.conformance.report.render import html
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, TableError

if TYPE_CHECKING:
    from npu_assay.conformance.fuzz.stream import Small


def recorded_report(
    contents: Contents, certificate: Certificate, table: Table, results: Sequence[CaseResult], cases: Sequence[Case]
) -> Report:
    """What the run's own reports show."""
    programs = () if certificate.fuzz is None else _programs(contents, table)
    return make_report(replace(certificate, reports={}), table, results, cases, programs)


def _programs(contents: Contents, table: Table) -> tuple[Small, ...]:
    """The random programs. Making them needs torch, which a run without any does without."""
    from npu_assay.conformance.fuzz.programs import Programs  # loads torch
    from npu_assay.conformance.fuzz.stream import recorded

    return recorded(contents.text(FUZZ), Programs(all_cases(table)))


def page_of(path: Path, earlier: Path | None) -> str:
    """The page of a run, with what is new since an earlier one.

    Raises UsageError for a folder or an archive that cannot be read, or when this suite lacks cases of it.
    """
    contents = read_contents(path)
    run = run_of(contents)
    try:
        table = table_of(contents, run.certificate)
    except (PackageError, TableError) as error:
        raise UsageError(f"{path}: {error}") from error
    cases = run.certificate.selection.of(table, all_cases(table))
    known = {case.id for case in cases}
    for name in run.results:
        if name not in known:
            raise UsageError(f"{path}: {name}: this version of the suite has no such case; run `assay certify` again")
    report = recorded_report(contents, run.certificate, table, list(run.results.values()), cases)
    return html(report, None if earlier is None else since(compare(read_run(earlier), run)))
