"""The float golden of a whole graph: float64 with bounds, along two paths.

The chain path keeps a step's real result, saturated to its range, and lets bounds grow from step to step.
The code path starts every step from codes and keeps all codes that are legal under the step's error bound. Where the
integer golden has codes, it starts from them, and so finds the step at which they are not legal. Elsewhere it
starts from the nearest codes, so an ambiguous code in one step makes more codes ambiguous in the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from npu_assay.conformance.common.memory import remember
from npu_assay.conformance.judge.integer_golden import (
    TFLITE,
    TOSA,
    XNNPACK,
    Exact,
    affine,
    operands,
    step_quants,
    with_moved_quants,
)
from npu_assay.conformance.judge.result_types import result_type
from npu_assay.conformance.programs.build import has_channels, materialise
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value, references, substitute
from npu_assay.conformance.record.results import NOISE
from npu_assay.reference import golden, integer
from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.xnnpack import is_matrix_product
from npu_assay.reference.golden import Bounded, Codes, GoldenError, accuracy_xnnpack
from npu_assay.reference.golden.special import anything, other_class, unknown
from npu_assay.reference.integer import QTensor
from npu_assay.reference.operators.lookup import is_indices


@dataclass(frozen=True)
class Walk:
    """The float golden of every graph output: chain bounds, legal codes and their quantization, dtype.

    own: the same outputs along the code path, which includes the roundings between the steps.
    last: where a step's operands are known exactly, the float golden of that step alone; None where they are not, or
    where that is the chain's.
    indices: which outputs say where elements are. contradictions: the steps at which the exact golden is not legal, in
    words.
    """

    bounded: tuple[Bounded, ...]
    own: tuple[Bounded, ...]
    last: tuple[Bounded | None, ...]
    codes: tuple[Codes | None, ...]
    quants: tuple[Quant | None, ...]
    dtypes: tuple[torch.dtype, ...]
    indices: tuple[bool, ...]
    contradictions: tuple[str, ...]


# ------------------------------------------------------------------------------------ float64


@dataclass(frozen=True)
class _Node:
    """A value or a step's output on both paths; `quant` None when it is a real number.

    step: what the code path computed from operands that are known, exactly or nearly; None where some are not, or where
    both paths are one.
    """

    chain: Bounded
    code: Bounded
    codes: Codes | None = None
    quant: Quant | None = None
    dtype: torch.dtype = torch.float32
    indices: bool = False
    contradiction: str = ""
    step: _Result | None = None


NOTHING = Exact({}, {}, {})


def walk(graph: Graph, scheme: str | None, delegated: bool, exact: Exact = NOTHING) -> Walk:
    """The float golden of a graph, with the error bound of `scheme` and, unless delegated, of float arithmetic besides.

    exact: the exact golden, empty where its scheme is not the one that ran.
    """
    graph = with_moved_quants(graph)
    named = TFLITE if scheme is None else scheme
    quants = step_quants(graph, named)
    nodes: dict[Ref, _Node] = {Ref(value.name): _value_node(value) for value in graph.values}
    for step in graph.steps:
        quant = quants[step.name]
        quant = None if has_channels(quant) else quant  # no device has such results: they are those of floats
        integers = (
            quant is not None
            and integer.codes_of(step.op, named) is not None
            and all(nodes[ref].quant is not None for ref in operands(step, named))
        )
        y = None if quant is None else affine(quant)
        given = [nodes[ref] for ref in references(step.args)]
        dtype = result_type(step, [x.dtype for x in given], [x.chain.value.dim() for x in given])
        floats = not (delegated and integers) or (scheme == TOSA and golden.is_looked_up(step.op))
        wide = quant is not None and quant.dtype != "int8"
        arithmetic = _Arithmetic(scheme, integers, floats, y, wide, dtype, delegated)
        nodes.update(_float_step(step, arithmetic, nodes, exact))
    outputs = [nodes[ref] for ref in graph.outputs]
    return Walk(
        tuple(x.chain for x in outputs),
        tuple(x.code for x in outputs),
        tuple(_last(x) for x in outputs),
        tuple(x.codes for x in outputs),
        tuple(x.quant for x in outputs),
        tuple(x.dtype for x in outputs),
        tuple(x.indices for x in outputs),
        tuple(x.contradiction for x in nodes.values() if x.contradiction),
    )


def _last(node: _Node) -> Bounded | None:
    """What a step's output may be, from exact operands."""
    result = node.step
    if result is None or node.quant is None:
        return None if result is None else result.real
    return golden.quantised(result.real, affine(node.quant), result.error_bound, on_grid=result.on_grid)


