"""A run, a key, and the run signed with it; what verify says of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from calling import call
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from npu_assay.conformance.record.names import ATTESTATION
from npu_assay.conformance.verify.dsse import Envelope, read_envelope
from npu_assay.conformance.verify.signing import read_public_key
from tests.conformance.record.test_package import CASES

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
    """The objections of `verify --key` to a folder that has no other fault."""
    assert call("verify", folder).exit_code == 0
    found = call("verify", folder, "--key", key)
    assert found.exit_code == 1 and "\nproblem: " in f"\n{found.output}", found.output
    assert f": not certified, not signed by {read_public_key(key).keyid[:16]}\n" in found.output
    return found.output
