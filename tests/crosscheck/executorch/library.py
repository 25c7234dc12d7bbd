"""Runs subgraphs on the XNNPACK library inside the executorch wheel, through its C interface.

No program, no delegate blob: values and nodes are defined one by one as in xnnpack.h, so that a difference is the
arithmetic's. Needs executorch (any version that ships `libexecutorch_backend_xnnpack.so`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_assay.partitioners.xnnpack.xnn_model import PerChannel, PerGroup, PerTensor, PerToken, XModel, XNode, XValue

Array = npt.NDArray[Any]

_DATATYPES = {
    "fp32": 1, "fp16": 2, "qint8": 3, "qint32": 5, "qcint8": 6, "qcint32": 7, "qcint4": 8, "qdint8": 9, "qbint4": 12,
}  # fmt: skip
_NUMPY = {"fp32": np.float32, "fp16": np.float16, "qint8": np.int8}
_NONE = 0xFFFFFFFF
_OVERREAD = 256

_LIMITED = {"Add": "add2", "Div": "divide", "Multiply": "multiply2", "Subtract": "subtract"}
_NAMES = {
    "Abs": "abs", "BatchMatrixMultiply": "batch_matrix_multiply", "Ceiling": "ceiling", "Convert": "convert",
    "Copy": "copy", "Exp": "exp", "Floor": "floor", "Gelu": "gelu", "Hardswish": "hardswish", "Log": "log",
    "Maximum": "maximum2", "Minimum": "minimum2", "Negate": "negate", "PReLU": "prelu",
    "ReciprocalSquareRoot": "reciprocal_square_root", "Sigmoid": "sigmoid", "Softmax": "softmax", "Square": "square",
    "SquareRoot": "square_root", "Tanh": "tanh",
}  # fmt: skip
_UNARY = {"Cos": 6, "Sin": 17}
"""Members of the C enum of unary operators that have no function of their own."""


class XnnpackError(RuntimeError):
    """The library refused a subgraph."""


class _External(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint32), ("data", ctypes.c_void_p))


u32, size, real, integer = ctypes.c_uint32, ctypes.c_size_t, ctypes.c_float, ctypes.c_int32


@cache
def _library() -> ctypes.CDLL:
    spec = find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise XnnpackError("executorch: not installed")
    found = ctypes.CDLL(str(Path(next(iter(spec.submodule_search_locations))) / "lib/libexecutorch_backend_xnnpack.so"))
    _checked("xnn_initialize", found.xnn_initialize(None))
    return found


def _checked(name: str, status: int) -> None:
    if status:
        raise XnnpackError(f"{name}: status {status}, expected 0")


def _call(name: str, *arguments: Any) -> None:
    _checked(name, getattr(_library(), name)(*arguments))


def _sizes(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_size_t]:
    return (ctypes.c_size_t * len(numbers))(*numbers)


def run(model: XModel, *inputs: Array) -> list[Array]:
    """Outputs for inputs of any shapes within the model's. Raises XnnpackError when the library refuses."""
    graph = _Subgraph(model)
    try:
        return graph.run(inputs)
    finally:
        graph.close()


