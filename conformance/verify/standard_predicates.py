"""A record in the predicates that other tools read: in-toto's test result, and SLSA's verification summary (VSA)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from npu_assay.conformance.backend.environment import digest_of
from npu_assay.conformance.fuzz.names import is_program, parse
from npu_assay.conformance.record.certificate import SCHEMA, Certificate
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.names import CERTIFICATE, FUZZ, RESULTS, TEST_RESULT, VSA, Contents
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult, read_line
from npu_assay.conformance.record.waivers import waived_cases

TYPES: Mapping[str, str] = {
    TEST_RESULT: "https://in-toto.io/attestation/test-result/v0.1",
    VSA: "https://slsa.dev/verification_summary/v1",
}
TIME = "%Y-%m-%dT%H:%M:%SZ"
PASSED, WARNED, FAILED = "PASSED", "WARNED", "FAILED"


def time_problem(time: str, certificate: Certificate) -> str | None:
    """Why a verification of this certificate cannot have been at that time; None when it can."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    try:
        written = datetime.datetime.strptime(time, TIME).strftime(TIME) == time
    except ValueError:
        written = False
    if written and certificate.made <= time[: len(today)] <= today:
        return None
    return f"timeVerified: found {time!r:.40}, expected a time from {certificate.made} to {today}"


def verification_summary(certificate: Certificate, files: Mapping[str, str], time: str) -> dict[str, Any]:
    """The outcome of `assay verify` at a time, for the policy of the table. files: the run's. Raises ValueError."""
    if wrong := time_problem(time, certificate):
        raise ValueError(wrong)
    day = datetime.datetime.strptime(time, TIME).date()
    certified = certificate.certified and all(waiver.expires >= day for waiver in certificate.waivers)
    level = f"NPU_ASSAY_{certificate.level.upper()}{'_WITH_WAIVERS' if certificate.waivers else ''}"
    return {
        "verifier": {"id": f"urn:npu-assay:verify:{SCHEMA}"},
        "timeVerified": time,
        "resourceUri": f"urn:npu-assay:backend:{quote(certificate.backend['name'])}",
        "policy": _table(certificate),
        "inputAttestations": [_descriptor("certificate", str(SCHEMA), files[CERTIFICATE])],
        "verificationResult": PASSED if certified else FAILED,
        "verifiedLevels": [level if certified else FAILED],
    }


def test_result(contents: Contents, certificate: Certificate) -> dict[str, Any]:
    """The result of the run; cases of which the table promises nothing are in no list.

    Raises ValueError for a record that cannot be read.
    """
    results = list(_results(contents))
    waived = waived_cases(certificate.waivers, results, datetime.date.fromisoformat(certificate.made))
    plain = certificate.certified and certificate.level == NUMBERS and not certificate.waivers
    return {
        "result": PASSED if plain else WARNED if certificate.passed else FAILED,
        "configuration": [
            _table(certificate),
            _descriptor("suite", certificate.suite["version"], digest_of(certificate.suite["sources"])),
            _descriptor("level", certificate.level),
            _descriptor("selection", str(certificate.selection) or "all"),
            _descriptor("seed", str(certificate.selection.seed)),
        ],
        "passedTests": [result.case for result in results if result.status == "pass"],
        "warnedTests": [result.case for result in results if result.case in waived],
        "failedTests": [r.case for r in results if r.status in NOT_PASSED and r.case not in waived],
    }


def _results(contents: Contents) -> Iterator[CaseResult]:
    """The recorded cases and random programs, without the reduced forms of those. Raises ResultError."""
    for name in (RESULTS, *([FUZZ] if FUZZ in contents.files else [])):
        for line in filter(None, contents.text(name).split("\n")):
            result, _ = read_line(line)
            if not (is_program(result.case) and parse(result.case).trail):
                yield result


def _table(certificate: Certificate) -> dict[str, Any]:
    table = certificate.table
    return _descriptor("table", f"{table['name']}@{table['version']}", table["sha256"])


def _descriptor(kind: str, name: str, sha256: str | None = None) -> dict[str, Any]:
    """A resource descriptor of in-toto."""
    digest = {} if sha256 is None else {"digest": {"sha256": sha256}}
    return {"name": kind, "uri": f"urn:npu-assay:{kind}:{quote(name, safe='@')}", **digest}
