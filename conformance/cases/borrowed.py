"""Uses of operators in precisions that their families do not know, from those that they do.

Codes become the reals that they stand for, and int8 is int8 whether the hardware computes on integers or between
dequantize and quantize nodes. What a family knows of limits stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu_assay.conformance.cases.around import behind_abs
from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft
from npu_assay.conformance.cases.family import STATIC_INT8
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, X, bare
from npu_assay.conformance.cases.pieces.spelling import FLOATS, INT8, INT16, in_int8
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.plain import Plain, asked
from npu_assay.conformance.programs.graph import Fill, Graph, Value, renamed

FROM = {
    STATIC_INT8: (INT8,),
    INT8: (STATIC_INT8,),
    INT16: (STATIC_INT8,),
    "fp32": (INT8, STATIC_INT8),
    "fp16": (INT8, STATIC_INT8),
}
"""Precision -> those that it is borrowed from, best first."""
TAKEN = {"source": "put"}
"""Names that contexts give to values of their own, and others for them."""


def borrowed(precision: str, limits: Limits, source: Sequence[CaseDraft]) -> list[CaseDraft] | None:
    """The cases of a row in a precision, from those of its plain programs in another.

    None where none of these is the operator alone on codes.
    """
    calls = [(draft.variant, call) for draft in source if _plain(draft) and (call := _call(draft.graph)) is not None]
    if not calls or calls[0][0] != "baseline" or not any(v.quant is not None for v in calls[0][1].values):
        return None
    floats = [(name, in_floats(call, "float16" if precision == "fp16" else "float32")) for name, call in calls]
    (_, first), *more = floats if precision in FLOATS else calls
    listed = not any(draft.variant == "all_min" for draft in source)  # of a part of the reals alone
    prefix = behind_abs if len(source[0].graph.steps) > 1 else bare
    subject = Subject(
        in_int8(lambda shape: first), first.x.shape, open=(), deep=False, reals=calls[0][1].y is not None, prefix=prefix
    )
    return asked(Plain(subject, tuple(more), floats[0][1], _empty(first), listed=listed), precision, limits)


NEVER_EMPTY = frozenset(
    f"aten.{name}"
    for name in (
        *("as_strided_copy.default", "expand_copy.default", "index.Tensor", "index_put.default", "select_copy.int"),
        "upsample_nearest2d.vec",
    )
)
"""Operators whose arguments want elements, or that torch does not compute of none."""


def _empty(call: Call) -> Call | None:
    """The call on inputs without elements along their first axis."""
    lead = call.values[0].shape[:1]
    if not lead or call.op in NEVER_EMPTY:
        return None
    values = (replace(v, shape=(0, *v.shape[1:])) if not v.constant and v.shape[:1] == lead else v for v in call.values)
    return replace(call, values=tuple(values))


def _plain(draft: CaseDraft) -> bool:
    return (draft.constraint, draft.side, draft.options) == (OPERATOR, "accept", ())


def _call(graph: Graph) -> Call | None:
    """The one operator of a model, of which an abs may make the operand; None for any other model."""
    *before, subject = graph.steps
    if subject.name != SUBJECT or [step.op for step in before] not in ([], ["aten.abs.default"]):
        return None
    args = renamed(subject.args, {step.name: X.name for step in before} | TAKEN)
    values = tuple(replace(value, name=TAKEN.get(value.name, value.name)) for value in graph.values)
    return Call(subject.op, values, args, subject.quant, subject.kwargs, subject.outputs)


def in_floats(call: Call, dtype: str) -> Call:
    """The call on floats: listed codes are the reals that they stand for."""
    return replace(call, values=tuple(_real(value, dtype) for value in call.values), y=None)


def _real(value: Value, dtype: str) -> Value:
    quant = value.quant
    if quant is None:
        return replace(value, dtype=dtype) if value.dtype.startswith("float") else value
    step = max(quant.scale) if isinstance(quant.scale, tuple) else quant.scale
    reals = tuple((code - quant.zero_point) * step for code in value.fill.values)
    fill = replace(value.fill, values=reals) if reals else value.fill
    return replace(value, quant=None, dtype=dtype, fill=Fill(seed=fill.seed) if fill.kind == "one_hot" else fill)
