"""Signed certificates: what a key vouches for, every fault that a check finds, what others make of our envelopes."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attesting import ALL, copy, envelope_of, keyid, made_key, refused, statement_of
from calling import call
from places import SHARED

from npu_assay.conformance.record.certificate import Selection, read_certificate
from npu_assay.conformance.record.names import ATTESTATION, CERTIFICATE, RESULTS, TABLE
from npu_assay.conformance.verify.attestation import PAYLOAD, PREDICATE, TYPE
from npu_assay.conformance.verify.dsse import MOST, Envelope, EnvelopeError, Signature, envelope_text, read_envelope
from npu_assay.conformance.verify.signing import read_private_key, read_public_key
from tests.conformance.record.test_archive import zipped
from tests.conformance.record.test_package import NEG, run
from tests.conformance.verify.test_rerun import forged, results_of

pytest_plugins = ["attested"]


# ------------------------------------------------------------------------------------ what is true


def test_a_signed_certificate_is_signed_for_who_has_the_key(signed: Path, keys: tuple[Path, Path]) -> None:
    found = call("verify", signed, "--key", keys[1])
    assert found.exit_code == 0, found.output
    assert found.output.splitlines()[-1] == f"{signed}: certified, signed by {keyid(keys)[:16]}"
    assert "files of backend 'fake_backend:backend' that are here are the signed ones" in found.output


def test_without_the_key_it_is_self_declared(signed: Path) -> None:
    found = call("verify", signed)
    assert found.exit_code == 0 and f"note: {ATTESTATION} was not checked: --key FILE does" in found.output
    assert found.output.splitlines()[-1] == f"{signed}: certified, self-declared"


def test_signed_and_reproduced_stand_together(signed: Path, keys: tuple[Path, Path]) -> None:
    found = call("verify", signed, "--key", keys[1], "--rerun", "3", "-n", "1")
    assert found.exit_code == 0
    last = f"certified, signed by {keyid(keys)[:16]}, reproduced in part (3 of {ALL} cases, to the byte)"
    assert found.output.splitlines()[-1] == f"{signed}: {last}"


def test_the_subjects_are_all_that_the_backend_loaded_and_the_runs_own_files(signed: Path) -> None:
    statement = statement_of(signed)
    sources = read_certificate((signed / CERTIFICATE).read_text()).backend["sources"]
    assert sources["fake_backend.py"] == hashlib.sha256((SHARED / "fake_backend.py").read_bytes()).hexdigest()
    own = {name: hashlib.sha256((signed / name).read_bytes()).hexdigest() for name in (CERTIFICATE, RESULTS, TABLE)}
    expected = own | {f"backend/{name}": digest for name, digest in sources.items()}
    assert {one["name"]: one["digest"] for one in statement["subject"]} == {
        name: {"sha256": digest} for name, digest in expected.items()
    }
    assert (statement["_type"], statement["predicateType"]) == (TYPE, PREDICATE)
    assert statement["predicate"] == json.loads((signed / CERTIFICATE).read_text())
    assert envelope_of(signed).kind == PAYLOAD == "application/vnd.in-toto+json"


def test_an_archive_carries_the_signature(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    assert call("package", signed, "--out", tmp_path / "a.zip").exit_code == 0
    found = call("verify", tmp_path / "a.zip", "--key", keys[1])
    assert found.exit_code == 0 and found.output.endswith(f"certified, signed by {keyid(keys)[:16]}\n")


def test_a_signature_may_stand_elsewhere(plain: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    assert call("package", plain, "--out", tmp_path / "a.zip").exit_code == 0
    for path in (plain, tmp_path / "a.zip"):
        target = tmp_path / "x.json"
        assert call("attest", path, "--key", keys[0], "--out", target).exit_code == 0
        found = call("verify", path, "--key", keys[1], "--attestation", target)
        assert found.exit_code == 0 and found.output.endswith(f"signed by {keyid(keys)[:16]}\n")
    assert not (plain / ATTESTATION).exists()


def test_the_same_key_writes_the_same_bytes(signed: Path, keys: tuple[Path, Path]) -> None:
    before = (signed / ATTESTATION).read_bytes()
    assert call("attest", signed, "--key", keys[0]).exit_code == 0
    assert (signed / ATTESTATION).read_bytes() == before


def test_another_key_signs_besides(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    folder, (private, public) = copy(signed, tmp_path), made_key(tmp_path, "lab")
    assert "2 signatures" in call("attest", folder, "--key", private).output
    for key in (keys[1], public):
        assert call("verify", folder, "--key", key).exit_code == 0


def test_what_does_not_certify_is_signed_and_says_so(keys: tuple[Path, Path], tmp_path: Path) -> None:
    run(tmp_path / "out", selection=Selection(NEG))
    found = call("attest", tmp_path / "out", "--key", keys[0])
    assert found.exit_code == 0 and found.output.endswith("\nnot certified\n")
    found = call("verify", tmp_path / "out", "--key", keys[1])
    assert found.exit_code == 1 and found.output.endswith(f": not certified, signed by {keyid(keys)[:16]}\n")


def test_a_new_run_removes_the_signature_of_the_last_one(signed: Path, tmp_path: Path) -> None:
    folder = copy(signed, tmp_path)
    run(folder, selection=Selection(NEG))
    assert not (folder / ATTESTATION).exists()


# ------------------------------------------------------------------------------------ injected faults


def test_every_byte_of_payload_and_signature_matters(signed: Path, keys: tuple[Path, Path]) -> None:
    envelope, verifier = envelope_of(signed), read_public_key(keys[1])
    assert envelope.is_signed_by(verifier)
    payload, (signature,) = envelope.payload, envelope.signatures
    for place in (*range(0, len(payload), 97), len(payload) - 1):
        edited = payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :]
        assert not replace(envelope, payload=edited).is_signed_by(verifier)
    for place in range(64):
        sig = signature.sig[:place] + bytes([signature.sig[place] ^ 1]) + signature.sig[place + 1 :]
        assert not replace(envelope, signatures=(Signature(signature.keyid, sig),)).is_signed_by(verifier)
    assert not replace(envelope, kind="application/json").is_signed_by(verifier)
    for sig in (b"", signature.sig[:-1], signature.sig + b"\0"):
        assert not replace(envelope, signatures=(Signature(signature.keyid, sig),)).is_signed_by(verifier)


def test_a_file_with_any_byte_changed_is_signed_only_if_it_says_the_same(signed: Path, keys: tuple[Path, Path]) -> None:
    """Space between the parts and a key's id are free: neither is signed."""
    data, verifier = (signed / ATTESTATION).read_bytes(), read_public_key(keys[1])
    whole = read_envelope(data)
    refused = 0
    for place in (*range(100), *range(100, len(data), 499), *range(len(data) - 400, len(data))):
        for edited in (data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], data[:place] + data[place + 1 :]):
            try:
                found = read_envelope(edited)
            except EnvelopeError:
                refused += 1
                continue
            same = (found.payload, found.kind) == (whole.payload, whole.kind)
            assert same or not found.is_signed_by(verifier), place
    assert refused > 500


