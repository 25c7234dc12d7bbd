"""Convolutions in floats, and in codes with scales in the program or from run time: plain, depthwise, transposed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from npu_assay.conformance.cases.drafts import (
    OPERATOR,
    CaseDraft,
    accepted,
    inside,
    limit,
    outside,
    placed,
    silent,
    valued,
)
from npu_assay.conformance.cases.families.linear.weights import B, W, float_weighted
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, X, model, step, weight_quant
from npu_assay.conformance.cases.pieces.spelling import (
    CONVOLUTION,
    FLOATS,
    floats,
    is_static,
    real,
    result,
    run_time,
    weights,
)
from npu_assay.conformance.cases.pieces.subject import PRECISIONS, Config, Subject
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value


@dataclass(frozen=True)
class Conv:
    """A convolution's sizes and arguments, the same along every axis unless a tuple says otherwise.

    axes: 1 or 2 spatial ones (3 for what is outside).
    """

    axes: int = 2
    inputs: int = 4
    outputs: int = 6
    kernel: int | tuple[int, ...] = 3
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    transposed: bool = False
    output_padding: int | tuple[int, ...] = 0
    groups: int = 1
    bias: bool = True

    def at(self, precision: str, shape: tuple[int, ...]) -> Call:
        """On an `x` of this shape, whose second size is the number of inputs."""
        inputs = shape[1]
        kernel = self._each(self.kernel)
        weight = (self.outputs, inputs // self.groups, *kernel)
        if self.transposed:
            weight = (inputs, self.outputs // self.groups, *kernel)
        values: tuple[Value, ...]
        values = (real("x", shape, precision), weights("w", weight, precision, 1 if self.transposed else 0))
        if self.bias:
            values = (*values, floats("b", (self.outputs,), precision))
        lists = [self._each(item) for item in (self.stride, self.padding, self.dilation)]
        last = (self.transposed, self._each(self.output_padding), self.groups)
        args = (X, W, B if self.bias else None, *lists, *last)
        return Call(CONVOLUTION, values, args, result(precision), dynamic=run_time(precision))

    def call(self, precision: str) -> Call:
        """On an image of the usual size."""
        return self.at(precision, (1, self.inputs, *(6, 7, 5)[: self.axes]))

    def _each(self, item: int | tuple[int, ...]) -> tuple[int, ...]:
        return item if isinstance(item, tuple) else (item,) * self.axes


def float_convolution(axes: int, precision: str, limits: Limits) -> list[CaseDraft]:
    """A convolution row: constant weights, quantized along the outputs."""
    size = (6, 7)[:axes]
    conv = Conv(axes)
    subject = Subject(
        conv.at,
        deep=False,
        config=Config("ConvolutionConfig", PRECISIONS, as_float=False),
        shape=(1, 4, *size),
        single=(1, 2, *(3, 3)[:axes]),
        empty=(0, 4, *size),
        open=((0,), tuple(range(2, 2 + axes)), (0, *range(2, 2 + axes))),
        product=True,
    )
    drafts = [
        *float_weighted(subject, precision, limits),
        *spellings(axes, precision),
        *transposed(axes, precision, limits),
        *depthwise(axes, precision, limits),
        *padded_before(axes, precision),
    ]
    if precision in ("static_int8_per_channel", "dynamic_int8"):
        drafts += weight_axes(axes, precision)
    if precision == "dynamic_int8":
        u = conv.call(precision).with_value("w", quant=weight_quant(0.01))
        drafts.append(accepted("per_tensor_weights", u))
        drafts.append(accepted("batch_of_3", conv.at(precision, (3, 4, *size))))
    return [*drafts, *ranks(precision, limits)] if axes == 2 else drafts


def spellings(axes: int, precision: str) -> Iterator[CaseDraft]:
    """Strides, padding, dilation, kernels and groups, along each axis."""
    some = {
        "kernel_1": Conv(axes, kernel=1),
        "stride_2": Conv(axes, stride=2),
        "padding_1": Conv(axes, padding=1),
        "groups_2": Conv(axes, groups=2),
        "no_bias": Conv(axes, bias=False),
    }
    more = {
        "dilation_2": Conv(axes, dilation=2),
        "one_input": Conv(axes, inputs=1, outputs=3),
        "one_output": Conv(axes, outputs=1),
        "kernel_is_the_image": Conv(axes, kernel=(6, 7)[:axes]),
        "stride_beyond_kernel": Conv(axes, kernel=1, stride=3),
    }
    flat = {
        "kernel_3_by_1": Conv(kernel=(3, 1)),
        "kernel_1_by_3": Conv(kernel=(1, 3)),
        "stride_2_by_1": Conv(stride=(2, 1)),
        "stride_1_by_2": Conv(stride=(1, 2)),
        "padding_1_by_0": Conv(padding=(1, 0)),
        "padding_0_by_2": Conv(padding=(0, 2)),
        "dilation_2_by_1": Conv(dilation=(2, 1)),
    }
    if precision in ("fp32", "static_int8_per_channel", "dynamic_int8"):
        some |= more
    if axes == 2 and precision in ("fp32", "static_int8_per_channel"):
        some |= flat
    for name, conv in some.items():
        if precision == "dynamic_int8" and name == "one_input":
            continue  # one input per group: see `depthwise`
        yield accepted(name, conv.call(precision))
    ramp = Conv(axes, kernel=(2, 3)[-axes:], padding=1).call(precision)
    yield valued("ramp_with_padding", ramp.with_x(fill=Fill("ramp")))


def transposed(axes: int, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Transposed ones: with per-channel weights in one group only."""
    plain = {
        "plain": Conv(axes, transposed=True),
        "stride_2": Conv(axes, transposed=True, stride=2),
        "output_padding_1": Conv(axes, transposed=True, stride=2, output_padding=1, padding=1),
    }
    for name, conv in plain.items():
        yield accepted(f"transposed_{name}", conv.call(precision))
    apart = model(Conv(axes, transposed=True, groups=2, stride=2).call(precision))
    if "transposed_groups" not in limits:
        yield accepted("transposed_groups_2", apart)
        return
    limits.fixed("transposed_groups", 1)
    yield limit("transposed_groups", "1", plain["stride_2"].call(precision))
    yield inside("transposed_groups", "2_but_not_transposed", Conv(axes, groups=2).call(precision))
    yield outside("transposed_groups", "2", apart)


