"""Convolutions, pools, resizes and norms in TFLite, which read channels last: codes are transposed around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import fx

from npu_assay.conformance.interchange.tflite_products import bias_of, weights_of
from npu_assay.conformance.interchange.tflite_writer import Site

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
VALID = 1


def _pair(numbers: int | Sequence[int]) -> tuple[int, int]:
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed[0], listed[-1]


def _image(s: Site, index: int) -> int:
    """[N, H, W, C] of a tensor with or without a batch, of one spatial dimension or two."""
    shape, spatial = s.shape(index), len(s.sizes) - 2
    full = shape if len(shape) == 4 else (shape[0], shape[1], 1, shape[2]) if spatial == 1 else (1, *shape)
    return s.permuted(s.reshaped(index, full), TO_NHWC)


def _from_image(s: Site, kind: str, inputs: Sequence[int], shape: Sequence[int], **options: Any) -> None:
    """Append an operator whose result in [N, H, W, C] becomes the site's result."""
    _to_result(s, s.op(kind, inputs, shape, s.result, **options))


def _to_result(s: Site, image: int) -> None:
    axes = tuple(s.shape(image)[axis] for axis in TO_NCHW)
    if axes == s.sizes:
        s.permuted(image, TO_NCHW, s.result)
    else:
        s.reshaped(s.permuted(image, TO_NCHW), s.sizes, s.result)


def _padded(s: Site, image: int, padding: tuple[int, int], lowest: bool = False) -> int:
    """The image, padded at both ends of height and width with zeros, or with the lowest code for a max pool."""
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


def avg_pool(s: Site) -> None:
    """AVERAGE_POOL_2D over codes that were padded with zeros."""
    if s["divisor_override"] is not None:
        raise s.refuse("divisor_override", "AVERAGE_POOL_2D has no divisor")
    if not s["count_include_pad"] and any(_pair(s["padding"])):
        raise s.refuse("count_include_pad", "padding counts as zeros")
    _pool(s, "AVERAGE_POOL_2D")


def max_pool(s: Site) -> None:
    """MAX_POOL_2D over codes that were padded with the lowest code."""
    if _pair(s["dilation"]) != (1, 1):
        raise s.refuse("dilation", "MAX_POOL_2D has no dilation")
    if any(isinstance(user, fx.Node) and user.args[1:] == (1,) for user in s.node.users):
        raise s.refuse("indices_unused", "MAX_POOL_2D gives no indices")
    _pool(s, "MAX_POOL_2D")


def adaptive(s: Site) -> None:
    """AVERAGE_POOL_2D where the sizes of the result divide those of the input."""
    image = _image(s, s.kept())
    given, wanted = s.shape(image)[1:3], _nhwc(s)[1:3]
    if any(not m or n % m for n, m in zip(given, wanted, strict=True)):
        raise s.refuse("output_divides_input", f"{list(given)} is not a multiple of {list(wanted)}")
    kernel = (given[0] // wanted[0], given[1] // wanted[1])
    _from_image(s, "AVERAGE_POOL_2D", [image], _nhwc(s), **_window(kernel, kernel, 0))


def resize(kind: str) -> Callable[[Site], None]:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR."""

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


def convolution(s: Site) -> None:
    """CONV_2D, DEPTHWISE_CONV_2D or TRANSPOSE_CONV; a line is an image of height 1."""
    weights, x = weights_of(s, "weight", "static_weights"), s.x("input")
    if s.known(weights).data is None:
        raise s.refuse("static_weights", "the weights are not constant")
    rank = len(s.shape(weights)) - 2
    if rank not in (1, 2):
        raise s.refuse("spatial_rank", f"found {rank} spatial dimensions, expected 1 or 2")
    codes = s.known(weights).codes
    assert codes is not None
    if len(codes.scales) > 1 and codes.axis != int(s["transposed"]):
        raise s.refuse("static_weights", "found scales along another axis than the output channels")
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
    bias = bias_of(s, s["bias"], image, weights, outputs)
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
    """TRANSPOSE_CONV without padding, then a slice that removes what the padding cuts off."""
    if s["groups"] != 1 or dilation != (1, 1) or any(_pair(s["output_padding"])) or s.fused:
        raise s.refuse("plain_transposed", "TRANSPOSE_CONV has neither groups, dilation nor output padding")
    bias = bias_of(s, s["bias"], image, weights, s.shape(weights)[1])
    filters = s.permuted(weights, (1, 2, 3, 0))
    rooms = zip(s.shape(image)[1:3], stride, s.shape(weights)[2:], strict=True)
    whole = (s.shape(image)[0], *((size - 1) * step + span for size, step, span in rooms), s.shape(weights)[1])
    options = {"padding": VALID, "strideH": stride[0], "strideW": stride[1]}
    made = s.op("TRANSPOSE_CONV", [s.writer.integers(whole), filters, image, bias], whole, s.result, **options)
    if any(padding):
        size = (whole[0], whole[1] - 2 * padding[0], whole[2] - 2 * padding[1], whole[3])
        made = s.op("SLICE", [made, s.writer.integers((0, *padding, 0)), s.writer.integers(size)], size, made)
    _to_result(s, made)


def batch_norm(s: Site) -> None:
    """A norm with stored statistics: MUL and ADD of one number per channel, in float32."""
    x = s.x("input")
    factors = s.numbers("weight", 1) / np.sqrt(s.numbers("running_var", 1) + s["eps"])
    shifts = s.numbers("bias", 0) - s.numbers("running_mean", 0) * factors
    sizes = (-1, *[1] * (len(s.sizes) - 2)) if len(s.sizes) > 2 else (-1,)
    one, other = (s.constant(a.reshape(sizes).astype(np.float32), None, "float32") for a in (factors, shifts))
    s.done("QUANTIZE", s.real("ADD", s.real("MUL", s.real("DEQUANTIZE", x), one), other))


def mean(s: Site) -> None:
    """MEAN; over height and width in channels-last order, as XNNPACK requires."""
    x, dims = s.x(), s["dim"]
    rank = len(s.shape(x))
    axes = sorted({dim % rank for dim in ([dims] if isinstance(dims, int) else dims or range(rank))})
    if rank == 4 and axes == [2, 3] and s["keepdim"]:
        _from_image(s, "MEAN", [_image(s, x), s.writer.integers([1, 2])], _nhwc(s), keepDims=True)
    else:
        s.done("MEAN", x, s.writer.integers(axes), keepDims=bool(s["keepdim"]))
