"""Finding a backend's catalogue of faults, and the faults in it that an expression selects."""

from __future__ import annotations

from collections.abc import Sequence

from npu_assay.conformance.backend.loading import load_backend, load_object
from npu_assay.conformance.common.errors import UsageError, nearest
from npu_assay.conformance.run.selection import compile_expression
from npu_assay.faults import Fault
from npu_assay.partitioners.exir import Backend


class CatalogueError(UsageError):
    """A catalogue is missing or invalid; the message says what was found."""


def catalogue_of(backend: Backend, spec: str | None) -> str:
    """`module:attribute` of the catalogue: `spec`, or the one that the backend names."""
    found = spec if spec is not None else backend.faults
    if found is None:
        raise CatalogueError(
            f"backend {backend.name!r}: found no catalogue of faults, expected --faults module:attribute"
        )
    return found


def load_faults(backend: str, catalogue: str) -> tuple[Fault, ...]:
    """The faults of a catalogue, in its order.

    Raises CatalogueError when it is not a function of the backend that returns differently named faults.
    """
    make = load_object("faults", catalogue)
    if not callable(make):
        raise CatalogueError(f"faults {catalogue!r}: found a {type(make).__name__}, expected a function of the backend")
    found = tuple(make(load_backend(backend)))
    for fault in found:
        if not isinstance(fault, Fault):
            raise CatalogueError(f"faults {catalogue!r}: found a {type(fault).__name__}, expected a Fault")
    names = [fault.id for fault in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CatalogueError(f"faults {catalogue!r}: found two faults named {twice}, expected different names")
    return found


def selected(faults: Sequence[Fault], expression: str | None) -> tuple[Fault, ...]:
    """The faults whose id (stage/kind/name) matches. Raises CatalogueError when there is none."""
    matches = compile_expression(expression) if expression is not None else lambda name: True
    found = tuple(fault for fault in faults if matches(fault.id))
    if not found:
        known = {part for fault in faults for part in (fault.id, fault.stage, fault.kind, fault.name)}
        near = nearest(expression or "", known, most=0)
        example = f"; an id looks like {faults[0].id}" if faults else ""
        raise CatalogueError(f"-k {expression!r}: matches none of {len(faults)} faults{near or example}")
    return found
