"""Random XNNPACK subgraphs of one operator, by family: a model and its inputs for a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_assay.partitioners.xnnpack.xnn_model import (
    ABSENT,
    ALIGN_CORNERS,
    KEEP_DIMS,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
    Quantisation,
    XModel,
    XNode,
    XValue,
    packed_int4,
)
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

Array = npt.NDArray[Any]
FLOATS: dict[str, type[np.float32] | type[np.float16]] = {"fp32": np.float32, "fp16": np.float16}
LIMITS = (None, (0.0, inf), (0.0, 6.0), (-1.0, 1.0))


@dataclass(frozen=True)
class Program:
    model: XModel
    inputs: tuple[Array, ...]


class Draw:
    """Random numbers, values and arrays."""

    def __init__(self, seed: int) -> None:
        self.random, self.seed = np.random.default_rng(seed), seed

    def between(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def sizes(self, *highs: int) -> tuple[int, ...]:
        return tuple(self.between(1, high) for high in highs)

    def limits(self) -> tuple[float, float] | None:
        return LIMITS[self.seed % len(LIMITS)]

    def affine(self) -> PerTensor:
        return PerTensor(float(np.float32(self.random.uniform(0.005, 0.2))), self.between(-128, 127))

    def scales(self, count: int) -> Array:
        return self.random.uniform(0.001, 0.05, count).astype(np.float32)

    def codes(self, *shape: int) -> Array:
        """Full range; now and then all one extreme."""
        if self.seed % 11 == 0:
            return np.full(shape, (-128, 127)[self.seed % 2], np.int8)
        return self.random.integers(-128, 128, shape).astype(np.int8)

    def reals(self, dtype: str, *shape: int) -> Array:
        """Normal numbers; small integers (ties); one sign; a row of zeros."""
        found = self.random.normal(size=shape) * 4
        match self.seed % 4:
            case 1:
                found = np.round(found * 4) / 4
            case 2:
                found = -np.abs(found)
            case 3:
                found.reshape(-1, shape[-1])[0] = 0
        return found.astype(FLOATS[dtype])


def single(op: str, operands: list[XValue], inputs: tuple[Array, ...], y: Quantisation | None, **more: Any) -> Program:
    """One node on `operands`, of which those without data are the inputs."""
    products = ("FullyConnected", "Conv2d", "ConvTranspose2d", "DepthwiseConv2d")
    absent = (ABSENT,) if op in products and len(operands) == 2 else ()
    node = XNode(op, (*range(len(operands)), *absent), (len(operands),), **more)
    dtype = operands[0].dtype if operands[0].dtype != "qdint8" else "fp32"
    result = XValue(dtype, output_shape(node, [value.shape for value in operands]), y)
    ids = tuple(index for index, value in enumerate(operands) if value.data is None)
    return Program(placed(XModel((*operands, result), (node,), ids, (len(operands),))), inputs)


def placed(model: XModel) -> XModel:
    """The model with the places of its arguments written on their values."""
    ids = (*model.inputs, *model.outputs)
    values = [replace(v, external=ids.index(i)) if i in ids else v for i, v in enumerate(model.values)]
    return replace(model, values=tuple(values))


# ------------------------------------------------------------------------------------------------ families


def codes_binary(op: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        shape = d.sizes(3, 4, 40)
        other = shape if d.seed % 2 else (1, *shape[1:])
        values = [XValue("qint8", shape, d.affine()), XValue("qint8", other, d.affine())]
        return single(op, values, (d.codes(*shape), d.codes(*other)), d.affine(), limits=d.limits())

    return draw


def codes_clamp(d: Draw) -> Program:
    x = d.affine()
    limits = d.limits() or (0.75 * x.scale, inf)
    value = XValue("qint8", (256,), x)
    codes = np.arange(-128, 128).astype(np.int8)
    return single("Clamp", [value], (codes,), x if d.seed % 3 else d.affine(), limits=limits)


def codes_mean(d: Draw) -> Program:
    shape = d.sizes(2, 20, 20, 40)
    value = XValue("qint8", shape, d.affine())
    return single("GlobalAvgPooling2d", [value], (d.codes(*shape),), d.affine(), flags=KEEP_DIMS)


def weights(d: Draw, axis: int, *shape: int) -> XValue:
    codes = d.random.integers(-127, 128, shape).astype(np.int8)
    if d.seed % 2:
        return XValue("qcint8", shape, PerChannel(d.scales(shape[axis]), axis), codes)
    return XValue("qint8", shape, PerTensor(float(d.scales(1)[0]), 0), codes)


def bias(d: Draw, x: PerTensor, w: XValue, outputs: int) -> list[XValue]:
    codes = d.random.integers(-20000, 20000, outputs).astype(np.int32)
    if d.seed % 3 == 0:
        return []
    if isinstance(w.quant, PerChannel):
        return [XValue("qcint32", (outputs,), PerChannel(w.quant.scales * np.float32(x.scale), 0), codes)]
    assert isinstance(w.quant, PerTensor)
    step = float(np.float32(np.float32(w.quant.scale) * np.float32(x.scale)))
    return [XValue("qint32", (outputs,), PerTensor(step, 0), codes)]


def codes_linear(d: Draw) -> Program:
    rows, inputs, outputs = d.between(1, 5), int(d.random.choice([1, 7, 64, 333, 1024])), d.between(1, 40)
    x, w = d.affine(), weights(d, 0, outputs, inputs)
    operands = [XValue("qint8", (rows, inputs), x), w, *bias(d, x, w, outputs)]
    y = PerTensor(float(np.float32(d.random.uniform(0.05, 2))), d.between(-128, 127))
    return single("FullyConnected", operands, (d.codes(rows, inputs),), y, limits=d.limits())


def window(d: Draw, op: str) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]]:
    """Options of a convolution, the shape of its input and of its filter."""
    kernel, stride = d.sizes(3, 3), d.sizes(3, 3)
    dilation = (1, 1) if op == "ConvTranspose2d" and max(stride) > 1 else d.sizes(2, 2)
    groups, inputs, outputs = d.between(1, 3), d.between(2, 9), d.between(1, 9)
    if op == "DepthwiseConv2d":
        groups, inputs, outputs = d.between(2, 20), 1, 1
    if op == "ConvTranspose2d" and d.seed % 2:
        groups = 1
    options = {f"padding_{side}": d.between(0, 1) for side in ("top", "right", "bottom", "left")}
    options |= {"group_input_channels": inputs, "group_output_channels": outputs, "groups": groups}
    transposed = op == "ConvTranspose2d"
    for axis, (k, s, di) in enumerate(zip(kernel, stride, dilation, strict=True)):
        side = ("height", "width")[axis]
        options |= {f"kernel_{side}": k, f"subsampling_{side}": s, f"dilation_{side}": di}
        options[f"adjustment_{side}"] = d.between(0, s - 1) if transposed else 0
    channels = groups * outputs
    shape = (1, *kernel, channels) if op == "DepthwiseConv2d" else (channels, *kernel, inputs)
    return options, (d.between(1, 2), d.between(5, 9), d.between(5, 9), groups * inputs), shape


def codes_convolution(op: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        options, shape, filters = window(d, op)
        x, axis = d.affine(), 3 if op == "DepthwiseConv2d" else 0
        w = weights(d, axis, *filters)
        operands = [XValue("qint8", shape, x), w, *bias(d, x, w, filters[axis])]
        y = PerTensor(float(np.float32(d.random.uniform(0.05, 2))), d.between(-128, 127))
        return single(op, operands, (d.codes(*shape),), y, options=options, limits=d.limits())

    return draw


def quantised_at_run_time(program: Program, axes: int) -> Program:
    """The program with a float input that is quantized in front of its only node."""
    model, (node,) = program.model, program.model.nodes
    given = replace(model.values[0], external=0)
    inside = XValue("qdint8", given.shape, PerToken(axes))
    nodes = (XNode("Convert", (len(model.values),), (0,)), node)
    values = (inside, *model.values[1:], given)
    return Program(placed(XModel(values, nodes, (len(model.values),), model.outputs)), program.inputs)


def dynamic_linear(kind: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        inputs = int(d.random.choice([32, 64, 128, 512] if kind != "qcint8" else [1, 7, 64, 130, 513]))
        rows, outputs = d.between(1, 9), d.between(1, 40)
        low = -127 if kind == "qcint8" else -8
        codes = d.random.integers(low, -low, (outputs, inputs)).astype(np.int8)
        quant: Quantisation = PerChannel(d.scales(outputs), 0)
        if kind == "qbint4":
            halves = d.scales(outputs * inputs // 32).view(np.uint32) & np.uint32(0xFFFF0000)
            quant = PerGroup(halves.view(np.float32).reshape(outputs, -1), 32)
        w = XValue(kind, (outputs, inputs), quant, codes if kind == "qcint8" else packed_int4(codes))
        values = [XValue("fp32", (rows, inputs)), w]
        values += [XValue("fp32", (outputs,), data=d.reals("fp32", outputs))] if d.seed % 3 else []
        x = d.reals("fp32", rows, inputs)
        return quantised_at_run_time(single("FullyConnected", values, (x,), None, limits=d.limits()), 1)

    return draw


def dynamic_convolution(op: str, *, elements: bool = False) -> Callable[[Draw], Program]:
    """elements: only convolutions of single elements, which XNNPACK computes as matrix products."""

    def draw(d: Draw) -> Program:
        options, shape, filters = window(d, op)
        if elements:
            kept = {name: options[f"group_{name}"] for name in ("input_channels", "output_channels")}
            options = {name: int(name.startswith(("kernel", "subsampling", "dilation", "groups"))) for name in options}
            options |= {f"group_{name}": count for name, count in kept.items()}
            filters = (kept["output_channels"], 1, 1, kept["input_channels"])
            shape = (*shape[:3], kept["input_channels"])
        codes = d.random.integers(-127, 128, filters).astype(np.int8)
        values = [XValue("fp32", shape), XValue("qcint8", filters, PerChannel(d.scales(filters[0]), 0), codes)]
        values += [XValue("fp32", (filters[0],), data=d.reals("fp32", filters[0]))] if d.seed % 3 else []
        program = single(op, values, (d.reals("fp32", *shape),), None, options=options, limits=d.limits())
        return quantised_at_run_time(program, 3)

    return draw


def real_unary(op: str, dtype: str, **options: float) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        shape = d.sizes(3, 4, 150)
        x = d.reals(dtype, *shape)
        if op in ("Log", "SquareRoot", "ReciprocalSquareRoot"):
            x = np.abs(x) + FLOATS[dtype](1e-3)
        more: dict[str, Any] = {"limits": (-1.0, 2.0)} if op == "Clamp" else {}
        return single(op, [XValue(dtype, shape)], (x,), None, options=options, **more)

    return draw


def real_binary(op: str, dtype: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        shape = d.sizes(3, 4, 40)
        other = shape if d.seed % 2 else shape[2:]
        x, y = d.reals(dtype, *shape), d.reals(dtype, *other)
        if op == "Div":
            y = y + (y == 0).astype(y.dtype)  # no 0 / 0: where NaN meets a limit differs between kernels
        limits = d.limits() if op in ("Add", "Div", "Multiply", "Subtract") else None
        constant = op == "PReLU"
        values = [XValue(dtype, shape), XValue(dtype, other, data=y if constant else None)]
        return single(op, values, (x,) if constant else (x, y), None, limits=limits)

    return draw


def real_linear(dtype: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        rows, inputs, outputs = d.sizes(8, 300, 40)
        values = [XValue(dtype, (rows, inputs)), XValue(dtype, (outputs, inputs), data=d.reals(dtype, outputs, inputs))]
        values += [XValue(dtype, (outputs,), data=d.reals(dtype, outputs))] if d.seed % 3 else []
        return single("FullyConnected", values, (d.reals(dtype, rows, inputs),), None, limits=d.limits())

    return draw


def real_matmul(dtype: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        batch, m, k, n = d.sizes(3, 8, 100, 40)
        a, b = d.reals(dtype, batch, m, k), d.reals(dtype, batch, k, n)
        return single("BatchMatrixMultiply", [XValue(dtype, a.shape), XValue(dtype, b.shape)], (a, b), None)

    return draw


def real_convolution(op: str, dtype: str) -> Callable[[Draw], Program]:
    """Filters are fp32 in either precision."""

    def draw(d: Draw) -> Program:
        options, shape, filters = window(d, op)
        outputs = filters[3] if op == "DepthwiseConv2d" else filters[0]
        values = [XValue(dtype, shape), XValue("fp32", filters, data=d.reals("fp32", *filters))]
        values += [XValue("fp32", (outputs,), data=d.reals("fp32", outputs))] if d.seed % 3 else []
        return single(op, values, (d.reals(dtype, *shape),), None, options=options, limits=d.limits())

    return draw


def pool(op: str, dtype: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        shape, kernel = (d.between(1, 2), d.between(5, 12), d.between(5, 12), d.between(1, 40)), d.sizes(4, 4)
        kernel = (kernel[0], max(2, kernel[1]))
        options = {f"padding_{side}": d.between(0, 1) for side in ("top", "right", "bottom", "left")}
        options = {name: n if min(kernel) > 1 else 0 for name, n in options.items()}
        for axis, k in enumerate(kernel):
            side = ("height", "width")[axis]
            options |= {f"pooling_{side}": k, f"stride_{side}": d.between(1, k), f"dilation_{side}": 1}
        quant = d.affine() if dtype == "qint8" else None
        x = d.codes(*shape) if dtype == "qint8" else d.reals(dtype, *shape)
        return single(op, [XValue(dtype, shape, quant)], (x,), quant, options=options)

    return draw


def resize(dtype: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        shape = d.sizes(2, 9, 9, 20)
        options = {"new_height": d.between(2, 20), "new_width": d.between(2, 20)}
        flags = ALIGN_CORNERS * (d.seed % 2)
        x = d.reals(dtype, *shape)
        return single("StaticResizeBilinear2D", [XValue(dtype, shape)], (x,), None, options=options, flags=flags)

    return draw


def real_mean(dtype: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        shape = d.sizes(2, 20, 20, 40)
        return single("GlobalAvgPooling2d", [XValue(dtype, shape)], (d.reals(dtype, *shape),), None, flags=KEEP_DIMS)

    return draw


def conversion(given: str, wanted: str) -> Callable[[Draw], Program]:
    def draw(d: Draw) -> Program:
        q = d.affine()
        x: Array = np.arange(-128, 128).astype(np.int8)
        if given != "qint8":
            ties = (np.arange(-300, 300) + 0.5) * q.scale
            x = np.concatenate([d.reals(given, 500) * FLOATS[given](5 * q.scale), ties]).astype(FLOATS[given])
        source = XValue(given, x.shape, q if given == "qint8" else None)
        result = XValue(wanted, x.shape, q if wanted == "qint8" else None)
        return Program(placed(XModel((source, result), (XNode("Convert", (0,), (1,)),), (0,), (1,))), (x,))

    return draw
