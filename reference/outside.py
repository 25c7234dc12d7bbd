"""What installed packages bring: operators that the suite does not know, features for predicates, contexts.

A package names its operators in the entry-point group `npu_assay.operators`; each entry is an `Operator`. What it names
in `npu_assay.constraints` are features and contexts (`npu_assay.conformance.predicates.outside`). Both are code of the
oracle: they run in the process that judges, and so may not come from the package of a backend that is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points

GROUP = "npu_assay.operators"
CONSTRAINTS = "npu_assay.constraints"


class OutsideError(ValueError):
    """An entry of a group that is not what it must be, or that fails when it is used; the message names it."""


def points() -> Iterator[EntryPoint]:
    """The entries of the group, in the order of their names. Loads none of them."""
    return _points(GROUP)


def constraint_points() -> Iterator[EntryPoint]:
    """The entries of features and contexts, in the order of their names. Loads none of them."""
    return _points(CONSTRAINTS)


def packages() -> tuple[str, ...]:
    """The packages that operators come from, in the order of their names."""
    return _packages(points())


def constraint_packages() -> tuple[str, ...]:
    """The packages that features and contexts come from, in the order of their names."""
    return _packages(constraint_points())


def _points(group: str) -> Iterator[EntryPoint]:
    return iter(sorted(entry_points(group=group), key=lambda point: (point.name, point.value)))


def _packages(found: Iterable[EntryPoint]) -> tuple[str, ...]:
    return tuple(sorted({point.value.partition(":")[0].partition(".")[0] for point in found}))