class _Subgraph:
    def __init__(self, model: XModel) -> None:
        self.model, self.kept = model, list[Array]()
        self.graph, self.runtime = ctypes.c_void_p(), ctypes.c_void_p()
        externals = len(model.inputs) + len(model.outputs)
        _call("xnn_create_subgraph", u32(externals), u32(0), ctypes.byref(self.graph))
        self.ids = [self._value(index, value) for index, value in enumerate(model.values)]
        for node in model.nodes:
            self._node(node)
        _call("xnn_create_runtime_v2", self.graph, None, u32(0), ctypes.byref(self.runtime))

    def close(self) -> None:
        _library().xnn_delete_runtime(self.runtime)
        _library().xnn_delete_subgraph(self.graph)

    def _buffer(self, data: Array) -> Array:
        buffer = np.zeros(data.nbytes + _OVERREAD, np.uint8)
        buffer[: data.nbytes] = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        self.kept.append(buffer)
        return buffer

    def _pointer(self, data: Array | None) -> ctypes.c_void_p:
        return ctypes.c_void_p(None if data is None else self._buffer(data).ctypes.data)

    def _value(self, index: int, value: XValue) -> int:
        places, found = (*self.model.inputs, *self.model.outputs), u32()
        external = places.index(index) if index in places else _NONE
        flags = (index in self.model.inputs) * 1 + (index in self.model.outputs) * 2
        name, parameters, between = self._quantisation(value)
        shape = (size(len(value.shape)), *between, _sizes(value.shape))
        data = () if isinstance(value.quant, PerToken) else (self._pointer(value.data),)
        kind = ctypes.c_int(_DATATYPES[value.dtype])
        _call(name, self.graph, kind, *parameters, *shape, *data, u32(external), u32(flags), ctypes.byref(found))
        return found.value

    def _quantisation(self, value: XValue) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
        """The function that defines a value, and its arguments before and behind the rank."""
        match value.quant:
            case None:
                return "xnn_define_tensor_value", (), ()
            case PerTensor(scale, zero_point):
                return "xnn_define_quantized_tensor_value", (integer(zero_point), real(scale)), ()
            case PerChannel(scales, axis):
                zero_point = 8 if value.dtype == "qcint4" else 0
                given = (integer(zero_point), self._pointer(scales.astype(np.float32)))
                return "xnn_define_channelwise_quantized_tensor_value_v2", given, (size(axis),)
            case PerToken(axes):
                return "xnn_define_dynamically_quantized_tensor_value", (), (size(axes),)
            case PerGroup(scales, group, axis):
                halves = (scales.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
                given = (integer(8), self._pointer(halves))
                return "xnn_define_blockwise_quantized_tensor_value", given, (size(axis), size(group))

    def _node(self, node: XNode) -> None:
        inputs = [u32(_NONE if index < 0 else self.ids[index]) for index in node.inputs]
        ends = (*inputs, *(u32(self.ids[index]) for index in node.outputs), u32(node.flags))
        if node.op in _UNARY:
            _call("xnn_define_unary", self.graph, ctypes.c_int(_UNARY[node.op]), None, *ends)
        else:
            name, arguments = _definition(node)
            _call(f"xnn_define_{name}", self.graph, *arguments, *ends)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        buffers = [self._buffer(array) for array in inputs]
        for position, array in enumerate(inputs):
            shape = (size(array.ndim), _sizes(array.shape))
            _call("xnn_reshape_external_value", self.runtime, u32(position), *shape)
        _call("xnn_reshape_runtime", self.runtime)
        shapes = [self._shape(len(inputs) + position) for position in range(len(self.model.outputs))]
        types = [np.dtype(_NUMPY[self.model.values[index].dtype]) for index in self.model.outputs]
        buffers += [
            np.zeros(prod(shape) * kind.itemsize + _OVERREAD, np.uint8)
            for shape, kind in zip(shapes, types, strict=True)
        ]
        given = (_External * len(buffers))(*(_External(i, b.ctypes.data) for i, b in enumerate(buffers)))
        _call("xnn_setup_runtime_v2", self.runtime, size(len(buffers)), given)
        _call("xnn_invoke_runtime", self.runtime)
        return [
            buffer[:-_OVERREAD].view(kind).reshape(shape)
            for buffer, kind, shape in zip(buffers[len(inputs) :], types, shapes, strict=True)
        ]

    def _shape(self, external: int) -> tuple[int, ...]:
        rank, sizes = size(), _sizes([0] * 8)
        _call("xnn_get_external_value_shape", self.runtime, u32(external), ctypes.byref(rank), sizes)
        return tuple(sizes[: rank.value])


def _definition(node: XNode) -> tuple[str, list[Any]]:
    """The function of an operator, and its arguments between the subgraph and the values."""
    limits = [real(limit) for limit in node.limits or (-inf, inf)]
    if node.op in _NAMES:
        return _NAMES[node.op], []
    if node.op in _LIMITED:
        return _LIMITED[node.op], limits
    if node.op.startswith("Concatenate"):
        return f"concatenate{node.op[-1]}", [integer(node.options["axis"])]
    return _WITH_OPTIONS[node.op](node, limits)


Definition = tuple[str, list[Any]]


def _numbers(node: XNode, *names: str) -> list[Any]:
    sides = [f"{name}_{side}" for name in names for side in ("height", "width")]
    return [u32(node.options[name]) for name in sides]


def _paddings(node: XNode) -> list[Any]:
    return [u32(node.options[f"padding_{side}"]) for side in ("top", "right", "bottom", "left")]


def _convolution(node: XNode, limits: list[Any]) -> Definition:
    o = node.options
    window = [*_numbers(node, "kernel", "subsampling", "dilation")]
    if node.op == "DepthwiseConv2d":
        multiplier = o["group_output_channels"] // o["group_input_channels"]
        name, channels = "depthwise_convolution_2d", [u32(multiplier), size(o["groups"])]
    else:
        channels = [u32(o["groups"]), size(o["group_input_channels"]), size(o["group_output_channels"])]
        name = "convolution_2d" if node.op == "Conv2d" else "deconvolution_2d"
    extra = _numbers(node, "adjustment") if node.op == "ConvTranspose2d" else []
    return name, [*_paddings(node), *extra, *window, *channels, *limits]


def _pool(node: XNode, limits: list[Any]) -> Definition:
    dilation = _numbers(node, "dilation") if node.op == "MaxPooling2d" else []
    name = "max_pooling_2d" if node.op == "MaxPooling2d" else "average_pooling_2d"
    return name, [*_paddings(node), *_numbers(node, "pooling", "stride"), *dilation, *limits]


def _listed(name: str, *lists: str) -> Callable[[XNode, list[Any]], Definition]:
    """A function that takes a rank and lists of that many numbers."""

    def define(node: XNode, limits: list[Any]) -> Definition:
        numbers = [_sizes(node.options[each]) for each in lists]
        return name, [size(len(node.options[lists[0]])), *numbers]

    return define


def _pad(node: XNode, limits: list[Any]) -> Definition:
    o = node.options
    return "static_constant_pad", [_sizes(o["pre_paddings"]), _sizes(o["post_paddings"]), real(o["padding_value"])]


_WITH_OPTIONS: dict[str, Callable[[XNode, list[Any]], Definition]] = {
    **dict.fromkeys(("Conv2d", "ConvTranspose2d", "DepthwiseConv2d"), _convolution),
    **dict.fromkeys(("AvgPooling2d", "MaxPooling2d"), _pool),
    "Clamp": lambda node, limits: ("clamp", limits),
    "ELU": lambda node, limits: ("elu", [real(node.options["alpha"])]),
    "FullyConnected": lambda node, limits: ("fully_connected", limits),
    "GlobalAvgPooling2d": lambda node, limits: ("global_average_pooling_2d", limits),
    "LeakyReLU": lambda node, limits: ("leaky_relu", [real(node.options["negative_slope"])]),
    "StaticConstantPad": _pad,
    "StaticReshape": _listed("static_reshape", "new_shape"),
    "StaticResizeBilinear2D": lambda node, limits: (
        "static_resize_bilinear_2d",
        [size(node.options["new_height"]), size(node.options["new_width"])],
    ),
    "StaticSlice": _listed("static_slice", "offsets", "sizes"),
    "StaticTranspose": _listed("static_transpose", "perm"),
}
