"""Shapes of results from shapes of operands: one function per family of XNNPACK operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import prod
from typing import Final

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.xnn_model import KEEP_DIMS, TRANSPOSE_WEIGHTS, XNode

Shape = tuple[int, ...]
_Rule = Callable[[XNode, Sequence[Shape]], Shape]


def output_shape(node: XNode, shapes: Sequence[Shape]) -> Shape:
    """The shape of the node's result for operands of these shapes (absent operands left out).

    Raises FormatError for shapes that the operator does not take.
    """
    return _RULES.get(node.op, _same)(node, shapes)


def _require(holds: bool, node: XNode, what: str, found: object, expected: str) -> None:
    if not holds:
        raise FormatError(what, found, expected, node.op)


def _same(node: XNode, shapes: Sequence[Shape]) -> Shape:
    return shapes[0]


def broadcast(node: XNode, shapes: Sequence[Shape]) -> Shape:
    """Axes aligned at the last one; sizes are equal or 1."""
    pairs = list(zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1))
    for sizes in pairs:
        _require(len({*sizes} - {1}) <= 1, node, "shapes", shapes, "shapes that broadcast")
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in reversed(pairs))


def _prelu(node: XNode, shapes: Sequence[Shape]) -> Shape:
    found = broadcast(node, shapes)
    _require(found == shapes[0], node, "shape of the slope", shapes[1], f"one that broadcasts to {shapes[0]}")
    return found


def _fully_connected(node: XNode, shapes: Sequence[Shape]) -> Shape:
    x, weights = shapes[0], shapes[1]
    _require(len(weights) == 2, node, "rank of the filter", len(weights), "2")
    outputs, inputs = weights[::-1] if node.flags & TRANSPOSE_WEIGHTS else weights
    _require(x[-1] == inputs, node, "input channels", x[-1], f"{inputs} as in the filter")
    _bias(node, shapes, outputs)
    return (*x[:-1], outputs)


def _bias(node: XNode, shapes: Sequence[Shape], channels: int) -> None:
    if len(shapes) > 2:
        _require(shapes[2] == (channels,), node, "shape of the bias", shapes[2], f"({channels},)")


def _spatial(node: XNode, shape: Shape) -> None:
    _require(len(shape) == 4, node, "rank", len(shape), "4 (NHWC)")


def _window(node: XNode, sizes: Shape, kernel: str, stride: str) -> tuple[int, int]:
    """Places of a window over the two spatial sizes: padded, dilated, then strided; rounded down."""
    o = node.options
    pads = (o["padding_top"] + o["padding_bottom"], o["padding_left"] + o["padding_right"])
    places = []
    for axis, size, pad in zip(("height", "width"), sizes, pads, strict=True):
        dilation = o[f"dilation_{axis}"] if node.op != "AvgPooling2d" else 1
        covered = dilation * (o[f"{kernel}_{axis}"] - 1) + 1
        _require(size + pad >= covered, node, f"padded {axis}", size + pad, f"at least {covered}")
        places.append((size + pad - covered) // o[f"{stride}_{axis}"] + 1)
    return places[0], places[1]


def _convolution(node: XNode, shapes: Sequence[Shape]) -> Shape:
    (batch, *sizes, channels), o = _nhwc(node, shapes[0]), node.options
    inputs, outputs = o["groups"] * o["group_input_channels"], o["groups"] * o["group_output_channels"]
    _require(channels == inputs, node, "input channels", channels, str(inputs))
    kernel = (o["kernel_height"], o["kernel_width"])
    depthwise = node.op == "DepthwiseConv2d"
    expected = (1, *kernel, outputs) if depthwise else (outputs, *kernel, o["group_input_channels"])
    _require(shapes[1] == expected, node, "shape of the filter", shapes[1], str(expected))
    _bias(node, shapes, outputs)
    if node.op == "ConvTranspose2d":
        return (batch, *_transposed(node, tuple(sizes)), outputs)
    return (batch, *_window(node, tuple(sizes), "kernel", "subsampling"), outputs)


def _nhwc(node: XNode, shape: Shape) -> Shape:
    _spatial(node, shape)
    return shape


def _transposed(node: XNode, sizes: Shape) -> Shape:
    o = node.options
    pads = (o["padding_top"] + o["padding_bottom"], o["padding_left"] + o["padding_right"])
    results = []
    for axis, size, pad in zip(("height", "width"), sizes, pads, strict=True):
        covered = o[f"dilation_{axis}"] * (o[f"kernel_{axis}"] - 1) + 1
        whole = o[f"subsampling_{axis}"] * (size - 1) + covered + o[f"adjustment_{axis}"]
        _require(whole > pad, node, f"padding of {axis}", pad, f"less than {whole}")
        results.append(whole - pad)
    return tuple(results)


def _pool(node: XNode, shapes: Sequence[Shape]) -> Shape:
    batch, height, width, channels = _nhwc(node, shapes[0])
    return (batch, *_window(node, (height, width), "pooling", "stride"), channels)


def _global_pool(node: XNode, shapes: Sequence[Shape]) -> Shape:
    batch, _, _, channels = _nhwc(node, shapes[0])
    return (batch, 1, 1, channels) if node.flags & KEEP_DIMS else (batch, channels)


def _resize(node: XNode, shapes: Sequence[Shape]) -> Shape:
    batch, _, _, channels = _nhwc(node, shapes[0])
    return (batch, node.options["new_height"], node.options["new_width"], channels)


def _per_axis(node: XNode, shape: Shape, *names: str) -> None:
    for name in names:
        found = len(node.options[name])
        _require(found == len(shape), node, f"length of {name}", found, f"{len(shape)}, one per axis")


def _transpose(node: XNode, shapes: Sequence[Shape]) -> Shape:
    perm = node.options["perm"]
    _require(sorted(perm) == list(range(len(shapes[0]))), node, "perm", perm, f"of {len(shapes[0])} axes")
    return tuple(shapes[0][axis] for axis in perm)


def _reshape(node: XNode, shapes: Sequence[Shape]) -> Shape:
    wanted, count = node.options["new_shape"], prod(shapes[0])
    known = prod(size for size in wanted if size)
    if 0 not in wanted:
        _require(known == count, node, "elements of new_shape", known, str(count))
    _require(count % known == 0, node, "new_shape", wanted, f"sizes that divide {count} elements")
    return tuple(size if size else count // known for size in wanted)


def _slice(node: XNode, shapes: Sequence[Shape]) -> Shape:
    _per_axis(node, shapes[0], "offsets", "sizes")
    sizes: Shape = tuple(node.options["sizes"])
    for size, offset, length in zip(sizes, node.options["offsets"], shapes[0], strict=True):
        _require(offset + size <= length, node, "end of the slice", offset + size, f"at most {length}")
    return sizes


def _constant_pad(node: XNode, shapes: Sequence[Shape]) -> Shape:
    _per_axis(node, shapes[0], "pre_paddings", "post_paddings")
    before, after = node.options["pre_paddings"], node.options["post_paddings"]
    return tuple(sum(each) for each in zip(shapes[0], before, after, strict=True))


def _concatenate(node: XNode, shapes: Sequence[Shape]) -> Shape:
    axis, first = node.options["axis"], shapes[0]
    _require(axis < len(first), node, "axis", axis, f"below {len(first)}")
    rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes if len(shape) == len(first)}
    alike = all(len(shape) == len(first) for shape in shapes) and len(rests) == 1
    _require(alike, node, "shapes", shapes, "shapes that differ on the axis only")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _batch_matrix_multiply(node: XNode, shapes: Sequence[Shape]) -> Shape:
    a, b = shapes
    fit = len(a) == len(b) >= 2 and a[:-2] == b[:-2] and a[-1] == b[-2]
    _require(fit, node, "shapes", shapes, "[..., m, k] and [..., k, n]")
    return (*a[:-1], b[-1])


_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Div", "Minimum", "Maximum"), broadcast),
    **dict.fromkeys(("Conv2d", "DepthwiseConv2d", "ConvTranspose2d"), _convolution),
    **dict.fromkeys(("AvgPooling2d", "MaxPooling2d"), _pool),
    **dict.fromkeys((op for op in schema.OPERATORS if op.startswith("Concatenate")), _concatenate),
    "PReLU": _prelu,
    "FullyConnected": _fully_connected,
    "GlobalAvgPooling2d": _global_pool,
    "StaticResizeBilinear2D": _resize,
    "StaticTranspose": _transpose,
    "StaticReshape": _reshape,
    "StaticSlice": _slice,
    "StaticConstantPad": _constant_pad,
    "BatchMatrixMultiply": _batch_matrix_multiply,
}
