"""The drift of a run that was recorded: read from its folder, or from an archive of it."""

from __future__ import annotations

from pathlib import Path

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.compare.difference import run_of
from npu_assay.conformance.compare.drift import Drift, drift
from npu_assay.conformance.record.names import RESULTS, PackageError
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.table_file import table_of
from npu_assay.conformance.table import Table, TableError


def read_drift(path: Path) -> Drift:
    """Derive the drift from results.jsonl and table.toml. Raises UsageError when they are not those of a run."""
    contents = read_contents(path)
    run = run_of(contents)
    certificate = run.certificate
    try:
        table = table_of(contents, certificate)
        for number, result in enumerate(run.results.values(), 1):
            _check_row(table, result.row, number)
    except (PackageError, TableError) as error:
        raise UsageError(f"{path}: {error}") from error
    return drift(
        str(certificate.backend["spec"]), table, run.results.values(), certificate.selection.seed, certificate.level
    )


def _check_row(table: Table, row: str, number: int) -> None:
    try:
        table.row(row)
    except TableError as error:
        raise TableError(f"{RESULTS} line {number}: {error}") from error
