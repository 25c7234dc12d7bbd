"""DSSE envelopes: a payload, its type, and signatures over both. `read_envelope` takes untrusted bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from npu_assay.conformance.common.shapes import check_shape
from npu_assay.conformance.verify.signing import Signer, Verifier

MOST = 16  # signatures
SHAPE = {"payload": str, "payloadType": str, "signatures": [{"keyid": str, "sig": str}]}


class EnvelopeError(ValueError):
    """A text that is not a DSSE envelope."""


@dataclass(frozen=True)
class Signature:
    """A signature and the id of the key that is said to have made it."""

    keyid: str
    sig: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload of some media type, and its signatures."""

    payload: bytes
    kind: str
    signatures: tuple[Signature, ...] = ()

    @property
    def signed(self) -> bytes:
        """What is signed: type and payload, each after its length (the pre-authentication encoding of DSSE v1)."""
        kind = self.kind.encode()
        return b" ".join([b"DSSEv1", b"%d" % len(kind), kind, b"%d" % len(self.payload), self.payload])

    def with_signature(self, signer: Signer) -> Envelope:
        """The envelope with one more signature, in the order of the keys' ids."""
        others = [signature for signature in self.signatures if signature.keyid != signer.verifier.keyid]
        made = Signature(signer.verifier.keyid, signer.sign(self.signed))
        ordered = sorted([*others, made], key=lambda signature: (signature.keyid, signature.sig))
        return Envelope(self.payload, self.kind, tuple(ordered))

    def is_signed_by(self, verifier: Verifier) -> bool:
        """Whether a signature was made with this key, whatever key id it states."""
        return any(verifier.accepts(signature.sig, self.signed) for signature in self.signatures)


def envelope_text(envelope: Envelope) -> str:
    """The envelope as JSON with a final newline."""
    data = {
        "payload": base64.b64encode(envelope.payload).decode(),
        "payloadType": envelope.kind,
        "signatures": [{"keyid": s.keyid, "sig": base64.b64encode(s.sig).decode()} for s in envelope.signatures],
    }
    return json.dumps(data, indent=2, sort_keys=True) + "\n"


def read_envelope(data: bytes) -> Envelope:
    """Read an envelope. Raises EnvelopeError."""
    try:
        found = json.loads(data)
        check_shape(found, SHAPE)
        found["payloadType"].encode()  # JSON can write what UTF-8 cannot
        return Envelope(_decoded(found["payload"]), found["payloadType"], _signatures(found["signatures"]))
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(f"not a DSSE envelope: {error}") from error


def _signatures(found: Sequence[dict[str, str]]) -> tuple[Signature, ...]:
    if not 1 <= len(found) <= MOST:
        raise ValueError(f"found {len(found)} signatures, expected 1 to {MOST}")
    return tuple(Signature(one["keyid"], _decoded(one["sig"])) for one in found)


def _decoded(text: str) -> bytes:
    """Bytes from base64 in its canonical form, of which each value has exactly one."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("found base64 that is not in its canonical form")
    return data
