"""Keys that are refused, what stands where a signature goes, and what others make of our envelopes."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from attesting import PEM, SPKI, copy, envelope_of, keyid, statement_of
from calling import call
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_public_key,
)

from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import ATTESTATION, RESULTS
from npu_assay.conformance.verify.attestation import PAYLOAD
from npu_assay.conformance.verify.signing import read_private_key, read_public_key
from tests.conformance.record.test_package import NEG, run

pytest_plugins = ["attested"]


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
        "found 65537 bytes, expected at most 65536": bytes(2**16 + 1),
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


# ------------------------------------------------------------------------------------ keys that anybody can sign for

SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
"""The eight points whose order divides 8 ("Taming the many EdDSAs", table 1)."""
OTHER_SPELLINGS = [
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    *(f"{0xED + more:02x}{'ff' * 30}{last}" for more in range(19) for last in ("7f", "ff")),
]
"""Encodings that RFC 8032 does not allow: the sign of an x that is 0, and every y from p on."""


def public_pem(raw: bytes) -> bytes:
    """A SubjectPublicKeyInfo of an Ed25519 key with these bytes (RFC 8410)."""
    der = bytes.fromhex("302a300506032b6570032100") + raw
    return b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(der) + b"\n-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize("raw", [*SMALL_ORDER, *OTHER_SPELLINGS])
def test_a_key_that_anybody_can_sign_for_is_refused(raw: str, signed: Path, tmp_path: Path) -> None:
    found = call("verify", signed, "--key", write(tmp_path, public_pem(bytes.fromhex(raw))))
    assert found.exit_code == 2 and len(found.stderr.splitlines()) == 1, found.output
    assert "found a public key of small order or in another form" in found.stderr


def test_the_library_takes_signatures_that_nobody_made() -> None:
    """That the check is needed: of the neutral point, the same signature fits every text."""
    anyone = load_pem_public_key(public_pem(bytes.fromhex(SMALL_ORDER[0])))
    assert isinstance(anyone, Ed25519PublicKey)
    for text in (b"one", b"another"):
        anyone.verify(bytes.fromhex(SMALL_ORDER[0]) + bytes(32), text)


@pytest.mark.parametrize("number", range(20))
def test_keys_that_were_made_are_taken(number: int, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(str(number).encode()).digest()).public_key()
    assert read_public_key(write(tmp_path, key.public_bytes(*SPKI))).key == key


# ------------------------------------------------------------------------------------ texts that are none


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc80" * 100, PAYLOAD + "\ud83d"])
@pytest.mark.parametrize(
    "place", [("payloadType",), ("payload",), ("signatures", 0, "keyid"), ("signatures", 0, "sig")]
)
def test_lone_surrogates_are_no_attestation(
    place: tuple[str | int, ...], text: str, signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    """JSON can write them as escapes; UTF-8 has none of them."""
    folder = copy(signed, tmp_path)
    data = json.loads((folder / ATTESTATION).read_text())
    part = data
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = text
    (folder / ATTESTATION).write_text(json.dumps(data))
    found = call("verify", folder, "--key", keys[1])
    if place == ("signatures", 0, "keyid"):  # which says nothing: the signature does
        assert found.exit_code == 0, found.output
    else:
        assert found.exit_code == 1 and "\nproblem: " in f"\n{found.output}", found.output
    again = call("attest", folder, "--key", keys[0])
    assert again.exit_code in (0, 2) and again.stderr.count("\n") == (again.exit_code == 2), again.output
