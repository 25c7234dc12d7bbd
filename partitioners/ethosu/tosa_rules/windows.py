"""Products with weights, of two activations, pools and resizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from npu_assay.partitioners.ethosu.tosa_model import TTensor
from npu_assay.partitioners.ethosu.tosa_rules.elementwise import Rule
from npu_assay.partitioners.ethosu.tosa_rules.use import SIDE_LIMIT, Result, Use

ACCUMULATORS: Final = {"INT8": "INT32", "INT16": "INT48"}
"""What products of activations of a type are added up in."""

IMAGE_LIMIT: Final = 16384
SCALE_LIMIT: Final = 2**11
RATIO_LIMIT: Final = 256
"""Sides, numerators and ratios that RESIZE has (level 8K)."""


def convolution(use: Use, _: str) -> Result:
    """CONV2D [O, kh, kw, I] and CONV3D [O, kd, kh, kw, I]."""
    x, weights = use.tensors[:2]
    axes = 2 if use.code == "CONV2D" else 3
    use.rank(x, axes + 2)
    use.rank(weights, axes + 2)
    use.require(weights.shape[-1] == x.shape[-1], "input channels of the weights", weights.shape[-1], str(x.shape[-1]))
    sizes = _windows(use, x.shape[1:-1], weights.shape[1:-1], use.sides("pad", 2 * axes, 0), axes)
    return _accumulator(use, weights.shape[0]), (x.shape[0], *sizes, weights.shape[0])


def depthwise(use: Use, _: str) -> Result:
    x, weights = use.tensors[:2]
    use.rank(x, 4)
    use.rank(weights, 4)
    *kernel, channels, multiplier = weights.shape
    use.require(channels == x.shape[3], "input channels of the weights", channels, str(x.shape[3]))
    sizes = _windows(use, x.shape[1:-1], kernel, use.sides("pad", 4, 0), 2)
    return _accumulator(use, channels * multiplier), (x.shape[0], *sizes, channels * multiplier)


def _windows(use: Use, size: Sequence[int], kernel: Sequence[int], pad: Sequence[int], axes: int) -> list[int]:
    """How many windows fit each axis; the last one must end at the padding's end."""
    strides, dilations = use.sides("stride", axes, 1), [1] * axes
    if "dilation" in use.operator.attributes:
        dilations = list(use.sides("dilation", axes, 1))
    counts = []
    for axis in range(axes):
        reach = (kernel[axis] - 1) * dilations[axis]
        use.within("dilation * kernel", kernel[axis] * dilations[axis], 1, SIDE_LIMIT)
        rest = size[axis] - 1 + pad[2 * axis] + pad[2 * axis + 1] - reach
        holds = rest >= 0 and rest % strides[axis] == 0
        use.require(holds, "padded side less the window", rest, f"a multiple of the stride {strides[axis]}, from 0")
        counts.append(rest // strides[axis] + 1)
    return counts


def _accumulator(use: Use, channels: int) -> str:
    """The result's type; checks the types of all operands, the bias and the zero points."""
    x, weights, bias = use.tensors[:3]
    dtype = use.same_type([x], ACCUMULATORS)
    use.require(weights.dtype == "INT8", "type of the weights", weights.dtype, "INT8")
    expected = ACCUMULATORS[dtype]
    use.require(use.attribute("acc_type") == expected, "acc_type", use.attribute("acc_type"), expected)
    holds = bias.dtype == expected and bias.shape in ((1,), (channels,))
    found = f"{bias.dtype} {list(bias.shape)}"
    use.require(holds, "bias", found, f"{expected} [{channels}] or [1]")
    use.zero_point(3, dtype)
    use.zero_point(4, "INT8")
    return expected


def transpose_convolution(use: Use, _: str) -> Result:
    x, weights = use.tensors[:2]
    use.rank(x, 4)
    use.rank(weights, 4)
    use.require(weights.shape[3] == x.shape[3], "input channels of the weights", weights.shape[3], str(x.shape[3]))
    pads, strides = use.attribute("out_pad"), use.sides("stride", 2, 1)
    use.require(len(pads) == 4 and max(pads) <= SIDE_LIMIT, "out_pad", pads, f"4 numbers to {SIDE_LIMIT}")
    sizes = []
    for axis, around in enumerate((pads[:2], pads[2:])):
        kernel = weights.shape[1 + axis]
        use.within("kernel", kernel, 1, SIDE_LIMIT)
        use.require(min(around) > -kernel, "out_pad", pads, f"more than {-kernel} on axis {axis}")
        sizes.append((x.shape[1 + axis] - 1) * strides[axis] + sum(around) + kernel)
    use.require(min(sizes) >= 1, "sides of the result", sizes, "at least 1")
    return _accumulator(use, weights.shape[0]), (x.shape[0], *sizes, weights.shape[0])


def matmul(use: Use, _: str) -> Result:
    a, b = use.tensors[:2]
    use.rank(a, 3)
    use.rank(b, 3)
    dtype = use.same_type([a, b], ACCUMULATORS)
    holds = (a.shape[0], a.shape[2]) == (b.shape[0], b.shape[1])
    use.require(holds, "shapes", [list(a.shape), list(b.shape)], "[N, H, C] and [N, C, W]")
    use.zero_point(2, dtype)
    use.zero_point(3, dtype)
    return ACCUMULATORS[dtype], (a.shape[0], a.shape[1], b.shape[2])


def pool(use: Use, _: str) -> Result:
    x = use.x
    dtype = use.same_type([x], ACCUMULATORS)
    use.rank(x, 4)
    kernel, pad = use.sides("kernel", 2, 1), use.sides("pad", 4, 0)
    for around, size in zip((pad[:2], pad[2:]), kernel, strict=True):
        use.require(max(around) < size, "pad", pad, f"less than the kernel {list(kernel)}")
    if use.code == "AVG_POOL2D":
        use.require(use.attribute("acc_type") == "INT32", "acc_type", use.attribute("acc_type"), "INT32")
        use.zero_point(1, dtype)
        use.zero_point(2, dtype)
    return dtype, (x.shape[0], *_windows(use, x.shape[1:-1], kernel, pad, 2), x.shape[3])


def resize(use: Use, _: str) -> Result:
    x, scale = use.x, _counted(use, 1, "scale", 4)
    offset, border = _counted(use, 2, "offset", 2), _counted(use, 3, "border", 2)
    dtype = use.same_type([x], ACCUMULATORS)
    use.rank(x, 4)
    axes = enumerate((scale[:2], scale[2:]))
    sizes = [_side(use, x, axis, ratio, offset[axis], border[axis]) for axis, ratio in axes]
    result = dtype if use.attribute("mode") == "NEAREST" else ACCUMULATORS[dtype]
    return result, (x.shape[0], *sizes, x.shape[3])


def _counted(use: Use, position: int, what: str, count: int) -> tuple[int, ...]:
    found = use.shape(position)
    use.require(len(found) == count, what, list(found), f"{count} numbers")
    return found


def _side(use: Use, x: TTensor, axis: int, scale: Sequence[int], offset: int, border: int) -> int:
    """The result's height or width, by the rules for that axis."""
    (n, d), size = scale, x.shape[1 + axis]
    use.within("side", size, 1, IMAGE_LIMIT - 1)
    use.require(n <= SCALE_LIMIT and 0 < d < 16 * n, "scale", [n, d], f"n to {SCALE_LIMIT}, d under 16 n")
    use.require(n <= RATIO_LIMIT * d, "scale", [n, d], f"a ratio to {RATIO_LIMIT}")
    use.within("offset", offset, -n, 16 * n - 1)
    use.within("border", border, -16 * n, n - 1)
    rest = (size - 1) * n - offset + border
    use.require(rest >= 0 and rest % d == 0, "scaled side", rest, f"a multiple of {d}, from 0")
    result: int = rest // d + 1
    use.within("side of the result", result, 1, IMAGE_LIMIT - 1)
    return result


RULES: Final[dict[str, Rule]] = {
    "AVG_POOL2D": pool,
    "CONV2D": convolution,
    "CONV3D": convolution,
    "DEPTHWISE_CONV2D": depthwise,
    "MATMUL": matmul,
    "MAX_POOL2D": pool,
    "RESIZE": resize,
    "TRANSPOSE_CONV2D": transpose_convolution,
}
