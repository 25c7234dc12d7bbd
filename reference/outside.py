"""Operators from installed packages: what the suite does not know, somebody else brings, with its float golden.

A package names its operators in the entry-point group `npu_assay.operators`; each entry is an `Operator`. It is code of
the oracle: it runs in the process that judges, and so it may not come from the package of a backend that is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

GROUP = "npu_assay.operators"


class OutsideError(ValueError):
    """An entry of the group that is no operator; the message names it."""


@dataclass(frozen=True)
class Operator:
    """An operator of torch, ATen's or of a library of somebody's own.

    name: `namespace.operator.overload`, as tables spell it.
    golden: the operator in float64 with bounds. It gets the arguments of the call by position, tensors as
        `npu_assay.reference.golden.Bounded`, and returns one.
    use: the operator on an input of a given shape, as `npu_assay.conformance.cases.make.use` makes it, in int8.
    shape: the plain one. shapes: others, of other ranks and sizes, that cases try.
    """

    name: str
    golden: Callable[..., Any]
    use: Callable[[tuple[int, ...]], Any]
    shape: tuple[int, ...] = (1, 3, 4, 5)
    shapes: tuple[tuple[int, ...], ...] = ()


def points() -> Iterator[EntryPoint]:
    """The entries of the group, in the order of their names. Loads none of them."""
    return iter(sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)))


@cache
def outside_operators() -> Mapping[str, Operator]:
    """Every operator that an installed package brings, by name.

    Raises OutsideError for an entry that does not load, that is no Operator, or that has the name of another.
    """
    found = dict[str, Operator]()
    for point in points():
        try:
            loaded = point.load()
        except Exception as error:  # whatever a stranger's module raises
            raise OutsideError(f"operator {point.value!r} of {GROUP}: {type(error).__name__}: {error}") from error
        if not isinstance(loaded, Operator):
            kind = type(loaded).__name__
            raise OutsideError(f"operator {point.value!r} of {GROUP}: found a {kind}, expected an Operator")
        if loaded.name in found:
            raise OutsideError(f"operator {point.value!r} of {GROUP}: {loaded.name} is there already")
        found[loaded.name] = loaded
    return found


def packages() -> tuple[str, ...]:
    """The packages that operators come from, in the order of their names."""
    return tuple(sorted({point.value.partition(":")[0].partition(".")[0] for point in points()}))
