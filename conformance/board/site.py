"""The pages of a board: an index, one for each track and for each run, a badge for each track.

Pages hold their own style and script, load nothing, and are the same for the same runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from npu_assay.conformance.board.digest import TALLY, Digest
from npu_assay.conformance.board.drawing import COLORS, badge, history, ready_badge, totals
from npu_assay.conformance.board.readiness import STEPS, Readiness
from npu_assay.conformance.board.reading import Read, Runs
from npu_assay.conformance.board.tracks import Track, cell, slug, whole
from npu_assay.conformance.common.templating import rendered
from npu_assay.conformance.record.folder import writing
from npu_assay.conformance.record.names import PackageError
from npu_assay.files import read_regular, write_whole

INDEX, READY = "index.html", "readiness.json"
COLUMNS = 20  # releases in a track's matrix, and neighbors compared; the history has all


def pages(found: Runs, known: Sequence[Track], ready: Mapping[str, Readiness]) -> Iterator[tuple[str, str]]:
    """Every file of the site with its path; each page is made when the iterator reaches it.

    known: the tracks. ready: the readiness of those of whole runs, by slug.
    """
    yield (
        INDEX,
        _render("index.html", found=found, tracks=known, whole=whole(known), ready=ready, root=""),
    )
    yield READY, ready_text(found, known, ready)
    for track in known:
        of = ready.get(track.slug)
        yield f"tracks/{track.slug}.html", _render("track.html", track=track, ready=of, most=COLUMNS, root="../")
        yield f"badges/{track.slug}.svg", badge(track.last.digest) + "\n"
        if of is not None:
            yield f"badges/{track.slug}-ready.svg", ready_badge(track.last.digest, of) + "\n"
        for one in track.runs:
            yield f"runs/{slug(one.name)}.html", _render("run.html", run=one, track=track, root="../")


def ready_text(found: Runs, known: Sequence[Track], ready: Mapping[str, Readiness]) -> str:
    """The readiness of every backend as JSON: docs/board.md has its schema."""
    backends = [_ready(track.last.digest, ready[track.slug]) for track in known if track.slug in ready]
    unread = [{"run": name, "level": 0, "lacks": reason} for name, reason in found.broken]
    data = {"schema": 1, "levels": STEPS, "backends": backends, "not read": unread}
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _ready(last: Digest, found: Readiness) -> dict[str, Any]:
    operators = [asdict(each) for each in found.operators]
    about = {"backend": last.backend, "table": f"{last.table}@{last.version}", "judged": last.level, "made": last.made}
    return {**about, "certificate": last.certificate, "refused": found.refused, "operators": operators}


def every_row(known: Sequence[Track]) -> tuple[str, ...]:
    """The operators in the latest runs of all tracks."""
    return tuple(sorted({row for track in known for row in track.last.digest.rows}))


@dataclass(frozen=True)
class Written:
    """How many files of a site there are, and how many of them are new or changed."""

    files: int
    changed: int


def write(folder: Path, made: Iterator[tuple[str, str]], before: Sequence[str]) -> tuple[Written, tuple[str, ...]]:
    """Write what changed, and remove what an earlier build wrote and this one did not; returns the names of all files.

    Raises PackageError if a file cannot be written or removed.
    """
    names, changed = list[str](), 0
    with writing(folder):
        for name, text in made:
            names.append(name)
            changed += _put(folder / name, text.encode())
        for name in sorted(set(before) - set(names)):
            _remove(folder, name)
    return Written(len(names), changed), tuple(names)


def _put(path: Path, data: bytes) -> bool:
    """Write a file unless it is there already."""
    with suppress(OSError):
        if read_regular(path, len(data)) == data:
            return False
    write_whole(path, data)
    return True


def _remove(folder: Path, name: str) -> None:
    """Remove a page of an earlier build. Raises PackageError for a name that is not a page: the list is untrusted."""
    path = folder / name
    if ".." in Path(name).parts or Path(name).is_absolute() or (path.suffix not in (".html", ".svg") and name != READY):
        raise PackageError(f"{folder}: its list of pages names {name!r:.80}, expected a page of the board")
    path.unlink(missing_ok=True)


def page_of(one: Read) -> str:
    """The page of a run, from the top of the site."""
    return f"runs/{slug(one.name)}.html"


def _render(template: str, **values: Any) -> str:
    return rendered(
        "board",
        template,
        script="board.js",
        colors=COLORS,
        tally=TALLY,
        steps=STEPS,
        cell=cell,
        every_row=every_row,
        totals=totals,
        page_of=page_of,
        drawn=lambda track: Markup(history(track)),
        badge=lambda run: Markup(badge(run.digest)),
        **values,
    )
