"""Small TFLite models, written by hand, that together use every operator of the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from npu_assay.partitioners.neutron.tflite import Model, Operator, Tensor

UNIT = (1 / 256, -128)


class Sketch:
    """Collects tensors and operators; every method returns the index of the tensor it makes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.inputs: list[int] = []

    def tensor(self, shape: Sequence[int], quant: tuple[float, int]) -> int:
        self.tensors.append(_tensor(f"t{len(self.tensors)}", shape, quant))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], quant: tuple[float, int] = (0.05, 3)) -> int:
        self.inputs.append(self.tensor(shape, quant))
        return self.inputs[-1]

    def numbers(self, values: object) -> int:
        data = np.asarray(values, np.int32)
        self.tensors.append(Tensor(f"c{len(self.tensors)}", data.shape, "int32", data))
        return len(self.tensors) - 1

    def codes(self, shape: Sequence[int], quant: tuple[float, int] = (0.02, 0)) -> int:
        data = self.random.integers(-127, 128, tuple(shape)).astype(np.int8)
        self.tensors.append(replace(_tensor(f"c{len(self.tensors)}", shape, quant), data=data))
        return len(self.tensors) - 1

    def weights(self, shape: Sequence[int], axis: int, x: int, bias: int) -> tuple[int, int]:
        """Per-channel weights along `axis` and the int32 bias that goes with input `x` at their channel count."""
        count = shape[axis]
        scales = tuple(float(s) for s in self.random.uniform(0.002, 0.02, count).astype(np.float32))
        data = self.random.integers(-127, 128, tuple(shape)).astype(np.int8)
        self.tensors.append(Tensor(f"w{len(self.tensors)}", data.shape, "int8", data, scales, (0,) * count, axis))
        products = tuple(float(np.float32(self.tensors[x].scales[0] * scale)) for scale in scales)
        values = self.random.integers(-bias, bias + 1, count).astype(np.int32)
        self.tensors.append(Tensor(f"b{len(self.tensors)}", (count,), "int32", values, products, (0,) * count))
        return len(self.tensors) - 2, len(self.tensors) - 1

    def op(self, code: str, inputs: Sequence[int], shape: Sequence[int], quant: Any = None, **options: Any) -> int:
        """An operator whose output has `quant`, or by default the first input's quantization."""
        first = self.tensors[inputs[0]]
        result = self.tensor(shape, quant or (first.scales[0], first.zero_points[0]))
        self.operators.append(Operator(code, tuple(inputs), (result,), options))
        return result

    def model(self, *outputs: int) -> Model:
        return Model(tuple(self.tensors), tuple(self.operators), tuple(self.inputs), outputs, "sketch")


def _tensor(name: str, shape: Sequence[int], quant: tuple[float, int]) -> Tensor:
    return Tensor(name, tuple(shape), "int8", None, (float(np.float32(quant[0])),), (quant[1],))


def classifier(seed: int = 0) -> Model:
    """Padding, convolutions, pools and dense layers, down to a softmax."""
    s = Sketch(seed)
    x = s.input((1, 11, 9, 3))
    s.tensors.append(Tensor("fill", (), "int8", np.asarray(-9, np.int8), s.tensors[x].scales, (3,)))
    fill = len(s.tensors) - 1
    x = s.op("PADV2", [x, s.numbers([[0, 0], [1, 1], [2, 1], [0, 0]]), fill], (1, 13, 12, 3))
    w, b = s.weights((8, 3, 2, 3), 0, x, 2000)
    valid = {"padding": "VALID", "stride_h": 2, "stride_w": 1, "fused_activation_function": "RELU6"}
    x = s.op("CONV_2D", [x, w, b], (1, 6, 11, 8), (0.024, -128), **valid)
    w, b = s.weights((1, 3, 3, 16), 3, x, 2000)
    same = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "depth_multiplier": 2, "dilation_w_factor": 2}
    x = s.op("DEPTHWISE_CONV_2D", [x, w, b], (1, 6, 11, 16), (0.1, 5), **same)
    w, b = s.weights((4, 1, 1, 8), 0, x, 2000)
    x = s.op("CONV_2D", [x, w, b], (1, 6, 11, 4), (0.2, -3), padding="VALID", stride_h=1, stride_w=1)
    pool = {"filter_height": 2, "filter_width": 3, "stride_h": 2, "stride_w": 3}
    a = s.op("AVERAGE_POOL_2D", [x], (1, 3, 4, 4), padding="SAME", **pool)
    m = s.op("MAX_POOL_2D", [x], (1, 3, 3, 4), padding="VALID", **pool)
    r = s.op("RESHAPE", [a, s.numbers([2, -1])], (2, 24), new_shape=(2, -1))
    w, b = s.weights((5, 24), 0, r, 3000)
    r = s.op("FULLY_CONNECTED", [r, w, b], (2, 5), (0.1, 7), keep_num_dims=True)
    w = s.codes((6, 5))
    r = s.op("FULLY_CONNECTED", [r, w], (2, 6), (0.05, -7))
    return s.model(s.op("SOFTMAX", [r], (2, 6), UNIT, beta=1.0), m)


