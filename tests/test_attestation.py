"""Signed certificates: what a key vouches for, every fault that a check finds, what others make of our envelopes."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from test_archive import zipped
from test_package import CASES, NEG, run
from test_rerun import call, forged, results_of

from npu_assay.conformance.record.certificate import Selection, read_certificate
from npu_assay.conformance.record.names import ATTESTATION, CERTIFICATE, RESULTS, TABLE
from npu_assay.conformance.verify.attestation import PAYLOAD, PREDICATE, TYPE
from npu_assay.conformance.verify.dsse import MOST, Envelope, EnvelopeError, Signature, envelope_text, read_envelope
from npu_assay.conformance.verify.signing import read_private_key, read_public_key

ALL = len(CASES)

PEM = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
SPKI = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def made_key(folder: Path, name: str) -> tuple[Path, Path]:
    """Files of a new key: private and public."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(*PEM))
    public.write_bytes(key.public_key().public_bytes(*SPKI))
    return private, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return made_key(tmp_path_factory.mktemp("keys"), "ours")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "out"
    run(folder)
    return folder


@pytest.fixture(scope="module")
def signed(plain: Path, keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed") / "out"
    shutil.copytree(plain, folder)
    found = call("attest", folder, "--key", keys[0])
    assert found.exit_code == 0 and found.output.endswith("\ncertified\n"), found.output
    return folder


def keyid(keys: tuple[Path, Path]) -> str:
    return read_public_key(keys[1]).keyid


def envelope_of(folder: Path) -> Envelope:
    return read_envelope((folder / ATTESTATION).read_bytes())


def statement_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(envelope_of(folder).payload)
    return found


def copy(source: Path, tmp_path: Path, attestation: bytes | None = None) -> Path:
    """A copy of a folder, with another attestation."""
    shutil.copytree(source, tmp_path / "copy")
    if attestation is not None:
        (tmp_path / "copy" / ATTESTATION).write_bytes(attestation)
    return tmp_path / "copy"


def refused(folder: Path, key: Path) -> str:
    """What `verify --key` says against a folder, which otherwise is right."""
    assert call("verify", folder).exit_code == 0
    found = call("verify", folder, "--key", key)
    assert found.exit_code == 1 and "\nproblem: " in f"\n{found.output}", found.output
    assert f": not certified, not signed by {read_public_key(key).keyid[:16]}\n" in found.output
    return found.output


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
    here = Path(__file__).parent
    assert sources["fake_backend.py"] == hashlib.sha256((here / "fake_backend.py").read_bytes()).hexdigest()
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


# ------------------------------------------------------------------------------------ keys


def write(folder: Path, data: bytes) -> Path:
    (folder / "key.pem").write_bytes(data)
    return folder / "key.pem"


@cache
def other_private_keys() -> dict[str, bytes]:
    ours = Ed25519PrivateKey.generate()
    return {
        "found a key of kind EC, expected Ed25519": ec.generate_private_key(ec.SECP256R1()).private_bytes(*PEM),
        "found a key of kind RSA, expected Ed25519": rsa.generate_private_key(65537, 2048).private_bytes(*PEM),
        "found a key of kind Ed448, expected Ed25519": ed448.Ed448PrivateKey.generate().private_bytes(*PEM),
        "found a key of kind X25519, expected Ed25519": x25519.X25519PrivateKey.generate().private_bytes(*PEM),
        "found an encrypted key, expected one without a password": ours.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        ),
        "found a public key, expected a private key in PEM": ours.public_key().public_bytes(*SPKI),
        "found no key, expected a private key in PEM": ours.private_bytes(Encoding.DER, *PEM[1:]),
        "cannot read the key (ValueError), expected": b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "found no key": b"",
        "more than 65536 bytes": bytes(2**16 + 1),
    }


@pytest.mark.parametrize("message", other_private_keys())
def test_another_private_key_is_one_error(message: str, plain: Path, tmp_path: Path) -> None:
    found = call("attest", plain, "--key", write(tmp_path, other_private_keys()[message]))
    assert found.exit_code == 2 and len(found.stderr.splitlines()) == 1 and message in found.stderr, found.stderr
    assert not (plain / ATTESTATION).exists()


@cache
def other_public_keys() -> dict[str, bytes]:
    ours = Ed25519PrivateKey.generate()
    return {
        "found a private key, expected a public key in PEM": ours.private_bytes(*PEM),
        "found a key of kind RSA, expected Ed25519": rsa.generate_private_key(65537, 2048)
        .public_key()
        .public_bytes(*SPKI),
        "cannot read the key (ValueError), expected": b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        "found no key": b"ssh-ed25519 AAAA",
    }


@pytest.mark.parametrize("message", other_public_keys())
def test_another_public_key_is_one_error(message: str, signed: Path, tmp_path: Path) -> None:
    found = call("verify", signed, "--key", write(tmp_path, other_public_keys()[message]))
    assert found.exit_code == 2 and len(found.stderr.splitlines()) == 1 and message in found.stderr, found.stderr


