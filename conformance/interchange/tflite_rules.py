"""How each edge operator is written in TFLite, on int8 codes: one small function each.

Tensors keep torch's order of dimensions; around convolutions, pools and resizes, which read channels last, codes are
transposed. What LiteRT's specification of 8-bit quantisation restricts is refused with the constraint's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import fx

from npu_assay.conformance.interchange.tflite_writer import Codes, Site

Rule = Callable[[Site], None]
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
VALID = 1
RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3
BOUNDS = {(0.0, inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}
FUSED = {"RELU": RELU, "RELU_N1_TO_1": RELU_N1_TO_1, "RELU6": RELU6}


def _pair(numbers: int | Sequence[int]) -> tuple[int, int]:
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed[0], listed[-1]


# ------------------------------------------------------------------------------------ element by element


def _unary(kind: str, output: tuple[float, int] | None = None) -> Rule:
    """output: the only scale and zero point that the result may have."""

    def rule(s: Site) -> None:
        if output is not None:
            _check_output(s, output)
        s.done(kind, s.x())

    return rule


def _check_output(s: Site, wanted: tuple[float, int]) -> None:
    codes = s.known(s.result).codes
    if codes != Codes((wanted[0],), (wanted[1],)):
        raise s.refuse("output_qparams", f"the result has {codes}, expected {wanted}")


LOGISTIC, TANH = (1 / 256, -128), (1 / 128, 0)


def _binary(kind: str) -> Rule:
    def rule(s: Site) -> None:
        if s.given.get("alpha", 1) != 1:
            raise s.refuse("alpha", f"{kind} has no alpha")
        s.done(kind, s.x(), s.x("other"), fusedActivationFunction=s.fused)

    return rule


def _neg(s: Site) -> None:
    """0 - x, as TFLite has no NEG for int8."""
    x = s.x()
    codes = s.known(x).codes
    assert codes is not None
    zero = s.constant(np.full((), codes.zero_points[0], np.int8), codes)
    s.done("SUB", zero, x)


def activation(given: Mapping[str, Any]) -> str | None:
    """The TFLite operator of a relu, hardtanh or clamp, by its arguments; None for other operators and bounds."""
    for low, high in (("min_val", "max_val"), ("min", "max")):
        found = given.get(low), given.get(high)
        if low in given and not any(isinstance(bound, fx.Node) for bound in found):
            return BOUNDS.get(
                (-inf if found[0] is None else float(found[0]), inf if found[1] is None else float(found[1]))
            )
    return None


def _bounded(s: Site) -> None:
    kind = activation(s.given)
    if kind is None:
        raise s.refuse("bounds", f"TFLite has only {', '.join(BOUNDS.values())}")
    s.done(kind, s.x())


def _leaky(s: Site) -> None:
    s.done("LEAKY_RELU", s.x(), alpha=float(s["negative_slope"]))


def _prelu(s: Site) -> None:
    """Slopes lie along dim 1; TFLite broadcasts them from the right."""
    x, slopes = s.x(), s.x("weight")
    codes = s.known(slopes).codes
    if s.known(slopes).data is None or codes is None or any(codes.zero_points):
        raise s.refuse("static_weights", "the slopes are no constant with zero point 0")
    rank = len(s.shape(x))
    if rank > 2:
        data = s.known(slopes).data
        assert data is not None
        slopes = s.constant(data.reshape(-1, *[1] * (rank - 2)), s.known(slopes).codes)
    s.done("PRELU", x, slopes)


LONGEST = 8191
"""The longest row whose sum LiteRT's fixed-point softmax can hold."""


def _softmax(s: Site) -> None:
    _check_output(s, LOGISTIC)
    x = s.x()
    rank = len(s.shape(x))
    dim = s["dim"] % max(rank, 1)
    if rank and s.shape(x)[dim] > LONGEST:
        raise s.refuse("max_channels", f"a row of {s.shape(x)[dim]}")
    if rank == 0 or dim == rank - 1:
        s.done("SOFTMAX", x, beta=1.0)
        return
    axes = [axis if axis not in (dim, rank - 1) else dim + rank - 1 - axis for axis in range(rank)]
    turned = s.permuted(x, axes)
    found = s.op("SOFTMAX", [turned], s.shape(turned), s.result, beta=1.0)
    s.permuted(found, axes, s.result)


