"""Refuses backends whose import changes settings of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npu_assay.conformance.backend.loading import BackendSpecError
from npu_assay.conformance.isolation.state import State


@contextmanager
def unchanged(spec: str) -> Iterator[None]:
    """Check the import of a backend, which the body does.

    Raises BackendSpecError if it changes a setting that affects numbers: that would affect all goldens and every other
    backend in the process. Cases start from any other state that the import leaves.
    """
    before = State.now()
    yield
    changes = before.changes(numeric=True)
    if changes:
        raise BackendSpecError(
            f"backend {spec!r}: importing it must not change settings that affect numbers: {'; '.join(changes)}"
        )
