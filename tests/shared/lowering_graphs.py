"""One-operator graphs for the Neutron compiler: every operator, argument spelling and tensor rank it lowers.

Shapes are odd and asymmetric in height and width, as the compiler must not depend on the
partitioner's limits. Each graph can be made channels-first by an exact identity convolution in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

X = Ref("x")
Q = Quant(0.05, 3)
OTHER = Quant(0.03125, -7)
POSITIVE = Quant(0.0234375, -128)
PROBABILITY = Quant(1 / 256, -128)
TANH = Quant(1 / 128, 0)
IMAGE = (1, 3, 4, 5)


def activation(name: str, shape: Sequence[int], quant: Quant = Q) -> Value:
    """A model input with random codes, others for another name."""
    return Value(name, tuple(shape), quant, Fill(seed=sum(map(ord, name))))


def constant(name: str, shape: Sequence[int], quant: Quant) -> Value:
    """A constant with random codes in the quantization's range."""
    return Value(name, tuple(shape), quant, Fill(seed=sum(map(ord, name))), constant=True)


@dataclass(frozen=True)
class Operation:
    """`op(x, *args)`. `exact`: torch and the device agree on every code, else within one."""

    name: str
    op: str
    shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    y: Quant = Q
    x: Quant = Q
    more: tuple[Value, ...] = ()
    exact: bool = False
    outputs: int = 1
    kwargs: tuple[tuple[str, Any], ...] = ()
    first: bool = True  # x is the first argument; else `args` say where it goes

    def graph(self, channels_first: bool = False) -> Graph:
        """The model: x, perhaps the identity convolution, the operator."""
        values = (activation("x", self.shape, self.x), *self.more)
        args = (X, *self.args) if self.first else self.args
        if not channels_first:
            return graph(values, [Step("subject", self.op, args, self.kwargs, self.y, self.outputs)])
        ones, front = identity(self.shape, self.x)
        behind = tuple(renamed(argument) for argument in args)
        return graph((*values, ones), [front, Step("subject", self.op, behind, self.kwargs, self.y, self.outputs)])


def renamed(argument: Any) -> Any:
    """Arguments with x replaced by the identity convolution's result."""
    if isinstance(argument, tuple):
        return tuple(renamed(item) for item in argument)
    return Ref("front") if argument == X else argument


def identity(shape: Sequence[int], quant: Quant, source: Ref = X, name: str = "front") -> tuple[Value, Step]:
    """A depthwise convolution with weights 1 that changes no code, but makes its result channels-first."""
    rank, channels = len(shape) - 2, shape[1]
    ones = Value(f"{name}_w", (channels, 1, *[1] * rank), Quant(1.0, 0, -127), Fill("list", values=(1.0,)), True)
    one, zero = (1,) * rank, (0,) * rank
    args = (source, Ref(ones.name), None, one, zero, one, False, zero, channels)
    return ones, Step(name, "aten.convolution.default", args, (), quant)


def graph(values: Sequence[Value], steps: Sequence[Step], outputs: Sequence[Ref] | None = None) -> Graph:
    """A graph that returns what its last step returns, unless told otherwise."""
    last = steps[-1]
    returned = tuple(Ref(last.name, i) for i in range(last.outputs)) if outputs is None else tuple(outputs)
    return Graph(tuple(values), tuple(steps), returned)


# ------------------------------------------------------------------------------------ families


def arithmetic() -> list[Operation]:
    """One and two operands; broadcasting is aligned at torch's last axis."""
    add, sub, mul = (f"aten.{name}.Tensor" for name in ("add", "sub", "mul"))
    z = activation("z", IMAGE, OTHER)
    half = Quant(1 / 256, 0)
    return [
        Operation("abs", "aten.abs.default", IMAGE, y=OTHER),
        Operation("abs_rank_2", "aten.abs.default", (3, 5), exact=True),
        Operation("neg", "aten.neg.default", IMAGE, y=OTHER),
        Operation("neg_rank_1", "aten.neg.default", (7,), exact=True),
        Operation("add", add, IMAGE, (Ref("z"),), Quant(0.08, 1), more=(z,)),
        Operation("maximum", "aten.maximum.default", IMAGE, (Ref("z"),), more=(activation("z", (5,)),), exact=True),
        Operation(
            "minimum", "aten.minimum.default", IMAGE, (Ref("z"),), more=(activation("z", (3, 1, 1)),), exact=True
        ),
        Operation("exp", "aten.exp.default", IMAGE, y=Quant(2.0, -128)),
        Operation("log", "aten.log.default", IMAGE, y=Quant(0.03, 0), x=Quant(0.0234375, -128)),
        Operation("add_itself", add, IMAGE, (X,), Quant(0.1, 1)),
        Operation("add_row", add, IMAGE, (Ref("z"),), Quant(0.08, 1), more=(activation("z", (5,), OTHER),)),
        Operation("add_channels", add, IMAGE, (Ref("z"),), Quant(0.08, 1), more=(activation("z", (3, 1, 1), OTHER),)),
        Operation("add_constant", add, IMAGE, (Ref("z"),), Quant(0.08, 1), more=(constant("z", (3, 1, 1), OTHER),)),
        Operation("sub", sub, IMAGE, (Ref("z"),), Quant(0.08, 1), more=(z,)),
        Operation("mul", mul, IMAGE, (Ref("z"),), Quant(0.002, 1), half, (activation("z", IMAGE, half),)),
        Operation("mul_constant", mul, IMAGE, (Ref("z"),), Quant(0.1, 1), more=(constant("z", IMAGE, OTHER),)),
        Operation("div", "aten.div.Tensor", (1, 8, 2, 5), (2.0,), Quant(0.025, 3)),
    ]