# ------------------------------------------------------------------------------------ products


SYMMETRIC = "weight_zero_point"


def _weights(s: Site, name: str, code: str) -> int:
    """Weights, of which constants must be symmetric. code: the constraint that says so."""
    index = s.x(name)
    known = s.known(index)
    if known.data is not None and known.codes is not None and any(known.codes.zero_points):
        raise s.refuse(code, f"{name} has a zero point other than 0")
    return index


def _bias(s: Site, found: object, x: int, weights: int, count: int) -> int:
    """An int32 constant whose scale is the product of the others'; zeros where there is none."""
    given, codes = s.known(x).codes, s.known(weights).codes
    assert given is not None and codes is not None
    wanted = np.float32(given.scales[0]) * np.asarray(codes.scales, np.float32)
    made = Codes(tuple(wanted.tolist()), (0,) * len(wanted))
    if found is None:
        return s.constant(np.zeros(count, np.int32), made, "int32")
    known = s.known(s.operand(found))
    fits = known.data is not None and known.dtype == "int32" and known.shape == (count,) and known.codes is not None
    if not fits or known.codes is None or any(known.codes.zero_points):
        raise s.refuse("static_bias", "the bias is no int32 constant of one number per output")
    found_scales = np.broadcast_to(np.asarray(known.codes.scales, np.float32), wanted.shape)
    if not np.allclose(found_scales, wanted, rtol=1e-5, atol=0):
        raise s.refuse("static_bias", "the bias has another scale than the product of the others")
    assert known.data is not None
    return s.constant(known.data, made, "int32")


def _fully_connected(s: Site, x: int, weights: int, bias: object) -> None:
    """weights: [outputs, inputs]."""
    outputs = s.shape(weights)[0]
    inputs = [x, weights, _bias(s, bias, x, weights, outputs)]
    s.done("FULLY_CONNECTED", *inputs, fusedActivationFunction=s.fused, keepNumDims=len(s.sizes) != 2)


def _linear(s: Site) -> None:
    _fully_connected(s, s.x("input"), _weights(s, "weight", SYMMETRIC), s["bias"])


def _addmm(s: Site) -> None:
    for name in ("alpha", "beta"):
        if s[name] != 1:
            raise s.refuse(name, f"FULLY_CONNECTED has no {name}")
    _fully_connected(s, s.x("mat1"), s.permuted(_weights(s, "mat2", SYMMETRIC), (1, 0)), s["self"])


def _mm(s: Site) -> None:
    _fully_connected(s, s.x(), s.permuted(_weights(s, "mat2", SYMMETRIC), (1, 0)), None)


def _batched_product(s: Site) -> None:
    s.done("BATCH_MATMUL", s.x(), s.x("mat2"), adjX=False, adjY=False)


# ------------------------------------------------------------------------------------ images


def _image(s: Site, index: int) -> int:
    """[N, H, W, C] of a tensor with or without a batch, of one spatial dimension or two."""
    shape, spatial = s.shape(index), len(s.sizes) - 2
    full = shape if len(shape) == 4 else (shape[0], shape[1], 1, shape[2]) if spatial == 1 else (1, *shape)
    return s.permuted(s.reshaped(index, full), TO_NHWC)


def _from_image(s: Site, kind: str, inputs: Sequence[int], shape: Sequence[int], **options: Any) -> None:
    """An operator with a result in [N, H, W, C], which becomes the site's result."""
    _to_result(s, s.op(kind, inputs, shape, s.result, **options))


def _to_result(s: Site, image: int) -> None:
    axes = tuple(s.shape(image)[axis] for axis in TO_NCHW)
    if axes == s.sizes:
        s.permuted(image, TO_NCHW, s.result)
    else:
        s.reshaped(s.permuted(image, TO_NCHW), s.sizes, s.result)


