"""Small XNNPACK subgraphs, written by hand, that together use every operator and every type of the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.xnn_model import (
    ABSENT,
    KEEP_DIMS,
    Array,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
    XModel,
    XNode,
    XValue,
    packed_int4,
)
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape
from npu_assay.reference.affine import Affine

X, Y = Affine(0.05, 3), Affine(0.125, -2)
INFINITY = float("inf")
BINARY = ("Add", "Div", "Maximum", "Minimum", "Multiply", "Subtract")
CONVOLUTION: dict[str, Any] = {
    "padding_top": 1, "padding_right": 1, "padding_bottom": 1, "padding_left": 1, "kernel_height": 3,
    "kernel_width": 3, "subsampling_height": 2, "subsampling_width": 1, "dilation_height": 1, "dilation_width": 1,
    "group_input_channels": 3, "group_output_channels": 4, "groups": 1, "adjustment_height": 0,
    "adjustment_width": 0,
}  # fmt: skip
POOL: dict[str, Any] = {
    "padding_top": 1, "padding_right": 0, "padding_bottom": 0, "padding_left": 1, "pooling_height": 2,
    "pooling_width": 3, "stride_height": 2, "stride_width": 1, "dilation_height": 1, "dilation_width": 1,
}  # fmt: skip


def number(dtype: str, *shape: int, **more: Any) -> XValue:
    """A value of real numbers, or any other with its fields."""
    return XValue(dtype, shape, **more)


def coded(q: Affine, *shape: int) -> XValue:
    """A value of int8 codes."""
    return XValue("qint8", shape, PerTensor(q.scale32, q.zero_point))


def model(values: Sequence[XValue], nodes: Sequence[XNode], inputs: Sequence[int], outputs: Sequence[int]) -> XModel:
    """A subgraph whose inputs and outputs get their external ids here."""
    arguments = (*inputs, *outputs)
    placed = [replace(v, external=arguments.index(i)) if i in arguments else v for i, v in enumerate(values)]
    return XModel(tuple(placed), tuple(nodes), tuple(inputs), tuple(outputs))


def unary(op: str, x: XValue, y: XValue, limits: tuple[float, float] | None = None, **options: Any) -> XModel:
    """One operator of one value."""
    return model([x, y], [XNode(op, (0,), (1,), options, limits=limits)], (0,), (1,))


def codes(seed: int, *shape: int, low: int = -128, high: int = 127) -> torch.Tensor:
    """Random int8 codes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int8)


def reals(seed: int, *shape: int) -> torch.Tensor:
    """Random float32 numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------ one operator each


def chain(x: XValue, steps: Sequence[tuple[XNode, XValue]], *more: XValue) -> XModel:
    """An input, other operands (those without data are inputs, too), and one result per step; shapes are inferred.

    Values are numbered in that order.
    """
    values = [x, *more]
    inputs = [index for index, value in enumerate(values) if value.data is None]
    nodes = []
    for node, result in steps:
        shape = output_shape(node, [values[index].shape for index in node.inputs if index != ABSENT])
        nodes.append(replace(node, outputs=(len(values),)))
        values.append(replace(result, shape=shape))
    return model(values, nodes, inputs, (len(values) - 1,))


def one(op: str, x: XValue, *more: XValue, y: XValue | None = None, flags: int = 0, **options: Any) -> XModel:
    """One operator, with a result of the first operand's type unless told otherwise."""
    limits = options.pop("limits", None)
    inputs = tuple(range(1 + len(more)))
    inputs += (ABSENT,) * (len(schema.OPERATORS[op].inputs) - len(inputs))
    return chain(x, [(XNode(op, inputs, (), options, flags, limits), x if y is None else y)], *more)


