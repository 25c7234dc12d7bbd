"""Statements for other tools: what they say, that others read them, and that another claim is refused."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attesting import copy, keyid, made_key
from calling import call

from npu_assay.conformance.record.certificate import Selection, read_certificate
from npu_assay.conformance.record.names import ATTESTATION, CERTIFICATE, STANDARD, TEST_RESULT, VSA
from npu_assay.conformance.record.read import read_folder
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.verify.attestation import PAYLOAD, statement
from npu_assay.conformance.verify.dsse import Envelope, envelope_text, read_envelope
from npu_assay.conformance.verify.signing import read_private_key, read_public_key
from npu_assay.conformance.verify.standard_predicates import TYPES
from tests.conformance.record.test_package import NEG, run
from tests.conformance.verify.test_rerun import results_of

pytest_plugins = ["attested"]
BOTH = ("--predicate", TEST_RESULT, "--predicate", VSA)


@pytest.fixture(scope="module")
def stated(signed: Path, keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy(signed, tmp_path_factory.mktemp("stated"))
    assert call("attest", folder, "--key", keys[0], *BOTH).exit_code == 0
    return folder


def said(folder: Path, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_envelope((folder / STANDARD[kind]).read_bytes()).payload)
    return found


def test_they_say_what_the_record_says(stated: Path, keys: tuple[Path, Path]) -> None:
    result, summary = said(stated, TEST_RESULT)["predicate"], said(stated, VSA)["predicate"]
    statuses = {name: one.status for name, one in results_of(stated).items()}
    assert result["passedTests"] == [name for name, status in statuses.items() if status == "pass"] != []
    assert (result["result"], result["warnedTests"], result["failedTests"]) == ("PASSED", [], [])
    digest = read_certificate((stated / CERTIFICATE).read_text()).table["sha256"]
    table = {"name": "table", "uri": "urn:npu-assay:table:fake@1.0", "digest": {"sha256": digest}}
    assert result["configuration"][0] == summary["policy"] == table
    assert (summary["verificationResult"], summary["verifiedLevels"]) == ("PASSED", ["NPU_ASSAY_NUMBERS"])
    found = call("verify", stated, "--key", keys[1])
    assert found.exit_code == 0 and found.output.endswith(f"certified, signed by {keyid(keys)[:16]}\n")
    assert "note: attestation.vsa.json was not checked" in call("verify", stated).output


def test_an_archive_and_a_file_elsewhere_carry_them(stated: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    assert call("package", stated, "--out", tmp_path / "a.zip").exit_code == 0
    assert call("verify", tmp_path / "a.zip", "--key", keys[1]).exit_code == 0
    out = tmp_path / "x.json"
    assert call("attest", tmp_path / "a.zip", "--key", keys[0], "--out", out, *BOTH).exit_code == 0
    for name in ("x.json", "x.test-result.json", "x.vsa.json"):
        assert call("verify", tmp_path / "a.zip", "--key", keys[1], "--attestation", tmp_path / name).exit_code == 0


def test_a_second_key_signs_those_that_are_there(stated: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    folder, (private, public) = copy(stated, tmp_path), made_key(tmp_path, "lab")
    assert call("attest", folder, "--key", private).output.count("2 signatures") == 3
    assert [call("verify", folder, "--key", key).exit_code for key in (keys[1], public)] == [0, 0]


def test_what_is_no_certificate_does_not_pass(tmp_path: Path) -> None:
    run(tmp_path / "part", selection=Selection(NEG))
    run(tmp_path / "failing", "drifts")
    failing = [one for one in results_of(tmp_path / "failing").values() if one.status == "fail"]
    checks = {one.case: tuple(dict.fromkeys(failure.check for failure in one.failures)) for one in failing}
    until = datetime.date(2026, 6, 30)
    waivers = tuple(Waiver(case, names, "known", "me", until) for case, names in checks.items())
    run(tmp_path / "waived", "drifts", waivers=waivers)
    for name, result, on_june_2, on_july_2 in (
        ("waived", "WARNED", "NPU_ASSAY_NUMBERS_WITH_WAIVERS", "FAILED"),
        ("part", "WARNED", "FAILED", "FAILED"),
        ("failing", "FAILED", "FAILED", "FAILED"),
    ):
        contents = read_folder(tmp_path / name)
        certificate = read_certificate(contents.text(CERTIFICATE))
        made, counts = statement(contents, certificate, TEST_RESULT)["predicate"], certificate.counts
        assert [len(made[f"{key}Tests"]) for key in ("failed", "warned", "passed")] == [
            counts[key] for key in ("fail", "waived", "pass")
        ]
        assert made["result"] == result
        for day, level in {"2026-06-02": on_june_2, "2026-07-02": on_july_2}.items():
            summary = statement(contents, certificate, VSA, f"{day}T00:00:00Z")["predicate"]
            assert summary["verifiedLevels"] == [level] and (summary["verificationResult"] == "FAILED") == (
                level == "FAILED"
            )


# ------------------------------------------------------------------------------------ others about them


@pytest.mark.parametrize("kind", STANDARD)
def test_in_totos_libraries_accept_them(kind: str, stated: Path, keys: tuple[Path, Path]) -> None:
    from google.protobuf.json_format import ParseDict, ParseError
    from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult
    from in_toto_attestation.predicates.vsa.v1.vsa_pb2 import VerificationSummary
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
    from in_toto_attestation.v1.resource_descriptor_pb2 import ResourceDescriptor as Descriptor
    from in_toto_attestation.v1.statement import Statement
    from securesystemslib import dsse
    from securesystemslib.signer._key import SSlibKey

    key = SSlibKey.from_crypto(read_public_key(keys[1]).key, keyid(keys))
    envelope = dsse.Envelope.from_dict(json.loads((stated / STANDARD[kind]).read_text()))
    assert envelope.verify([key], 1) == {keyid(keys): key}
    found = json.loads(envelope.payload)
    Statement.copy_from_pb(ParseDict(found, statement_pb2.Statement())).validate()
    assert found["predicateType"] == TYPES[kind]
    made = found["predicate"]
    descriptors = [made["policy"], *made["inputAttestations"]] if kind == VSA else made["configuration"]
    for one in descriptors:
        ResourceDescriptor.copy_from_pb(ParseDict(one, Descriptor())).validate()
    if kind == TEST_RESULT:
        assert len(ParseDict(made, TestResult()).passed_tests) == len(made["passedTests"])
        with pytest.raises(ParseError, match="no field named"):
            ParseDict(made | {"passed": []}, TestResult())
    else:  # of a list of levels, as SLSA has it, these bindings make one text; names of descriptors they do not know
        levels = made.pop("verifiedLevels")
        assert levels and ParseDict(made, VerificationSummary(), ignore_unknown_fields=True).time_verified.seconds
        named = {field.json_name for field in VerificationSummary.DESCRIPTOR.fields}
        assert made.keys() | {"verifiedLevels"} == named - {"dependencyLevels", "slsaVersion"}


# ------------------------------------------------------------------------------------ injected faults


Edit = Callable[[dict[str, Any]], object]


def put(**values: Any) -> Edit:
    return lambda said: said["predicate"].update(values)


def _moved(said: dict[str, Any]) -> None:
    said["predicate"]["failedTests"].append(said["predicate"]["passedTests"].pop())


FAULTS: list[tuple[str, Edit, str]] = [
    (TEST_RESULT, put(result="FAILED"), 'says: result: found "FAILED", expected "PASSED"'),
    (TEST_RESULT, _moved, 'says: failedTests: found ["aten.'),
    (TEST_RESULT, put(configuration=[]), "configuration: found [], expected [{"),
    (TEST_RESULT, put(url="https://x"), 'says: url: found "https://x", expected null'),
    (TEST_RESULT, lambda said: said.update(predicateType=TYPES[VSA]), f"predicateType: found '{TYPES[VSA]}', expected"),
    (TEST_RESULT, lambda said: said["subject"][0]["digest"].update(sha256="0"), "certificate.json': found sha256 0 "),
    (TEST_RESULT, lambda said: said["subject"].pop(), "found no such file signed"),
    (VSA, put(verificationResult="FAILED"), 'verificationResult: found "FAILED", expected "PASSED"'),
    (VSA, put(verifiedLevels=["SLSA_BUILD_LEVEL_3"]), 'verifiedLevels: found ["SLSA_BUILD_LEVEL_3"], expected ["NPU'),
    (VSA, put(timeVerified="2026-05-31T23:59:59Z"), "expected a time from 2026-06-01 to "),
    (VSA, put(timeVerified="9999-01-01T00:00:00Z"), "timeVerified: found '9999-"),
    (VSA, put(timeVerified=3), "timeVerified: found ''"),
    (VSA, put(resourceUri="urn:npu-assay:backend:x"), 'resourceUri: found "urn:npu-assay:backend:x", expected'),
    (VSA, put(policy={"uri": "urn:x"}), "policy: found {"),
    (VSA, lambda said: said.update(predicateType=f"{TYPES[VSA]}.1"), "predicateType: found 'https"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("kind", "edit", "problem"), FAULTS)
def test_another_claim_is_refused_though_the_key_signed_it(
    kind: str, edit: Edit, problem: str, stated: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, one = copy(stated, tmp_path), said(stated, kind)
    edit(one)
    envelope = Envelope(json.dumps(one).encode(), PAYLOAD).with_signature(read_private_key(keys[0]))
    (folder / STANDARD[kind]).write_text(envelope_text(envelope))
    found = call("verify", folder, "--key", keys[1])
    assert found.exit_code == 1 and f"problem: {STANDARD[kind]}: " in found.output and problem in found.output
    assert call("attest", folder, "--key", keys[0]).exit_code == 2, "it is not written over"


@pytest.mark.parametrize("kind", STANDARD)
def test_what_was_changed_or_is_of_another_key_or_record_is_refused(
    kind: str, stated: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, name = copy(stated, tmp_path), STANDARD[kind]
    whole = read_envelope((folder / name).read_bytes())
    other = replace(whole, signatures=()).with_signature(read_private_key(made_key(tmp_path, "other")[0]))
    run(tmp_path / "part", selection=Selection(NEG))
    assert call("attest", tmp_path / "part", "--key", keys[0], "--predicate", kind).exit_code == 0
    for data, problem in (
        (envelope_text(replace(whole, payload=whole.payload.replace(b"PASSED", b"FAILED"))), "the signature of "),
        (envelope_text(other), "found a signature by"),
        ((tmp_path / "part" / name).read_text(), "subject 'certificate.json': found sha256"),
        ((folder / ATTESTATION).read_text(), "predicateType: found 'urn:npu-assay:certificate"),
    ):
        (folder / name).write_text(data)
        found = call("verify", folder, "--key", keys[1])
        assert found.exit_code == 1 and f"problem: {name}: {problem}" in found.output, found.output
