"""Whether the files of a backend are those that a certificate lists."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.conformance.record.certificate import Certificate


def file_problems(found: Mapping[str, str], certificate: Certificate) -> list[str]:
    """Where the digests of a backend's files differ from those that a certificate lists."""
    stated: Mapping[str, str] = certificate.backend["sources"]
    return [
        f"{name}: found {_digest(found.get(name))}, recorded {_digest(stated.get(name))}"
        for name in sorted(found.keys() | stated.keys())
        if found.get(name) != stated.get(name)
    ]


def _digest(sha256: str | None) -> str:
    return "no such file" if sha256 is None else f"sha256 {sha256[:12]}"
