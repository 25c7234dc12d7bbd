"""How each edge operator is written in ONNX: one small function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
from torch import fx

from npu_assay.conformance.interchange.onnx_writer import FormError, Site, onnx_type

Rule = Callable[[Site], str | tuple[str, ...]]


def _list(numbers: int | Sequence[int], rank: int) -> list[int]:
    """One number per axis, from a number or a list of one or `rank`."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * rank if len(listed) == 1 else listed


# ------------------------------------------------------------------------------------ element by element


def _plain(kind: str, *names: str) -> Rule:
    """An operator whose inputs are the named arguments, without attributes."""
    return lambda s: s.op(kind, *(s.x(name) for name in names or ("self",)))


def _promoted(kind: str, *names: str) -> Rule:
    """An operator that computes in the type of its result: torch finds it by promotion, ONNX needs a Cast."""
    return lambda s: s.op(kind, *(_as_result(s, name) for name in names))


def _as_result(s: Site, name: str) -> str:
    x = s.x(name)
    if not isinstance(s[name], fx.Node) or s.dtype(name) == s.result.dtype:
        return x
    return s.op("Cast", x, to=onnx_type(s.result.dtype))


def _scaled(kind: str) -> Rule:
    """add, sub: the second operand times alpha."""

    def rule(s: Site) -> str:
        other = _as_result(s, "other")
        if s["alpha"] != 1:
            other = s.op("Mul", other, s.number(s["alpha"]))
        return s.op(kind, _as_result(s, "self"), other)

    return rule


def _clip_by_tensors(s: Site) -> str:
    """The lower limit first, as in torch."""
    x = s.x()
    for name, kind in (("min", "Max"), ("max", "Min")):
        if s[name] is not None:
            x = s.op(kind, x, s.x(name))
    return x


def _clip(lower: str, upper: str) -> Rule:
    return lambda s: s.op("Clip", s.x(), *("" if s[n] is None else s.number(s[n]) for n in (lower, upper)))


def _prelu(s: Site) -> str:
    """Slopes broadcast from the right in ONNX; in torch they lie along dim 1."""
    slope = s.x("weight")
    rank = len(s.shape())
    if rank > 2:
        slope = s.op("Reshape", slope, s.ints([-1, *[1] * (rank - 2)]))
    return s.op("PRelu", s.x(), slope)


def _elu(s: Site) -> str:
    if s["input_scale"] != 1:
        raise s.refuse("elu_scales", "Elu has no input_scale")
    bent = s.op("Elu", s.x(), alpha=float(s["alpha"]))
    return bent if s["scale"] == 1 else s.op("Mul", bent, s.number(s["scale"]))


def _compared(kind: str, other: str = "other") -> Rule:
    """A comparison; its result is boolean, a scalar has the operand's type."""

    def rule(s: Site) -> str:
        found = s[other]
        second = s.tensor(found) if isinstance(found, fx.Node) else s.number(found, s.dtype())
        return s.op(kind, s.x(), second)

    return rule


def _bits(kind: str) -> Rule:
    """And, Or, Xor of booleans, or of the bits of integers."""

    def rule(s: Site) -> str:
        whole = kind if s.result.dtype == torch.bool else f"Bitwise{kind}"
        return s.op(whole, s.x(), s.x("other"))

    return rule


def _not(s: Site) -> str:
    return s.op("Not" if s.result.dtype == torch.bool else "BitwiseNot", s.x())


def _copied(s: Site) -> str:
    """The same numbers, of another type where one is named."""
    if s.result.dtype == s.dtype():
        return s.op("Identity", s.x())
    return s.op("Cast", s.x(), to=onnx_type(s.result.dtype))


# ------------------------------------------------------------------------------------ products


def _addmm(s: Site) -> str:
    return s.op("Gemm", s.x("mat1"), s.x("mat2"), s.x(), alpha=float(s["alpha"]), beta=float(s["beta"]))


def _linear(s: Site) -> str:
    bias = () if s["bias"] is None else (s.x("bias"),)
    if len(s.shape("input")) == 2:
        return s.op("Gemm", s.x("input"), s.x("weight"), *bias, transB=1)
    product = s.op("MatMul", s.x("input"), s.op("Transpose", s.x("weight"), perm=[1, 0]))
    return s.op("Add", product, *bias) if bias else product


def _convolution(s: Site) -> str:
    kernel = s.shape("weight")[2:]
    rank = len(kernel)
    padding = _list(s["padding"], rank)
    attributes = {
        "kernel_shape": list(kernel),
        "strides": _list(s["stride"], rank),
        "dilations": _list(s["dilation"], rank),
        "pads": [*padding, *padding],
        "group": s["groups"],
    }
    inputs = (s.x("weight"), *(() if s["bias"] is None else (s.x("bias"),)))
    kind = "ConvTranspose" if s["transposed"] else "Conv"
    if s["transposed"]:
        attributes["output_padding"] = _list(s["output_padding"], rank)
    return _batched(s, rank, "input", lambda x: (s.op(kind, x, *inputs, **attributes),))[0]


