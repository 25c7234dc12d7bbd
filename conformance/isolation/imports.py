"""What importing a backend must leave as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npu_assay.conformance.backend.loading import BackendSpecError
from npu_assay.conformance.isolation.state import State


@contextmanager
def unchanged(spec: str) -> Iterator[None]:
    """Import a backend in the body.

    Raises BackendSpecError when that changes a setting that bears on numbers: it would be one of all goldens, too, and
    of every other backend in the process. What else an import changes is the state that cases start from.
    """
    before = State.now()
    yield
    changes = before.changes(numeric=True)
    if changes:
        raise BackendSpecError(
            f"backend {spec!r}: importing it changes settings that bear on numbers, and must not: {'; '.join(changes)}"
        )
