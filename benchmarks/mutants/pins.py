"""What golden/ holds of a case: its tags with what was found, and for some tables a digest of its whole result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.plugin import tags_text
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult, to_line
from npu_assay.conformance.run.tagging import Tagging
from npu_assay.conformance.table import Table

SNAPSHOT = "snapshot"
RECORDED = "recorded results"
DIGITS = 16
"""Of a digest, how many are recorded."""


@dataclass(frozen=True)
class Pins:
    """The lines of the snapshots of tags by row, and digests by case."""

    tags: Mapping[str, frozenset[str]]
    digests: Mapping[str, str]

    @classmethod
    def of(cls, table: Table, root: Path) -> Pins:
        """What stands in the table's folder."""
        folder = root / "golden" / f"{table.name}@{table.version}"
        tags = {path.stem: frozenset(path.read_text().splitlines()) for path in folder.glob("*.txt")}
        recorded = folder / "results.sha256"
        lines = recorded.read_text().splitlines() if recorded.exists() else []
        return cls(tags, {case: digest for digest, case in (line.split("  ", 1) for line in lines)})

    def moved(self, case: Case, result: CaseResult) -> str:
        """Which of the two is another one, and of which case; nothing where neither is."""
        line = tags_text([(case, Tagging(result.verdict, result.reasons, {}))]).rstrip("\n")
        if line not in self.tags.get(case.row, {line}):
            return f"{SNAPSHOT} {case.id}"
        digest = hashlib.sha256(to_line(result).encode()).hexdigest()[:DIGITS]
        return "" if self.digests.get(case.id, digest) == digest else f"{RECORDED} {case.id}"
