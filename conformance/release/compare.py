"""Compares two releases, backend by backend, and writes what is known after each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.common.files import write_all
from npu_assay.conformance.compare.difference import compare
from npu_assay.conformance.release.environments import Environment, made
from npu_assay.conformance.release.known import Answers, known
from npu_assay.conformance.release.packages import Release
from npu_assay.conformance.release.page import Found
from npu_assay.conformance.release.runs import Asked, Say, record
from npu_assay.conformance.table.published.documents import document_changes

SCRIPTS = "findings.json"  # what the scripts of findings showed in a release
TOLD = 10  # findings between two lines of progress


@dataclass(frozen=True)
class Request:
    """A comparison of two releases.

    folder: for the pages and records. kept: for environments. documents: two folders, or files, of published tables.
    pages: the folder with the pages of findings; None asks for no finding.
    """

    old: Release
    new: Release
    asked: Asked
    folder: Path
    kept: Path
    documents: tuple[Path, Path] | None = None
    pages: Path | None = None


def compared(request: Request, say: Say) -> Found:
    """Compare two releases, saying what is known of each backend as soon as it is. Raises UsageError."""
    if request.old.name != request.new.name:
        raise UsageError(f"{request.old}, {request.new}: found two packages, expected two releases of one")
    found = Found(request.old, request.new)
    if request.documents is not None:
        found.documents = document_changes(*request.documents)
        say(f"documents: {len(found.documents)} differences")
    sides = []
    for release in (request.old, request.new):
        say(f"{release}: its environment")
        sides.append(made(release, request.kept))
    found.sizes = (sides[0].size, sides[1].size)
    for backend in request.old.package.backends:
        _ask(request, sides, backend, found, say)
        said = found.differences[backend].conclusion if backend in found.differences else found.not_asked[backend]
        say(f"{backend}: {said}")
        _write(request.folder, found)
    if request.pages is not None:
        answers = [Answers(side, _folder(request, side) / SCRIPTS) for side in sides]
        for each in known(answers[0], answers[1], request.old.package, request.pages, request.asked.again):
            found.known.append(each)
            if len(found.known) % TOLD == 0:
                say(f"known findings: {len(found.known)} asked")
        say("known findings: " + (", ".join(f"{count} {what}" for what, count in found.statuses.items()) or "none"))
    _write(request.folder, found)
    return found


def _ask(request: Request, sides: list[Environment], backend: str, found: Found, say: Say) -> None:
    runs = []
    for side in sides:
        folder = _folder(request, side) / backend.replace(":", ".")
        try:
            runs.append(replace(record(side, backend, request.asked, folder, say), name=str(side.release)))
        except UsageError as error:
            found.not_asked[backend] = f"{side.release}: {error}"
            return
    found.differences[backend] = compare(*runs)


def _folder(request: Request, side: Environment) -> Path:
    """The folder of a release's records."""
    return request.folder / f"{side.release.name}-{side.release.version}"


def _write(folder: Path, found: Found) -> None:
    with failing(folder, "cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        write_all({folder / name: text for name, text in found.files().items()})
