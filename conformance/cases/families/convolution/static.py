"""Convolutions in static int8: plain, depthwise, 1-D."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import (
    UNFUSED,
    CaseDraft,
    accepted,
    fused_in,
    inside,
    limit,
    outside,
    placed,
    valued,
)
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    RELU,
    SUBJECT,
    Call,
    Q,
    X,
    activation,
    bias_quant,
    constant,
    fitting_weight_scale,
    model,
    quant,
    spread,
    step,
    weight_quant,
)
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.fusion import before_activations, followed
from npu_assay.conformance.cases.pieces.quantization import BELOW, UP_TO_6, rescale_limit
from npu_assay.conformance.cases.pieces.values import fills, named, one_hots
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value


def convolution(
    cin: int = 3,
    cout: int = 5,
    size: tuple[int, ...] = (6, 7),
    kernel: tuple[int, ...] = (3, 3),
    stride: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    batch: int = 1,
) -> Call:
    """A convolution with per-channel weights (scales spread over a factor of 10) and a bias."""
    terms = cin // groups
    for extent in kernel:
        terms *= extent
    w = weight_quant(spread(2 * fitting_weight_scale(Q, Q, terms), cout), 0)
    values = (
        activation("x", (batch, cin, *size)),
        constant("w", (cout, cin // groups, *kernel), w),
        constant("bias", (cout,), bias_quant(Q, w)),
    )
    nothing = (0,) * len(kernel)
    args = (X, Ref("w"), Ref("bias"), stride, padding, dilation, False, nothing, groups)
    return Call("aten.convolution.default", values, args, Q)


def static_convolution_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """Every rule of the row, then numbers."""
    limits.fixed("batch", 1)
    return [
        *_spatial_ranks(),
        *_weights(),
        *_groups(),
        *_batch(),
        *_biases(),
        *_rescale(),
        *before_activations(convolution(), (1, 5, 4, 5)),
        *before_activations(convolution(8, 8, groups=8), (1, 8, 4, 5), "_depthwise"),
        *_geometry(),
        *_spellings(),
        *_contexts(limits),
        *_numbers(),
    ]


def _one_d(cin: int = 8, cout: int = 8, length: int = 16, kernel: int = 1, **kwargs: Any) -> Call:
    lists = {"stride": (1,), "padding": (0,), "dilation": (1,)} | kwargs
    return convolution(cin, cout, (length,), (kernel,), **lists)


def _spatial_ranks() -> list[CaseDraft]:
    three = convolution(3, 5, (3, 4, 5), (2, 2, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1))
    flat = convolution(3, 5, (1, 4, 5), (1, 2, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1))
    return [
        limit("spatial_rank", "2d", convolution()),
        limit("spatial_rank", "1d", _one_d()),
        limit("spatial_rank", "1d_kernel_3_padded", _one_d(kernel=3, padding=(1,))),
        limit("spatial_rank", "1d_depthwise", _one_d(kernel=3, padding=(1,), groups=8)),
        inside("spatial_rank", "1d_odd_sizes", _one_d(3, 5, 7, 3)),
        inside("spatial_rank", "1d_stride_dilation", _one_d(3, 5, 13, 3, stride=(2,), dilation=(2,))),
        outside("spatial_rank", "3d", three),
        outside("spatial_rank", "3d_of_depth_1", flat),
    ]


def with_operand(u: Call, name: str, value: Value | None) -> Call:
    """Another weight or bias; None drops the bias."""
    values = tuple(value if v.name == name else v for v in u.values)
    args = tuple(None if value is None and a == Ref(name) else a for a in u.args)
    return replace(u, values=tuple(v for v in values if v is not None), args=args)


def operand_quant(value: Value) -> Quant:
    assert value.quant is not None
    return value.quant


def _scales(value: Value) -> tuple[float, ...]:
    scale = operand_quant(value).scale
    assert isinstance(scale, tuple)
    return scale


def _weights() -> list[CaseDraft]:
    """Constant and symmetric, per tensor or per channel, also where they are depthwise."""
    code = "static_weights"
    drafts = []
    for name, u in (("plain", convolution()), ("depthwise", convolution(8, 8, groups=8))):
        scale = fitting_weight_scale(Q, Q, 27 if name == "plain" else 9)
        w = u.value("w")
        computed = _per_tensor(u, scale, constant_=False)
        drafts += [
            limit(code, f"{name}_per_channel", u),
            limit(code, f"{name}_per_tensor", _per_tensor(u, scale)),
            outside(code, f"{name}_computed", computed),
            outside(code, f"{name}_zero_point_1", _per_tensor(u, scale, 1)),
            outside(code, f"{name}_zero_point_minus_127", _per_tensor(u, scale, -127)),
            outside(code, f"{name}_per_channel_zero_point_1", with_operand(u, "w", shifted(w))),
        ]
    return drafts


def shifted(w: Value) -> Value:
    return replace(w, quant=replace(operand_quant(w), zero_point=1))


def _per_tensor(u: Call, scale: float, zero_point: int = 0, constant_: bool = True) -> Call:
    """One scale for all weights, and the bias that goes with it."""
    w, bias = u.value("w"), u.value("bias")
    q = replace(weight_quant(scale), zero_point=zero_point)
    weights = replace(w, quant=q, constant=constant_)
    return with_operand(with_operand(u, "w", weights), "bias", constant("bias", bias.shape, bias_quant(Q, q)))


def _groups() -> list[CaseDraft]:
    """One group, or one per channel with as many outputs as inputs."""

    def grouped(cin: int, cout: int, groups: int) -> Call:
        return convolution(cin, cout, groups=groups)

    fits = ((8, 8, 8), (5, 5, 5), (2, 2, 2), (8, 8, 1), (1, 1, 1), (16, 16, 16), (3, 5, 1))
    past = ((8, 8, 2), (8, 8, 4), (8, 16, 8), (2, 4, 2), (16, 8, 8), (8, 4, 2), (3, 6, 3), (16, 16, 8))
    return [
        *(limit("groups", f"{i}_to_{o}_groups_{g}", grouped(i, o, g)) for i, o, g in fits),
        *(outside("groups", f"{i}_to_{o}_groups_{g}", grouped(i, o, g)) for i, o, g in past),
    ]


def _batch() -> list[CaseDraft]:
    return [
        limit("batch", "1", convolution(batch=1)),
        outside("batch", "2", convolution(batch=2)),
        outside("batch", "8_depthwise", convolution(8, 8, groups=8, batch=8)),
        outside("batch", "2_in_1d", _one_d(batch=2)),
    ]


def _long(bias: Value) -> Value:
    """Codes that 16 bits do not hold."""
    codes = Fill("list", values=(40_000, -40_000, 65_535, 32_768, -32_769))
    return replace(bias, quant=replace(operand_quant(bias), qmin=-(2**16), qmax=2**16), fill=codes)


def _biases() -> list[CaseDraft]:
    u = convolution()
    bias = u.value("bias")
    product = _scales(bias)
    one_off = (product[0], product[1] * 1.05, *product[2:])
    per_tensor = _per_tensor(u, fitting_weight_scale(Q, Q, 27))
    narrow = quant(product[0] * 10, 0)
    refused = {
        "computed": activation("bias", (5,), narrow),
        "int8_constant": constant("bias", (5,), narrow),
        "scales_doubled": _rescaled(bias, tuple(2 * s for s in product)),
        "one_scale_five_percent_up": _rescaled(bias, one_off),
        "scales_reversed": _rescaled(bias, product[::-1]),
        "zero_point_1": replace(bias, quant=replace(operand_quant(bias), zero_point=1)),
    }
    return [
        limit("static_bias", "per_channel", u),
        limit("static_bias", "per_tensor", per_tensor),
        inside("static_bias", "none", with_operand(u, "bias", None)),
        inside("static_bias", "none_depthwise", with_operand(convolution(8, 8, groups=8), "bias", None)),
        inside("static_bias", "none_per_tensor", with_operand(per_tensor, "bias", None)),
        *(outside("static_bias", name, with_operand(u, "bias", value)) for name, value in refused.items()),
        *(
            valued(f"bias_{kind}", with_operand(u, "bias", replace(bias, fill=Fill(kind))))
            for kind in ("min", "max", "zero", "alternating")
        ),
        valued("bias_of_17_bits", with_operand(u, "bias", _long(bias))),
    ]


def _rescale() -> list[CaseDraft]:
    """Sums of 8 products, up to 2**17, shifted left by 14 bits, leave 32 bits."""
    past, kept = (_steep(scale) for scale in (1.0, BELOW))
    return rescale_limit(("ratio_2_to_the_13", past), ("ratio_below_2_to_the_13", kept))


def _steep(scale: float) -> Call:
    u = convolution(8, 5, kernel=(1, 1))
    x, w, y = quant(1.0), weight_quant(scale), quant(2.0**-13)
    bias = constant("bias", (5,), bias_quant(x, w))
    return replace(u, values=(replace(u.x, quant=x), replace(u.value("w"), quant=w), bias), y=y)


def _rescaled(bias: Value, scales: tuple[float, ...]) -> Value:
    return replace(bias, quant=replace(operand_quant(bias), scale=scales))


def _geometry() -> list[CaseDraft]:
    """No limit on kernel, stride, padding or dilation; height and width apart."""
    variants: dict[str, dict[str, Any]] = {
        "kernel_1_1": {"kernel": (1, 1)},
        "kernel_1_3": {"kernel": (1, 3)},
        "kernel_3_1": {"kernel": (3, 1)},
        "kernel_2_4": {"kernel": (2, 4)},
        "kernel_5_5": {"kernel": (5, 5)},
        "kernel_whole_image": {"kernel": (6, 7)},
        "stride_2_1": {"stride": (2, 1)},
        "stride_1_2": {"stride": (1, 2)},
        "stride_3_5": {"stride": (3, 5)},
        "padding_1_0": {"padding": (1, 0)},
        "padding_0_1": {"padding": (0, 1)},
        "padding_2_3": {"padding": (2, 3)},
        "padding_beyond_kernel": {"kernel": (2, 2), "padding": (3, 2)},
        "dilation_2_1": {"dilation": (2, 1)},
        "dilation_1_3": {"dilation": (1, 3)},
        "dilation_2_2_padding_2_2": {"dilation": (2, 2), "padding": (2, 2)},
        "stride_2_padding_1": {"stride": (2, 2), "padding": (1, 1)},
        "even_kernel_same": {"kernel": (2, 2), "padding": (1, 1)},
        "size_1_1": {"size": (1, 1), "kernel": (1, 1)},
        "size_1_9": {"size": (1, 9), "kernel": (1, 3)},
        "size_9_1": {"size": (9, 1), "kernel": (3, 1)},
    }
    channels = ((1, 1), (1, 8), (8, 1), (3, 5), (7, 9), (16, 16), (33, 3))
    return [
        *(accepted(name, convolution(**kwargs)) for name, kwargs in variants.items()),
        *(accepted(f"depthwise_{n}", convolution(5, 5, groups=5, **kwargs)) for n, kwargs in variants.items()),
        *(accepted(f"channels_{i}_to_{o}", convolution(i, o)) for i, o in channels),
    ]


def _spellings() -> list[CaseDraft]:
    """One number for both axes, as torch permits in a list of length one."""
    u = convolution(kernel=(2, 2))
    x, w, bias, *_ = u.args
    short = {
        "stride_list_2": (x, w, bias, (2,), (0, 0), (1, 1), False, (0, 0), 1),
        "padding_list_1": (x, w, bias, (1, 1), (1,), (1, 1), False, (0, 0), 1),
        "dilation_list_2": (x, w, bias, (1, 1), (0, 0), (2,), False, (0, 0), 1),
        "all_lists_of_one": (x, w, bias, (1,), (0,), (1,), False, (0,), 1),
    }
    return [accepted(name, replace(u, args=args)) for name, args in short.items()]


def _contexts(limits: Limits) -> list[CaseDraft]:
    u = convolution()
    relu = fused(u, RELU, (), UP_TO_6)
    relu6 = fused(u, "aten.hardtanh.default", (0.0, 6.0), UP_TO_6)
    return [
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        placed("behind_conv", convolution(8, 5), behind_conv),
        placed("depthwise_behind_conv", convolution(8, 8, groups=8), behind_conv),
        limit(UNFUSED, "quantised_before_relu", followed(u, RELU, UP_TO_6)),
        fused_in(limits, "relu_fused_behind", relu),
        fused_in(limits, "relu6_fused_behind", relu6),
        placed("shared_weights_in_a_row", _twice()),
        placed("shared_weights_two_input_scales", _two_scales()),
    ]


def fused(u: Call, op: str, rest: tuple[Any, ...], y: Quant) -> Graph:
    """An activation directly after, without quantization in between."""
    graph = model(replace(u, y=None))
    return Graph(
        graph.values, (*graph.steps, Step("activation", op, (Ref(SUBJECT), *rest), (), y)), (Ref("activation"),)
    )


def _twice() -> Graph:
    """One module called on its own output."""
    u = convolution(5, 5, padding=(1, 1))
    return Graph(u.values, (step(u), step(u, Ref(SUBJECT), "again")), (Ref("again"),))


def _two_scales() -> Graph:
    """One weight tensor, two inputs of different scales: each needs a bias of its own."""
    u = convolution()
    other = activation("x_other", (1, 3, 6, 7), quant(0.4, -9))
    bias = replace(u.value("bias"), name="bias_other", quant=bias_quant(quant(0.4, -9), u.quant("w")))
    again = replace(step(u, Ref("x_other"), "again"), quant=quant(0.4, 2))
    args = tuple(Ref("bias_other") if a == Ref("bias") else a for a in again.args)
    return Graph((*u.values, other, bias), (step(u), replace(again, args=args)), (Ref(SUBJECT), Ref("again")))


def _numbers() -> list[CaseDraft]:
    u = convolution(3, 5, (5, 6), (3, 2), (1, 2), (1, 0))
    depthwise = convolution(5, 5, (5, 6), (2, 3), (2, 1), (0, 1), groups=5)
    line = _one_d(3, 5, 9, 3, padding=(2,))
    ys = [quant(0.05, zero) for zero in (-128, 0, 127)] + [quant(0.006, 3), quant(0.5, -3)]
    xs = [quant(0.05, zero) for zero in (-128, 0, 127)]
    drafts = []
    for label, kind in (("", u), ("_depthwise", depthwise), ("_1d", line)):
        drafts += [
            *fills(kind, label=label),
            *one_hots(kind, label=label, spots=6),
            *(valued(f"to_{named(y)}{label}", replace(kind, y=y)) for y in ys),
            *(valued(f"from_{named(x)}{label}", _input(kind, x)) for x in xs),
            *_weight_numbers(kind, label),
        ]
    return drafts


def _input(u: Call, x: Quant) -> Call:
    """Another input quantization; its zero point is what padding is filled with."""
    w = u.quant("w")
    bias = replace(u.value("bias"), quant=bias_quant(x, w))
    return with_operand(u.with_x(quant=x), "bias", bias)


def _weight_numbers(u: Call, label: str) -> list[CaseDraft]:
    """Weights at their extremes, a ramp, and one weight at a time, which shows exchanged axes."""
    w = u.value("w")
    count = 1
    for size in w.shape:
        count *= size
    kinds = {name: Fill(name) for name in ("min", "max", "ramp", "alternating")}
    hot = {f"one_hot_at_{i}": Fill("one_hot", index=i) for i in (0, 1, count // 2, count - 1)}
    return [
        valued(f"weights_{name}{label}", with_operand(u, "w", replace(w, fill=fill)))
        for name, fill in (kinds | hot).items()
    ]