def test_a_changed_payload_is_told(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    envelope = envelope_of(signed)
    changed = replace(envelope, payload=envelope.payload.replace(b'"certified":true', b'"certified":null'))
    text = refused(copy(signed, tmp_path, envelope_text(changed).encode()), keys[1])
    assert f"problem: {ATTESTATION}: the signature of {keyid(keys)[:16]} does not fit what it signs" in text


def test_another_key_is_told(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    _, public = made_key(tmp_path, "other")
    other = read_public_key(public).keyid
    assert f"found a signature by '{keyid(keys)[:16]}', expected one by '{other[:16]}'" in refused(signed, public)


def test_a_signature_that_claims_to_be_of_the_key_is_not(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    """A key's id is a hint, and proves nothing."""
    private, _ = made_key(tmp_path, "other")
    envelope = replace(envelope_of(signed), signatures=()).with_signature(read_private_key(private))
    claimed = replace(envelope, signatures=(Signature(keyid(keys), envelope.signatures[0].sig),))
    assert "does not fit what it signs" in refused(copy(signed, tmp_path, envelope_text(claimed).encode()), keys[1])


def test_a_missing_signature_is_told(plain: Path, keys: tuple[Path, Path]) -> None:
    assert f"{ATTESTATION} is missing: found no signature, expected one by" in refused(plain, keys[1])


def test_the_signature_of_another_run_is_told(
    signed: Path, plain: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    """Another run's records, made up in full with all digests: only the signature tells without running them."""
    results = results_of(plain)
    results[NEG] = replace(results[NEG], blobs=("0" * 64,))
    folder = forged(plain, tmp_path / "forged", list(results.values()))
    shutil.copy(signed / ATTESTATION, folder)
    text = refused(folder, keys[1])
    for name in (CERTIFICATE, RESULTS):
        there, here = (hashlib.sha256((place / name).read_bytes()).hexdigest()[:16] for place in (signed, folder))
        assert f"subject '{name}': found sha256 {there} signed, expected sha256 {here}" in text
    assert f"subject '{TABLE}'" not in text


def resigned(folder: Path, keys: tuple[Path, Path], edit: Callable[[dict[str, Any]], None]) -> bytes:
    """The envelope of an edited statement, rightly signed."""
    statement = statement_of(folder)
    edit(statement)
    envelope = Envelope(json.dumps(statement).encode(), PAYLOAD).with_signature(read_private_key(keys[0]))
    return envelope_text(envelope).encode()


def _digest(statement: dict[str, Any]) -> None:
    statement["subject"][3]["digest"]["sha256"] = "0" * 64


def _algorithm(statement: dict[str, Any]) -> None:
    statement["subject"][0]["digest"] = {"md5": "0"}


def _fewer(statement: dict[str, Any]) -> None:
    del statement["subject"][-1]


def _more(statement: dict[str, Any]) -> None:
    statement["subject"].append({"name": "backend/more.so", "digest": {"sha256": "0"}})


def _twice(statement: dict[str, Any]) -> None:
    statement["subject"].append(statement["subject"][0])


def _predicate(statement: dict[str, Any]) -> None:
    statement["predicate"]["certified"] = False


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (_digest, "found sha256 0000000000000000 signed, expected sha256 "),
        (_algorithm, f"subject '{CERTIFICATE}': found sha256  signed"),
        (_fewer, "found no such file signed, expected sha256 "),
        (_more, "subject 'backend/more.so': found sha256 0 signed, expected no such file"),
        (_twice, f"subject '{CERTIFICATE}' stands twice"),
        (_predicate, f"the predicate is not what {CERTIFICATE} says"),
        (lambda s: s.update(predicateType="urn:other"), f"predicateType: found 'urn:other', expected '{PREDICATE}'"),
        (lambda s: s.update(_type="urn:other"), f"_type: found 'urn:other', expected '{TYPE}'"),
        (lambda s: s.update(subject=[]), "and "),
        (lambda s: s.pop("subject"), "not an in-toto statement: keys ['subject'] are missing"),
        (lambda s: s.update(subject="all"), "not an in-toto statement: subject: expected a list, found 'all'"),
    ],
)
def test_a_rightly_signed_statement_of_something_else_is_told(
    edit: Callable[[dict[str, Any]], None], problem: str, signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    unchanged = resigned(signed, keys, lambda statement: None)
    assert call("verify", copy(signed, tmp_path / "same", unchanged), "--key", keys[1]).exit_code == 0
    assert problem in refused(copy(signed, tmp_path, resigned(signed, keys, edit)), keys[1])


def test_another_kind_of_payload_is_told(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    envelope = replace(envelope_of(signed), kind="text/plain", signatures=()).with_signature(read_private_key(keys[0]))
    text = refused(copy(signed, tmp_path, envelope_text(envelope).encode()), keys[1])
    assert f"payloadType: found 'text/plain', expected '{PAYLOAD}'" in text


SIG = {"keyid": "", "sig": "AA=="}
HOSTILE = {
    "nothing": b"",
    "text": b"hello",
    "bytes": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "digits": b"9" * 10_000,
    "list": b"[]",
    "null": b"null",
    "keys": b'{"payload": "", "payloadType": ""}',
    "type": json.dumps({"payload": 1, "payloadType": "", "signatures": [SIG]}).encode(),
    "base64": json.dumps({"payload": "A===", "payloadType": "", "signatures": [SIG]}).encode(),
    "spaces": json.dumps({"payload": "A A=", "payloadType": "", "signatures": [SIG]}).encode(),
    "loose base64": json.dumps({"payload": "AB==", "payloadType": "", "signatures": [SIG]}).encode(),
    "letters": json.dumps({"payload": "é", "payloadType": "", "signatures": [SIG]}).encode(),
    "no signature": json.dumps({"payload": "", "payloadType": "", "signatures": []}).encode(),
    "many": json.dumps({"payload": "", "payloadType": "", "signatures": [SIG] * (MOST + 1)}).encode(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_envelope_is_one_problem(name: str, signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(EnvelopeError):
        read_envelope(HOSTILE[name])
    folder = copy(signed, tmp_path, HOSTILE[name])
    found = call("verify", folder, "--key", keys[1])
    problems = [line for line in found.output.splitlines() if line.startswith("problem: ")]
    assert found.exit_code == 1 and len(problems) == 1
    assert problems[0].startswith(f"problem: {ATTESTATION}: not a DSSE envelope: ")


def test_a_payload_that_is_a_bomb_is_one_problem(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    signer = read_private_key(keys[0])
    for number, payload in enumerate((b"[" * 100_000, b"\xff", b"[]", b"9" * 10_000)):
        data = envelope_text(Envelope(payload, PAYLOAD).with_signature(signer)).encode()
        folder = copy(signed, tmp_path / str(number), data)
        assert "the payload is not an in-toto statement" in refused(folder, keys[1])


def test_an_envelope_is_never_longer_than_a_run_writes(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    folder = copy(signed, tmp_path)
    with (folder / ATTESTATION).open("ab") as file:
        file.truncate(65 * 2**20)
    found = call("verify", folder, "--key", keys[1])
    assert found.exit_code == 2 and "bytes, expected at most" in found.stderr
    found = call("verify", folder, "--key", keys[1], "--attestation", folder / ATTESTATION)
    assert found.exit_code == 2
    large = zipped({ATTESTATION: bytes(65 * 2**20)}, 8)
    (tmp_path / "a.zip").write_bytes(large)
    assert call("verify", tmp_path / "a.zip", "--key", keys[1]).exit_code == 2


def test_a_tampered_folder_is_not_signed(plain: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    folder = copy(plain, tmp_path)
    (folder / RESULTS).write_text((plain / RESULTS).read_text().replace("accept", "reject", 1))
    found = call("attest", folder, "--key", keys[0])
    assert found.exit_code == 1 and found.output.endswith(f"{folder}: not signed\n")
    assert f"problem: {RESULTS} line 1" in found.output and not (folder / ATTESTATION).exists()


def test_a_tampered_folder_is_not_signed_for_who_has_the_key(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = copy(signed, tmp_path)
    (folder / "report.md").write_text("all is well")
    found = call("verify", folder, "--key", keys[1])
    assert found.exit_code == 1 and found.output.endswith(f"{folder}: not certified\n")


# ------------------------------------------------------------------------------------ the backend that is here


def test_a_backend_that_is_here_and_not_the_signed_one_is_told(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    found = call("verify", signed, "--key", keys[1], "--backend", "neutron")
    assert found.exit_code == 1 and "backend 'neutron' that are here are not the signed ones" in found.output
    found = call("verify", signed, "--key", keys[1], "--backend", "elsewhere:backend")
    assert found.exit_code == 1 and "backend 'elsewhere:backend' is not here" in found.output
    assert call("verify", signed, "--key", keys[1], "--backend", "fake_backend:drifts").exit_code == 0


def test_a_backend_that_is_not_here_is_a_note(keys: tuple[Path, Path], plain: Path, tmp_path: Path) -> None:
    certificate = read_certificate((plain / CERTIFICATE).read_text())
    backend = {**certificate.backend, "spec": "elsewhere:backend"}
    folder = forged(plain, tmp_path / "out", list(results_of(plain).values()), backend=backend)
    assert call("attest", folder, "--key", keys[0]).exit_code == 0
    found = call("verify", folder, "--key", keys[1])
    assert found.exit_code == 0 and "note: backend 'elsewhere:backend' is not here" in found.output


def test_checking_a_signature_runs_nothing_of_the_backend(
    plain: Path, keys: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is found in the current directory, as loading it would find it, and not imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tripwire.py").write_text("open('imported', 'w').close()\n")
    digest = hashlib.sha256((tmp_path / "tripwire.py").read_bytes()).hexdigest()
    certificate = read_certificate((plain / CERTIFICATE).read_text())
    backend = {**certificate.backend, "spec": "tripwire:backend", "sources": {"tripwire.py": digest}}
    folder = forged(plain, tmp_path / "out", list(results_of(plain).values()), backend=backend)
    assert call("attest", folder, "--key", keys[0]).exit_code == 0
    found = call("verify", folder, "--key", keys[1])
    assert found.exit_code == 0, found.output
    assert "note: all 1 files of backend 'tripwire:backend' that are here are the signed ones" in found.output
    assert not (tmp_path / "imported").exists() and str(tmp_path) not in sys.path
