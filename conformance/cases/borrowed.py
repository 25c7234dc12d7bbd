"""Uses of operators in number types that their families do not know, from those that they do.

Codes become the reals that they stand for, and int8 is int8 whether the hardware computes on integers or between
dequantize and quantize nodes. What a family knows of limits stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu_assay.conformance.cases.integer.spelling import INT8, INT16
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import OPERATOR, SUBJECT, Draft, Use, X, bare, behind_abs
from npu_assay.conformance.cases.plain import CLASSIC, Plain, asked
from npu_assay.conformance.cases.typed.spelling import FLOATS
from npu_assay.conformance.programs.graph import Fill, Graph, Value, renamed

FROM = {
    CLASSIC: (INT8,),
    INT8: (CLASSIC,),
    INT16: (CLASSIC,),
    "fp32": (INT8, CLASSIC),
    "fp16": (INT8, CLASSIC),
}
"""Number type -> those that it is borrowed from, best first."""
TAKEN = {"source": "put"}
"""Names that contexts give to values of their own, and others for them."""


def borrowed(precision: str, limits: Limits, source: Sequence[Draft]) -> list[Draft]:
    """The cases of a row in a number type, from those of its plain programs in another.

    Raises KeyError where none of these is the operator alone on codes.
    """
    uses = [(draft.variant, use) for draft in source if _plain(draft) and (use := _use(draft.graph)) is not None]
    if not uses or uses[0][0] != "baseline" or not any(v.quant is not None for v in uses[0][1].values):
        raise KeyError(precision)
    reals = uses[0][1].y is not None
    floats = [(name, in_floats(use, "float16" if precision == "fp16" else "float32")) for name, use in uses]
    (_, first), *more = floats if precision in FLOATS else uses
    listed = not any(draft.variant == "all_min" for draft in source)  # of a part of the reals alone
    front = behind_abs if len(source[0].graph.steps) > 1 else bare
    plain = Plain(first, tuple(more), floats[0][1], none=_empty(first), reals=reals, listed=listed, front=front)
    return asked(plain, precision, limits)


NEVER_EMPTY = frozenset(
    f"aten.{name}"
    for name in (
        *("as_strided_copy.default", "expand_copy.default", "index.Tensor", "index_put.default", "select_copy.int"),
        "upsample_nearest2d.vec",
    )
)
"""Operators whose arguments want elements, or that torch does not compute of none."""


def _empty(use: Use) -> Use | None:
    """The use on inputs without elements along their first axis."""
    lead = use.values[0].shape[:1]
    if not lead or use.op in NEVER_EMPTY:
        return None
    values = (replace(v, shape=(0, *v.shape[1:])) if not v.constant and v.shape[:1] == lead else v for v in use.values)
    return replace(use, values=tuple(values))


def _plain(draft: Draft) -> bool:
    return (draft.constraint, draft.side, draft.options) == (OPERATOR, "accept", ())


def _use(graph: Graph) -> Use | None:
    """The one operator of a model, of which an abs may make the operand; None for any other model."""
    *before, subject = graph.steps
    if subject.name != SUBJECT or [step.op for step in before] not in ([], ["aten.abs.default"]):
        return None
    args = renamed(subject.args, {step.name: X.name for step in before} | TAKEN)
    values = tuple(replace(value, name=TAKEN.get(value.name, value.name)) for value in graph.values)
    return Use(subject.op, values, args, subject.quant, subject.kwargs, subject.outputs)


def in_floats(use: Use, dtype: str) -> Use:
    """The use on floats: listed codes are the reals that they stand for."""
    return replace(use, values=tuple(_real(value, dtype) for value in use.values), y=None)


def _real(value: Value, dtype: str) -> Value:
    quant = value.quant
    if quant is None:
        return replace(value, dtype=dtype) if value.dtype.startswith("float") else value
    step = max(quant.scale) if isinstance(quant.scale, tuple) else quant.scale
    reals = tuple((code - quant.zero_point) * step for code in value.fill.values)
    fill = replace(value.fill, values=reals) if reals else value.fill
    return replace(value, quant=None, dtype=dtype, fill=Fill(seed=fill.seed) if fill.kind == "one_hot" else fill)