def activations() -> list[Operation]:
    """Each function, each spelling of its bounds, each place of its axis."""
    relu = [
        Operation("relu", "aten.relu.default", IMAGE, y=POSITIVE),
        Operation("relu6", "aten.hardtanh.default", IMAGE, (0.0, 6.0), POSITIVE),
        Operation("hardtanh", "aten.hardtanh.default", IMAGE, y=TANH),
        Operation("hardtanh_0_1", "aten.hardtanh.default", IMAGE, (0, 1), PROBABILITY),
        Operation("hardtanh_0_inf", "aten.hardtanh.default", IMAGE, (0.0, float("inf")), POSITIVE),
        Operation("clamp_-1_1", "aten.clamp.default", IMAGE, (-1, 1), TANH),
        Operation("clamp_0_1", "aten.clamp.default", IMAGE, (0.0, 1.0), PROBABILITY),
        Operation("clamp_0_6", "aten.clamp.default", IMAGE, (0, 6), POSITIVE),
        Operation("clamp_0_none", "aten.clamp.default", IMAGE, (0, None), POSITIVE),
        Operation("leaky_relu", "aten.leaky_relu.default", IMAGE, (0.2,)),
        Operation("leaky_relu_default", "aten.leaky_relu.default", (3, 5), y=OTHER),
        Operation("sigmoid", "aten.sigmoid.default", IMAGE, y=PROBABILITY, exact=True),
        Operation("tanh", "aten.tanh.default", IMAGE, y=TANH, exact=True),
    ]
    slopes = Quant(0.004, 0, -127)
    prelu = [
        Operation(
            f"prelu_{count}_rank_{len(shape)}",
            "aten.prelu.default",
            shape,
            (Ref("alpha"),),
            more=(constant("alpha", (count,), slopes),),
        )
        for shape, count in ((IMAGE, 3), (IMAGE, 1), ((2, 3, 5), 3), ((4, 3), 3))
    ]
    softmax = [
        Operation(f"softmax_{dim}", "aten._softmax.default", (2, 3, 4, 5), (dim, False), PROBABILITY)
        for dim in (0, 1, 2, -1)
    ]
    return [*relu, *prelu, *softmax]