def real_value(value: Value) -> Bounded:
    """The real numbers that a model input or constant stands for."""
    return _value_node(value).chain


@remember(512)
def _value_node(value: Value) -> _Node:
    """The node of a model input or constant. Walks share it, so nothing may change it."""
    numbers, quant = materialise(value), value.quant
    if quant is None:
        real = Bounded(numbers.to(torch.float64))
        return _Node(real, real, dtype=numbers.dtype)
    if quant.group is not None and isinstance(quant.scale, tuple):
        if not value.constant:
            raise GoldenError(f"{value.name}: found an input with scales per group, expected a constant")
        real = golden.groupwise(numbers.to(torch.int16) - quant.zero_point, quant.scale, quant.group)
        return _Node(real, real)
    real = golden.dequantised(numbers, quant.scale, quant.zero_point, quant.axis)
    codes = numbers.to(torch.float64)
    return _Node(real, real, Codes(codes, codes, codes), quant)


@dataclass(frozen=True)
class _Result:
    """A step's real result, with the error bound of the arithmetic that computed it in LSB of the output."""

    real: Bounded
    error_bound: golden.ErrorBound
    on_grid: bool


@dataclass(frozen=True)
class _Arithmetic:
    """Which roundings a step's result may contain: the device's, a float type's, or either. wide: codes of 16 bits."""

    scheme: str | None
    device: bool
    floats: bool
    y: Affine | None
    wide: bool
    dtype: torch.dtype
    delegated: bool

    def results(self, step: Step, operands: Mapping[Ref, Bounded], exact: bool = False) -> list[_Result]:
        """A step's outputs. exact: operands are known exactly, also the codes of one quantized at run time."""
        if step.dynamic is not None:
            operands = self._chosen(step, operands, exact)
        args, kwargs = substitute(step.args, operands.__getitem__), dict(step.kwargs)
        if self.scheme == TOSA and self.y is None:  # a part of the program may be on the device
            args = golden.rounded_operands(step.op, args)
        if not self.dtype.is_floating_point and golden.result_kind(step.op) == "reals":
            return self._results(step, args, kwargs, golden.run_whole(step.op, args, kwargs, self.dtype))
        if not self.floats:
            return self._results(step, args, kwargs, golden.run(step.op, args, kwargs))
        computed = self.dtype if self.dtype in golden.FORMATS else torch.float32
        reals = golden.run_float(step.op, args, kwargs, computed)
        if self.delegated and step.dynamic is not None:
            open_ = _rows_without_codes(step, operands)
            reals = tuple(anything(real, open_.expand_as(real.value)) for real in reals)
        if self.delegated and self.scheme == XNNPACK:
            reals = tuple(accuracy_xnnpack.allowed(step.op, real, computed) for real in reals)
        return self._results(step, args, kwargs, reals)

    def _chosen(self, step: Step, operands: Mapping[Ref, Bounded], exact: bool) -> Mapping[Ref, Bounded]:
        """The operands, the first quantized at run time: by the device per row, else as the program says.

        Raises GoldenError for a tensor without elements, of which torch has no range.
        """
        first = references(step.args)[0]
        x = operands[first]
        if step.dynamic == "per_tensor" and not x.value.numel():
            raise GoldenError(f"{first.name}: found no elements, expected some to choose a range from")
        everywhere, rank = tuple(range(x.value.dim())), x.value.dim()
        rows = _quantised_rows(step, operands)
        axes = rows if self.delegated else everywhere if step.dynamic == "per_tensor" else everywhere[rank - 1 :]
        chosen = golden.codes_at_run_time if exact else golden.chosen_at_run_time
        return {**operands, first: chosen(x, axes)}

    def _results(self, step: Step, args: Any, kwargs: dict[str, Any], found: Sequence[Bounded]) -> list[_Result]:
        """A step's results with their roundings; indices have none."""
        return [
            _Result(real, 0.0, False) if is_indices(step.op, index) else self._result(step, args, kwargs, real)
            for index, real in enumerate(found)
        ]

    def _result(self, step: Step, args: Any, kwargs: dict[str, Any], real: Bounded) -> _Result:
        if self.y is None:
            return _Result(real if self.dtype.is_floating_point else _whole(real), 0.0, False)
        unit = self.y.scale32
        error_bound: golden.ErrorBound = 0.0
        if self.device:
            error_bound = golden.device(step.op, args, kwargs, real, unit, self.scheme, wide=self.wide)
        if self.floats:
            error_bound = error_bound + golden.quantise_float32(real, unit)
        if isinstance(error_bound, Tensor):  # of a result that is no number nothing is known
            error_bound = error_bound.nan_to_num(math.inf, math.inf)
        if step.quant is None:  # fused: its rounding is the activation's; the error bound goes through that one
            return _Result(Bounded(real.value, real.error + error_bound * unit), 0.0, False)
        return _Result(real, error_bound, self.device and golden.on_grid(step.op, args, kwargs, unit))


