"""The levels of the runs of a board: of the latest whole run of each track, verified again only if anything changed."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from npu_assay.conformance.backend.environment import suite_sources
from npu_assay.conformance.board.readiness import Readiness, as_data, of_data, readiness, reproduced
from npu_assay.conformance.board.reading import Read, for_all
from npu_assay.conformance.board.tracks import Track
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.verify.signing import read_public_key


@dataclass(frozen=True)
class Asking:
    """How runs are verified. keys: files of public keys that count as those of different people."""

    keys: tuple[Path, ...] = ()
    today: datetime.date = datetime.date.min
    workers: int = 1

    def check(self) -> None:
        """Raise UsageError for a key that cannot be read, or that is given twice."""
        ids = [read_public_key(key).keyid for key in self.keys]
        for key, keyid in zip(self.keys, ids, strict=True):
            if ids.count(keyid) > 1:
                raise UsageError(f"--key {key}: found the key twice, expected different ones")


def levels(tracks: Sequence[Track], asking: Asking, cache: Mapping[str, Any]) -> tuple[dict[str, Readiness], Any]:
    """The readiness by the slug of each track of whole runs, and the cache for the next time."""
    known = [track for track in tracks if not track.last.digest.selection]
    todo = {one.path: None for track in known for one in (track.runs if asking.keys else [track.last])}
    found = dict(zip(todo, for_all(partial(_ready, asking, cache), list(todo), asking.workers), strict=True))
    entries = {stamp: as_data(ready) for stamp, ready in found.values()}
    of = {path: ready for path, (_, ready) in found.items()}
    return {track.slug: _of(track, of) for track in known}, entries


def _of(track: Track, of: Mapping[Path, Readiness]) -> Readiness:
    others: list[Read] = [one for one in track.runs[:-1] if one.path in of]
    return reproduced(of[track.last.path], [of[one.path] for one in others])


def _ready(asking: Asking, cache: Mapping[str, Any], path: Path) -> tuple[str, Readiness]:
    """The readiness of a record, after the digest of all that it is derived from ("" for one that cannot be read)."""
    try:
        contents = read_contents(path)
    except UsageError as error:
        return "", Readiness((), str(error))
    keys = [read_public_key(key) for key in asking.keys]
    files = {name: hashlib.sha256(data).hexdigest() for name, data in contents.files.items()}
    made_of = repr((sorted(files.items()), sorted(suite_sources().items()), [key.keyid for key in keys]))
    stamp = hashlib.sha256(made_of.encode()).hexdigest()
    try:
        return stamp, of_data(cache[stamp])
    except (KeyError, TypeError):
        return stamp, readiness(contents, keys, asking.today)
