"""Keys for a Dask scheduler on this machine: an authority of a test's own, and what it signed."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LONG = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(_name(issuer), _name(name), key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - LONG).not_valid_after(now + LONG).add_extension(here, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
    return made.sign(by, hashes.SHA256())


def environment(folder: Path, name: str) -> dict[str, str]:
    """Dask's configuration for tls:// as variables: an authority of this name, and a certificate that it signed."""
    folder.mkdir(parents=True)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    signed = _certificate("here", own, name, authority)
    files = {
        "ca": _certificate(name, authority, name, authority).public_bytes(Encoding.PEM),
        "cert": signed.public_bytes(Encoding.PEM),
        "key": own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    for kind, data in files.items():
        (folder / f"{kind}.pem").write_bytes(data)
    where = {f"{role}__{kind}": folder / f"{kind}.pem" for role in ROLES for kind in ("cert", "key")}
    named = {"CA_FILE": folder / "ca.pem", **{key.upper(): path for key, path in where.items()}}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{key}": str(path) for key, path in named.items()}


ROLES = ("client", "scheduler", "worker")
