"""The programs that show how a backend rounds: a row's plain program with other scales, terms, sizes and numbers.

All but the plain one have powers of two as scales of operands, the same in all channels, so that the exact result is
known to the last bit. A probe follows from its name, as judges make it in processes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import torch

from npu_assay.conformance.cases.make import SUBJECT, f32
from npu_assay.conformance.characterize.exact import NoProbeError, reals
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Step, Value, references
from npu_assay.conformance.programs.variation_names import SIDE

CHARACTERIZE = "characterize"
PLAIN, SPREAD, OPERAND, RATIO, TERMS, SIZE = "plain", "spread", "operand", "ratio", "terms", "size"
"""What a probe varies: nothing, the scale of the result, that of the operand, their ratio, products or sizes."""
CHANNELS = 256
"""Channels, or elements of the last axis, of a program with many results."""
LARGEST = 2**30  # of a bias
BITS = 16  # of a bias that a float32 holds as well
CONVOLUTION, MULTIPLY = "aten.convolution.default", "aten.mul.Tensor"
AXES: Mapping[str, tuple[int, int]] = {
    CONVOLUTION: (1, 0),
    "aten.linear.default": (1, 0),
    "aten.mm.default": (-2, -1),
    "aten.addmm.default": (-2, -1),
    "aten.bmm.default": (-2, -1),
}
"""The axes of a product's second operand: the one along which products are added, and the one that makes channels."""
PERIOD = 997
"""Random numbers that stand in a program's record: a prime, so that rows of it differ."""
STEP = 0.6180339887498949
"""The golden ratio: multiples of it, without what is before the point, are spread evenly however many there are."""


@dataclass(frozen=True)
class Probe:
    """One program: what it varies, the value of that, which of several with other numbers; slot: where results go.

    many: with more channels or elements than the plain program. held: the result keeps its scale.
    """

    row: str
    precision: str
    knob: str
    value: int = 0
    turn: int = 0
    many: bool = False
    held: bool = False
    slot: int = 0

    @property
    def name(self) -> str:
        """The id of the case that it becomes."""
        words = (self.knob, self.value, self.turn, int(self.many), int(self.held), self.slot)
        return "/".join((self.row, self.precision or "-", CHARACTERIZE, SIDE, ".".join(map(str, words))))

    @classmethod
    def named(cls, name: str) -> Probe:
        """The probe of such an id."""
        row, precision, _, _, words = name.split("/")
        knob, *numbers = words.split(".")
        value, turn, many, held, slot = map(int, numbers)
        return cls(row, precision.replace("-", ""), knob, value, turn, bool(many), bool(held), slot)


@dataclass(frozen=True)
class Probes:
    """Makes the probes of plain cases. plain: by row and precision."""

    plain: Mapping[tuple[str, str], Case]
    seed: int = 0

    def case(self, name: str) -> Case:
        """The case of a probe's name."""
        probe = Probe.named(name)
        plain = self.plain[probe.row, probe.precision]
        graph = self.graph(probe)
        return replace(plain, id=name, constraint=CHARACTERIZE, side=SIDE, expect="unspecified", graph=graph)

    def graph(self, probe: Probe) -> Graph:
        """The program of a probe. Raises NoProbeError."""
        graph = self.plain[probe.row, probe.precision].graph
        if probe.knob == PLAIN:
            return graph
        draw = torch.Generator().manual_seed(1 + probe.turn + 1000 * self.seed)
        place = ((probe.turn + 1) * STEP + self.seed * 0.7548776662) % 1.0
        flat = _flat(graph)
        asked = _grown(flat) if probe.many else flat
        if probe.knob == RATIO:
            return _ratio(asked, probe.value, probe.turn, place, draw)
        if probe.knob in RESIZED:
            asked = RESIZED[probe.knob](asked, probe.value)
        if probe.knob == OPERAND:
            asked = _moved(asked, place)
        return _drawn(asked if probe.held else _scaled(asked, _fitting(flat, place)), draw)


def subject(graph: Graph) -> Step:
    """The application that a program is about."""
    return next(step for step in graph.steps if step.name == SUBJECT)


def quant_of(graph: Graph) -> Quant:
    """The quantization of the program's result. Raises NoProbeError where it has none, or not one scale."""
    step = subject(graph)
    if step.dynamic is not None:
        raise NoProbeError("operands are quantized at run time: results are floats")
    if step.quant is None or graph.outputs[0].name != SUBJECT:
        raise NoProbeError("results are floats or integers without a scale, not codes")
    if not isinstance(step.quant.scale, float):
        raise NoProbeError("results have a scale for each channel")
    return step.quant


# ------------------------------------------------------------------------------------ parts of a program


def _operand(graph: Graph) -> Value:
    """The first operand."""
    names = [ref.name for ref in references(subject(graph).args)]
    found = next((value for value in graph.values if value.name in names and value.quant is not None), None)
    if found is None or found.constant:
        raise NoProbeError("the operator has no quantized input")
    return found


