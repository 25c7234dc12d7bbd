"""Products with constant weights: what linear layers and convolutions share, and linear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Use,
    X,
    accepted,
    f32,
    filled,
    limit,
    model,
    outside,
    placed,
    quant,
    sizes_of,
    valued,
    weight_quant,
)
from npu_assay.conformance.cases.shared import ZERO_POINTS, one_hots
from npu_assay.conformance.cases.typed.common import (
    PRECISIONS,
    Family,
    Subject,
    everywhere,
    option_spellings,
    with_options,
)
from npu_assay.conformance.cases.typed.contexts import fused, then_hardtanh, then_relu, with_activation
from npu_assay.conformance.cases.typed.elementwise import TELLING
from npu_assay.conformance.cases.typed.spelling import (
    DYNAMIC,
    FLOATS,
    GROUP,
    floats,
    is_static,
    real,
    result,
    run_time,
    weights,
)
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step, Value

LINEAR = "aten.linear.default"
W, B = Ref("w"), Ref("b")


def weight_of(u: Use) -> int:
    """Where the weights stand among the operands."""
    return [value.name for value in u.values].index("w")


def with_weights(u: Use, **changes: Any) -> Use:
    """The same use with other weights."""
    index = weight_of(u)
    return replace(u, values=(*u.values[:index], replace(u.values[index], **changes), *u.values[index + 1 :]))


# ------------------------------------------------------------------------------------ what products share


def shared(subject: Subject, precision: str, limits: Limits) -> list[Draft]:
    """Cases of every product: constants, quantisation of weights and results, activations, numbers."""
    u = subject.use(precision)
    drafts = [
        *everywhere(subject, precision, limits),
        *constants(u, precision),
        *activated(u, precision),
        *numbers(u, precision),
    ]
    if precision not in FLOATS:
        drafts += zero_points(u)
    if is_static(precision):
        drafts += [*quantised_results(u), *scales(u, limits)]
    if precision in DYNAMIC:
        drafts += run_time_rows(u)
    return drafts


def constants(u: Use, precision: str) -> Iterator[Draft]:
    """Weights and bias are constants; as model inputs they are outside."""
    yield limit("static_weights", "constants", model(u))
    if precision in FLOATS:
        open_weights = with_weights(u, constant=False)
    else:
        per_tensor = weight_quant(0.01) if precision != "static_int8" else u.values[weight_of(u)].quant
        open_weights = with_weights(u, constant=False, quant=per_tensor)
    yield outside("static_weights", "weights_are_an_input", model(open_weights))
    if any(value.name == "b" for value in u.values):
        bias = tuple(replace(v, constant=False) if v.name == "b" else v for v in u.values)
        yield outside("static_weights", "bias_is_an_input", model(replace(u, values=bias)))


def activated(u: Use, precision: str) -> Iterator[Draft]:
    """With an activation behind it, which may be fused."""
    if precision == "fp16":
        return
    yield placed("then_relu", with_activation(u, then_relu))
    yield placed("then_hardtanh", with_activation(u, then_hardtanh))
    if not is_static(precision):
        yield placed("then_sigmoid", with_activation(u, fused("aten.sigmoid.default")))
        yield placed("then_clamp", with_activation(u, fused("aten.clamp.default", -0.5, 0.5)))
        yield placed("then_relu_and_two_consumers", _two_consumers(u))


def _two_consumers(u: Use) -> Graph:
    """A relu and an abs take the unquantised result."""
    steps = (
        Step("relu", "aten.relu.default", (Ref(SUBJECT),), (), u.y),
        Step("abs", "aten.abs.default", (Ref(SUBJECT),), (), u.y),
    )
    graph = model(replace(u, y=None))
    return Graph(graph.values, (*graph.steps, *steps), (Ref("relu"), Ref("abs")))


def quantised_results(u: Use) -> Iterator[Draft]:
    """One quantize node takes the result, with at most a relu or a hardtanh between."""
    yield limit("quantized", "quantised", model(u))
    yield limit("quantized", "relu_between", with_activation(u, then_relu))
    yield limit("quantized", "hardtanh_between", with_activation(u, then_hardtanh))
    yield outside("quantized", "sigmoid_between", with_activation(u, fused("aten.sigmoid.default")))
    yield outside("quantized", "clamp_between", with_activation(u, fused("aten.clamp.default", -0.5, 0.5)))
    yield outside("quantized", "two_consumers_before_quantize", _two_consumers(u))


def zero_points(u: Use) -> Iterator[Draft]:
    """Weights are symmetric."""
    q = u.values[weight_of(u)].quant
    assert q is not None
    yield limit("weight_zero_point", "0", model(u))
    for zero in (1, -3):
        yield outside(
            "weight_zero_point",
            str(zero).replace("-", "minus_"),
            model(with_weights(u, quant=replace(q, zero_point=zero))),
        )


def scales(u: Use, limits: Limits) -> Iterator[Draft]:
    """Input scale * weight scale / output scale: just below the limit, and at it (in one channel only)."""
    bound = float(limits.number("requant_scale", 256, 2, 2**20))
    q = u.values[weight_of(u)].quant
    assert q is not None
    below = bound * (1 - 2.0**-23)

    def scaled(weight_scale: float) -> Use:
        if isinstance(q.scale, tuple):
            wide: tuple[float, ...] | float = (f32(weight_scale), *(f32(1.0) for _ in q.scale[1:]))
        else:
            wide = f32(weight_scale)
        x = replace(u.values[0], quant=quant(1.0, 0), fill=Fill("list", values=(1, -1, 2, 0, -2)))
        return with_weights(replace(u, values=(x, *u.values[1:]), y=quant(1.0)), quant=replace(q, scale=wide))

    yield limit("requant_scale", "just_below", model(scaled(below)))
    yield limit("requant_scale", "tiny", model(_rescaled(u, 2.0**-10, 2.0**8)))
    yield outside("requant_scale", "equal", model(scaled(bound)))
    yield outside("requant_scale", "twice", model(scaled(2 * bound)))


def _rescaled(u: Use, x: float, y: float) -> Use:
    return replace(u, values=(replace(u.values[0], quant=quant(x)), *u.values[1:]), y=quant(y))


def numbers(u: Use, precision: str) -> Iterator[Draft]:
    """Extremes, single numbers, and quantisations that tell roundings apart."""
    if is_static(precision):
        yield valued("ties", model(_tied(u)))
    elif precision in FLOATS:
        yield valued("large_then_small", model(_stagnating(u)))
    yield from one_hots(u, spots=2)
    if is_static(precision):
        for name in ("min", "max", "alternating"):
            yield valued(f"all_{name}", model(filled(u, Fill(name))))
        for zero in ZERO_POINTS:
            x = replace(u.values[0], quant=quant(0.05, zero))
            yield valued(f"zero_point_{zero}", model(replace(u, values=(x, *u.values[1:]), y=quant(0.11, -zero // 2))))
        yield valued("saturates", model(replace(u, y=quant(0.003, 11))))
        yield valued("coarse", model(replace(u, y=quant(3.0, -5))))
    elif precision in FLOATS:
        yield valued("telling", model(filled(u, Fill("list", values=TELLING))))


def _tied(u: Use) -> Use:
    """Powers of two for scales, and accumulators of two steps to a code: every other one lies between two codes."""
    q = u.values[weight_of(u)].quant
    assert q is not None
    scale: tuple[float, ...] | float = (2.0**-3,) * len(q.scale) if isinstance(q.scale, tuple) else 2.0**-3
    few = Fill("list", values=(1, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0))
    x = replace(u.values[0], quant=quant(2.0**-2, 0), fill=few)
    tied = replace(u, values=(x, *u.values[1:]), y=quant(2.0**-4, 1))
    small = Fill("list", values=(3, -2, 5, 1, -7, 4, 0, 2, -1, 6, -4, 9, -5))
    return with_weights(tied, quant=replace(q, scale=scale, zero_point=0), fill=small)


def _stagnating(u: Use) -> Use:
    """A large number, then small ones: a sum in few bits stays where it is."""
    small = filled(u, Fill("list", values=(256.0, *([1.0] * 35))))
    return with_weights(small, fill=Fill("list", values=(1.0,)))


def run_time_rows(u: Use) -> Iterator[Draft]:
    """Rows whose quantisation at run time is an edge case; the smallest scale of the program is ignored."""
    rows = {
        "all_zero": (0.0,),
        "all_equal": (1.5,),
        "all_equal_negative": (-2.25,),
        "positive": (0.5, 3.0, 1.25, 2.0, 7.5),
        "negative": (-0.5, -3.0, -1.25, -2.0, -7.5),
        "one_outlier": (*([0.01] * 12), 100.0),
        "ties": (-128.0, 127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5),
        "small": (1e-3, -2e-3, 5e-4, 1.5e-3),
        "large": (3e4, -1e4, 2e4, 5.0),
        "half_zero_half_large": (*([0.0] * 64), *([1000.0, -500.0] * 32)),
    }
    for name, listed in rows.items():
        yield valued(f"rows_{name}", model(filled(u, Fill("list", values=listed))))


# ------------------------------------------------------------------------------------ linear


@dataclass(frozen=True)
class Linear:
    """A linear layer on rows of `inputs` numbers."""

    outputs: int = 5
    bias: bool = True

    def at(self, precision: str, shape: tuple[int, ...]) -> Use:
        """On an `x` of this shape; groupwise weights need rows of whole groups."""
        if precision == "dynamic_int4" and shape[-1] % GROUP:
            shape = (*shape[:-1], 2 * GROUP)
        values: tuple[Value, ...]
        values = (real("x", shape, precision), weights("w", (self.outputs, shape[-1]), precision))
        if self.bias:
            values = (*values, floats("b", (self.outputs,), precision))
        args = (X, W, B) if self.bias else (X, W)
        return Use(LINEAR, values, args, result(precision), dynamic=run_time(precision))


def linear_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.linear.default: constant weights; rows of any rank."""
    subject = Subject(
        "LinearConfig",
        Linear().at,
        PRECISIONS,
        shape=(3, 64),
        single=(1, 1),
        empty=(0, 64),
        open=((0,),),
        product=True,
    )
    drafts = [
        *shared(subject, precision, limits),
        *sizes(precision),
        accepted("no_bias", model(Linear(bias=False).at(precision, (3, 64)))),
    ]
    drafts += [accepted("open_axes_0_and_1", model(_open_rows(precision)))]
    if precision in ("static_int8_per_channel", "dynamic_int8"):
        drafts += axes(precision)
    if precision in DYNAMIC:
        drafts += tokens(precision)
    if precision == "dynamic_int8":
        drafts.append(
            accepted("per_tensor_weights", model(with_weights(subject.use(precision), quant=weight_quant(0.01))))
        )
    if precision == "dynamic_int4":
        drafts += groups(limits)
    if precision == "fp32":
        drafts += [*option_spellings(subject, precision), *open_weights(subject.use(precision))]
    return drafts