def arithmetic(seed: int = 0) -> Model:
    """Element-wise operators with broadcasting, constants and rescales, joined at the end."""
    s = Sketch(seed)
    x, z = s.input((1, 4, 6, 8), (0.03, -5)), s.input((1, 1, 6, 8), (0.07, 11))
    shape = (1, 4, 6, 8)
    parts = [
        s.op("ADD", [x, z], shape, (0.06, 1), fused_activation_function="NONE"),
        s.op("SUB", [s.codes(()), x], shape, (0.05, 2)),
        s.op("MUL", [x, z], shape, (0.04, 4), fused_activation_function="RELU"),
        s.op("ABS", [x], shape, (0.02, -100)),
        s.op("RELU", [x], shape, (0.02, -128)),
        s.op("RELU6", [z], (1, 1, 6, 8), (0.024, -128)),
        s.op("RELU_N1_TO_1", [x], shape, (0.011, 0)),
        s.op("RELU_0_TO_1", [x], shape, (0.005, -128)),
        s.op("LEAKY_RELU", [x], shape, (0.03, -60), alpha=0.1875),
        s.op("PRELU", [x, s.codes((8,))], shape, (0.04, 9)),
        s.op("TANH", [x], shape, (1 / 128, 0)),
        s.op("LOGISTIC", [z], (1, 1, 6, 8), UNIT),
        s.op("EXP", [x], shape, (0.2, -128)),
        s.op("LOG", [z], (1, 1, 6, 8), (0.03, 0)),
        s.op("MAXIMUM", [x, s.codes((6, 1), (0.03, -5))], shape),
        s.op("MINIMUM", [s.codes((8,), (0.07, 11)), z], (1, 1, 6, 8), (0.07, 11)),
        s.op("REDUCE_MAX", [x, s.numbers([1])], (1, 1, 6, 8), keep_dims=True),
        s.op("REDUCE_MIN", [x, s.numbers([-3])], (1, 1, 6, 8), keep_dims=True),
    ]
    total = s.op("SUM", [x, s.numbers([1])], (1, 1, 6, 8), (0.1, 3), keep_dims=True)
    parts = [s.op("QUANTIZE", [part], s.tensors[part].shape, (0.025, -10)) for part in parts]
    rows = sum(s.tensors[part].shape[1] for part in parts)
    joined = s.op("CONCATENATION", parts, (1, rows, 6, 8), axis=-3)
    mean = s.op("MEAN", [joined, s.numbers([1, -2])], (1, 1, 1, 8), (0.02, 1), keep_dims=True)
    return s.model(joined, mean, total)


def movement(seed: int = 0) -> Model:
    """Data movement, resizes, transposed convolution and matrix products of computed operands."""
    s = Sketch(seed)
    x, other = s.input((1, 3, 4, 8)), s.input((1, 8, 12), (0.04, -2))
    t = s.op("TRANSPOSE", [x, s.numbers([0, 3, 1, 2])], (1, 8, 3, 4))
    t = s.op("TRANSPOSE", [t, s.numbers([0, 2, 3, 1])], (1, 3, 4, 8))
    p = s.op("PAD", [t, s.numbers([[0, 0], [1, 0], [0, 2], [0, 0]])], (1, 4, 6, 8))
    c = s.op("SLICE", [p, s.numbers([0, 0, 1, 0]), s.numbers([1, 4, 4, -1])], (1, 4, 4, 8))
    size = s.numbers([8, 8])
    u = s.op("RESIZE_BILINEAR", [c, size], (1, 8, 8, 8), half_pixel_centers=True)
    n = s.op("RESIZE_NEAREST_NEIGHBOR", [c, size], (1, 8, 8, 8))
    w, b = s.weights((5, 1, 4, 8), 0, x, 1000)
    shape = s.numbers([1, 3, 10, 5])
    s.tensors.append(_tensor("deconvolved", (1, 3, 10, 5), (0.1, 2)))
    deconvolved = len(s.tensors) - 1
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 2}
    s.operators.append(Operator("TRANSPOSE_CONV", (shape, w, x, b), (deconvolved,), options))
    a = s.op("RESHAPE", [x], (1, 12, 8), new_shape=(1, 12, 8))
    bmm = s.op("BATCH_MATMUL", [a, other], (1, 12, 12), (0.3, 5))
    adj = s.op("BATCH_MATMUL", [a, other], (1, 8, 8), (0.3, 5), adj_x=True, adj_y=True)
    flat = s.op("RESHAPE", [adj, s.numbers([8, 8])], (8, 8))
    rows = s.op("RESHAPE", [a, s.numbers([12, 8])], (12, 8))
    dense = s.op("FULLY_CONNECTED", [rows, flat, -1], (12, 8), (0.9, -4))
    return s.model(u, n, deconvolved, bmm, dense)


MODELS: tuple[Callable[[int], Model], ...] = (classifier, arithmetic, movement)


def random_inputs(model: Model, seed: int) -> list[torch.Tensor]:
    """Full-range int8 codes for every input."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [model.tensors[index].shape for index in model.inputs]
    return [torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8) for shape in shapes]


def transposed_convolution() -> Model:
    """Windows of 2 x 3 of 4 channels, 7 of the results of each of which are kept."""
    s = Sketch(7)
    x = s.input((2, 3, 5, 4))
    w, b = s.weights((7, 2, 3, 4), 0, x, 9)
    shape = (2, 4, 13, 7)
    y = s.op("TRANSPOSE_CONV", [s.numbers(shape), w, x, b], shape, (0.1, 2), padding="VALID", stride_h=1, stride_w=2)
    return s.model(y)
