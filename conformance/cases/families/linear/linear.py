"""aten.linear.default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, valued
from npu_assay.conformance.cases.families.linear.weights import (
    B,
    W,
    float_weighted,
    in_steps,
    integer_weighted,
    ratios,
    single,
)
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Call,
    Q,
    X,
    activation,
    bias_quant,
    constant,
    fitting_weight_scale,
    model,
    sizes_of,
    weight_quant,
)
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.options import option_spellings, with_options
from npu_assay.conformance.cases.pieces.spelling import (
    DYNAMIC,
    GROUP,
    LINEAR,
    floats,
    in_int8,
    is_wide,
    real,
    result,
    run_time,
    spelled,
    weights,
)
from npu_assay.conformance.cases.pieces.subject import PRECISIONS, Config, Subject
from npu_assay.conformance.programs.graph import Fill, Graph, LayerInParts, Value

# ------------------------------------------------------------------------------------ floats


@dataclass(frozen=True)
class Linear:
    """A linear layer on rows of `inputs` numbers."""

    outputs: int = 5
    bias: bool = True

    def at(self, precision: str, shape: tuple[int, ...]) -> Call:
        """On an `x` of this shape; groupwise weights need rows of whole groups."""
        if precision == "dynamic_int4" and shape[-1] % GROUP:
            shape = (*shape[:-1], 2 * GROUP)
        values: tuple[Value, ...]
        values = (real("x", shape, precision), weights("w", (self.outputs, shape[-1]), precision))
        if self.bias:
            values = (*values, floats("b", (self.outputs,), precision))
        args = (X, W, B) if self.bias else (X, W)
        return Call(LINEAR, values, args, result(precision), dynamic=run_time(precision))


def float_linear_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.linear.default: constant weights; rows of any rank."""
    subject = Subject(
        Linear().at,
        config=Config("LinearConfig", PRECISIONS),
        shape=(3, 64),
        single=(1, 1),
        empty=(0, 64),
        open=((0,),),
        product=True,
    )
    drafts = [
        *float_weighted(subject, precision, limits),
        *linear_sizes(precision),
        accepted("no_bias", Linear(bias=False).at(precision, (3, 64))),
    ]
    drafts += [accepted("open_axes_0_and_1", _open_rows(precision))]
    if precision in ("static_int8_per_channel", "dynamic_int8"):
        drafts += axes(precision)
    if precision == "static_int8_per_channel":
        drafts += weights_alone(precision)
    if precision in DYNAMIC:
        drafts += tokens(precision)
    if precision == "dynamic_int8":
        drafts.append(accepted("per_tensor_weights", subject.call(precision).with_value("w", quant=weight_quant(0.01))))
    if precision == "dynamic_int4":
        drafts += groups(limits)
    if precision == "fp32":
        drafts += [*option_spellings(subject, precision), *open_weights(subject.call(precision))]
    return drafts


def linear_sizes(precision: str) -> Iterator[CaseDraft]:
    """One row, one input, one output, many; every rank of `x`."""
    for shape, outputs in (((1, 64), 1), ((7, 33), 2), ((2, 1), 3), ((64,), 5), ((2, 3, 32), 9), ((4, 130), 17)):
        graph = model(Linear(outputs).at(precision, shape))
        yield accepted(f"x_{sizes_of(shape)}_outputs_{outputs}", graph)


def _open_rows(precision: str) -> Call:
    u = Linear().at(precision, (2, 3, 64))
    return u.with_x(dynamic=(0, 1))


def axes(precision: str) -> Iterator[CaseDraft]:
    """One scale per output, not per input; the weights are square, so that both fit."""
    u = Linear(8).at(precision, (3, 8))
    yield limit("weight_axis", "outputs", u)
    scales = u.values[1].quant
    assert scales is not None
    yield outside("weight_axis", "inputs", u.with_value("w", quant=replace(scales, axis=1)))


def weights_alone(precision: str) -> Iterator[CaseDraft]:
    """Quantized weights of a layer between real numbers, as torchao's weight-only quantization has them."""
    x, bias = real("x", (3, 2 * GROUP), "fp32"), floats("b", (5,), "fp32")
    for kind, name in ((precision, "weights_alone"), ("dynamic_int4", "weights_in_groups_alone")):
        w = weights("w", (5, 2 * GROUP), kind)
        yield outside("quantized", name, in_parts(Call(LINEAR, (x, w, bias), (X, W, B), None)))
        yield outside("quantized", f"{name}_without_bias", in_parts(Call(LINEAR, (x, w), (X, W), None)))


def in_parts(u: Call) -> Graph:
    """The model of a layer that is decomposed."""
    graph = model(u)
    return replace(graph, steps=tuple(LayerInParts(**vars(step)) for step in graph.steps))


def tokens(precision: str) -> Iterator[CaseDraft]:
    """Parameters chosen for all rows together, and row by row."""
    for how in ("per_tensor", "per_token"):
        u = replace(Linear().at(precision, (4, 64)), dynamic=how)
        yield accepted(f"quantised_{how}", u)
        rows = Fill("list", values=(*([0.01, -0.02] * 32), *([3.0, -1.0] * 32), *([0.0] * 64), *([100.0] * 64)))
        yield valued(f"rows_far_apart_{how}", u.with_x(fill=rows))