def _factor(graph: Graph) -> Value | None:
    """The second operand of a product."""
    op, x = subject(graph).op, _operand(graph)
    if op not in AXES and op != MULTIPLY:
        return None
    return next((value for value in graph.values if value is not x and value.quant and len(value.shape) > 1), None)


def _bias(graph: Graph) -> Value | None:
    """The constant that is added to each channel of a product."""
    op = subject(graph).op
    return next((v for v in graph.values if op in AXES and v.constant and len(v.shape) == 1), None)


def _scale(value: Value) -> float:
    assert value.quant is not None
    scale = value.quant.scale
    return scale if isinstance(scale, float) else scale[0]


def _unit(graph: Graph) -> float:
    """The real number that one step of the sum of products, or of the operand's codes, stands for."""
    factor = _factor(graph)
    return _scale(_operand(graph)) * (1.0 if factor is None else _scale(factor))


def _with(graph: Graph, *values: Value) -> Graph:
    named = {value.name: value for value in values}
    return replace(graph, values=tuple(named.get(value.name, value) for value in graph.values))


def _scaled(graph: Graph, scale: float) -> Graph:
    """The program with another scale of its result."""
    quant = replace(quant_of(graph), scale=f32(scale))
    return replace(graph, steps=tuple(replace(s, quant=quant) if s.name == SUBJECT else s for s in graph.steps))


# ------------------------------------------------------------------------------------ scales


def _flat(graph: Graph) -> Graph:
    """The program with powers of two as scales of its values, the same in all channels.

    A result that had the operand's quantization has it still.
    """
    bias = _bias(graph)
    same = quant_of(graph) == _operand(graph).quant
    graph = _with(graph, *(_rounded(value) for value in graph.values if value.quant is not None and value != bias))
    graph = _scaled(graph, _scale(_operand(graph))) if same else graph
    if bias is None or bias.quant is None:
        return graph
    quant = replace(bias.quant, scale=_like(bias.quant.scale, _unit(graph)), qmin=-LARGEST, qmax=LARGEST)
    return _with(graph, replace(bias, quant=quant))


def _rounded(value: Value) -> Value:
    assert value.quant is not None
    power = 2.0 ** round(math.log2(_scale(value)))
    return replace(value, quant=replace(value.quant, scale=_like(value.quant.scale, power)))


def _like(scale: float | tuple[float, ...], number: float) -> float | tuple[float, ...]:
    return number if isinstance(scale, float) else (number,) * len(scale)


