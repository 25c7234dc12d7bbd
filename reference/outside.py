"""Operators from installed packages: what the suite does not know, somebody else brings, with its float golden.

A package names its operators in the entry-point group `npu_assay.operators`; each entry is an `Operator`. It is code of
the oracle: it runs in the process that judges, and so it may not come from the package of a backend that is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

GROUP = "npu_assay.operators"


class OutsideError(ValueError):
    """An entry of the group that is no operator; the message names it."""


def points() -> Iterator[EntryPoint]:
    """The entries of the group, in the order of their names. Loads none of them."""
    return iter(sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)))


def packages() -> tuple[str, ...]:
    """The packages that operators come from, in the order of their names."""
    return tuple(sorted({point.value.partition(":")[0].partition(".")[0] for point in points()}))