def weights(dtype: str, *shape: int, axis: int = 0) -> XValue:
    """A constant filter of random numbers or codes."""
    data: Array = codes(len(shape), *shape).numpy()
    count = shape[axis] if shape else 0
    match dtype:
        case "fp32":
            return number(dtype, *shape, data=reals(1, *shape).numpy())
        case "fp16":
            return number(dtype, *shape, data=reals(1, *shape).numpy().astype(np.float16))
        case "bf16":
            return number(dtype, *shape, data=reals(1, *shape).bfloat16().view(torch.int16).numpy().view(np.uint16))
        case "qint8":
            return number(dtype, *shape, quant=PerTensor(0.0078125, 0), data=data)
        case "qcint8":
            return number(
                dtype, *shape, quant=PerChannel(np.linspace(0.001, 0.01, count).astype("f4"), axis), data=data
            )
        case "qcint4":
            quant = PerChannel(np.linspace(0.01, 0.1, count).astype("f4"), 0)
            return number(dtype, *shape, quant=quant, data=packed_int4(data >> 4))
        case _:
            groups = PerGroup(np.full((shape[0], shape[1] // 32), 0.0625, np.float32), 32)
            return number("qbint4", *shape, quant=groups, data=packed_int4(data >> 4))


def bias(dtype: str, count: int) -> XValue:
    """A constant bias of numbers or int32 codes."""
    if dtype in ("fp32", "fp16"):
        return number(dtype, count, data=reals(2, count).numpy().astype("f4" if dtype == "fp32" else "f2"))
    data = np.arange(-count, count, 2, dtype=np.int32)
    quant = PerTensor(2.0**-11, 0) if dtype == "qint32" else PerChannel(np.full(count, 2.0**-11, np.float32), 0)
    return number(dtype, count, quant=quant, data=data)


def _elementwise() -> Iterator[XModel]:
    for op, operator in schema.OPERATORS.items():
        if operator.inputs == ("input_id",) and not operator.options and op not in _NOT_ELEMENTWISE:
            yield one(op, number("fp32", 2, 3))
            yield one(op, number("fp16", 2, 3))
    for op in BINARY:
        yield one(op, number("fp32", 2, 3), number("fp32", 3))
    for op in ("Add", "Multiply", "Subtract"):
        yield one(op, coded(X, 2, 3), coded(Y, 2, 3), y=coded(Y), limits=(0.0, INFINITY))
    yield one("Clamp", number("fp32", 2, 3), limits=(0.0, 6.0))
    yield one("Clamp", coded(X, 2, 3), y=coded(Y), limits=(-1.0, INFINITY))
    yield one("ELU", number("fp32", 2, 3), alpha=0.5)
    yield one("LeakyReLU", number("fp32", 2, 3), negative_slope=0.25)
    yield one("PReLU", number("fp32", 1, 2, 3, 4), weights("fp32", 4))
    yield one("Convert", number("fp32", 2, 3), y=coded(X))
    yield one("Convert", coded(X, 2, 3), y=number("fp16"))


_NOT_ELEMENTWISE = ("Clamp", "Convert", "GlobalAvgPooling2d")


def _movement() -> Iterator[XModel]:
    image = coded(X, 1, 3, 4, 2)
    yield one("Copy", coded(X, 2, 3))
    yield one("StaticTranspose", image, perm=(0, 3, 1, 2))
    yield one("StaticReshape", image, new_shape=(0, 12))
    yield one("StaticSlice", image, offsets=(0, 1, 0, 1), sizes=(1, 2, 4, 1))
    pads: dict[str, Any] = {"pre_paddings": (0, 1, 0, 0), "post_paddings": (0, 0, 2, 0), "padding_value": 0.5}
    yield one("StaticConstantPad", number("fp32", 1, 3, 4, 2), **pads)
    for count in range(2, 6):
        yield one(f"Concatenate{count}", *[coded(X, 2, size) for size in range(1, count + 1)], axis=1)


def _images() -> Iterator[XModel]:
    image, small = number("fp32", 1, 4, 5, 3), coded(X, 1, 4, 5, 3)
    yield one("AvgPooling2d", image, flags=KEEP_DIMS, **POOL)
    yield one("MaxPooling2d", small, flags=KEEP_DIMS, **POOL)
    yield one("GlobalAvgPooling2d", image)
    yield one("GlobalAvgPooling2d", small, y=coded(Y), flags=KEEP_DIMS)
    yield one("StaticResizeBilinear2D", image, new_height=7, new_width=3)
    yield one("BatchMatrixMultiply", number("fp32", 2, 3, 4), number("fp32", 2, 4, 5))
    yield one("Conv2d", image, weights("fp32", 4, 3, 3, 3), bias("fp32", 4), **CONVOLUTION)
    yield one("Conv2d", small, weights("qcint8", 4, 3, 3, 3), bias("qcint32", 4), y=coded(Y), **CONVOLUTION)
    yield one("ConvTranspose2d", small, weights("qint8", 4, 3, 3, 3), bias("qint32", 4), y=coded(Y), **CONVOLUTION)
    depthwise = CONVOLUTION | {"groups": 3, "group_input_channels": 1, "group_output_channels": 2}
    yield one("DepthwiseConv2d", image, weights("fp32", 1, 3, 3, 6), **depthwise)
    yield one("DepthwiseConv2d", small, weights("qcint8", 1, 3, 3, 6, axis=3), y=coded(Y), **depthwise)


def _products() -> Iterator[XModel]:
    for dtype in ("fp32", "fp16", "bf16"):
        yield one("FullyConnected", number(dtype, 2, 4), weights(dtype, 3, 4), y=number(dtype))
    yield one("FullyConnected", number("fp32", 2, 4), weights("fp32", 4, 3), bias("fp32", 3), flags=1)
    yield one("FullyConnected", number("fp32", 2, 4), number("fp32", 3, 4))
    yield one("FullyConnected", coded(X, 2, 4), weights("qint8", 3, 4), bias("qint32", 3), y=coded(Y))
    yield one("FullyConnected", coded(X, 2, 4), weights("qcint8", 3, 4), bias("qcint32", 3), y=coded(Y))
    for dtype in ("qcint8", "qcint4", "qbint4"):
        yield dynamic(weights(dtype, 3, 32), bias("fp32", 3))
    filters = weights("qcint8", 4, 3, 3, 3)
    converted = XNode("Convert", (0,), ()), number("qdint8", quant=PerToken(3))
    made = XNode("Conv2d", (2, 1, ABSENT), (), CONVOLUTION), number("fp32")
    yield chain(number("fp32", 1, 4, 5, 3), [converted, made], filters)


def dynamic(matrix: XValue, added: XValue | None = None, rows: int = 2) -> XModel:
    """A product of activations that are quantized at run time."""
    more = [matrix] if added is None else [matrix, added]
    convert = XNode("Convert", (0,), ()), number("qdint8", quant=PerToken(1))
    place = 1 + len(more)
    product = XNode("FullyConnected", (place, 1, ABSENT if added is None else 2), ())
    return chain(number("fp32", rows, matrix.shape[1]), [convert, (product, number("fp32"))], *more)


def _whole() -> Iterator[XModel]:
    """Several operators, several arguments, channels-last and scalar ones."""
    image = number("fp32", 1, 2, 3, 4)
    graph = model(
        [image, image, image, number("fp32", 1), image],
        [XNode("Abs", (0,), (1,)), XNode("Add", (1, 3), (2,)), XNode("Negate", (1,), (4,))],
        (0, 3),
        (2, 4),
    )
    yield replace(graph, channels_last=(0, 2), scalars=(3,))


_FAMILIES: Sequence[Callable[[], Iterator[XModel]]] = (_elementwise, _movement, _images, _products, _whole)
MODELS = {
    f"{index}-{graph.nodes[-1].op}-{graph.values[0].dtype}": graph
    for index, graph in enumerate(graph for family in _FAMILIES for graph in family())
}
"""Every operator of the schema, by a name that tells them apart."""
