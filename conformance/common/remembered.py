"""What was computed once for a table's cases and need not be computed again: a file for each table and kind.

It is in the user's cache folder, and is believed only when it was written with the same table, suite, Python and
libraries.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from npu_assay.files import write_whole

CACHE = "NPU_ASSAY_CACHE"
"""The environment variable that names the cache folder; when it is empty nothing is remembered."""


class Remembered:
    """One such file.

    kind: the folder's name. table: its name; of None nothing is known or remembered. made: all that decides what is
    computed.
    """

    def __init__(self, kind: str, table: str | None, made: Mapping[str, str]) -> None:
        self._made = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
        self._file = None if table is None else _file(kind, table)

    def read(self, key: str) -> object:
        """What stands under this key; None when the file is of another table, suite or library, or is no such file."""
        if self._file is not None:
            with suppress(OSError, ValueError, RecursionError):
                found = json.loads(self._file.read_bytes())
                if isinstance(found, dict) and found.get("made") == self._made:
                    return found.get(key)
        return None

    def write(self, key: str, value: object) -> None:
        """Remember this alone."""
        if self._file is not None:
            text = json.dumps({"made": self._made, key: value})
            with suppress(OSError):  # then the next run computes it again
                write_whole(self._file, text.encode())


def _file(kind: str, table: str) -> Path | None:
    """One for each name, which may hold anything."""
    folder = os.environ.get(CACHE)
    if folder == "":
        return None
    name = hashlib.sha256(table.encode()).hexdigest()[:16]
    return Path(folder or platformdirs.user_cache_dir("npu-assay")) / kind / f"{name}.json"
