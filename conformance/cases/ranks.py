"""Cases that keep within a row's `max_rank`, whatever it is.

Case functions are written for images, of rank 4. Where a row permits less, the leading dimensions of models that
compute element by element become one; models that cannot be changed so are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.programs.graph import ChannelsLast, Graph, Step, Value, references

CODE = "max_rank"
LARGEST = 16
WRITTEN = 5  # the largest rank in other cases, but for some that are about inputs of more dimensions
ELEMENTWISE = frozenset(
    f"aten.{name}"
    for name in (
        *("abs.default", "add.Tensor", "clamp.default", "div.Tensor", "hardtanh.default", "leaky_relu.default"),
        *("mul.Tensor", "neg.default", "relu.default", "sigmoid.default", "sub.Tensor", "tanh.default"),
    )
)


def within_rank(limits: Limits, drafts: Sequence[CaseDraft]) -> list[CaseDraft]:
    """The drafts of a row, no tensor of which has more dimensions than the row permits, but for those about that.

    Raises LimitError where they leave nothing of the row's plain cases, or of the cases outside of a constraint.
    """
    most = limits.values.get(CODE)
    if type(most) is not int or most >= WRITTEN:  # any other value was an error, or nobody has read it
        return list(drafts)
    kept = _kept(drafts, most)
    lost = lost_text(limits, drafts, kept)
    if lost:
        least = next(rank for rank in range(most, LARGEST) if not lost_text(limits, drafts, _kept(drafts, rank)))
        raise limits.error(CODE, most, f"{least} to {LARGEST}: with fewer dimensions there are no cases for {lost}")
    return kept


def _kept(drafts: Sequence[CaseDraft], most: int) -> list[CaseDraft]:
    return [kept for draft in drafts for kept in _within(draft, most)]


def lost_text(limits: Limits, drafts: Sequence[CaseDraft], kept: Sequence[CaseDraft]) -> str:
    """The row's constraints that lose all cases on one side of their limit, and OPERATOR with the plain case."""
    lost = {name for name, _ in _sides(drafts) - _sides(kept) if name == OPERATOR or name in limits}
    return ", ".join(sorted(lost))


def _sides(drafts: Sequence[CaseDraft]) -> set[tuple[str, str]]:
    plain = {(OPERATOR, "accept") for draft in drafts if draft.variant == "baseline"}
    return plain | {(draft.constraint, draft.side) for draft in drafts if draft.side in ("at_limit", "outside")}


def _within(draft: CaseDraft, most: int) -> Iterator[CaseDraft]:
    if draft.constraint == CODE or _rank(draft.graph) <= most:
        yield draft
    elif any(isinstance(value, ChannelsLast) for value in draft.graph.values):
        return
    elif all(step.op in ELEMENTWISE for step in draft.graph.steps) and _alike(draft.graph):
        yield replace(draft, graph=replace(draft.graph, values=tuple(_merged(v, most) for v in draft.graph.values)))


def _rank(graph: Graph) -> int:
    """The largest rank of what the model computes with; weights of convolutions have that of their images."""
    shapes = {value.name: len(value.shape) for value in graph.values}
    for step in graph.steps:
        shapes[step.name] = _result(step, max((shapes[ref.name] for ref in references(step.args)), default=0))
    return max(shapes.values(), default=0)


def _result(step: Step, most: int) -> int:
    """The rank of a step's result, whose largest operand has rank `most`; never less than it is."""
    match step.op.split(".")[-2]:
        case "view_copy" if isinstance(step.args[1], tuple):
            return len(step.args[1])
        case "unsqueeze":
            return most + 1
    return most


def _alike(graph: Graph) -> bool:
    """Whether all tensors have one shape, and all scales hold for a tensor as a whole."""
    shapes = {value.shape for value in graph.values if value.shape}
    return len(shapes) == 1 and all(value.quant is None or value.quant.axis is None for value in graph.values)


def _merged(value: Value, most: int) -> Value:
    """The value with its leading dimensions in one."""
    if len(value.shape) <= most:
        return value
    kept = value.shape[len(value.shape) - most + 1 :]
    return replace(value, shape=(prod(value.shape[: len(value.shape) - most + 1]), *kept))