def groups(limits: Limits) -> Iterator[CaseDraft]:
    """Group sizes: multiples of the limit that divide the row; one group is the whole row."""
    least = limits.number("group_size", GROUP, 8, 64)
    for size, inputs in ((least, 2 * least), (2 * least, 4 * least), (least, least), (3 * least, 3 * least)):
        yield limit("group_size", f"{size}_of_{inputs}", _grouped(size, inputs))
    for size, inputs in ((least // 2, 2 * least), (least + least // 2, 3 * least), (least // 4, least)):
        yield outside("group_size", f"{size}_of_{inputs}", _grouped(size, inputs))


def _grouped(size: int, inputs: int) -> Call:
    u = Linear().at("dynamic_int4", (3, inputs))
    return replace(u, values=(u.x, weights("w", (5, inputs), "dynamic_int4", group=size), *u.values[2:]))


def open_weights(u: Call) -> Iterator[CaseDraft]:
    """The option that takes weights and bias that are not constants."""
    option = ("force_non_static_weights_for_f32_linear", True)
    x, w, b = u.values
    for name, values in (
        ("weights", (x, replace(w, constant=False), b)),
        ("weights_and_bias", (x, replace(w, constant=False), replace(b, constant=False))),
        ("nothing", (x, w, b)),
    ):
        graph = model(replace(u, values=values))
        yield with_options(accepted(f"forced_open_{name}", graph), option)


# ------------------------------------------------------------------------------------ integers


def _integer_linear(shape: tuple[int, ...], outputs: int = 4, bias: bool = True) -> Call:
    inputs = shape[-1]
    scale = fitting_weight_scale(Q, Q, inputs)
    w, b = (
        constant("w", (outputs, inputs), weight_quant(scale)),
        constant("b", (outputs,), bias_quant(Q, weight_quant(scale))),
    )
    return Call(LINEAR, (activation("x", shape), w, *((b,) if bias else ())), (X, W, *((B,) if bias else ())), Q)


def integer_linear_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.linear.default: any rank."""
    shapes = ((7,), (2, 3, 7), (1, 1), (2, 3, 4, 5))
    subject = Subject(in_int8(_integer_linear), shape=(3, 7), shapes=shapes)
    drafts = everywhere(subject, precision, limits)
    drafts += integer_weighted(subject.call(precision), precision, limits)
    for name, u in (
        ("no_bias", _integer_linear((3, 7), bias=False)),
        ("one_output", _integer_linear((3, 7), 1)),
        ("many", _integer_linear((2, 65), 33)),
    ):
        drafts.append(accepted(name, spelled(u, precision)))
    if is_wide(precision):
        drafts += wide_sums(precision)
    most = limits.number("max_channels", 65536, 1024, 65536)
    for inputs, side in ((most, limit), (most + 1, outside)):
        drafts.append(side("max_channels", f"{inputs}_inputs", spelled(_integer_linear((1, inputs), 2), precision)))
    if "weight_sum" in limits:
        drafts += weight_sums(precision, limits)
    return [*drafts, *ratios(precision, single(precision, LINEAR))]


def wide_sums(precision: str) -> Iterator[CaseDraft]:
    """Sums past 32 bits, and one past 24 bits that a code less would round the other way."""
    for name in ("min", "max"):
        u = spelled(_integer_linear((2, 640), 3), precision)
        x = replace(u.x, fill=Fill(name))
        yield valued(f"long_sums_{name}", replace(u, values=(x, *u.values[1:])).with_value("w", fill=Fill("max")))
    u = spelled(_integer_linear((1, 8), 2), precision)
    scales, fills = (2.0**-8, 2.0**-7, 2.0**-15), (Fill("max"), Fill("max"), Fill("list", values=(503,)))
    values = (
        replace(v, quant=in_steps(v.quant, s), fill=fill) for v, s, fill in zip(u.values, scales, fills, strict=True)
    )
    # 8 * 32767 * 127 + 503 = 32511 * 1024 + 511
    yield valued("just_below_a_tie", replace(u, values=tuple(values), y=in_steps(u.y, 2.0**-5)))


def weight_sums(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Ethos-U55's accumulators: the largest weights, as many as fit.

    More weights than that have more inputs than the row takes; of as many, those past the limit have codes of -128.
    """
    most = limits.number("weight_sum", 127 * 65536, 127 * 1024, 127 * 65536)
    full = spelled(_integer_linear((1, most // 127), 1), precision)
    yield limit("weight_sum", f"{most // 127}_weights_of_127", full.with_value("w", fill=Fill("max")))
    pairs = most // 255
    past: list[tuple[str, int, tuple[int, ...]]] = [("of_minus_128", most // 128 + 1, (-128,))]
    if pairs * 255 + 128 > most:  # the last of an odd number is a -128: 1 past the limit of 127 * 65536
        past.append(("of_minus_128_and_127", 2 * pairs + 1, (-128, 127)))
    for name, count, codes in past:
        u = spelled(_integer_linear((1, count), 1), precision)
        u = u.with_value("w", quant=replace(u.quant("w"), qmin=-128), fill=Fill("list", values=codes))
        yield outside("weight_sum", f"{count}_weights_{name}", u)


FAMILIES: Mapping[str, Family] = {LINEAR: Family(floats=float_linear_cases, integers=integer_linear_cases)}