def sizes(precision: str) -> Iterator[Draft]:
    """One row, one input, one output, many; every rank of `x`."""
    for shape, outputs in (((1, 64), 1), ((7, 33), 2), ((2, 1), 3), ((64,), 5), ((2, 3, 32), 9), ((4, 130), 17)):
        graph = model(Linear(outputs).at(precision, shape))
        yield accepted(f"x_{sizes_of(shape)}_outputs_{outputs}", graph)


def _open_rows(precision: str) -> Use:
    u = Linear().at(precision, (2, 3, 64))
    return replace(u, values=(replace(u.values[0], dynamic=(0, 1)), *u.values[1:]))


def axes(precision: str) -> Iterator[Draft]:
    """One scale per output, not per input; the weights are square, so that both fit."""
    u = Linear(8).at(precision, (3, 8))
    yield limit("weight_axis", "outputs", model(u))
    scales = u.values[1].quant
    assert scales is not None
    yield outside("weight_axis", "inputs", model(with_weights(u, quant=replace(scales, axis=1))))


def tokens(precision: str) -> Iterator[Draft]:
    """Parameters chosen for all rows together, and row by row."""
    for how in ("per_tensor", "per_token"):
        u = replace(Linear().at(precision, (4, 64)), dynamic=how)
        yield accepted(f"quantised_{how}", model(u))
        rows = Fill("list", values=(*([0.01, -0.02] * 32), *([3.0, -1.0] * 32), *([0.0] * 64), *([100.0] * 64)))
        yield valued(f"rows_far_apart_{how}", model(filled(u, rows)))


