"""The drift of a run that was recorded: read from its folder, or from an archive of it."""

from __future__ import annotations

from pathlib import Path

from npu_assay.conformance.compare.drift import Drift, drift
from npu_assay.conformance.record.certificate import CertificateError, read_certificate
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS, TABLE, PackageError
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.results import ResultError, read_results
from npu_assay.conformance.table import Table, TableError, read_table


def read_drift(path: Path) -> Drift:
    """Derive the drift from results.jsonl and table.toml. Raises PackageError when they are not of a run."""
    contents = read_contents(path)
    if contents.problems:
        raise PackageError(f"{path}: {contents.problems[0]}")
    try:
        certificate = read_certificate(contents.text(CERTIFICATE))
        table = read_table(contents.text(TABLE).encode(), TABLE)
    except (CertificateError, TableError, PackageError) as error:
        raise PackageError(f"{path}: {error}") from error
    try:
        results = read_results(contents.text(RESULTS), RESULTS)
        for number, result in enumerate(results.values(), 1):
            _check_row(table, result.row, number)
    except (ResultError, TableError) as error:
        raise PackageError(f"{path}: {error}") from error
    return drift(
        str(certificate.backend["spec"]), table, results.values(), certificate.selection.seed, certificate.level
    )


def _check_row(table: Table, row: str, number: int) -> None:
    try:
        table.row(row)
    except TableError as error:
        raise TableError(f"{RESULTS} line {number}: {error}") from error