def depthwise(axes: int, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """One input per group; not with activations that are quantized at run time."""
    kinds = {
        "one_output_each": Conv(axes, outputs=4, groups=4),
        "two_outputs_each": Conv(axes, outputs=8, groups=4),
        "five_wide": Conv(axes, outputs=4, groups=4, kernel=5, padding=2),
        "stride_2": Conv(axes, outputs=4, groups=4, stride=2, padding=1),
    }
    if "depthwise" not in limits:
        for name, conv in kinds.items():
            yield accepted(f"depthwise_{name}", conv.call(precision))
        return
    limits.fixed("depthwise", 1)
    yield limit("depthwise", "two_inputs_each", Conv(axes, groups=2).call(precision))
    yield outside("depthwise", "one_input_each", kinds["one_output_each"].call(precision))
    yield outside("depthwise", "two_outputs_each", kinds["two_outputs_each"].call(precision))
    yield outside("depthwise", "one_input_in_all", Conv(axes, inputs=1, outputs=3).call(precision))


def weight_axes(axes: int, precision: str) -> Iterator[CaseDraft]:
    """One scale per output: axis 0, or 1 when transposed; the weights are square, so that both fit."""
    for name, conv, axis in (
        ("", Conv(axes, inputs=4, outputs=4), 0),
        ("transposed_", Conv(axes, inputs=4, outputs=4, transposed=True), 1),
    ):
        u = conv.call(precision)
        q = u.values[1].quant
        assert q is not None
        yield limit("weight_axis", f"{name}outputs", u)
        yield outside("weight_axis", f"{name}inputs", u.with_value("w", quant=replace(q, axis=1 - axis)))


def padded_before(axes: int, precision: str) -> Iterator[CaseDraft]:
    """Behind a pad, which the convolution may take over where it adds zeros around the image and nobody else takes it.

    In front of codes that are made ahead of time, the pad stands between a dequantize node and the convolution.
    """
    if precision == "fp16":
        return
    u = Conv(axes).call(precision)
    around = (1, 2) if axes == 1 else (1, 2, 2, 0)
    if not is_static(precision):
        yield placed("behind_pad", _padded(u, around, u.y))
        return
    one_less = (1, u.x.shape[1] - 1, *u.x.shape[2:])
    yield placed("behind_pad", _padded(u, around, None))
    yield placed("behind_pad_without_a_value", _padded(u, around, None, value=None))
    yield silent(OPERATOR, "behind_pad_of_reals", _padded(u.with_x(quant=None), around, None))
    yield silent(OPERATOR, "behind_pad_used_twice", _padded(u, around, None, twice=True))
    yield silent(OPERATOR, "behind_pad_with_ones", _padded(u, around, None, value=1.0))
    yield silent(OPERATOR, "behind_pad_that_crops", _padded(u, (2, -1, *around[2:]), None))
    yield silent(OPERATOR, "behind_pad_of_channels", _padded(u.with_x(shape=one_less), (0, 0) * axes + (1, 0), None))


def _padded(
    u: Call, pads: tuple[int, ...], quant: Quant | None, value: float | None = 0.0, twice: bool = False
) -> Graph:
    """A convolution after a pad. quant: of the pad's result. twice: an abs takes that as well."""
    args = (X, pads) if value is None else (X, pads, value)
    steps = Step("pad", "aten.constant_pad_nd.default", args, (), quant), step(u, Ref("pad"))
    if not twice:
        return Graph(u.values, steps, model(u).outputs)
    beside = Step("abs", "aten.abs.default", (Ref("pad"),), (), u.y)
    return Graph(u.values, (*steps, beside), (*model(u).outputs, Ref("abs")))


def ranks(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Convolutions in three dimensions have weights of rank 5."""
    most = limits.number("spatial_rank", 4, 4, 4)
    yield limit("spatial_rank", f"rank_{most}", Conv(2).call(precision))
    cube = Conv(3, kernel=2).call(precision)
    yield outside("spatial_rank", f"rank_{most + 1}", cube)
    if precision in FLOATS:
        yield outside("spatial_rank", f"rank_{most + 1}_transposed", Conv(3, kernel=2, transposed=True).call(precision))