def _fitting(graph: Graph, place: float) -> float:
    """A scale that the results of the program with many channels nearly fill, and that is no power of two."""
    with suppress(NoProbeError):
        graph = _grown(graph)
    largest = float(reals(graph).abs().quantile(0.99))
    if not largest:
        raise NoProbeError("all results are zero")
    quant = quant_of(graph)
    room = min(quant.qmax - quant.zero_point, quant.zero_point - quant.qmin)
    room = max(room, (quant.qmax - quant.qmin) // 4)  # a result that is never negative may fill all of the range
    return largest / (room * (0.45 + 0.45 * place))


def _moved(graph: Graph, place: float) -> Graph:
    """With another scale of the first operand, for results of one scale only."""
    x = _operand(graph)
    assert x.quant is not None
    return _with(graph, replace(x, quant=replace(x.quant, scale=f32(_scale(x) * (0.55 + 0.9 * place)))))


# ------------------------------------------------------------------------------------ numbers


def _drawn(graph: Graph, draw: torch.Generator) -> Graph:
    """With other random codes of full range in all inputs and factors."""
    changed = [value for value in graph.values if value.fill.kind == "random" and value.quant is not None]
    numbers = torch.randint(2**31, (len(changed),), generator=draw).tolist()
    made = (replace(v, fill=Fill(seed=n)) for v, n in zip(changed, numbers, strict=True) if v != _bias(graph))
    return _with(graph, *made)


def _listed(value: Value, codes: torch.Tensor) -> Value:
    """The value with these codes, around its zero point."""
    assert value.quant is not None
    numbers = (codes + value.quant.zero_point).clamp(value.quant.qmin, value.quant.qmax)
    return replace(value, fill=Fill("list", values=tuple(numbers.flatten().tolist())))


def _around(value: Value, most: int, draw: torch.Generator) -> Value:
    """The value with random codes at most so far from its zero point; after PERIOD of them the same again."""
    return _listed(value, torch.randint(-most, most + 1, (min(PERIOD, math.prod(value.shape)),), generator=draw))


# ------------------------------------------------------------------------------------ ratios


def _ratio(graph: Graph, k: int, turn: int, place: float, draw: torch.Generator) -> Graph:
    """With 2**-k as the ratio of scales in the first turn, and in others a ratio between that and its half."""
    ratio = 2.0**-k * (1.0 if turn == 0 else 0.55 + 0.4 * place)
    x, factor, bias = _operand(graph), _factor(graph), _bias(graph)
    graph = _scaled(graph, _unit(graph) / ratio)
    if factor is None or subject(graph).op == MULTIPLY:
        return _drawn(graph, draw)
    assert x.quant is not None and factor.quant is not None
    most = math.sqrt(60 * 2.0**k / math.sqrt(terms(graph)))
    a, b = (max(1, round(min(most, v.quant.qmax - max(0, v.quant.zero_point)))) for v in (x, factor) if v.quant)
    graph = _with(graph, _around(x, a, draw), _around(factor, b, draw))
    if bias is None:
        return graph
    if turn == 0:
        graph = _with(graph, replace(x, fill=Fill("zero")))
    return _with(graph, _spread_bias(bias, k, turn == 0, _unit(graph), draw))


def _spread_bias(bias: Value, k: int, ties: bool, unit: float, draw: torch.Generator) -> Value:
    """The bias all over the range of codes; every second one half way between two, where `ties`."""
    codes = torch.randint(-60 * 2 ** min(k, BITS), 60 * 2 ** min(k, BITS), bias.shape, generator=draw)
    codes = codes * 2 ** max(0, k - BITS)
    if ties and k > 0:
        halves = 2 * torch.randint(-50, 50, bias.shape, generator=draw) + 1
        codes[::2] = halves[::2] * 2 ** (k - 1)
    if bias.quant is not None:
        return _listed(bias, codes)
    return replace(bias, fill=Fill("list", values=tuple((codes.to(torch.float64) * unit).tolist())))


# ------------------------------------------------------------------------------------ sizes


def terms(graph: Graph) -> int:
    """The number of products that one result adds, or of the numbers along the axis that is reduced."""
    factor, op = _factor(graph), subject(graph).op
    if factor is not None and op in AXES:
        return math.prod(factor.shape[1:]) if op == CONVOLUTION else factor.shape[AXES[op][0]]
    return _operand(graph).shape[_axis(graph, reduced=True)]


def _axis(graph: Graph, reduced: bool) -> int:
    """The last axis of the operand along which numbers become one, or do not. Raises NoProbeError."""
    x, count = _operand(graph), reals(graph).numel()
    for axis in reversed(range(len(x.shape))):
        try:
            other = reals(_resized(graph, axis, x.shape[axis] + 1)).numel()
        except NoProbeError:
            continue
        if (other == count) == reduced:
            return axis
    raise NoProbeError("no axis of its operand adds up" if reduced else "its results do not grow with its operand")


def _resized(graph: Graph, axis: int, size: int) -> Graph:
    """With another size along an axis of every value that has the shape of the first operand."""
    shape = _operand(graph).shape
    return _with(graph, *(_longer(value, axis, size) for value in graph.values if value.shape == shape))


def _longer(value: Value, axis: int, size: int) -> Value:
    axis %= len(value.shape)
    quant = value.quant
    if quant is not None and isinstance(quant.scale, tuple) and quant.axis == axis:
        quant = replace(quant, scale=tuple(quant.scale[i % len(quant.scale)] for i in range(size)))
    return replace(value, shape=(*value.shape[:axis], size, *value.shape[axis + 1 :]), quant=quant)


def _with_terms(graph: Graph, count: int) -> Graph:
    factor, op, x = _factor(graph), subject(graph).op, _operand(graph)
    if factor is None or op not in AXES:
        if op == MULTIPLY:
            raise NoProbeError("each result is one product")
        return _resized(graph, _axis(graph, reduced=True), count)
    if op == CONVOLUTION and (subject(graph).args[6] or x.shape[1] != factor.shape[1]):
        raise NoProbeError("a convolution in groups, or a transposed one, has its terms from more than one argument")
    size = max(1, count // math.prod(factor.shape[2:])) if op == CONVOLUTION else count
    along = 1 if op == CONVOLUTION else -1
    return _with(graph, _longer(x, along, size), _longer(factor, AXES[op][0], size))


def _with_size(graph: Graph, size: int) -> Graph:
    """With so many elements along one axis, and one along the others, where the operator takes that."""
    op, x = subject(graph).op, _operand(graph)
    if op in AXES:
        return _with(graph, _longer(x, -1 if op == CONVOLUTION else -2, size))
    last = _axis(graph, reduced=False)
    lean = graph
    for axis in range(len(x.shape)):
        lean = _resized(lean, axis, 1 if axis != last else size)
    try:
        fits = reals(lean).numel() == size
    except NoProbeError:
        fits = False
    return lean if fits else _resized(graph, last, size)


def _grown(graph: Graph) -> Graph:
    """With many channels, or many elements along one axis."""
    factor, bias, op = _factor(graph), _bias(graph), subject(graph).op
    if factor is None or op not in AXES:
        return _resized(graph, _axis(graph, reduced=False), CHANNELS)
    grown = _with(graph, _longer(factor, AXES[op][1], CHANNELS))
    return grown if bias is None else _with(grown, _longer(bias, 0, CHANNELS))


RESIZED: Mapping[str, Callable[[Graph, int], Graph]] = {TERMS: _with_terms, SIZE: _with_size}
