"""Cases whose goldens were found to agree: the second golden is asked once for each, not in every run.

One file for each table, in the user's cache folder. It is believed only when it was written with the same table,
suite, Python and libraries. A disagreement is never remembered, so what the file can spare is only the question of
whether the suite is right: whoever writes to it hides a fault of a golden, never one of a backend.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from npu_assay.conformance.record.results import GOLDEN, CaseResult
from npu_assay.files import write_whole

CACHE = "NPU_ASSAY_CACHE"
"""The environment variable that names the cache folder; when it is empty nothing is remembered."""
JUDGED = "gate3"
"""A case on which this gate ended has been compared with the float golden."""


class Agreements:
    """What is known of one table's cases.

    table: its name; of None nothing is known or remembered. made: all that decides whether goldens agree on a case.
    """

    def __init__(self, table: str | None, made: Mapping[str, str]) -> None:
        self._made = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
        self._file = None if table is None else _file(table)
        self.known = frozenset[str]() if self._file is None else _read(self._file, self._made)

    def add(self, results: Iterable[CaseResult]) -> None:
        """Remember the cases on which the goldens were compared and no failure of theirs was found."""
        found = self.known | {result.case for result in results if _agrees(result)}
        if self._file is not None and found != self.known:
            self.known = found
            text = json.dumps({"made": self._made, "agreed": sorted(found)})
            with suppress(OSError):  # then the next run asks again
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._file, text.encode())


def _agrees(result: CaseResult) -> bool:
    return JUDGED in result.checks and not any(failure.check == GOLDEN for failure in result.failures)


def _file(table: str) -> Path | None:
    """One for each name, which may hold anything."""
    folder = os.environ.get(CACHE)
    if folder == "":
        return None
    name = hashlib.sha256(table.encode()).hexdigest()[:16]
    return Path(folder or platformdirs.user_cache_dir("npu-assay")) / "goldens" / f"{name}.json"


def _read(file: Path, made: str) -> frozenset[str]:
    """Nothing when the file is of another table, suite or library, or is no such file."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(file.read_bytes())
        if isinstance(found, dict) and found.get("made") == made and isinstance(found.get("agreed"), list):
            return frozenset(str(name) for name in found["agreed"])
    return frozenset()
