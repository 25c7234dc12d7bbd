"""The drift of a run that was recorded: read from its folder, or from an archive of it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from conformance.certificate import CertificateError, read_certificate
from conformance.contents import read_contents
from conformance.drift import Drift, drift
from conformance.package import CERTIFICATE, RESULTS, TABLE, PackageError, sha256
from conformance.results import CaseResult, ResultError, from_line
from conformance.table import Table, TableError, parse_table


def read_drift(path: Path) -> Drift:
    """Derive the drift from results.jsonl and table.toml. Raises PackageError when they are not of a run."""
    contents = read_contents(path)
    if contents.problems:
        raise PackageError(f"{path}: {contents.problems[0]}")
    try:
        certificate = read_certificate(contents.text(CERTIFICATE))
        table = _table(contents.text(TABLE))
    except (CertificateError, TableError, PackageError) as error:
        raise PackageError(f"{path}: {error}") from error
    results = dict[str, CaseResult]()
    for number, line in enumerate(contents.text(RESULTS).splitlines(), 1):
        try:
            result = from_line(line)
            table.row(result.row)
        except (ResultError, TableError) as error:
            raise PackageError(f"{path}: {RESULTS} line {number}: {error}") from error
        if result.case in results:
            raise PackageError(f"{path}: {RESULTS} line {number}: {result.case} stands there twice; see 'assay verify'")
        results[result.case] = result
    return drift(str(certificate.backend["spec"]), table, results.values(), certificate.selection.seed)


def _table(text: str) -> Table:
    try:
        return parse_table(tomllib.loads(text), TABLE, sha256(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PackageError(f"{TABLE}: {error}") from error
