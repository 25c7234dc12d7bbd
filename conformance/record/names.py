"""The files that a run leaves behind: their names, the largest size of each, and all of them as they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npu_assay.conformance.common.errors import UsageError

JOURNAL = "results.partial.jsonl"
FUZZ = "fuzz.jsonl"
FUZZ_JOURNAL = "fuzz.partial.jsonl"
RESULTS = "results.jsonl"
CERTIFICATE = "certificate.json"
ATTESTATION = "attestation.json"  # of `assay attest`, once the run is over
TEST_RESULT, VSA = "test-result", "vsa"  # the kinds of standard attestations
STANDARD: Mapping[str, str] = {kind: f"attestation.{kind}.json" for kind in (TEST_RESULT, VSA)}
TABLE = "table.toml"
REPORTS = ("drift.json", "junit.xml", "report.md", "report.html")
# In the order in which a new run removes them.
FILES = (CERTIFICATE, ATTESTATION, *STANDARD.values(), RESULTS, FUZZ, TABLE, *REPORTS, JOURNAL)

MIB = 2**20
LIMITS: Mapping[str, int] = {
    CERTIFICATE: 32 * MIB,
    **dict.fromkeys((ATTESTATION, *STANDARD.values()), 64 * MIB),
    TABLE: MIB,
    RESULTS: 1024 * MIB,
    FUZZ: 1024 * MIB,
    JOURNAL: 1024 * MIB,
    **dict.fromkeys(REPORTS, 256 * MIB),
}
"""The largest size of each file of a run, in bytes: some hundred times what 10,000 cases take."""


class PackageError(UsageError):
    """A folder or an archive that cannot be written or read at all."""


@dataclass(frozen=True)
class Contents:
    """The files of a run, by name. problems, notes: about the folder or archive itself, as in a Verification."""

    name: str
    files: Mapping[str, bytes]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """A file as text. Raises PackageError when it is missing or not UTF-8."""
        if name not in self.files:
            raise PackageError(f"incomplete: {name} is missing")
        try:
            return self.files[name].decode()
        except UnicodeDecodeError as error:
            raise PackageError(f"{name} is not UTF-8 text at byte {error.start}") from error
