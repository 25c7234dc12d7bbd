"""What results depend on: sources, table and versions. Equal statements mean equal results."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.conformance.backend.environment import digest_of, environment, suite_sources
from npu_assay.conformance.backend.info import About
from npu_assay.conformance.table import Table

Statement = Mapping[str, str]


def statement(backend: About, table: Table, suite: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    """Sources, table and versions, by names that an error can show."""
    return {
        **{f"backend's file {name}": digest for name, digest in backend.sources.items()},
        "table": f"{table.title} {table.sha256}",
        **_common(suite, versions),
        **{f"version of {name}": found for name, found in backend.tools.items()},
    }


def made_with() -> dict[str, str]:
    """The part of this process's statement that does not depend on a backend."""
    return _common(suite_sources(), environment())


def _common(suite: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    return {
        "sources of the suite": digest_of(suite),
        **{f"version of {name}": found for name, found in versions.items()},
    }


def differences(found: Statement, expected: Statement) -> str:
    """The keys that differ between two statements, with both values; "" if none does."""
    keys = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
    return "; ".join(
        f"{key}: found {_short(found.get(key, 'nothing'))}, expected {_short(expected.get(key, 'nothing'))}"
        for key in keys
    )


def _short(text: str) -> str:
    """The text with its sha256 digests cut to 12 digits."""
    words = text.split()
    return " ".join(word[:12] if len(word) == 64 else word for word in words)
