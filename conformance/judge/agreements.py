"""Remembers the cases whose two goldens agree: the second golden is computed once for each case, not in every run.

Only agreement is remembered. So whoever edits the file can hide a fault of a golden, never a fault of a backend.
"""

from __future__ import annotations

from collections.abc import Iterable

from npu_assay.conformance.common.remembered import Remembered
from npu_assay.conformance.record.results import GOLDEN, CaseResult

KIND, AGREED = "goldens", "agreed"
JUDGED = "gate3"
"""A case on which this gate ended has been compared with the float golden."""


class Agreements:
    """The cases of one table whose goldens are known to agree."""

    def __init__(self, file: Remembered) -> None:
        self._file = file
        found = file.read(AGREED)
        self.known = frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    def add(self, results: Iterable[CaseResult]) -> None:
        """Remember those of the results whose goldens were compared and agree."""
        found = self.known | {result.case for result in results if _agrees(result)}
        if found != self.known:
            self.known = found
            self._file.write(AGREED, sorted(found))


def _agrees(result: CaseResult) -> bool:
    return JUDGED in result.checks and not any(failure.check == GOLDEN for failure in result.failures)