def groups(limits: Limits) -> Iterator[Draft]:
    """Group sizes: multiples of the limit that divide the row; one group is the whole row."""
    least = limits.number("group_size", GROUP, 8, 64)
    for size, inputs in ((least, 2 * least), (2 * least, 4 * least), (least, least), (3 * least, 3 * least)):
        yield limit("group_size", f"{size}_of_{inputs}", model(_grouped(size, inputs)))
    for size, inputs in ((least // 2, 2 * least), (least + least // 2, 3 * least), (least // 4, least)):
        yield outside("group_size", f"{size}_of_{inputs}", model(_grouped(size, inputs)))


def _grouped(size: int, inputs: int) -> Use:
    u = Linear().at("dynamic_int4", (3, inputs))
    return replace(u, values=(u.values[0], weights("w", (5, inputs), "dynamic_int4", group=size), *u.values[2:]))


def open_weights(u: Use) -> Iterator[Draft]:
    """The option that takes weights and bias that are no constants."""
    option = ("force_non_static_weights_for_f32_linear", True)
    x, w, b = u.values
    for name, values in (
        ("weights", (x, replace(w, constant=False), b)),
        ("weights_and_bias", (x, replace(w, constant=False), replace(b, constant=False))),
        ("nothing", (x, w, b)),
    ):
        graph = model(replace(u, values=values))
        yield with_options(accepted(f"forced_open_{name}", graph), option)


FAMILIES: Mapping[str, Family] = {LINEAR: linear_cases}