def movements() -> list[Operation]:
    """Operators that only move codes: every axis, negative axes, defaults."""
    z = activation("z", (1, 3, 4, 5))
    cat = [
        Operation(f"cat_{dim}", "aten.cat.default", IMAGE, ((X, Ref("z"), X), dim), more=(z,), first=False, exact=True)
        for dim in (0, 1, 2, -1)
    ]
    mixed = activation("z", IMAGE, OTHER)
    sliced: list[tuple[str, tuple[Any, ...]]] = [
        ("channels", (1, 1, 3)),
        ("height", (2, 0, 3)),
        ("width", (-1, 2, 9)),
        ("from_end", (3, -3, -1)),
        ("open", (3, None, 2)),
    ]
    pad = "aten.constant_pad_nd.default"
    return [
        *cat,
        Operation("cat_mixed", "aten.cat.default", IMAGE, ((X, Ref("z")), 1), more=(mixed,), first=False),
        *(Operation(f"slice_{name}", "aten.slice_copy.Tensor", IMAGE, args, exact=True) for name, args in sliced),
        Operation("split", "aten.split.Tensor", IMAGE, (2, 3), outputs=3, exact=True),
        Operation("pad_width", pad, IMAGE, ((1, 2),), exact=True),
        Operation("pad_all", pad, IMAGE, ((1, 2, 3, 0, 0, 1, 1, 0), 0.0), exact=True),
        Operation("pad_value", pad, IMAGE, ((0, 1, 2, 0), 1.5), exact=True),
        Operation("pad_lowest", pad, IMAGE, ((0, 1, 2, 0), float("-inf")), exact=True),
        Operation("pad_saturated", pad, IMAGE, ((0, 1, 2, 0), -1000.0), exact=True),
        Operation("permute_0231", "aten.permute_copy.default", IMAGE, ((0, 2, 3, 1),), exact=True),
        Operation("permute_0312", "aten.permute_copy.default", IMAGE, ((0, -1, 1, 2),), exact=True),
        Operation("permute_3210", "aten.permute_copy.default", (2, 3, 4, 5), ((3, 2, 1, 0),), exact=True),
        Operation("permute_1302", "aten.permute_copy.default", (2, 3, 4, 5), ((1, 3, 0, 2),), exact=True),
        Operation("permute_rank_3", "aten.permute_copy.default", (2, 3, 5), ((1, 2, 0),), exact=True),
        Operation("view", "aten.view_copy.default", IMAGE, ((2, 15, 2),), exact=True),
        Operation("view_flat", "aten.view_copy.default", (2, 3, 4, 5), ((2, -1),), exact=True),
        Operation("view_column", "aten.view_copy.default", (3, 5), ((15, 1),), exact=True),
        Operation("squeeze", "aten.squeeze.dims", (1, 3, 1, 5), ((0, 2),), exact=True),
        Operation("unsqueeze", "aten.unsqueeze.default", (2, 3, 5), (1,), exact=True),
        Operation("clone", "aten.clone.default", IMAGE, kwargs=(("memory_format", "contiguous_format"),), exact=True),
    ]


def pools() -> list[Operation]:
    """Pools, means and resizing; kernels, strides and sizes differ between height and width."""
    avg, most, mean = "aten.avg_pool2d.default", "aten.max_pool2d.default", "aten.mean.dim"
    image = (2, 3, 6, 8)
    return [
        Operation("avg_pool", avg, image, ((2, 3), (2, 1))),
        Operation("avg_pool_default_stride", avg, image, ((2, 3),)),
        Operation("avg_pool_number", avg, image, ((2,), (2,))),
        Operation("avg_pool_padded", avg, image, ((3, 2), (1, 2), (1, 0))),
        Operation("avg_pool_1d", "aten.avg_pool1d.default", (2, 3, 8), ((3,), (2,), (1,))),
        Operation("adaptive", "aten._adaptive_avg_pool2d.default", image, ((2, 4),)),
        Operation("max_pool", most, image, ((2, 3), (1, 2)), exact=True),
        Operation("max_pool_default_stride", most, image, ((3, 2),), exact=True),
        Operation("max_pool_padded", most, image, ((2, 3), (1, 2), (0, 1)), exact=True),
        Operation("max_pool_1d", "aten.max_pool1d.default", (2, 3, 8), ((3,), (2,), (1,)), exact=True),
        Operation("mean", mean, image, ((-1, -2), True)),
        Operation("mean_dropped", mean, image, ((2, 3), False)),
        Operation("sum", "aten.sum.dim_IntList", image, ((1,), False), Quant(0.2, 2)),
        Operation("sum_kept", "aten.sum.dim_IntList", image, ((-1, 2), True), Quant(0.3, -4)),
        Operation("amax_rows", "aten.amax.default", image, ((0, 1, -1),), exact=True),
        Operation("amax", "aten.amax.default", image, ((1,), False), exact=True),
        Operation("amin", "aten.amin.default", image, ((-1, 2), True), exact=True),
        Operation("mean_channels", mean, image, ((1,), True), OTHER),
        Operation("mean_channels_dropped", mean, image, ((1,), False)),
        Operation("mean_width_dropped", mean, image, ((3,),)),
        Operation("bilinear", "aten.upsample_bilinear2d.vec", IMAGE, (None, False, (2.0, 2.0))),
        Operation("bilinear_corners", "aten.upsample_bilinear2d.vec", IMAGE, ((8, 20), True, None)),
        Operation("nearest", "aten.upsample_nearest2d.vec", IMAGE, (None, (2.0, 4.0)), exact=True),
    ]