def _whole(real: Bounded) -> Bounded:
    """The numbers rounded toward zero, as torch converts reals to integers; what is not finite may become anything."""
    value, open_ = real.value.trunc(), ~real.value.isfinite()
    if real.exact:
        return real if torch.equal(value, real.value) else anything(Bounded(value), open_)
    low, high = (real.value - real.error).trunc(), (real.value + real.error).trunc()
    return anything(Bounded(value, torch.maximum(high - value, value - low)), open_)


def _quantised_rows(step: Step, operands: Mapping[Ref, Bounded]) -> tuple[int, ...]:
    """The axes of the first operand over which the device shares one scale: the channels, or a whole image."""
    x, weight, *_ = (operands[ref].value for ref in references(step.args))
    everywhere = tuple(range(x.dim()))
    if step.op != "aten.convolution.default":
        return everywhere[-1:]
    stride, padding, _, transposed, _, groups = step.args[3:9]
    pads = [(size,) for size in padding]
    single = not transposed and is_matrix_product(weight.shape[2:], stride, pads, groups)
    return everywhere[1:2] if single else everywhere[1:]


def _rows_without_codes(step: Step, operands: Mapping[Ref, Bounded]) -> Tensor:
    """Rows of the result whose operand has no codes, so that nothing is known of its scale: all that has it is open."""
    return unknown(operands[references(step.args)[0]]).any(_quantised_rows(step, operands), keepdim=True)


def _float_step(step: Step, arithmetic: _Arithmetic, nodes: Mapping[Ref, _Node], exact: Exact) -> dict[Ref, _Node]:
    """Both paths through a step; one computation serves both while their operands are the same."""
    refs = references(step.args)
    chain = arithmetic.results(step, {ref: nodes[ref].chain for ref in refs})
    codes = step.dynamic is not None and Ref(step.name) in exact
    same = not codes and all(nodes[ref].chain is nodes[ref].code for ref in refs)
    wide = chain if same else arithmetic.results(step, {ref: nodes[ref].code for ref in refs}, exact=codes)
    code = [replace(one, real=exact.near.get(Ref(step.name, index), one.real)) for index, one in enumerate(wide)]
    outputs = [Ref(step.name, index) for index in range(min(step.outputs, len(chain)))]
    found = {ref: _output(step, ref, chain[ref.index], code[ref.index], arithmetic.dtype, exact) for ref in outputs}
    for ref, node in found.items():
        if ref in exact.near:
            found[ref] = replace(node, contradiction=_far(ref, exact.near[ref], wide[ref.index].real))
        elif _says_where(step, ref, node, [nodes[given] for given in refs]):
            found[ref] = replace(node, indices=True)
    if same or not all(ref in exact for ref in refs):
        return found
    return {ref: replace(node, step=code[ref.index]) for ref, node in found.items()}


def _says_where(step: Step, ref: Ref, node: _Node, given: Sequence[_Node]) -> bool:
    """Whether an output is indices: an operator's own, or a copy, a conversion or another shape of such an operand."""
    if is_indices(step.op, ref.index) or golden.result_kind(step.op) == "indices":
        return True
    moved = len(given) == 1 and given[0].indices
    return moved and torch.equal(node.chain.value.flatten(), given[0].chain.value.flatten())


