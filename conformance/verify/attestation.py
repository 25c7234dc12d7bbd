"""A certificate as signed in-toto statements: who vouches for which files.

A statement's subjects are the run's own files and every file that the backend is made of, by sha256; its predicate is
the certificate, or one of those that other tools read. The signed statement is compared with the one that the folder
and its certificate give, so a valid signature of any other statement is refused.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npu_assay.conformance.common.errors import failing
from npu_assay.conformance.common.files import write_all
from npu_assay.conformance.common.shapes import OF_ANY_KEY, check_shape
from npu_assay.conformance.record.certificate import SCHEMA, Certificate
from npu_assay.conformance.record.folder import check_target, writing
from npu_assay.conformance.record.names import (
    ATTESTATION,
    CERTIFICATE,
    FUZZ,
    LIMITS,
    RESULTS,
    STANDARD,
    TABLE,
    TEST_RESULT,
    VSA,
    Contents,
    PackageError,
)
from npu_assay.conformance.verify.dsse import Envelope, EnvelopeError, envelope_text, read_envelope
from npu_assay.conformance.verify.signing import Signer, Verifier
from npu_assay.conformance.verify.standard_predicates import (
    TIME,
    TYPES,
    test_result,
    time_problem,
    verification_summary,
)
from npu_assay.files import read_regular

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = f"urn:npu-assay:certificate:{SCHEMA}"
PAYLOAD = "application/vnd.in-toto+json"
OWN = "certificate"  # the kind of statement whose predicate is the certificate
BACKEND = "backend/"  # before the path of a file of the backend, in a subject's name
SUBJECTS = (CERTIFICATE, RESULTS, FUZZ, TABLE)
SHOWN = 5  # differing subjects
BEFORE = 40  # characters shown before the place where two values differ
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


def statement(contents: Contents, certificate: Certificate, kind: str = OWN, time: str = "") -> dict[str, Any]:
    """The statement to sign about a run in which `verify` finds no problem. Raises ValueError where none follows.

    kind: of the predicate: the certificate, or one of STANDARD. time: when a VSA's verification was.
    """
    files = subjects(contents, certificate)
    if kind == TEST_RESULT:
        said = test_result(contents, certificate)
    else:
        summary = kind == VSA
        said = verification_summary(certificate, files, time) if summary else json.loads(contents.text(CERTIFICATE))
    return {
        "_type": TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in files.items()],
        "predicateType": TYPES.get(kind, PREDICATE),
        "predicate": said,
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


def attest(
    contents: Contents, certificate: Certificate, signer: Signer, target: Path, kinds: Collection[str] = ()
) -> dict[Path, Envelope]:
    """Write envelopes with the signer's signature, and keep other signatures of the same statements.

    kinds: of the standard statements to sign, too, each in a file beside the target; those that are there are signed in
    any case. Raises PackageError if another file is there, or if a file cannot be written.
    """
    beside = {kind: target.with_name(f"{target.stem}.{kind}{target.suffix}") for kind in STANDARD}
    wanted = {OWN: target} | {kind: path for kind, path in beside.items() if kind in kinds or path.exists()}
    now = datetime.datetime.now(datetime.UTC).strftime(TIME)
    envelopes = {}
    for kind, path in wanted.items():
        found = _envelope_at(path)
        stated = now if found is None else _time(found)
        made = statement(contents, certificate, kind, now if time_problem(stated, certificate) else stated)
        payload = json.dumps(made, sort_keys=True, separators=(",", ":")).encode()
        envelopes[path] = _same(path, found, Envelope(payload, PAYLOAD)).with_signature(signer)
    with writing(target):
        write_all({path: envelope_text(envelope) for path, envelope in envelopes.items()})
    return envelopes


def _envelope_at(target: Path) -> Envelope | None:
    """The envelope in a file, None without a file. Raises PackageError for any other file."""
    if not target.exists():
        return None
    try:
        return read_envelope(read_attestation(target))
    except EnvelopeError as error:
        raise PackageError(
            f"{target}: found a file that is not an attestation ({error}), expected no file or an attestation"
        ) from error


def _same(target: Path, found: Envelope | None, made: Envelope) -> Envelope:
    """The envelope that is there, if it is of the same statement; the new one if none is there."""
    if found is not None and (found.payload, found.kind) != (made.payload, made.kind):
        raise PackageError(
            f"{target}: found an attestation of another certificate, expected no file or one of this certificate"
        )
    return found or made


def _time(envelope: Envelope) -> str:
    """When the verification was that an envelope states; "" if it states no such thing. A later key signs the same."""
    try:
        found = json.loads(envelope.payload)["predicate"]["timeVerified"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def read_attestation(path: Path) -> bytes:
    """The bytes of an envelope outside of a folder. Raises PackageError."""
    with failing(path, "cannot be read", PackageError):
        return read_regular(path, LIMITS[ATTESTATION])


# ------------------------------------------------------------------------------------ checking one


def check(
    contents: Contents, certificate: Certificate, verifier: Verifier, data: bytes | None, name: str | None = None
) -> Checked:
    """Check an envelope's signature and its statement.

    data: the envelope's bytes, None if there is none. name: of the run's file that it is; None for any statement.
    """
    where = name or ATTESTATION
    if data is None:
        problem = f"{where} is missing: found no signature, expected one by {verifier.keyid[:DIGITS]}"
        return Checked(verifier.keyid, (problem,))
    try:
        envelope = read_envelope(data)
    except EnvelopeError as error:
        return Checked(verifier.keyid, (f"{where}: {error}",))
    found = list(_signature(envelope, verifier)) or list(_payload(envelope, contents, certificate, name))
    return Checked(verifier.keyid, tuple(f"{where}: {problem}" for problem in found))


def check_all(contents: Contents, certificate: Certificate, verifier: Verifier) -> Checked:
    """Check the attestations among the run's files: its own, which must be there, and the standard ones that are."""
    names = [ATTESTATION, *(name for name in STANDARD.values() if name in contents.files)]
    found = [check(contents, certificate, verifier, contents.files.get(name), name) for name in names]
    return Checked(verifier.keyid, tuple(problem for one in found for problem in one.problems))


