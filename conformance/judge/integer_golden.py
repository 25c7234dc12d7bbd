"""The integer golden of a whole graph, and what both goldens need of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.programs.build import has_channels, materialise
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, references, substitute
from npu_assay.reference import integer
from npu_assay.reference.affine import Affine
from npu_assay.reference.golden.aten import bound
from npu_assay.reference.golden.bounded import Bounded, GoldenError
from npu_assay.reference.golden.operators import moves
from npu_assay.reference.integer import QTensor, tosa
from npu_assay.reference.operators.home import ANY
from npu_assay.reference.operators.lookup import is_indices

PAD = "aten.constant_pad_nd.default"
TFLITE, TOSA, XNNPACK = "tflite_double_round", "tosa_single_round", "xnnpack_fp32"


@keep(1024)
def affine(quant: Quant) -> Affine:
    """A per-tensor quantization as a type of `reference`. Raises GoldenError for any other."""
    if isinstance(quant.scale, tuple):
        raise GoldenError(f"quantization of an output: found {len(quant.scale)} scales, expected 1")
    try:
        return Affine(quant.scale, quant.zero_point, quant.qmin, quant.qmax)
    except ValueError as error:
        raise GoldenError(f"quantization of an output: {error}") from error


def operands(step: Step, scheme: str = TFLITE) -> tuple[Ref, ...]:
    """The operands that must be codes for the step to be an integer step; a divisor, or XNNPACK's bias, need not be."""
    refs, codes = references(step.args), integer.codes_of(step.op, scheme)
    if codes is None or not codes.operands:
        return refs
    return tuple(ref for ref, must in zip(refs, codes.operands, strict=False) if must)


def _fuses(step: Step, behind: Step, scheme: str) -> bool:
    """Whether the device fuses the two steps, which then have the quantization of the second."""
    codes = integer.codes_of(behind.op, scheme)
    return codes is not None and (ANY in codes.after or step.op in codes.after)


def step_quants(graph: Graph, scheme: str = TFLITE) -> dict[str, Quant | None]:
    """The quantization that each step's result has as integers; None for a step that works on reals.

    A step without its own has that of the activation or reshape after it, if nothing else uses its result.
    """
    users: dict[str, list[Step]] = {}
    for step in graph.steps:
        for name in {ref.name for ref in references(step.args)}:
            users.setdefault(name, []).append(step)
    returned = {ref.name for ref in graph.outputs}
    found: dict[str, Quant | None] = {}
    for step in reversed(graph.steps):
        found[step.name] = step.quant
        behind = users.get(step.name, [])
        if step.quant is None and len(behind) == 1 and step.name not in returned and _fuses(step, behind[0], scheme):
            found[step.name] = found[behind[0].name]
    return found


def with_moved_quants(graph: Graph) -> Graph:
    """The graph, where a step that only moves codes and has no quantization has that of its operand.

    So a weight that is transposed between dequantize and the operator is still codes, and so are pixels with zeros
    around them.
    """
    if all(step.quant is not None for step in graph.steps):
        return graph
    known = {value.name: value.quant for value in graph.values}
    steps = []
    for step in graph.steps:
        quants = {known[ref.name] for ref in references(step.args)}
        if step.quant is None and (moves(step.op) or _pads_with_zero(step)) and len(quants) == 1:
            (quant,) = quants
            if quant is not None and quant.axis is None and quant.dtype == "int8":
                step = replace(step, quant=quant)
        known[step.name] = step.quant
        steps.append(step)
    return replace(graph, steps=tuple(steps))


def _pads_with_zero(step: Step) -> bool:
    return step.op == PAD and not bound(step.op, step.args, dict(step.kwargs))["value"]


@dataclass(frozen=True)
class Exact:
    """What the arithmetic fixes: codes of quantized values and outputs, and reals in their own dtype, to the last bit.

    near: outputs that it fixes but for the order of float32 sums, each with what that order may change.
    """

    codes: dict[Ref, QTensor]
    reals: dict[Ref, Tensor]
    near: dict[Ref, Bounded]

    def __contains__(self, ref: Ref) -> bool:
        return ref in self.codes or ref in self.reals or ref in self.near


