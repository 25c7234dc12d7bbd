"""One entry for every operator that has a float golden."""

from __future__ import annotations

from typing import Any

from npu_assay.reference.golden import elementwise, functions, linear, selection, transcendental, weighted
from npu_assay.reference.golden.aten import canonical
from npu_assay.reference.golden.bounded import Bounded, GoldenError
from npu_assay.reference.outside import outside_operators

_TABLE = {
    **linear.TABLE,
    **elementwise.TABLE,
    **functions.TABLE,
    **transcendental.TABLE,
    **selection.TABLE,
}
OPERATORS = frozenset(_TABLE) | weighted.WEIGHTED


def run(op: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> tuple[Bounded, ...]:
    """An operator on bounded operands: `op` and its arguments are spelled as in ATen, layout NCHW.

    Tensors in `args` are Bounded, or sequences of them. Raises GoldenError for an operator that has
    no golden; torch's own errors for operands that the operator refuses.
    """
    name = canonical(op)
    if name in weighted.WEIGHTED:
        return weighted.weighted(name, args, kwargs or {})
    if name not in _TABLE and name in outside_operators():
        return (outside_operators()[name].golden(*args, **(kwargs or {})),)
    if name not in _TABLE:
        raise GoldenError(f"operator: found {op!r}, expected one of the {len(OPERATORS)} that have a float golden")
    return (_TABLE[name](*args, **(kwargs or {})),)
