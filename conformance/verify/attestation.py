"""A certificate as a signed in-toto statement: who vouches for which files.

The statement's subjects are the run's own files and every file that the backend is made of, by sha256; its predicate is
the certificate. The signed statement is compared with the one that the folder and its certificate give, so a
valid signature of any other statement is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npu_assay.conformance.common.errors import failing
from npu_assay.conformance.common.shapes import OF_ANY_KEY, check_shape
from npu_assay.conformance.record.certificate import SCHEMA, Certificate
from npu_assay.conformance.record.folder import check_target, writing
from npu_assay.conformance.record.names import (
    ATTESTATION,
    CERTIFICATE,
    FUZZ,
    LIMITS,
    RESULTS,
    TABLE,
    Contents,
    PackageError,
)
from npu_assay.conformance.verify.dsse import Envelope, EnvelopeError, envelope_text, read_envelope
from npu_assay.conformance.verify.signing import Signer, Verifier
from npu_assay.files import read_regular, write_whole

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = f"urn:npu-assay:certificate:{SCHEMA}"
PAYLOAD = "application/vnd.in-toto+json"
BACKEND = "backend/"  # before the path of a file of the backend, in a subject's name
SUBJECTS = (CERTIFICATE, RESULTS, FUZZ, TABLE)
SHOWN = 5  # differing subjects
DIGITS = 16  # of a key's id, where people read it
SHAPE = {"_type": str, "subject": [{"name": str, "digest": {OF_ANY_KEY: str}}], "predicateType": str, "predicate": dict}


@dataclass(frozen=True)
class Checked:
    """The outcome of a check of a signature: the key's id and the problems."""

    keyid: str
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"not signed by {self.keyid[:DIGITS]}" if self.problems else f"signed by {self.keyid[:DIGITS]}"


# ------------------------------------------------------------------------------------ the statement


def statement(contents: Contents, certificate: Certificate) -> dict[str, Any]:
    """The statement to sign about a run in which `verify` finds no problem."""
    return {
        "_type": TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in subjects(contents, certificate).items()
        ],
        "predicateType": PREDICATE,
        "predicate": json.loads(contents.text(CERTIFICATE)),
    }


def subjects(contents: Contents, certificate: Certificate) -> dict[str, str]:
    """The sha256 by name of the run's files, and of the backend's files as the certificate lists them."""
    own = {name: hashlib.sha256(contents.files[name]).hexdigest() for name in SUBJECTS if name in contents.files}
    return own | {f"{BACKEND}{name}": digest for name, digest in sorted(certificate.backend["sources"].items())}


def target_of(path: Path, out: Path | None) -> Path:
    """The path of the attestation of a folder or archive. Raises PackageError for one of the run's own files."""
    if out is None:
        if not path.is_dir():
            raise PackageError(f"{path}: found an archive, which is never changed; expected --out FILE")
        return path / ATTESTATION
    if out.resolve() != (path / ATTESTATION).resolve():
        check_target(path, out)
    return out


def attest(contents: Contents, certificate: Certificate, signer: Signer, target: Path) -> Envelope:
    """Write the envelope with the signer's signature, and keep other signatures of the same statement.

    Raises PackageError if another file is there, or if the file cannot be written.
    """
    payload = json.dumps(statement(contents, certificate), sort_keys=True, separators=(",", ":")).encode()
    envelope = _other_signatures(target, Envelope(payload, PAYLOAD)).with_signature(signer)
    with writing(target):
        write_whole(target, envelope_text(envelope).encode())
    return envelope


def _other_signatures(target: Path, envelope: Envelope) -> Envelope:
    """The envelope in the file, if it is of the same statement; the new one if there is no file."""
    if not target.exists():
        return envelope
    try:
        found = read_envelope(read_attestation(target))
    except EnvelopeError as error:
        raise PackageError(
            f"{target}: found a file that is not an attestation ({error}), expected no file or an attestation"
        ) from error
    if (found.payload, found.kind) != (envelope.payload, envelope.kind):
        raise PackageError(
            f"{target}: found an attestation of another certificate, expected no file or one of this certificate"
        )
    return found


def read_attestation(path: Path) -> bytes:
    """The bytes of an envelope outside of a folder. Raises PackageError."""
    with failing(path, "cannot be read", PackageError):
        return read_regular(path, LIMITS[ATTESTATION])


# ------------------------------------------------------------------------------------ checking one


def check(contents: Contents, certificate: Certificate, verifier: Verifier, data: bytes | None) -> Checked:
    """Check an envelope's signature and its statement. data: the envelope's bytes, None if there is none."""
    if data is None:
        problem = f"{ATTESTATION} is missing: found no signature, expected one by {verifier.keyid[:DIGITS]}"
        return Checked(verifier.keyid, (problem,))
    try:
        envelope = read_envelope(data)
    except EnvelopeError as error:
        return Checked(verifier.keyid, (f"{ATTESTATION}: {error}",))
    found = list(_signature(envelope, verifier)) or list(_payload(envelope, contents, certificate))
    return Checked(verifier.keyid, tuple(f"{ATTESTATION}: {problem}" for problem in found))


def _signature(envelope: Envelope, verifier: Verifier) -> Iterator[str]:
    if envelope.is_signed_by(verifier):
        return
    found = [signature.keyid for signature in envelope.signatures]
    if verifier.keyid in found:
        yield f"the signature of {verifier.keyid[:DIGITS]} does not fit what it signs: one of them was changed"
    else:
        names = ", ".join(f"{keyid[:DIGITS]!r}" for keyid in found)
        yield f"found a signature by {names}, expected one by {verifier.keyid[:DIGITS]!r}"


def _payload(envelope: Envelope, contents: Contents, certificate: Certificate) -> Iterator[str]:
    """The differences between the signed statement and the one that the run's files give."""
    if envelope.kind != PAYLOAD:
        yield f"payloadType: found {envelope.kind!r:.80}, expected {PAYLOAD!r}"
        return
    try:
        signed = json.loads(envelope.payload)
        check_shape(signed, SHAPE)
    except (ValueError, RecursionError) as error:
        yield f"the payload is not an in-toto statement: {error}"
        return
    expected = statement(contents, certificate)
    for key in ("_type", "predicateType"):
        if signed[key] != expected[key]:
            yield f"{key}: found {signed[key]!r:.80}, expected {expected[key]!r}"
    differing = list(_subjects(signed["subject"], subjects(contents, certificate)))
    yield from differing[:SHOWN]
    if len(differing) > SHOWN:
        yield f"... and {len(differing) - SHOWN} more subjects that differ"
    if not differing and signed["predicate"] != expected["predicate"]:
        yield f"the predicate is not what {CERTIFICATE} says"


def _subjects(signed: list[dict[str, Any]], expected: Mapping[str, str]) -> Iterator[str]:
    """The differences between the signed subjects and those of the folder."""
    found = dict[str, str]()
    for one in signed:
        if one["name"] in found:
            yield f"subject {one['name']!r:.120} stands twice"
        found[one["name"]] = one["digest"].get("sha256", "")
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            yield f"subject {name!r:.120}: found {_said(found.get(name))} signed, expected {_said(expected.get(name))}"


def _said(sha256: str | None) -> str:
    return "no such file" if sha256 is None else f"sha256 {sha256[:DIGITS]}"
