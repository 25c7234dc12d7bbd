"""The record of a run of a certificate's cases again: one JSON file beside the run's folder, never in it."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

from npu_assay import __version__
from npu_assay.conformance.backend.environment import digest_of, environment, suite_sources
from npu_assay.conformance.common.shapes import OF_ANY_KEY
from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.folder import check_target, writing
from npu_assay.conformance.record.names import CERTIFICATE, Contents
from npu_assay.conformance.verify.rerun import Rerun
from npu_assay.files import write_whole

SCHEMA = 1
SHAPE = {
    "schema": int,
    **dict.fromkeys(("certificate_sha256", "results_sha256", "table_sha256", "backend_sources_sha256"), str),
    "backend": str,
    "suite": {"version": str, "sources_sha256": str},
    "environment": {OF_ANY_KEY: str},
    "made": str,
    "cases": {"recorded": int, "run": int, "draw": (int, None)},
    "seed": int,
    "compared": str,
    "differences": [{"case": str, "found": str}],
    "reproduced": bool,
    "result": str,
}


def check_place(target: Path, contents: Contents) -> None:
    """Raise PackageError for a target among the run's own files."""
    check_target(Path(contents.name), target)


def write_record(target: Path, text: str) -> None:
    """Write the file. Raises PackageError where that is not possible."""
    with writing(target):
        write_whole(target, text.encode())


def record_text(contents: Contents, certificate: Certificate, again: Rerun, today: datetime.date) -> str:
    """The record as JSON with sorted keys: certificate, environment, number of cases, differences."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "certificate_sha256": hashlib.sha256(contents.files[CERTIFICATE]).hexdigest(),
        "results_sha256": certificate.results_sha256,
        "table_sha256": certificate.table["sha256"],
        "backend": again.backend,
        "backend_sources_sha256": digest_of(certificate.backend["sources"]),
        "suite": {"version": __version__, "sources_sha256": digest_of(suite_sources())},
        "environment": environment(),
        "made": today.isoformat(),
        "cases": {"recorded": again.known, "run": again.ran, "draw": again.draw},
        "seed": again.seed,
        "compared": "by verdict" if again.fresh else "to the byte",
        "differences": [{"case": difference.case, "found": difference.found} for difference in again.differences],
        "reproduced": again.reproduced,
        "result": str(again),
    }
    return json.dumps(data, indent=2, sort_keys=True) + "\n"
