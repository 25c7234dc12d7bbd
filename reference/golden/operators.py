"""One entry for every operator that has a float golden."""

from __future__ import annotations

from typing import Any

from npu_assay.reference.golden.aten import canonical
from npu_assay.reference.golden.bounded import Bounded, GoldenError
from npu_assay.reference.golden.self_bounded import itself
from npu_assay.reference.operators import HOMES, Operator
from npu_assay.reference.operators.home import JOINED, REALS
from npu_assay.reference.operators.lookup import home

OPERATORS = frozenset(HOMES)


def run(op: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> tuple[Bounded, ...]:
    """An operator on bounded operands: `op` and its arguments are spelled as in ATen, layout NCHW.

    Tensors in `args` are Bounded, or sequences of them. Raises GoldenError for an operator that has
    no golden; torch's own errors for operands that the operator refuses.
    """
    own = home(canonical(op))
    if own is None:
        raise GoldenError(f"operator: found {op!r}, expected one of the {len(OPERATORS)} that have a float golden")
    return _of_home(own, args, kwargs or {})


def _of_home(own: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, ...]:
    if own.function is None:
        return itself(own, args, kwargs)
    found = own.function(*args, **kwargs)
    results = found if isinstance(found, tuple) else (found,)
    for result in results:
        if not isinstance(result, Bounded):
            raise GoldenError(f"golden of {own.name}: found a {type(result).__name__}, expected a Bounded")
    return results


def result_kind(op: str) -> str:
    """What an operator's result holds: "reals", "truths" or "indices"."""
    own = home(canonical(op))
    return REALS if own is None else own.result


def dtype_rule(op: str) -> str:
    """What type an operator's result has: `Operator.dtype`."""
    own = home(canonical(op))
    return JOINED if own is None else own.dtype


def moves(op: str) -> bool:
    """Whether every number of an operator's result is one of an operand's, or zero."""
    own = home(op)
    return own is not None and own.moves