def exact_values(graph: Graph, scheme: str = TFLITE) -> Exact:
    """The exact golden of every value and every step's output; none where it cannot be known to the last bit.

    Integer steps are exact in any scheme's arithmetic. In XNNPACK's, so are linear steps with dynamic quantization
    (nearly, with 4-bit weights), and float steps of one IEEE rounding. Raises IntegerError for an operator or operands
    without integer semantics.
    """
    graph = with_moved_quants(graph)
    quants = step_quants(graph, scheme)
    found = Exact({}, {}, {})
    for value in graph.values:
        numbers, q = materialise(value), value.quant
        if q is None:
            found.reals[Ref(value.name)] = numbers
        elif value.constant or q.axis is None:  # no integer arithmetic takes inputs with several scales
            found.codes[Ref(value.name)] = QTensor(numbers, q.scale, q.zero_point, q.axis, q.group)
    for step in graph.steps:
        if has_channels(quants[step.name]):  # no integer arithmetic gives results with several scales
            continue
        codes = _integer_step(step, quants[step.name], found, scheme)
        found.codes.update(codes)
        if not codes and scheme == XNNPACK:
            _real_step(step, found)
        if not codes and scheme == TOSA and step.quant is None:
            found.reals.update(_plain_step(step, found))
    return found


def _integer_step(step: Step, quant: Quant | None, found: Exact, scheme: str) -> dict[Ref, QTensor]:
    """The outputs' codes; empty for a step on reals, or with an operator that no NPU computes on integers.

    Only a divisor, or XNNPACK's bias, may be real; it is quantized here.
    """
    refs, needed = references(step.args), operands(step, scheme)
    if integer.codes_of(step.op, scheme) is None or quant is None or any(ref not in found.codes for ref in needed):
        return {}
    known: Mapping[Ref, Any] = {**found.codes, **found.reals} if len(needed) < len(refs) else found.codes
    if any(ref not in known for ref in refs):
        return {}
    y = affine(quant)
    codes = integer.run(step.op, substitute(step.args, known.__getitem__), dict(step.kwargs), y, scheme)
    return {Ref(step.name, index): QTensor(c, y.scale, y.zero_point) for index, c in enumerate(codes)}


def _plain_step(step: Step, found: Exact) -> dict[Ref, Tensor]:
    """The outputs of a step whose results are booleans or integers, without indices, which may be tied."""
    known: Mapping[Ref, Any] = {**found.codes, **found.reals}
    if any(ref not in known for ref in references(step.args)):
        return {}
    outputs = tosa.run_plain(step.op, substitute(step.args, known.__getitem__), dict(step.kwargs))
    return {Ref(step.name, index): y for index, y in enumerate(outputs) if not is_indices(step.op, index)}


def _real_step(step: Step, found: Exact) -> None:
    """Add the outputs of a step on reals that is exact all the same, as codes when they are quantized."""
    refs = references(step.args)
    if any(ref not in found.reals and ref not in found.codes for ref in refs):
        return
    outputs: tuple[Tensor | Bounded, ...]
    if step.dynamic is not None:
        known: Mapping[Ref, Any] = {**found.codes, **found.reals}
        outputs = integer.run_dynamic(step.op, substitute(step.args, known.__getitem__), dict(step.kwargs))
    else:
        reals = {ref: found.reals[ref] if ref in found.reals else integer.reals(found.codes[ref]) for ref in refs}
        outputs = integer.run_reals(step.op, substitute(step.args, reals.__getitem__), dict(step.kwargs))
    for index, real in enumerate(outputs):
        ref = Ref(step.name, index)
        if isinstance(real, Bounded):
            found.near[ref] = real
        elif step.quant is None:
            found.reals[ref] = real
        else:
            y = affine(step.quant)
            found.codes[ref] = QTensor(integer.quantize(real, y), y.scale, y.zero_point)
