"""Cases of an engine's table through its adapter: what each of them must say."""

from __future__ import annotations

from collections.abc import Iterable

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.variation_names import is_variation
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases, named_variation
from npu_assay.conformance.table import Table, load_table


def results(spec: str, ids: Iterable[str]) -> dict[str, CaseResult]:
    """The cases of these ids through a backend's own table, by id."""
    backend = load_backend(spec)
    table = load_table(backend.table)
    return {name: run_case(case, backend, table) for name, case in named(table, ids).items()}


def named(table: Table, ids: Iterable[str]) -> dict[str, Case]:
    """The cases of these ids that a table has, variations among them, by id."""
    cases = all_cases(table)
    known = {case.id: case for case in cases}
    varied = [case for name in ids if is_variation(name) for case in named_variation(table, name, cases)]
    return {name: known[name] for name in ids if name in known} | {case.id: case for case in varied}


def baselines(spec: str) -> list[Case]:
    """The plain case of every row."""
    table = load_table(load_backend(spec).table)
    return [case for case in all_cases(table) if case.id.endswith(".default/operator/accept/baseline")]


def checks(found: CaseResult) -> set[str]:
    """The names of the checks that a case fails."""
    return {failure.check for failure in found.failures}
