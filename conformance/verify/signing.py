"""Ed25519 keys from PEM files, and signatures by them. Needs the package cryptography, the extra `sign`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.files import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

LARGEST = 2**16  # bytes of a key's file; one of Ed25519 has about 120
MAKE = "openssl genpkey -algorithm ed25519 -out private.pem"
PUBLIC = "openssl pkey -in private.pem -pubout -out public.pem"


class KeyFileError(UsageError):
    """A file that is not a usable key; the message says what was found and what was expected."""


@dataclass(frozen=True)
class Verifier:
    """A public key. keyid: sha256 of its SubjectPublicKeyInfo in DER, in hexadecimal."""

    key: Ed25519PublicKey
    keyid: str

    def accepts(self, signature: bytes, data: bytes) -> bool:
        """Whether the key's owner signed these bytes."""
        from cryptography.exceptions import InvalidSignature  # optional

        try:
            self.key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class Signer:
    """A private key, and the public key's id."""

    key: Ed25519PrivateKey
    verifier: Verifier

    def sign(self, data: bytes) -> bytes:
        """64 bytes, the same for the same data."""
        return self.key.sign(data)


def read_private_key(path: Path) -> Signer:
    """Read a PKCS8 file that is not encrypted. Raises KeyFileError."""
    data = _read(path)
    if b"PRIVATE KEY-----" not in data:
        raise KeyFileError(f"{path}: found {_found(data)}, expected a private key in PEM ({MAKE})")
    if b"ENCRYPTED" in data:
        raise KeyFileError(
            f"{path}: found an encrypted key, expected one without a password (openssl pkey decrypts it)"
        )
    key = _parsed(path, data)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # optional

    if not isinstance(key, Ed25519PrivateKey):
        raise _other_kind(path, key)
    return Signer(key, _verifier(key.public_key()))


def read_public_key(path: Path) -> Verifier:
    """Read a SubjectPublicKeyInfo file. Raises KeyFileError."""
    data = _read(path)
    if b"-----BEGIN PUBLIC KEY-----" not in data:
        raise KeyFileError(f"{path}: found {_found(data)}, expected a public key in PEM ({PUBLIC})")
    key = _parsed(path, data)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # optional

    if not isinstance(key, Ed25519PublicKey):
        raise _other_kind(path, key)
    _check_point(path, key)
    return _verifier(key)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
"""The field and the constant of edwards25519: x and y of a point have -x^2 + y^2 = 1 + D x^2 y^2 (RFC 8032, 5.1)."""


def _check_point(path: Path, key: Ed25519PublicKey) -> None:
    """Raise KeyFileError for a key that anybody can sign for, or that has several spellings.

    Of a point whose order is 1, 2, 4 or 8 some signatures fit every text. Such points have y = 1, -1 or 0, or are one
    doubling away from y = 0: x^2 + y^2 = 0, which with the curve's equation is D y^4 + 2 y^2 = 1.
    """
    y = int.from_bytes(key.public_bytes_raw(), "little") % 2**255
    if y >= P or y in (0, 1, P - 1) or (D * y**4 + 2 * y**2 - 1) % P == 0:
        raise KeyFileError(
            f"{path}: found a public key of small order or in another form than Ed25519's, for which anybody could "
            f"sign; expected one that belongs to a private key ({PUBLIC})"
        )


def _verifier(key: Ed25519PublicKey) -> Verifier:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # optional

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Verifier(key, hashlib.sha256(der).hexdigest())


def _parsed(path: Path, data: bytes) -> object:
    """The key in a file, of any kind."""
    from cryptography.exceptions import UnsupportedAlgorithm  # optional
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    try:
        return load_pem_private_key(data, None) if b"PRIVATE KEY-----" in data else load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(
            f"{path}: cannot read the key ({type(error).__name__}), expected an Ed25519 key in PEM"
        ) from error


def _read(path: Path) -> bytes:
    """The bytes of a key's file. Raises UsageError without the package cryptography, KeyFileError for the file."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError("signatures need the package cryptography: pip install 'npu-assay[sign]'") from None
    with failing(path, "cannot read the key", KeyFileError):
        return read_regular(path, LARGEST)


def _found(data: bytes) -> str:
    if b"PRIVATE KEY-----" in data:
        return "a private key"
    return "a public key" if b"PUBLIC KEY-----" in data else "no key"


def _other_kind(path: Path, key: object) -> KeyFileError:
    kind = type(key).__name__.removesuffix("PrivateKey").removesuffix("PublicKey").lstrip("_")
    return KeyFileError(f"{path}: found a key of kind {kind}, expected Ed25519 ({MAKE})")