def _output(step: Step, ref: Ref, chain: _Result, code: _Result, dtype: torch.dtype, exact: Exact) -> _Node:
    if is_indices(step.op, ref.index):
        return _Node(chain.real, code.real, dtype=torch.int64)
    if step.quant is None:
        return _real_node(ref, chain, code, exact.reals.get(ref), dtype)
    if has_channels(step.quant):
        return _channels_node(step.quant, chain.real, code.real)
    return _node(step, ref, chain, code, exact.codes.get(ref))


def _real_node(ref: Ref, chain: _Result, code: _Result, exact: Tensor | None, dtype: torch.dtype) -> _Node:
    """A result that is not quantized; the code path continues from the exact golden's where that has one."""
    if exact is None:
        return _Node(chain.real, code.real, dtype=dtype)
    found = Bounded(exact.to(torch.float64))
    return _Node(chain.real, found, dtype=dtype, contradiction=_far(ref, found, code.real))


def _far(ref: Ref, exact: Bounded, real: Bounded) -> str:
    """The message about an exact real that is not legal for the same operands; "" when all are legal."""
    distance = (exact.value - real.value).abs()
    wrong = (distance > exact.error + real.error + real.magnitude * NOISE) | other_class(exact.value, real)
    if not bool(wrong.any()):
        return ""
    at = int(torch.where(wrong, distance.nan_to_num(nan=torch.inf), -1.0).argmax())
    legal = f"{float(real.value.flatten()[at]):.9g} +- {float(real.spread().flatten()[at]):.3g}"
    return _contradicts(ref, at, float(exact.value.flatten()[at]), legal, wrong)


def _node(step: Step, ref: Ref, chain: _Result, code: _Result, exact: QTensor | None) -> _Node:
    y = affine(step.quant)
    codes = golden.legal_codes(code.real, y, code.error_bound, on_grid=code.on_grid)
    bounded = golden.quantised(chain.real, y, chain.error_bound, on_grid=chain.on_grid)
    if exact is None:
        next_code, contradiction = codes.real(y), ""
    else:
        next_code, contradiction = (
            golden.dequantised(exact.codes, y.scale, y.zero_point),
            _contradiction(ref, exact, codes),
        )
    if bounded.exact and next_code.exact and not contradiction:
        bounded = next_code
    return _Node(bounded, next_code, codes, step.quant, contradiction=contradiction)


def _channels_node(quant: Quant, chain: Bounded, code: Bounded) -> _Node:
    """A result with a scale per channel, as reals: each is half a step of its own channel off, and on its grid."""
    bounded = _by_channel(quant, chain, golden.quantised)
    return _Node(bounded, _by_channel(quant, code, _nearest), quant=quant)


def _nearest(real: Bounded, y: Affine, error_bound: golden.ErrorBound) -> Bounded:
    return golden.legal_codes(real, y, error_bound).real(y)


def _by_channel(
    quant: Quant, real: Bounded, rounded: Callable[[Bounded, Affine, golden.ErrorBound], Bounded]
) -> Bounded:
    """What becomes of each channel that is quantized by itself, in float arithmetic."""
    assert isinstance(quant.scale, tuple) and quant.axis is not None
    axis, found = quant.axis, list[Bounded]()
    for index, scale in enumerate(quant.scale):
        part = Bounded(real.value.narrow(axis, index, 1), real.spread().narrow(axis, index, 1))
        y = affine(replace(quant, scale=scale, axis=None))
        found.append(rounded(part, y, golden.quantise_float32(part, y.scale32)))
    return Bounded(torch.cat([x.value for x in found], axis), torch.cat([x.spread() for x in found], axis))


def _contradiction(ref: Ref, exact: QTensor, codes: Codes) -> str:
    """The message about an exact code that is not legal for the same operands; "" when all are legal."""
    wrong = (exact.codes < codes.low) | (exact.codes > codes.high)
    if not bool(wrong.any()):
        return ""
    found = exact.codes.to(torch.float64)
    at = int(torch.maximum(found - codes.high, codes.low - found).argmax())
    code, low, high = (float(t.flatten()[at]) for t in (found, codes.low, codes.high))
    legal = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return _contradicts(ref, at, code, legal, wrong)


def _contradicts(ref: Ref, at: int, found: float, legal: str, wrong: Tensor) -> str:
    where = f"{ref.name} output {ref.index}, element {at}"
    text = f"exact golden contradicts the float golden: step {where} is {found:.9g}, expected {legal}"
    return f"{text}; {int(wrong.sum())} of {wrong.numel()} elements"