def convolution(
    name: str,
    shape: Sequence[int],
    kernel: Sequence[int],
    outputs: int,
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
    transposed: bool = False,
    extra: Sequence[int] = (),
    bias: bool = True,
    per_channel: bool = True,
) -> Operation:
    """aten.convolution with weights in torch's layout and scales along the outputs."""
    inputs, rank = shape[1], len(kernel)
    sizes = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    axis = 1 if transposed else 0
    scales = tuple(2.0**-8 * (1 + i / 4) for i in range(outputs))
    w = Quant(scales, 0, -127, axis=axis) if per_channel else Quant(2.0**-8, 0, -127)
    products = tuple(Q_SCALE * scale for scale in scales)
    b = Quant(products if per_channel else products[0], 0, -900, 900, 0 if per_channel else None, "int32")
    more = (constant("w", (*sizes, *kernel), w), *([constant("b", (outputs,), b)] if bias else []))
    ones, zeros = (1,) * rank, (0,) * rank
    args = (
        Ref("w"),
        Ref("b") if bias else None,
        tuple(stride) or ones,
        tuple(padding) or zeros,
        tuple(dilation) or ones,
        transposed,
        tuple(extra) or zeros,
        groups,
    )
    return Operation(name, "aten.convolution.default", tuple(shape), args, Quant(0.07, -4), X_QUANT, more)


Q_SCALE = 0.03125
X_QUANT = Quant(Q_SCALE, -5)


def convolutions() -> list[Operation]:
    """Plain, depthwise, one-dimensional and transposed; height and width never agree."""
    return [
        convolution("conv", (1, 3, 6, 7), (3, 2), 5),
        convolution("conv_strided", (2, 3, 6, 7), (3, 2), 5, (2, 1), (1, 0), (1, 2)),
        convolution("conv_no_bias", (1, 3, 6, 7), (1, 3), 4, (1, 2), (0, 1), bias=False),
        convolution("conv_per_tensor", (1, 3, 6, 7), (2, 3), 4, per_channel=False),
        convolution("conv_one_channel", (1, 1, 6, 7), (2, 3), 1),
        convolution("conv_depthwise", (1, 3, 6, 7), (3, 2), 3, (1, 2), (1, 1), groups=3),
        convolution("conv_multiplier", (1, 3, 6, 7), (3, 2), 6, groups=3),
        convolution("conv_1d", (2, 3, 9), (3,), 5, (2,), (1,), (2,)),
        convolution("conv_1d_depthwise", (1, 3, 9), (3,), 3, (1,), (2,), groups=3),
        convolution("conv_transposed", (1, 3, 1, 7), (1, 2), 4, (1, 2), transposed=True),
        convolution("conv_transposed_cropped", (1, 3, 4, 5), (3, 4), 4, (2, 3), (1, 2), (), 1, True),
        convolution("conv_transposed_1d", (1, 3, 5), (4,), 2, (2,), (1,), (), 1, True, per_channel=False),
    ]


def products() -> list[Operation]:
    """Matrices, constant and computed, and their batches."""
    w = Quant(2.0**-8, 0, -127)
    b = Quant(Q_SCALE * 2.0**-8, 0, -900, 900, None, "int32")
    y = Quant(0.07, -4)
    addmm = ("aten.addmm.default", (3, 7), (Ref("b"), X, Ref("w")), y, X_QUANT)
    k, batched = constant("w", (7, 5), w), activation("z", (2, 5, 3), OTHER)
    apart = constant("w", (7, 5), replace(w, scale=tuple(2.0**-8 / n for n in (1, 2, 3, 4, 5)), axis=1))
    b_apart = replace(b, scale=tuple(Q_SCALE * 2.0**-8 / n for n in (1, 2, 3, 4, 5)), axis=0)
    return [
        Operation("addmm", *addmm, (k, constant("b", (5,), b)), first=False),
        Operation("addmm_row_bias", *addmm, (k, constant("b", (1, 5), b)), first=False),
        Operation("mm", "aten.mm.default", (3, 7), (Ref("w"),), y, X_QUANT, (k,)),
        Operation("mm_dynamic", "aten.mm.default", (3, 7), (Ref("z"),), y, more=(activation("z", (7, 5), OTHER),)),
        Operation("bmm", "aten.bmm.default", (2, 4, 5), (Ref("z"),), y, more=(batched,)),
        Operation("bmm_constant", "aten.bmm.default", (2, 4, 5), (Ref("w"),), y, more=(constant("w", (2, 5, 3), w),)),
        Operation("addmm_scales", *addmm, (apart, constant("b", (5,), b_apart)), first=False),
        Operation("mm_scales", "aten.mm.default", (3, 7), (Ref("w"),), y, X_QUANT, (apart,)),
    ]


OPERATIONS = [*arithmetic(), *activations(), *movements(), *pools(), *convolutions(), *products()]
# Every graph, formatless and, where there are channels, channels-first.
GRAPHS = {
    f"{operation.name}{'/channels_first' * first}": (operation.graph(first), operation.exact)
    for operation in OPERATIONS
    for first in (False, True)
    if not first or len(operation.shape) in (3, 4)
}