@pytest.mark.parametrize("arguments", [("attest", "x", "--key", "no.pem"), ("verify", "x", "--key", "no.pem")])
def test_a_key_that_is_not_there_is_one_error(arguments: tuple[str, ...]) -> None:
    found = call(*arguments)
    assert found.exit_code == 2 and found.stderr == "assay: no.pem: cannot read the key: No such file or directory\n"


def test_a_missing_library_says_what_to_install(keys: tuple[Path, Path], signed: Path) -> None:
    code = f"""
import sys
sys.modules["cryptography"] = None
from npu_assay.conformance.cli import main
main(["verify", {str(signed)!r}, "--key", {str(keys[1])!r}])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr == "assay: signatures need the package cryptography: pip install 'npu-assay[sign]'\n"


def test_what_stands_where_the_signature_goes_is_left_alone(
    plain: Path, signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("mine")
    found = call("attest", plain, "--key", keys[0], "--out", tmp_path / "notes")
    assert found.exit_code == 2 and "a file that is not an attestation" in found.stderr
    assert (tmp_path / "notes").read_text() == "mine"
    found = call("attest", plain, "--key", keys[0], "--out", plain / RESULTS)
    assert found.exit_code == 2 and "whose files it is made of" in found.stderr
    run(tmp_path / "other", selection=Selection(NEG))
    found = call("attest", tmp_path / "other", "--key", keys[0], "--out", signed / ATTESTATION)
    assert found.exit_code == 2 and "an attestation of another certificate" in found.stderr


def test_an_archive_is_not_changed(plain: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    assert call("package", plain, "--out", tmp_path / "a.zip").exit_code == 0
    found = call("attest", tmp_path / "a.zip", "--key", keys[0])
    assert found.exit_code == 2 and "an archive, which is never changed; expected --out FILE" in found.stderr
    found = call("verify", plain, "--attestation", "x")
    assert found.exit_code == 2 and "expected --key with it" in found.stderr
    found = call("verify", plain, "--backend", "x")
    assert found.exit_code == 2 and "expected --rerun or --key with it" in found.stderr


# ------------------------------------------------------------------------------------ others about our envelopes


def test_in_totos_library_accepts_the_envelope(signed: Path, keys: tuple[Path, Path]) -> None:
    from securesystemslib import dsse
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer._key import SSlibKey

    ours = SSlibKey.from_crypto(read_public_key(keys[1]).key, keyid(keys))
    other = SSlibKey.from_crypto(Ed25519PrivateKey.generate().public_key(), keyid(keys))
    envelope = dsse.Envelope.from_dict(json.loads((signed / ATTESTATION).read_text()))
    assert envelope.pae() == envelope_of(signed).signed
    assert envelope.verify([ours], 1) == {keyid(keys): ours}
    with pytest.raises(VerificationError):
        envelope.verify([other], 1)


def test_we_accept_an_envelope_of_in_totos_library(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    from securesystemslib import dsse
    from securesystemslib.signer._crypto_signer import CryptoSigner

    made = dsse.Envelope(envelope_of(signed).payload, PAYLOAD, {})
    made.sign(CryptoSigner(read_private_key(keys[0]).key))
    folder = copy(signed, tmp_path, json.dumps(made.to_dict()).encode())
    assert call("verify", folder, "--key", keys[1]).exit_code == 0


def test_in_totos_library_accepts_the_statement(signed: Path) -> None:
    from google.protobuf.json_format import ParseDict
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    found = statement_of(signed)
    Statement.copy_from_pb(ParseDict(found, statement_pb2.Statement())).validate()
    found["subject"][0]["digest"] = {}
    with pytest.raises(ValueError, match="digest"):
        Statement.copy_from_pb(ParseDict(found, statement_pb2.Statement())).validate()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the command openssl")
def test_openssl_makes_the_keys_and_accepts_the_signature(plain: Path, tmp_path: Path) -> None:
    """The commands of the document."""

    def openssl(*arguments: str) -> bytes:
        return subprocess.run(["openssl", *arguments], cwd=tmp_path, capture_output=True, check=True).stdout

    openssl("genpkey", "-algorithm", "ed25519", "-out", "private.pem")
    openssl("pkey", "-in", "private.pem", "-pubout", "-out", "public.pem")
    folder = copy(plain, tmp_path)
    assert call("attest", folder, "--key", tmp_path / "private.pem").exit_code == 0
    der = openssl("pkey", "-pubin", "-in", "public.pem", "-outform", "DER")
    name = hashlib.sha256(der).hexdigest()
    assert call("verify", folder, "--key", tmp_path / "public.pem").output.endswith(f"signed by {name[:16]}\n")
    text = json.loads((folder / ATTESTATION).read_text())
    payload, kind = base64.b64decode(text["payload"]), text["payloadType"]
    (tmp_path / "signed").write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
    (tmp_path / "sig").write_bytes(base64.b64decode(text["signatures"][0]["sig"]))
    check = ("pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", "-in", "signed", "-sigfile", "sig")
    assert b"Verified Successfully" in openssl(*check)
