"""Products in every octave of the ratio by which their sums are rescaled: from more than one to less than 2**-12.

Kernels choose their way by that ratio: shifts of no bits, of few, and of more than 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, valued
from npu_assay.conformance.cases.make import SUBJECT, f32
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

FACTORS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "aten.addmm.default": (1, 2),
        "aten.bmm.default": (0, 1),
        "aten.convolution.default": (0, 1),
        "aten.linear.default": (0, 1),
        "aten.mm.default": (0, 1),
        "aten.mul.Tensor": (0, 1),
    }
)
"""Operators on codes, and the arguments that they multiply."""
FEW = Fill("list", values=(1, -1, 0, 2, 0, -2, 1))
"""Codes whose sums of products stay within 8 bits when they are hardly made smaller."""
RATIOS = ((1.5, FEW), (0.75, FEW), (0.375, FEW), (0.75 * 2.0**-11, None), (0.75 * 2.0**-12, None))


def ratios(drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """The row's plain case at each of the ratios; none where it does not multiply codes."""
    for draft in drafts:
        if (draft.constraint, draft.side, draft.variant) == (OPERATOR, "accept", "baseline"):
            yield from _rescaled(draft.graph)


def _rescaled(graph: Graph) -> Iterator[CaseDraft]:
    step = next(step for step in graph.steps if step.name == SUBJECT)
    found = {value.name: value for value in graph.values}
    names = [step.args[place] for place in FACTORS.get(step.op, ())]
    factors = [found[ref.name] for ref in names if isinstance(ref, Ref) and ref.name in found]
    if len(factors) == 2 and step.quant is not None and all(factor.quant is not None for factor in factors):
        for ratio, fill in RATIOS:
            yield valued(f"ratio_{ratio:.6g}", _at(graph, step, factors, ratio, fill))


def _at(graph: Graph, step: Step, factors: Sequence[Value], ratio: float, fill: Fill | None) -> Graph:
    """The largest ratio of a channel is that one; the second factor holds few codes if that is given."""
    first, second = factors
    assert step.quant is not None
    y = replace(step.quant, scale=f32(_largest(first.quant) * _largest(second.quant) / ratio))
    steps = tuple(replace(s, quant=y) if s is step else s for s in graph.steps)
    offset = 0 if second.quant is None else second.quant.zero_point
    values = graph.values
    if fill is not None:
        near = replace(second, fill=replace(fill, values=tuple(value + offset for value in fill.values)))
        values = tuple(near if v is second else v for v in values)
    return Graph(values, steps, graph.outputs)


def _largest(quant: Quant | None) -> float:
    assert quant is not None
    return max(quant.scale) if isinstance(quant.scale, tuple) else quant.scale
