"""Builds a board: reads new runs, makes all pages, writes those that changed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.board.reading import Runs, asked, read, write_cache, written_before
from npu_assay.conformance.board.ready_runs import Asking, levels
from npu_assay.conformance.board.site import pages, write
from npu_assay.conformance.board.tracks import tracks
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.folder import writing
from npu_assay.files import make_folder


@dataclass(frozen=True)
class Built:
    """The runs that were read, the number of files of the site, and how many of them changed."""

    runs: Runs
    files: int
    changed: int


def build(words: Sequence[str], folder: Path, asking: Asking | None = None) -> Built:
    """Build or renew the site of runs, as the command line names them. asking: how they are verified.

    Raises UsageError when no run or key can be read, and PackageError for a folder that holds other files or cannot be
    made.
    """
    asking = asking or Asking(today=datetime.date.today())
    before = written_before(folder)
    asking.check()
    found, cache = read(asked(words), folder, asking.workers)
    if not found.runs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in found.broken[:3])
        raise UsageError(f"found no run that can be read, expected at least one: {reasons}")
    with writing(folder):
        make_folder(folder)
    write_cache(folder, cache, before)  # before a page is: a build that is cut off leaves a folder of a board
    known = tracks(found)
    ready, cache["ready"] = levels(known, asking, cache["ready"])
    written, names = write(folder, pages(found, known, ready), before)
    write_cache(folder, cache, names)
    return Built(found, written.files, written.changed)