def _padded(s: Site, image: int, padding: tuple[int, int], lowest: bool = False) -> int:
    """Zeros (the lowest code for maxima) on both ends of height and width."""
    if not any(padding):
        return image
    batch, height, width, channels = s.shape(image)
    shape = (batch, height + 2 * padding[0], width + 2 * padding[1], channels)
    inputs = [image, s.writer.integers([(0, 0), (padding[0],) * 2, (padding[1],) * 2, (0, 0)])]
    if lowest:
        inputs.append(s.constant(np.full((), -128, np.int8), s.known(image).codes))
    return s.op("PADV2" if lowest else "PAD", inputs, shape, image)


def _window(kernel: tuple[int, int], stride: tuple[int, int], fused: int) -> dict[str, Any]:
    return {
        "padding": VALID,
        "strideH": stride[0],
        "strideW": stride[1],
        "filterHeight": kernel[0],
        "filterWidth": kernel[1],
        "fusedActivationFunction": fused,
    }


def _nhwc(s: Site) -> tuple[int, int, int, int]:
    """The result's sizes, channels last."""
    sizes = s.sizes if len(s.sizes) == 4 else (1, *s.sizes)
    return sizes[0], sizes[2], sizes[3], sizes[1]


def _pool(s: Site, kind: str) -> None:
    kernel = _pair(s["kernel_size"])
    stride = _pair(s["stride"]) if s["stride"] else kernel
    if s["ceil_mode"]:
        raise s.refuse("ceil_mode", "TFLite's pools round sizes down")
    image = _padded(s, _image(s, s.kept()), _pair(s["padding"]), lowest=kind == "MAX_POOL_2D")
    _from_image(s, kind, [image], _nhwc(s), **_window(kernel, stride, s.fused))


def _avg_pool(s: Site) -> None:
    if s["divisor_override"] is not None:
        raise s.refuse("divisor_override", "AVERAGE_POOL_2D has no divisor")
    if not s["count_include_pad"] and any(_pair(s["padding"])):
        raise s.refuse("count_include_pad", "padding counts as zeros")
    _pool(s, "AVERAGE_POOL_2D")


def _max_pool(s: Site) -> None:
    if _pair(s["dilation"]) != (1, 1):
        raise s.refuse("dilation", "MAX_POOL_2D has no dilation")
    if any(isinstance(user, fx.Node) and user.args[1:] == (1,) for user in s.node.users):
        raise s.refuse("indices_unused", "MAX_POOL_2D gives no indices")
    _pool(s, "MAX_POOL_2D")


