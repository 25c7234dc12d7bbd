"""Products with weights: convolutions and linear layers; products of two matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from conformance.cases.integer import contexts
from conformance.cases.integer.common import Subject, everywhere, scales_of
from conformance.cases.integer.spelling import CONVOLUTION, LINEAR, codes_quant, is_wide, other_type, spelled
from conformance.cases.limits import Limits
from conformance.cases.make import (
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    bias_quant,
    constant,
    fitting_weight_scale,
    limit,
    model,
    outside,
    placed,
    quant,
    spread,
    valued,
    weight_quant,
)
from conformance.cases.typed.contexts import fused, with_activation
from conformance.graph import Fill, Graph, Quant, Ref, Value

W, B = Ref("w"), Ref("b")
FLAT = (1, 3, 6, 7)
POSITIVE = quant(0.0234375, -128)


@dataclass(frozen=True)
class Convolution:
    """A convolution; `outputs` per group of a transposed one are outputs // groups."""

    shape: tuple[int, ...] = FLAT
    kernel: tuple[int, ...] = (3, 2)
    outputs: int = 5
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    transposed: bool = False
    extra: tuple[int, ...] = (0, 0)
    groups: int = 1
    bias: bool = True
    scale: float | None = None

    @property
    def weights(self) -> tuple[int, ...]:
        """The weight's shape."""
        inputs = self.shape[1]
        if self.transposed:
            return (inputs, self.outputs // self.groups, *self.kernel)
        return (self.outputs, inputs // self.groups, *self.kernel)

    def use(self) -> Use:
        """In int8, with one scale for all weights."""
        terms = math.prod(self.weights[1:])
        scale = fitting_weight_scale(Q, Q, terms) if self.scale is None else self.scale
        w = constant("w", self.weights, weight_quant(scale))
        b = constant("b", (self.outputs,), bias_quant(Q, weight_quant(scale)))
        args = (X, W, B if self.bias else None, self.stride, self.padding, self.dilation)
        values = (activation("x", self.shape), w, *((b,) if self.bias else ()))
        return Use(CONVOLUTION, values, (*args, self.transposed, self.extra, self.groups), Q)


def with_weight(u: Use, **changes: Any) -> Use:
    """The use with changes in its weights."""
    return replace(u, values=tuple(replace(v, **changes) if v.name == "w" else v for v in u.values))


def with_bias(u: Use, **changes: Any) -> Use:
    """The use with changes in its bias."""
    return replace(u, values=tuple(replace(v, **changes) if v.name == "b" else v for v in u.values))


def per_channel(precision: str) -> bool:
    """Whether weights have a scale per output."""
    return precision.endswith("_per_channel")


# ------------------------------------------------------------------------------------ what both have


def weighted(at: Callable[[], Use], precision: str, limits: Limits) -> Iterator[Draft]:
    """Weights and biases: constants of the right type; activations fused behind them; numbers."""
    u = spelled(at(), precision)
    computed = "u85" not in limits.where
    for code in ("weight_dtype", "bias_dtype"):
        limits.value(code, ())
    names = ("weight", "w"), ("bias", "b")
    yield limit("static_weights", "constants", model(u))
    for name, ref in names if computed else names[1:]:
        if ref == "b" or not per_channel(precision):
            computed_one = tuple(_computed(v) if v.name == ref else v for v in u.values)
            yield outside("static_weights", f"computed_{name}", model(replace(u, values=computed_one)))
    yield limit("weight_dtype", "int8", model(u))
    w = next(v for v in u.values if v.name == "w").quant
    assert w is not None
    yield outside("weight_dtype", "int16", model(with_weight(u, quant=replace(w, dtype="int16", qmin=-300, qmax=300))))
    yield limit("bias_dtype", "int32", model(u))
    b = next(v for v in u.values if v.name == "b").quant
    assert b is not None
    yield outside("bias_dtype", "int16", model(with_bias(u, quant=replace(b, dtype="int16", qmin=-2000, qmax=2000))))
    if per_channel(precision):
        yield limit("weight_zero_point", "zero", model(u))
        inputs = weight_quant(spread(0.01, u.values[1].shape[1]), 1)
        yield limit("weight_axis", "outputs", model(u))
        yield outside("weight_axis", "inputs", model(with_weight(u, quant=inputs)))
        for zero in (1, -5):
            yield outside(
                "weight_zero_point",
                str(zero).replace("-", "minus_"),
                model(with_weight(u, quant=replace(w, zero_point=zero))),
            )
    yield from activated(u, precision)
    for name in ("min", "max", "alternating", "ramp"):
        yield valued(f"weights_{name}", model(with_weight(u, fill=Fill(name))))
    yield valued("ties", model(tied(u)))
    if not is_wide(precision):
        for zero in (-100, 100):
            yield valued(f"result_zero_point_{zero}", model(replace(u, y=quant(0.05, zero))))


def tied(u: Use) -> Use:
    """Powers of two for scales, and sums of two steps to a code: every other one lies between two codes."""
    fills = {
        "x": Fill("list", values=(1, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0)),
        "w": Fill("list", values=(3, -2, 5, 1, -7, 4, 0, 2, -1, 6, -4, 9, -5)),
        "b": Fill("list", values=(0, 1, -3, 2)),
    }
    scales = {"x": 2.0**-2, "w": 2.0**-3, "b": 2.0**-5}
    values = (replace(v, quant=_in_steps(v.quant, scales[v.name]), fill=fills[v.name]) for v in u.values)
    return replace(u, values=tuple(values), y=_in_steps(u.y, 2.0**-4))


def _in_steps(q: Quant | None, scale: float) -> Quant:
    """The quantisation with this scale, for all channels, and zero point 0."""
    assert q is not None
    return replace(q, scale=(scale,) * len(q.scale) if isinstance(q.scale, tuple) else scale, zero_point=0)


def _computed(value: Value) -> Value:
    """The value as a model input."""
    q = value.quant
    assert q is not None
    single = q if isinstance(q.scale, float) else replace(q, scale=q.scale[0], axis=None)
    return replace(value, constant=False, quant=single)


def activated(u: Use, precision: str) -> Iterator[Draft]:
    """With an activation behind it, with or without codes between them."""
    relu, relu6 = fused("aten.relu.default"), fused("aten.hardtanh.default", 0.0, 6.0)
    positive = replace(u, y=codes_quant(precision, POSITIVE))
    yield placed("then_relu", with_activation(positive, relu))
    yield placed("then_relu_of_signed_codes", with_activation(u, relu))
    if not is_wide(precision):
        yield placed("then_relu6", with_activation(replace(u, y=quant(6 / 255, -128)), relu6))
    for name, op, args in (("relu", "aten.relu.default", ()), ("hardtanh", "aten.hardtanh.default", (-1.0, 1.0))):
        behind = contexts.after(u, op, args)
        yield placed(f"then_quantised_{name}", behind)


# ------------------------------------------------------------------------------------ rows


def convolution_subject() -> Subject:
    """A flat convolution with padding."""

    def at(shape: tuple[int, ...]) -> Use:
        return Convolution(shape, padding=(1, 0)).use()

    return Subject(at, FLAT, ((2, 3, 6, 7), (1, 1, 3, 2), (1, 8, 5, 9)), deep=False)


SHAPED: Mapping[str, Convolution] = {
    "strided": Convolution(stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
    "stride_3_cuts": Convolution((1, 3, 7, 8), (2, 3), stride=(3, 3)),
    "no_bias": Convolution(bias=False, kernel=(1, 3), outputs=4, stride=(1, 2), padding=(0, 1)),
    "one_channel": Convolution((1, 1, 6, 7), outputs=1),
    "pointwise": Convolution(kernel=(1, 1)),
    "whole_image": Convolution(kernel=(6, 7)),
    "depthwise": Convolution(outputs=3, stride=(1, 2), padding=(1, 1), groups=3),
    "depthwise_multiplier": Convolution(outputs=6, groups=3),
    "groups": Convolution((1, 4, 6, 7), outputs=6, groups=2),
    "dilated": Convolution((1, 3, 9, 11), dilation=(2, 3)),
    "conv1d": Convolution((2, 3, 9), (3,), 5, (2,), (1,), (2,), extra=(0,)),
    "conv1d_depthwise": Convolution((1, 3, 9), (3,), 3, (1,), (2,), (1,), groups=3, extra=(0,)),
    "conv3d_flat": Convolution((1, 3, 4, 6, 7), (1, 3, 2), 5, (1, 2, 1), (0, 1, 0), (1, 1, 1), extra=(0, 0, 0)),
}
TRANSPOSED: Mapping[str, Convolution] = {
    "transposed": Convolution((1, 3, 4, 5), (3, 4), 4, (2, 2), (1, 2), transposed=True),
    "transposed_output_padding": Convolution((1, 3, 4, 5), (2, 3), 4, (2, 2), (0, 1), transposed=True, extra=(1, 1)),
    "transposed_stride_1": Convolution((1, 3, 4, 5), (2, 3), 4, transposed=True),
}


def convolution_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.convolution.default, transposed or not."""
    subject = convolution_subject()
    drafts = everywhere(subject, precision, limits)
    drafts += weighted(lambda: subject.at(FLAT), precision, limits)
    drafts += [accepted(name, model(spelled(c.use(), precision))) for name, c in SHAPED.items()]
    if not no_transposed(precision, limits):
        drafts += [accepted(name, model(spelled(c.use(), precision))) for name, c in TRANSPOSED.items()]
    if "weight_sum" in limits:
        limits.fixed("weight_sum", 127 * 65536)
        drafts.append(limit("weight_sum", "few_weights", subject.model(subject.use(precision))))
        wide_image = Convolution((1, 2049, 4, 8), (4, 8), 1, bias=False, scale=1e-6).use()
        drafts.append(
            outside(
                "weight_sum",
                "65568_weights_of_127",
                model(with_weight(spelled(wide_image, precision), fill=Fill("max"))),
            )
        )
    return [*drafts, *shape_limits(precision, limits), *ratios(precision, single(precision, CONVOLUTION))]


def conv(precision: str, **settings: Any) -> Graph:
    """The model of one convolution."""
    return model(spelled(Convolution(**settings).use(), precision))


def shape_limits(precision: str, limits: Limits) -> Iterator[Draft]:
    """What convolutions may not have anywhere, then kernels, strides and sizes on Ethos-U55."""
    limits.fixed("output_padding", 0)
    yield limit("output_padding", "0", conv(precision))
    yield outside("output_padding", "1", conv(precision, extra=(0, 1)))
    # 7 rows, kernel 3, stride 4: the last window does not reach the end, which is cut off.
    yield limit("cropped", "all_but_one_row", conv(precision, shape=(1, 3, 2, 7), kernel=(1, 1), stride=(2, 1)))
    past: dict[str, Any] = {"shape": (1, 3, 2, 7), "kernel": (1, 1), "padding": (1, 0)}
    yield outside("cropped", "every_row", conv(precision, **past, stride=(4, 1)))
    yield from transposed_limits(precision, limits)
    if "kernel_height" in limits:
        yield from kernel_limits(precision, limits)


def transposed_limits(precision: str, limits: Limits) -> Iterator[Draft]:
    """Of transposed convolutions."""
    limits.fixed("dilation", 1)
    limits.fixed("spatial_rank", 4)
    limits.fixed("transposed_groups", 1)
    turned: dict[str, Any] = {"shape": (1, 4, 4, 5), "kernel": (2, 3), "outputs": 4, "transposed": True}
    flat = {
        **turned,
        "shape": (1, 4, 9),
        "kernel": (3,),
        "stride": (1,),
        "padding": (0,),
        "dilation": (1,),
        "extra": (0,),
    }
    yield outside("spatial_rank", "rank_3", conv(precision, **flat))
    yield outside("dilation", "2x1", conv(precision, **turned, dilation=(2, 1)))
    yield outside("dilation", "1x2", conv(precision, **turned, dilation=(1, 2)))
    yield outside("transposed_padding", "whole_kernel", conv(precision, **turned, padding=(2, 1)))
    yield outside("transposed_padding", "whole_width", conv(precision, **turned, padding=(1, 3)))
    sizes = transposed_sizes(limits)
    yield from (outside("transposed_size", name, conv(precision, **small)) for name, small, _ in sizes)
    if per_channel(precision):
        yield outside("transposed_groups", "2", conv(precision, **turned, groups=2, bias=False))
    if no_transposed(precision, limits):
        yield limit("no_wide_transposed", "ordinary", conv(precision))
        yield outside("no_wide_transposed", "transposed", conv(precision, **turned))
        for code in ("spatial_rank", "dilation", "transposed_padding", "transposed_size", "transposed_groups"):
            yield limit(code, "ordinary", conv(precision))
        return
    yield limit("spatial_rank", "rank_4", conv(precision, **turned))
    yield limit("dilation", "1", conv(precision, **turned))
    yield limit("transposed_padding", "all_but_one", conv(precision, **turned, padding=(1, 2)))
    yield from (limit("transposed_size", name, conv(precision, **enough)) for name, _, enough in sizes)
    if per_channel(precision):
        yield limit("transposed_groups", "1", conv(precision, **turned))
    elif "u85" in limits.where:
        yield accepted("transposed_groups", conv(precision, **turned, groups=2, bias=False))
    if "transposed_stride" in limits:
        for name, stride, more in STRIDES:
            yield limit("transposed_stride", name, conv(precision, **{**turned, **more}, stride=stride))
        for name, stride in (("1x2", (1, 2)), ("2x1", (2, 1)), ("3x3", (3, 3))):
            yield outside("transposed_stride", name, conv(precision, **turned, stride=stride))


def least_area(area: int, height: int) -> tuple[int, int]:
    """The kernel of one element more than `area` that is highest, within `height`."""
    rows = next(rows for rows in range(height, 0, -1) if (area + 1) % rows == 0)
    return rows, (area + 1) // rows


def transposed_sizes(limits: Limits) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """From one row, then column, by a padded kernel of 3: a result one short of the stride, and as large."""
    step = 2 if "u55" in limits.where else 3
    both: dict[str, Any] = {"kernel": (3, 3), "outputs": 4, "stride": (step, step), "transposed": True}
    rows, columns = ({**both, "shape": (1, 4, *s), "padding": p} for s, p in (((1, 5), (1, 0)), ((5, 1), (0, 1))))
    return [
        ("rows", {**rows, "extra": (step - 2, 0)}, {**rows, "extra": (step - 1, 0)}),
        ("columns", {**columns, "extra": (0, step - 2)}, {**columns, "extra": (0, step - 1)}),
    ]


STRIDES: tuple[tuple[str, tuple[int, int], dict[str, Any]], ...] = (
    ("1x1", (1, 1), {}),
    ("2x2", (2, 2), {}),
    ("1x2_of_a_row", (1, 2), {"shape": (1, 4, 1, 5), "kernel": (1, 3)}),
    ("2x1_of_a_column", (2, 1), {"shape": (1, 4, 5, 1), "kernel": (3, 1)}),
)


def no_transposed(precision: str, limits: Limits) -> bool:
    """Whether transposed convolutions are refused altogether."""
    return "no_wide_transposed" in limits


def kernel_limits(precision: str, limits: Limits) -> Iterator[Draft]:
    """Of Ethos-U55: height, area, depth and strides of kernels; sizes of images; sums of weights."""
    height, area = limits.number("kernel_height", 64, 8, 256), limits.number("kernel_area", 4096, 256, 16384)
    limits.fixed("kernel_depth", 1)
    column: dict[str, Any] = {"outputs": 2, "scale": 0.01}
    for rows, side in ((height, limit), (height + 1, outside)):
        yield side("kernel_height", str(rows), conv(precision, shape=(1, 1, rows + 1, 2), kernel=(rows, 1), **column))
    width = area // height
    for columns, side in ((width, limit), (width + 1, outside)):
        shape, kernel = (1, 1, height, columns), (height, columns)
        yield side("kernel_area", f"{height}x{columns}", conv(precision, shape=shape, kernel=kernel, **column))
    kernel = least_area(area, height)
    yield outside(
        "kernel_area", f"{kernel[0]}x{kernel[1]}", conv(precision, shape=(1, 1, *kernel), kernel=kernel, **column)
    )
    yield accepted("wide_kernel", conv(precision, shape=(1, 1, 2, height + 8), kernel=(1, height + 1), **column))
    deep: dict[str, Any] = {"stride": (1, 1, 1), "padding": (0, 0, 0), "dilation": (1, 1, 1), "extra": (0, 0, 0)}
    for depth, side in ((1, limit), (2, outside)):
        image, kernel3 = (1, 3, 4, 6, 7), (depth, 3, 2)
        yield side("kernel_depth", str(depth), conv(precision, shape=image, kernel=kernel3, **deep))
    most = limits.number("max_size", 65536, 1024, 65536)
    for name, shape in (("width", (1, 1, 1, most)), ("height", (1, 1, most, 1))):
        longer = tuple(size + 1 if size == most else size for size in shape)
        yield limit("max_size", f"{name}_{most}", conv(precision, shape=shape, kernel=(1, 1), outputs=1, scale=0.01))
        yield outside(
            "max_size", f"{name}_{most + 1}", conv(precision, shape=longer, kernel=(1, 1), outputs=1, scale=0.01)
        )
    strided: dict[str, Any] = {"shape": (1, 3, 9, 11), "kernel": (2, 2)}
    kept = (("3x3", (3, 3), (0, 0)), ("3x3_padded", (3, 3), (1, 1)), ("4x5_unpadded", (4, 5), (0, 0)))
    for name, stride, padding in kept:
        yield limit("stride_or_whole", name, conv(precision, **strided, stride=stride, padding=padding))
    past = (
        ("4x1_padded", (4, 1), (1, 0), (1, 1)),
        ("1x4_padded", (1, 4), (0, 1), (1, 1)),
        ("4x1_dilated", (4, 1), (0, 0), (2, 1)),
    )
    for name, stride, padding, dilation in past:
        yield outside(
            "stride_or_whole", name, conv(precision, **strided, stride=stride, padding=padding, dilation=dilation)
        )
    if "rank" in limits:
        limits.fixed("rank", 4)
        yield limit("rank", "4", conv(precision))


def ratios(precision: str, at: Callable[[float], Use]) -> Iterator[Draft]:
    """Scales with which the largest sum just fits 32 bits behind RESCALE, and the next power of two.

    One weight of 127 and no bias, so sums are up to 127 * 2**7; of int16 127 * 2**15, of which results have 32 bits.
    """
    past = 2.0**16 / 127 if is_wide(precision) else 2.0**16
    for name, side, ratio in (("largest", limit, past * (1 - 2.0**-20)), ("too_large", outside, past * (1 + 2.0**-20))):
        yield side("rescale", f"{name}_ratio", model(at(ratio)))


def single(precision: str, op: str) -> Callable[[float], Use]:
    """One weight of 127, no bias: `ratio` is input times weight over output scale."""

    def at(ratio: float) -> Use:
        x = replace(
            activation("x", (1, 1, 2, 3) if op == CONVOLUTION else (2, 1)), quant=codes_quant(precision, quant(1.0))
        )
        shape = (1, 1, 1, 1) if op == CONVOLUTION else (1, 1)
        scale = weight_quant((ratio,), 0) if per_channel(precision) else weight_quant(ratio)
        w = constant("w", shape, scale, Fill("list", values=(127.0,)))
        rest = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1) if op == CONVOLUTION else ()
        args = (X, W, None, *rest) if op == CONVOLUTION else (X, W)
        return Use(op, (x, w), args, codes_quant(precision, quant(1.0)))

    return at


# ------------------------------------------------------------------------------------ linear layers


def _linear(shape: tuple[int, ...], outputs: int = 4, bias: bool = True) -> Use:
    inputs = shape[-1]
    scale = fitting_weight_scale(Q, Q, inputs)
    w, b = (
        constant("w", (outputs, inputs), weight_quant(scale)),
        constant("b", (outputs,), bias_quant(Q, weight_quant(scale))),
    )
    return Use(LINEAR, (activation("x", shape), w, *((b,) if bias else ())), (X, W, *((B,) if bias else ())), Q)


def linear_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.linear.default: any rank."""
    shapes = ((7,), (2, 3, 7), (1, 1), (2, 3, 4, 5))
    subject = Subject(_linear, (3, 7), shapes)
    drafts = everywhere(subject, precision, limits)
    drafts += weighted(lambda: _linear((3, 7)), precision, limits)
    for name, u in (
        ("no_bias", _linear((3, 7), bias=False)),
        ("one_output", _linear((3, 7), 1)),
        ("many", _linear((2, 65), 33)),
    ):
        drafts.append(accepted(name, model(spelled(u, precision))))
    if is_wide(precision):
        drafts += wide_sums(precision)
    if "weight_sum" in limits:
        drafts += weight_sums(precision, limits)
    return [*drafts, *ratios(precision, single(precision, LINEAR))]


def wide_sums(precision: str) -> Iterator[Draft]:
    """Sums past 32 bits, and one past 24 bits that a code less would round the other way."""
    for name in ("min", "max"):
        u = spelled(_linear((2, 640), 3), precision)
        x = replace(u.values[0], fill=Fill(name))
        yield valued(f"long_sums_{name}", model(with_weight(replace(u, values=(x, *u.values[1:])), fill=Fill("max"))))
    u = spelled(_linear((1, 8), 2), precision)
    scales, fills = (2.0**-8, 2.0**-7, 2.0**-15), (Fill("max"), Fill("max"), Fill("list", values=(503,)))
    values = (
        replace(v, quant=_in_steps(v.quant, s), fill=fill) for v, s, fill in zip(u.values, scales, fills, strict=True)
    )
    # 8 * 32767 * 127 + 503 = 32511 * 1024 + 511
    yield valued("just_below_a_tie", model(replace(u, values=tuple(values), y=_in_steps(u.y, 2.0**-5))))


def weight_sums(precision: str, limits: Limits) -> Iterator[Draft]:
    """Ethos-U55's accumulators: the largest weights, as many as fit."""
    most = limits.number("weight_sum", 127 * 65536, 127 * 1024, 127 * 65536)
    for count, side in ((most // 127, limit), (most // 127 + 1, outside)):
        u = spelled(_linear((1, count), 1), precision)
        yield side("weight_sum", f"{count}_weights_of_127", model(with_weight(u, fill=Fill("max"))))
    code = next(code for code in range(127, 0, -1) if (most + 1) % code == 0)
    u = spelled(_linear((1, (most + 1) // code), 1), precision)
    name = f"{(most + 1) // code}_weights_of_{code}"
    yield outside("weight_sum", name, model(with_weight(u, fill=Fill("list", values=(code,)))))


# ------------------------------------------------------------------------------------ two matrices


def matrix_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """aten.mm.default and aten.bmm.default: both matrices may be computed."""
    batch = (2,) if op.startswith("aten.bmm") else ()

    def at(shape: tuple[int, ...], columns: int = 3) -> Use:
        other = activation("y", (*batch, shape[-1], columns), quant(0.03125, -7))
        return Use(op, (activation("x", shape), other), (X, Ref("y")), quant(0.3, 1))

    subject = Subject(at, (*batch, 4, 5), ((*batch, 1, 1), (*batch, 1, 7), (*batch, 8, 16)), None, deep=False)
    u = subject.use(precision)
    x, y = u.values
    drafts = everywhere(subject, precision, limits)
    assert y.quant is not None
    scales = scales_of(y.quant, len(y.shape) - 1, y.shape[-1])
    drafts += [
        accepted("constant", model(replace(u, values=(x, replace(y, constant=True))))),
        outside(
            "per_tensor",
            "a_scale_for_each_column",
            model(replace(u, values=(x, replace(y, quant=scales, constant=True)))),
        ),
        accepted("one_column", model(spelled(at((*batch, 4, 5), 1), precision))),
        outside("mixed_dtype", "second_matrix", model(replace(u, values=(x, replace(y, quant=other_type(precision)))))),
        outside("static_shape", "open_rows", model(replace(u, values=(replace(x, dynamic=(len(batch),)), y)))),
    ]
    for name, fill in (("both_min", Fill("min")), ("both_max", Fill("max"))):
        drafts.append(valued(name, model(replace(u, values=tuple(replace(v, fill=fill) for v in u.values)))))
    if "code_dtype" in limits:
        limits.value("code_dtype", ())
        drafts.append(limit("code_dtype", "int8", model(u)))
        drafts.append(outside("code_dtype", "int16", model(spelled(at((*batch, 4, 5)), "int16"))))
    if "max_size" in limits:
        most = limits.number("max_size", 65536, 1024, 65536)
        for size, side in ((most, limit), (most + 1, outside)):
            drafts.append(side("max_size", f"{size}_columns", model(spelled(at((*batch, 1, 1), size), precision))))
    # 5 products of codes: below 2**17 (2**33, of which results have 32 bits).
    bits = -2 if is_wide(precision) else 13
    for name, side, ratio in (
        ("largest", limit, 2.0**bits * (1 - 2.0**-20)),
        ("too_large", outside, 2.0 ** (bits + is_wide(precision))),
    ):
        finer = 256 if is_wide(precision) else 1
        values = (
            replace(x, quant=codes_quant(precision, quant(1.0))),
            replace(y, quant=codes_quant(precision, quant(ratio * finer))),
        )
        drafts.append(
            side("rescale", f"{name}_ratio", model(replace(u, values=values, y=codes_quant(precision, quant(1.0)))))
        )
    return drafts


Family = Callable[[str, Limits], list[Draft]]
FAMILIES: Mapping[str, Family] = {
    CONVOLUTION: convolution_cases,
    LINEAR: linear_cases,
    "aten.bmm.default": partial(matrix_cases, "aten.bmm.default"),
    "aten.mm.default": partial(matrix_cases, "aten.mm.default"),
}
