"""The files of a backend that is installed here, told without running any of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npu_assay.conformance.backend.importing import spec_with_code
from npu_assay.conformance.backend.info import backend_sources
from npu_assay.conformance.backend.loading import BackendSpecError, target


def installed_sources(spec: str) -> dict[str, str] | None:
    """sha256 of each file of a backend, by path, from the text of its modules; None when it is not here."""
    try:
        with found_as_loading_finds(target(spec).partition(":")[0].partition(".")[0]):
            return backend_sources(spec) or None
    except BackendSpecError:
        return None


@contextmanager
def found_as_loading_finds(module: str) -> Iterator[None]:
    """The current directory ends Python's path for a module that is nowhere else, as when it is imported."""
    here = str(Path.cwd())
    added = bool(module) and spec_with_code(module) is None and here not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added:
            sys.path.remove(here)