def _adaptive(s: Site) -> None:
    image = _image(s, s.kept())
    given, wanted = s.shape(image)[1:3], _nhwc(s)[1:3]
    if any(not m or n % m for n, m in zip(given, wanted, strict=True)):
        raise s.refuse("output_divides_input", f"{list(given)} is not a multiple of {list(wanted)}")
    kernel = (given[0] // wanted[0], given[1] // wanted[1])
    _from_image(s, "AVERAGE_POOL_2D", [image], _nhwc(s), **_window(kernel, kernel, 0))


def _resize(kind: str) -> Rule:
    def rule(s: Site) -> None:
        x = s.kept("input")
        factors = s["scale_factors"]
        exact = [size * factor for size, factor in zip(s.shape(x)[2:], factors or (), strict=bool(factors))]
        aligned = bool(s.given.get("align_corners"))
        if factors and not aligned and exact != list(s.sizes[2:]):
            raise s.refuse("exact_scale", f"factors {factors} do not give the sizes {list(s.sizes[2:])}")
        options = {"alignCorners": aligned, "halfPixelCenters": kind == "RESIZE_BILINEAR" and not aligned}
        size = s.writer.integers(list(s.sizes[2:]))
        _from_image(s, kind, [_image(s, x), size], _nhwc(s), **options)

    return rule


def _convolution(s: Site) -> None:
    weights, x = _weights(s, "weight", "static_weights"), s.x("input")
    if s.known(weights).data is None:
        raise s.refuse("static_weights", "the weights are no constant")
    rank = len(s.shape(weights)) - 2
    if rank not in (1, 2):
        raise s.refuse("spatial_rank", f"{rank} spatial dimensions")
    codes = s.known(weights).codes
    assert codes is not None
    if len(codes.scales) > 1 and codes.axis != int(s["transposed"]):
        raise s.refuse("static_weights", "scales along another axis than the outputs")
    if rank == 1:
        found = s.known(weights).data
        assert found is not None
        weights = s.constant(found[:, :, None, :], codes)
    unit = 1 if rank == 1 else None
    stride, dilation = ((unit or _pair(s[name])[0], _pair(s[name])[1]) for name in ("stride", "dilation"))
    padding = (0 if unit else _pair(s["padding"])[0], _pair(s["padding"])[1])
    image = _line(s, x) if rank == 1 else _image(s, x)
    (_transposed if s["transposed"] else _direct)(s, image, weights, stride, padding, dilation)


def _line(s: Site, x: int) -> int:
    shape = s.shape(x)
    full = (shape[0], shape[1], 1, shape[2]) if len(shape) == 3 else (1, shape[0], 1, shape[1])
    return s.permuted(s.reshaped(x, full), TO_NHWC)


def _direct(
    s: Site, image: int, weights: int, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> None:
    inputs, outputs = s.shape(image)[3], s.shape(weights)[0]
    depthwise = s["groups"] > 1 and s["groups"] == inputs == outputs
    if s["groups"] > 1 and not depthwise:
        raise s.refuse("groups", f"{s['groups']} groups of {inputs} channels")
    bias = _bias(s, s["bias"], image, weights, outputs)
    image = _padded(s, image, padding)
    filters = s.permuted(weights, (1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
    span = [(size - 1) * step + 1 for size, step in zip(s.shape(weights)[2:], dilation, strict=True)]
    rooms = zip(s.shape(image)[1:3], span, stride, strict=True)
    shape = (s.shape(image)[0], *((size - reach) // step + 1 for size, reach, step in rooms), outputs)
    options = {
        "padding": VALID,
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
        "fusedActivationFunction": s.fused,
    }
    kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    options |= {"depthMultiplier": outputs // inputs} if depthwise else {}
    _from_image(s, kind, [image, filters, bias], shape, **options)


def _transposed(
    s: Site, image: int, weights: int, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> None:
    """The whole output; what padding takes off is sliced away."""
    if s["groups"] != 1 or dilation != (1, 1) or any(_pair(s["output_padding"])) or s.fused:
        raise s.refuse("plain_transposed", "TRANSPOSE_CONV has neither groups, dilation nor output padding")
    bias = _bias(s, s["bias"], image, weights, s.shape(weights)[1])
    filters = s.permuted(weights, (1, 2, 3, 0))
    rooms = zip(s.shape(image)[1:3], stride, s.shape(weights)[2:], strict=True)
    whole = (s.shape(image)[0], *((size - 1) * step + span for size, step, span in rooms), s.shape(weights)[1])
    options = {"padding": VALID, "strideH": stride[0], "strideW": stride[1]}
    made = s.op("TRANSPOSE_CONV", [s.writer.integers(whole), filters, image, bias], whole, s.result, **options)
    if any(padding):
        size = (whole[0], whole[1] - 2 * padding[0], whole[2] - 2 * padding[1], whole[3])
        made = s.op("SLICE", [made, s.writer.integers((0, *padding, 0)), s.writer.integers(size)], size, made)
    _to_result(s, made)


def _batch_norm(s: Site) -> None:
    """A norm with stored statistics: one factor and one sum for each channel, on reals."""
    x = s.x("input")
    factors = s.numbers("weight", 1) / np.sqrt(s.numbers("running_var", 1) + s["eps"])
    shifts = s.numbers("bias", 0) - s.numbers("running_mean", 0) * factors
    sizes = (-1, *[1] * (len(s.sizes) - 2)) if len(s.sizes) > 2 else (-1,)
    one, other = (s.constant(a.reshape(sizes).astype(np.float32), None, "float32") for a in (factors, shifts))
    s.done("QUANTIZE", s.real("ADD", s.real("MUL", s.real("DEQUANTIZE", x), one), other))


def _mean(s: Site) -> None:
    x, dims = s.x(), s["dim"]
    rank = len(s.shape(x))
    axes = sorted({dim % rank for dim in ([dims] if isinstance(dims, int) else dims or range(rank))})
    if rank == 4 and axes == [2, 3] and s["keepdim"]:
        _from_image(s, "MEAN", [_image(s, x), s.writer.integers([1, 2])], _nhwc(s), keepDims=True)
    else:
        s.done("MEAN", x, s.writer.integers(axes), keepDims=bool(s["keepdim"]))


# ------------------------------------------------------------------------------------ layout


def _cat(s: Site) -> None:
    """What has other parameters than the result is quantised to them first, as a converter does."""
    alike, wanted = list[int](), s.known(s.result).codes
    for x in (s.operand(x) for x in s["tensors"]):
        same = s.known(x).codes == wanted
        alike.append(x if same else s.op("QUANTIZE", [x], s.shape(x), s.result))
    s.done("CONCATENATION", *alike, axis=s["dim"] % len(s.sizes))


def _pad(s: Site) -> None:
    x, amounts, rank = s.kept(), list(s["pad"]), len(s.sizes)
    if min(amounts, default=0) < 0:
        raise s.refuse("non_negative_padding", f"padding {amounts}")
    pairs = [(0, 0)] * (rank - len(amounts) // 2) + list(zip(amounts[-2::-2], amounts[-1::-2], strict=True))
    codes = s.known(x).codes
    assert codes is not None
    inputs = [x, s.writer.integers(pairs)]
    if s["value"] != 0:
        code = np.clip(np.round(s["value"] / codes.scales[0]) + codes.zero_points[0], -128, 127)
        inputs.append(s.constant(np.full((), code, np.int8), codes))
    s.done("PAD" if len(inputs) == 2 else "PADV2", *inputs)


def _slice(s: Site) -> None:
    x = s.kept()
    if s["step"] != 1:
        raise s.refuse("step", "SLICE has no step")
    dim, shape = s["dim"] % len(s.sizes), s.shape(x)
    start = s["start"] or 0
    begin = [0] * len(shape)
    begin[dim] = min(max(start + shape[dim] if start < 0 else start, 0), shape[dim])
    s.done("SLICE", x, s.writer.integers(begin), s.writer.integers(s.sizes))


def _view(s: Site) -> None:
    s.reshaped(s.kept(), s.sizes, s.result)


def _permute(s: Site) -> None:
    x = s.kept()
    s.permuted(x, [axis % len(s.sizes) for axis in s["dims"]], s.result)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "aten.abs.default": _unary("ABS"),
        "aten.neg.default": _neg,
        "aten.relu.default": _unary("RELU"),
        "aten.sigmoid.default": _unary("LOGISTIC", LOGISTIC),
        "aten.tanh.default": _unary("TANH", TANH),
        "aten.add.Tensor": _binary("ADD"),
        "aten.sub.Tensor": _binary("SUB"),
        "aten.mul.Tensor": _binary("MUL"),
        "aten.clamp.default": _bounded,
        "aten.hardtanh.default": _bounded,
        "aten.leaky_relu.default": _leaky,
        "aten.prelu.default": _prelu,
        "aten._softmax.default": _softmax,
        "aten.linear.default": _linear,
        "aten.addmm.default": _addmm,
        "aten.mm.default": _mm,
        "aten.bmm.default": _batched_product,
        "aten.convolution.default": _convolution,
        "aten.avg_pool2d.default": _avg_pool,
        "aten._adaptive_avg_pool2d.default": _adaptive,
        "aten.max_pool2d.default": _max_pool,
        "aten.max_pool2d_with_indices.default": _max_pool,
        "aten.upsample_bilinear2d.vec": _resize("RESIZE_BILINEAR"),
        "aten.upsample_nearest2d.vec": _resize("RESIZE_NEAREST_NEIGHBOR"),
        "aten._native_batch_norm_legit_no_training.default": _batch_norm,
        "aten.mean.dim": _mean,
        "aten.cat.default": _cat,
        "aten.constant_pad_nd.default": _pad,
        "aten.slice_copy.Tensor": _slice,
        "aten.permute_copy.default": _permute,
        **dict.fromkeys(
            ("aten.view_copy.default", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default", "aten.clone.default"),
            _view,
        ),
        "dim_order_ops._clone_dim_order.default": _view,
    }
)
"""By the name of the edge operator. What is not here has no int8 form in TFLite here."""
