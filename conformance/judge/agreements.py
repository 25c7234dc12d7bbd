"""Cases whose goldens were found to agree: the second golden is asked once for each, not in every run.

A disagreement is never remembered, so what the file can spare is only the question of whether the suite is right:
whoever writes to it hides a fault of a golden, never one of a backend.
"""

from __future__ import annotations

from collections.abc import Iterable

from npu_assay.conformance.common.remembered import Remembered
from npu_assay.conformance.record.results import GOLDEN, CaseResult

KIND, AGREED = "goldens", "agreed"
JUDGED = "gate3"
"""A case on which this gate ended has been compared with the float golden."""


class Agreements:
    """What is known of one table's cases."""

    def __init__(self, file: Remembered) -> None:
        self._file = file
        found = file.read(AGREED)
        self.known = frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    def add(self, results: Iterable[CaseResult]) -> None:
        """Remember the cases on which the goldens were compared and no failure of theirs was found."""
        found = self.known | {result.case for result in results if _agrees(result)}
        if found != self.known:
            self.known = found
            self._file.write(AGREED, sorted(found))


def _agrees(result: CaseResult) -> bool:
    return JUDGED in result.checks and not any(failure.check == GOLDEN for failure in result.failures)