def _batched(s: Site, rank: int, name: str, apply: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    """ONNX requires a batch axis: it is added to an input without one, and removed from the results."""
    x = s.x(name)
    if len(s.shape(name)) != rank + 1:
        return apply(x)
    results = apply(s.op("Unsqueeze", x, s.ints([0])))
    return tuple(s.op("Squeeze", result, s.ints([0])) for result in results)


def _batch_norm(s: Site) -> tuple[str, ...]:
    """A norm with stored statistics; ONNX requires scale and offset."""
    channels = s.shape("running_mean")
    scale, offset = (
        s.writer.constant(np.full(channels, default, np.float32)) if s[name] is None else s.x(name)
        for name, default in (("weight", 1), ("bias", 0))
    )
    inputs = (s.x("input"), scale, offset, s.x("running_mean"), s.x("running_var"))
    return (s.op("BatchNormalization", *inputs, epsilon=float(s["eps"])), "", "")


# ------------------------------------------------------------------------------------ pools, images, reductions


def _window(s: Site) -> dict[str, object]:
    """The attributes that pools share; an empty stride is the kernel."""
    kernel, padding = _list(s["kernel_size"], 2), _list(s["padding"], 2)
    return {
        "kernel_shape": kernel,
        "strides": _list(s["stride"], 2) if s["stride"] else kernel,
        "pads": [*padding, *padding],
        "ceil_mode": int(s["ceil_mode"]),
    }


def _avg_pool(s: Site) -> str:
    if s["divisor_override"] is not None:
        raise s.refuse("divisor_override", "AveragePool has no divisor_override")
    attributes = _window(s) | {"count_include_pad": int(s["count_include_pad"])}
    return _batched(s, 2, "self", lambda x: (s.op("AveragePool", x, **attributes),))[0]


def _max_pool(s: Site) -> str:
    attributes = _window(s) | {"dilations": _list(s["dilation"], 2)}
    return _batched(s, 2, "self", lambda x: (s.op("MaxPool", x, **attributes),))[0]


def _max_pool_with_indices(s: Site) -> tuple[str, ...]:
    """ONNX counts indices over the whole tensor, torch in each plane."""
    if not any(user.args[1] == 1 for user in s.node.users):
        return (_max_pool(s), "")
    attributes = _window(s) | {"dilations": _list(s["dilation"], 2)}
    values, indices = _batched(s, 2, "self", lambda x: s.many("MaxPool", 2, x, **attributes))
    height, width = s.shape()[-2:]
    return values, s.op("Mod", indices, s.number(height * width, torch.int64))


def _adaptive_avg_pool(s: Site) -> str:
    size, given = _list(s["output_size"], 2), s.shape()[-2:]
    if size == [1, 1]:
        return _batched(s, 2, "self", lambda x: (s.op("GlobalAveragePool", x),))[0]
    if any(n % m for n, m in zip(given, size, strict=True)):
        raise s.refuse(
            "output_divides_input", f"{list(given)} is not a multiple of {size}, and ONNX has no adaptive pool"
        )
    kernel = [n // m for n, m in zip(given, size, strict=True)]
    return _batched(s, 2, "self", lambda x: (s.op("AveragePool", x, kernel_shape=kernel, strides=kernel),))[0]


def _reduced(kind: str) -> Rule:
    """Over the named dims, all of them when none is named."""

    def rule(s: Site) -> str:
        x, dims = s.x(), s["dim"]
        if s.dtype() != s.result.dtype:
            x = s.op("Cast", x, to=onnx_type(s.result.dtype))
        axes = [dims] if isinstance(dims, int) else list(dims or range(len(s.shape())))
        if not axes:  # of a scalar
            return s.op("Identity", x)
        return s.op(kind, x, s.ints(axes), keepdims=int(s["keepdim"]))

    return rule


def _resized(mode: str) -> Rule:
    """By sizes if given, else by factors, from which torch then also computes the coordinates."""

    def rule(s: Site) -> str:
        aligned = mode == "linear" and s["align_corners"]
        where = "align_corners" if aligned else "half_pixel" if mode == "linear" else "asymmetric"
        nearest = {} if mode == "linear" else {"nearest_mode": "floor"}
        attributes = {"mode": mode, "coordinate_transformation_mode": where, **nearest}
        x = s.x("input")
        if s["output_size"] or aligned:
            return s.op("Resize", x, "", "", s.ints([*map(int, s.result.shape)]), **attributes)
        factors = s.writer.constant(torch.tensor([1.0, 1.0, *s["scale_factors"]]).numpy(), "factors")
        return s.op("Resize", x, "", factors, **attributes)

    return rule


# ------------------------------------------------------------------------------------ movement


def _cat(s: Site) -> str:
    return s.op("Concat", *(s.tensor(x) for x in s["tensors"]), axis=s["dim"])


def _padded(s: Site) -> str:
    """torch lists (before, after) from the last dim; ONNX lists all befores, then all afters. Negative pads crop."""
    pad, shape = list(s["pad"]), s.shape()
    pairs = [(0, 0)] * (len(shape) - len(pad) // 2) + list(zip(pad[-2::-2], pad[-1::-2], strict=True))
    x = s.x()
    if min(pad, default=0) < 0:
        starts = [max(0, -before) for before, _ in pairs]
        ends = [size - max(0, -after) for size, (_, after) in zip(shape, pairs, strict=True)]
        x = s.op("Slice", x, s.ints(starts), s.ints(ends), s.ints(range(len(shape))))
    befores, afters = ([max(0, size) for size in side] for side in zip(*pairs, strict=True))
    return s.op("Pad", x, s.ints([*befores, *afters]), s.number(s["value"]))


def _sliced(s: Site) -> str:
    extent = s.shape()[s["dim"]]
    start = 0 if s["start"] is None else s["start"]
    end = extent if s["end"] is None else s["end"]
    return s.op("Slice", s.x(), *map(s.ints, ([start], [end], [s["dim"]], [s["step"]])))


def _split(s: Site) -> tuple[str, ...]:
    dim = s["dim"]
    if "split_size" in s.given:
        extent, each = s.shape()[dim], s["split_size"]
        sizes = [min(each, extent - start) for start in range(0, extent, each)]
    else:
        sizes = list(s["split_sizes"])
    return s.many("Split", len(sizes), s.x(), s.ints(sizes), axis=dim)


def _squeezed(s: Site) -> str:
    """ONNX refuses to squeeze a size other than 1; torch keeps that dim."""
    shape = s.shape()
    asked = s.given.get("dim", list(range(len(shape))))
    axes = [axis for axis in _list(asked, 1) if shape and shape[axis] == 1]
    return s.op("Squeeze", s.x(), s.ints(axes)) if axes else s.op("Identity", s.x())


def _unsqueezed(s: Site) -> str:
    return s.op("Unsqueeze", s.x(), s.ints([s["dim"]]))


def _viewed(s: Site) -> str:
    return s.op("Reshape", s.x(), s.ints([*map(int, s.result.shape)]), allowzero=1)


def _permuted(s: Site) -> str:
    return s.op("Transpose", s.x(), perm=[axis % len(s.shape()) for axis in s["dims"]])


def _expanded(s: Site) -> str:
    return s.op("Expand", s.x(), s.ints([*map(int, s.result.shape)]))


def _repeated(s: Site) -> str:
    repeats, shape = list(s["repeats"]), s.shape()
    x = s.x()
    if len(repeats) > len(shape):
        x = s.op("Reshape", x, s.ints([*[1] * (len(repeats) - len(shape)), *shape]))
    return s.op("Tile", x, s.ints(repeats))


def _flipped(s: Site) -> str:
    axes = list(s["dims"])
    if not axes:
        return s.op("Identity", s.x())
    back = -(2**31)
    return s.op(
        "Slice", s.x(), s.ints([-1] * len(axes)), s.ints([back] * len(axes)), s.ints(axes), s.ints([-1] * len(axes))
    )


def _selected(s: Site) -> str:
    return s.op("Gather", s.x(), s.number(s["index"], torch.int64), axis=s["dim"])


# Functions of one tensor that have the same name in ONNX.
_ALIKE = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "floor"),
    *("log", "neg", "reciprocal", "relu", "round", "selu", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh"),
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **{f"aten.{name}.default": _plain(name.capitalize()) for name in _ALIKE},
        "aten.hardswish.default": _plain("HardSwish"),
        "aten.logical_not.default": _plain("Not"),
        "aten.bitwise_not.default": _not,
        "aten.rsqrt.default": lambda s: s.op("Reciprocal", s.op("Sqrt", s.x())),
        "aten.silu.default": lambda s: s.op("Mul", s.x(), s.op("Sigmoid", s.x())),
        "aten.gelu.default": lambda s: s.op("Gelu", s.x(), approximate=s["approximate"]),
        "aten.celu.default": lambda s: s.op("Celu", s.x(), alpha=float(s["alpha"])),
        "aten.elu.default": _elu,
        "aten.hardsigmoid.default": lambda s: s.op("HardSigmoid", s.x(), alpha=1 / 6, beta=0.5),
        "aten.hardtanh.default": _clip("min_val", "max_val"),
        "aten.clamp.default": _clip("min", "max"),
        "aten.leaky_relu.default": lambda s: s.op("LeakyRelu", s.x(), alpha=float(s["negative_slope"])),
        "aten.prelu.default": _prelu,
        "aten.add.Tensor": _scaled("Add"),
        "aten.sub.Tensor": _scaled("Sub"),
        "aten.mul.Tensor": _promoted("Mul", "self", "other"),
        "aten.div.Tensor": _promoted("Div", "self", "other"),
        "aten.maximum.default": _promoted("Max", "self", "other"),
        "aten.minimum.default": _promoted("Min", "self", "other"),
        "aten.pow.Tensor_Scalar": _promoted("Pow", "self", "exponent"),
        "aten.pow.Tensor_Tensor": _promoted("Pow", "self", "exponent"),
        "aten._softmax.default": lambda s: s.op("Softmax", s.x(), axis=s["dim"]),
        **{
            f"aten.{name}.{overload}": _compared(kind)
            for name, kind in {
                "eq": "Equal",
                "ge": "GreaterOrEqual",
                "gt": "Greater",
                "le": "LessOrEqual",
                "lt": "Less",
            }.items()
            for overload in ("Tensor", "Scalar")
        },
        **{
            f"aten.{name}.{overload}": _bits(kind)
            for name, kind, overload in [
                *(
                    ("logical_and", "And", "default"),
                    ("logical_or", "Or", "default"),
                    ("logical_xor", "Xor", "default"),
                ),
                *(("bitwise_and", "And", "Tensor"), ("bitwise_or", "Or", "Tensor"), ("bitwise_xor", "Xor", "Tensor")),
                *(("bitwise_and", "And", "Scalar"), ("bitwise_or", "Or", "Scalar"), ("bitwise_xor", "Xor", "Scalar")),
            ]
        },
        "aten.where.self": _plain("Where", "condition", "self", "other"),
        "aten.masked_fill.Scalar": _plain("Where", "mask", "value", "self"),
        "aten.clamp.Tensor": _clip_by_tensors,
        "aten.addmm.default": _addmm,
        "aten.mm.default": _plain("MatMul", "self", "mat2"),
        "aten.bmm.default": _plain("MatMul", "self", "mat2"),
        "aten.linear.default": _linear,
        "aten.convolution.default": _convolution,
        "aten._native_batch_norm_legit_no_training.default": _batch_norm,
        "aten.avg_pool2d.default": _avg_pool,
        "aten._adaptive_avg_pool2d.default": _adaptive_avg_pool,
        "aten.max_pool2d.default": _max_pool,
        "aten.max_pool2d_with_indices.default": _max_pool_with_indices,
        "aten.mean.dim": _reduced("ReduceMean"),
        "aten.amax.default": _reduced("ReduceMax"),
        "aten.amin.default": _reduced("ReduceMin"),
        "aten.sum.dim_IntList": _reduced("ReduceSum"),
        "aten.upsample_bilinear2d.vec": _resized("linear"),
        "aten.upsample_nearest2d.vec": _resized("nearest"),
        "aten.cat.default": _cat,
        "aten.constant_pad_nd.default": _padded,
        "aten.slice_copy.Tensor": _sliced,
        "aten.split_copy.Tensor": _split,
        "aten.split_with_sizes_copy.default": _split,
        "aten.squeeze_copy.dims": _squeezed,
        "aten.unsqueeze_copy.default": _unsqueezed,
        "aten.view_copy.default": _viewed,
        "aten.permute_copy.default": _permuted,
        "aten.expand_copy.default": _expanded,
        "aten.repeat.default": _repeated,
        "aten.flip.default": _flipped,
        "aten.select_copy.int": _selected,
        "aten.index_select.default": lambda s: s.op("Gather", s.x(), s.x("index"), axis=s["dim"]),
        "aten.embedding.default": lambda s: s.op("Gather", s.x("weight"), s.x("indices"), axis=0),
        "aten.gather.default": lambda s: s.op("GatherElements", s.x(), s.x("index"), axis=s["dim"]),
        "aten.cumsum.default": lambda s: s.op("CumSum", s.x(), s.number(s["dim"], torch.int64)),
        **dict.fromkeys(
            (
                "aten.alias_copy.default",
                "aten.clone.default",
                "aten.detach_copy.default",
                "dim_order_ops._clone_dim_order.default",
                "dim_order_ops._to_dim_order_copy.default",
            ),
            _copied,
        ),
    }
)
"""The rules by the name of the edge operator. Operators without a rule have no form in ONNX (yet)."""


def written(site: Site, name: str) -> str | tuple[str, ...]:
    """Write one operator; returns the names of its results. Raises FormError for one without a form in ONNX."""
    if name not in RULES:
        raise FormError("operator", f"{name} has no form in ONNX here")
    return RULES[name](site)