def _signature(envelope: Envelope, verifier: Verifier) -> Iterator[str]:
    if envelope.is_signed_by(verifier):
        return
    found = [signature.keyid for signature in envelope.signatures]
    if verifier.keyid in found:
        yield f"the signature of {verifier.keyid[:DIGITS]} does not fit what it signs: one of them was changed"
    else:
        names = ", ".join(f"{keyid[:DIGITS]!r}" for keyid in found)
        yield f"found a signature by {names}, expected one by {verifier.keyid[:DIGITS]!r}"


def _payload(envelope: Envelope, contents: Contents, certificate: Certificate, name: str | None) -> Iterator[str]:
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
    kinds = {STANDARD[kind] if name else uri: kind for kind, uri in TYPES.items()}
    kind = kinds.get(name or signed["predicateType"], OWN)
    types = {"_type": TYPE, "predicateType": TYPES.get(kind, PREDICATE)}
    if others := {key: stated for key, stated in types.items() if signed[key] != stated}:
        yield from (f"{key}: found {signed[key]!r:.80}, expected {stated!r}" for key, stated in others.items())
        return
    try:
        expected = statement(contents, certificate, kind, _time(envelope))
    except ValueError as error:
        yield str(error)
        return
    wanted = {one["name"]: one["digest"]["sha256"] for one in expected["subject"]}
    differing = list(_subjects(signed["subject"], wanted))
    yield from differing[:SHOWN]
    if len(differing) > SHOWN:
        yield f"... and {len(differing) - SHOWN} more subjects that differ"
    if not differing:
        yield from _predicate(signed["predicate"], expected["predicate"])


def _predicate(signed: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """The keys whose values are not those that the run's files give."""
    for key in sorted(signed.keys() | expected.keys()):
        if signed.get(key) != expected.get(key):
            found, wanted = (json.dumps(one.get(key), sort_keys=True) for one in (signed, expected))
            place = next((at for at, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), 0)
            start = max(0, place - BEFORE)
            said = f"found {found[start:]:.80}, expected {wanted[start:]:.80}"
            yield f"the predicate is not what {CERTIFICATE} says: {key}: {said}"


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
