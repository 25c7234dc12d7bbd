"""Answers of an earlier run that are not asked again (`assay certify --since RECORD`).

An answer follows from its case, from the table's row and common part, and from all that a record states besides: the
files of backend and suite, versions, limits, seed and level. Where all these are the same now, the answer is kept. As
that does not see everything, such as a driver, some of the kept cases are asked again; if one answers otherwise, all
are. The record is a file, which whoever could write it may have changed: a certificate states what was kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from npu_assay.conformance.backend.environment import digest_of
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.fuzz.shrink import Run
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import Certificate, Kept
from npu_assay.conformance.record.folder import own_results
from npu_assay.conformance.record.provenance import differences
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.results import CaseResult, read_results, to_line
from npu_assay.conformance.record.table_file import table_of
from npu_assay.conformance.table import Table
from npu_assay.conformance.verify.result import result_problem

SHARE, AT_LEAST = 0.02, 20
"""How many of the kept cases are asked again."""
OF_THE_MOMENT = frozenset({"crash", "hang", "memory", "leak", "not_run"})
"""Checks whose failure may come of the machine, not of the case: such a case is always asked again."""


@dataclass(frozen=True)
class Earlier:
    """The record of an ended run."""

    certificate: Certificate
    table: Table
    results: Mapping[str, CaseResult]

    def answers(self, now: Certificate, table: Table, cases: Sequence[Case]) -> tuple[dict[str, CaseResult], str]:
        """The answers to these cases that hold now, by case; and why there are none, where that is true of all."""
        changed = differences(_stated(self.certificate), _stated(now))
        if not changed and _common(self.table) != _common(table):
            changed = f"what {table.title} says of all its rows"
        if changed:
            return {}, changed
        rows = {row.name for row in table.asked_rows if row in self.table.asked_rows}
        known = [(case, self.results[case.id]) for case in cases if case.row in rows and case.id in self.results]
        kept = {case.id: result for case, result in known if self._holds(case, result)}
        return kept, "" if kept else "no case is as it was"

    def _holds(self, case: Case, result: CaseResult) -> bool:
        certificate = self.certificate
        if result.status == "undecided" or OF_THE_MOMENT & {failure.check for failure in result.failures}:
            return False
        return result_problem(result, case, certificate.backend["tools"], certificate.level) is None


def read_earlier(path: Path) -> Earlier:
    """Read a record, before any process of a backend exists. Raises UsageError for what no run has written."""
    try:
        contents = read_contents(path)
        certificate, text = own_results(contents)
        if certificate.kept is not None and certificate.kept.cases:
            raise UsageError(f"found answers that it kept itself ({certificate.kept}), expected a run that asked all")
        return Earlier(certificate, table_of(contents, certificate), read_results(text, path.name))
    except UsageError as error:
        raise UsageError(f"--since {path}: {error}") from error


def _stated(certificate: Certificate) -> dict[str, str]:
    """All that answers depend on but for the table, by names that a note can show."""
    backend, suite = certificate.backend, certificate.suite
    return {
        "backend": f"{backend['name']} {backend['spec']}",
        **{f"backend's file {name}": digest for name, digest in backend["sources"].items()},
        "further compilers": ", ".join(backend["tools"]),
        "sources of the suite": digest_of(suite["sources"]),
        **certificate.environment,
        "seed": str(certificate.selection.seed),
        "level": certificate.level,
    }


def _common(table: Table) -> Table:
    return replace(table, rows=(), refused=(), beside=(), version="", sha256="", source="")


def keep(
    earlier: Earlier, now: Certificate, table: Table, cases: Sequence[Case], run: Run
) -> tuple[dict[str, CaseResult], Kept]:
    """Ask some of the answers that hold again; returns what is known then, and what the certificate says of it."""
    found, why = earlier.answers(now, table, cases)
    names = sorted(found)
    drawn = secrets.SystemRandom().sample(names, min(len(names), max(AT_LEAST, ceil(SHARE * len(names)))))
    again = {result.case: result for result in run(sorted(drawn))}
    other = sorted(name for name in drawn if _is_other(again[name], found[name]))
    if other:
        why = f"{len(other)} of {len(drawn)} cases that were asked again answer otherwise, {other[0]} among them"
    count = 0 if why else len(names) - len(drawn)
    stated = Kept(count, len(drawn), why, earlier.certificate.results_sha256, earlier.certificate.made)
    return (again if why else found | again), stated


def _is_other(result: CaseResult, before: CaseResult) -> bool:
    """Whether an answer is another one. What a failure says may depend on inputs that each run draws anew."""
    if (result.status, result.verdict) != (before.status, before.verdict):
        return True
    return result.status != "fail" and to_line(result) != to_line(before)
