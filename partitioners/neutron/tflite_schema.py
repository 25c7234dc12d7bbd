"""The part of the TFLite schema (schema.fbs, version 3) that int8 models need.

Slots, operator codes, union members and enum values are those of `tensorflow/lite/schema/schema.fbs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from npu_assay.partitioners.exir.flatbuffer import Nested, Numbers, Scalar, String, Table, Tables, Union

IDENTIFIER: Final = b"TFL3"
SCHEMA_VERSION: Final = 3
BUFFER_ALIGNMENT: Final = 16

DTYPES: Final = {"float32": 0, "int32": 2, "int64": 4, "int8": 9}
"""TensorType of each tensor dtype."""

ENUMS: Final[Mapping[str, tuple[str, ...]]] = {
    "padding": ("SAME", "VALID"),
    "fused_activation_function": ("NONE", "RELU", "RELU_N1_TO_1", "RELU6"),
}
"""Option fields that hold an enum, with the names of the values 0, 1, ..."""

_BYTE, _BOOL, _INT, _UINT, _FLOAT = Scalar("int8"), Scalar("bool"), Scalar("int32"), Scalar("uint32"), Scalar("float32")
_ONE: Final = Scalar("int32", 1)


def _options(name: str, *fields: tuple[str, Scalar | Numbers] | None) -> Table:
    """An options table whose fields fill the slots in order; None skips a slot that is not used any more."""
    return Table(name, {field[0]: (slot, field[1]) for slot, field in enumerate(fields) if field})


_PADDING, _STRIDE_W, _STRIDE_H = ("padding", _BYTE), ("stride_w", _INT), ("stride_h", _INT)
_FUSED = ("fused_activation_function", _BYTE)
_DILATION = (("dilation_w_factor", _ONE), ("dilation_h_factor", _ONE))
_BIAS_TYPE = ("quantized_bias_type", _BYTE)
_ALIGN, _HALF = ("align_corners", _BOOL), ("half_pixel_centers", _BOOL)
_POT = ("pot_scale_int16", Scalar("bool", True))
_ASYMMETRIC = ("asymmetric_quantize_inputs", _BOOL)

OPTIONS: Final[Mapping[int, Table]] = {
    1: _options("Conv2DOptions", _PADDING, _STRIDE_W, _STRIDE_H, _FUSED, *_DILATION, _BIAS_TYPE),
    2: _options(
        "DepthwiseConv2DOptions", _PADDING, _STRIDE_W, _STRIDE_H, ("depth_multiplier", _INT), _FUSED, *_DILATION
    ),
    5: _options(
        "Pool2DOptions", _PADDING, _STRIDE_W, _STRIDE_H, ("filter_width", _INT), ("filter_height", _INT), _FUSED
    ),
    8: _options(
        "FullyConnectedOptions", _FUSED, ("weights_format", _BYTE), ("keep_num_dims", _BOOL), _ASYMMETRIC, _BIAS_TYPE
    ),
    9: _options("SoftmaxOptions", ("beta", _FLOAT)),
    10: _options("ConcatenationOptions", ("axis", _INT), _FUSED),
    11: _options("AddOptions", _FUSED, _POT),
    15: _options("ResizeBilinearOptions", None, None, _ALIGN, _HALF),
    17: _options("ReshapeOptions", ("new_shape", Numbers("int32"))),
    21: _options("MulOptions", _FUSED),
    22: _options("PadOptions"),
    26: _options("TransposeOptions"),
    27: _options("ReducerOptions", ("keep_dims", _BOOL)),
    28: _options("SubOptions", _FUSED, _POT),
    33: _options("ExpOptions"),
    39: _options("MaximumMinimumOptions"),
    43: _options("PadV2Options"),
    48: _options("SliceOptions"),
    49: _options("TransposeConvOptions", _PADDING, _STRIDE_W, _STRIDE_H, _FUSED, _BIAS_TYPE),
    74: _options("ResizeNearestNeighborOptions", _ALIGN, _HALF),
    75: _options("LeakyReluOptions", ("alpha", _FLOAT)),
    78: _options("AbsOptions"),
    89: _options("QuantizeOptions"),
    101: _options("BatchMatMulOptions", ("adj_x", _BOOL), ("adj_y", _BOOL), _ASYMMETRIC),
}
"""BuiltinOptions members: the union's type number and its table."""


@dataclass(frozen=True)
class OperatorKind:
    """One builtin operator.

    `number` is its BuiltinOperator value, `options` its options' type in the union (0: none), `version` the
    one that int8 needs and `newest` the last one that LiteRT's reference kernels register.
    """

    number: int
    options: int
    version: int
    newest: int


OPERATORS: Final[Mapping[str, OperatorKind]] = {
    "ABS": OperatorKind(101, 78, 2, 3),
    "ADD": OperatorKind(0, 11, 2, 5),
    "AVERAGE_POOL_2D": OperatorKind(1, 5, 2, 3),
    "BATCH_MATMUL": OperatorKind(126, 101, 2, 4),
    "CONCATENATION": OperatorKind(2, 10, 2, 7),
    "CONV_2D": OperatorKind(3, 1, 3, 8),
    "DEPTHWISE_CONV_2D": OperatorKind(4, 2, 3, 6),
    "EXP": OperatorKind(47, 33, 2, 2),
    "FULLY_CONNECTED": OperatorKind(9, 8, 4, 14),
    "LEAKY_RELU": OperatorKind(98, 75, 2, 2),
    "LOG": OperatorKind(73, 0, 2, 2),
    "LOGISTIC": OperatorKind(14, 0, 2, 3),
    "MAXIMUM": OperatorKind(55, 39, 2, 4),
    "MAX_POOL_2D": OperatorKind(17, 5, 2, 3),
    "MEAN": OperatorKind(40, 27, 2, 3),
    "MINIMUM": OperatorKind(57, 39, 2, 4),
    "MUL": OperatorKind(18, 21, 2, 7),
    "PAD": OperatorKind(34, 22, 2, 6),
    "PADV2": OperatorKind(60, 43, 2, 6),
    "PRELU": OperatorKind(54, 0, 1, 1),
    "QUANTIZE": OperatorKind(114, 89, 2, 6),
    "REDUCE_MAX": OperatorKind(82, 27, 2, 3),
    "REDUCE_MIN": OperatorKind(89, 27, 2, 3),
    "RELU": OperatorKind(19, 0, 2, 3),
    "RELU6": OperatorKind(21, 0, 2, 3),
    "RELU_0_TO_1": OperatorKind(152, 0, 1, 1),
    "RELU_N1_TO_1": OperatorKind(20, 0, 1, 1),
    "RESHAPE": OperatorKind(22, 17, 1, 1),
    "RESIZE_BILINEAR": OperatorKind(23, 15, 2, 4),
    "RESIZE_NEAREST_NEIGHBOR": OperatorKind(97, 74, 2, 4),
    "SLICE": OperatorKind(65, 48, 2, 8),
    "SOFTMAX": OperatorKind(25, 9, 2, 3),
    "SUB": OperatorKind(41, 28, 2, 5),
    "SUM": OperatorKind(74, 27, 2, 2),
    "TANH": OperatorKind(28, 0, 2, 3),
    "TRANSPOSE": OperatorKind(39, 26, 2, 8),
    "TRANSPOSE_CONV": OperatorKind(67, 49, 2, 5),
}
"""Every operator that is written and read."""


OPERATOR_CODE: Final = Table(
    "OperatorCode",
    {
        "deprecated_builtin_code": (0, _BYTE),
        "custom_code": (1, String()),
        "version": (2, _ONE),
        "builtin_code": (3, _INT),
    },
)
QUANTIZATION: Final = Table(
    "QuantizationParameters",
    {
        "scale": (2, Numbers("float32")),
        "zero_point": (3, Numbers("int64")),
        "details_type": (4, Scalar("uint8")),
        "quantized_dimension": (6, _INT),
    },
)
TENSOR: Final = Table(
    "Tensor",
    {
        "shape": (0, Numbers("int32")),
        "type": (1, _BYTE),
        "buffer": (2, _UINT),
        "name": (3, String()),
        "quantization": (4, Nested(QUANTIZATION)),
        "is_variable": (5, _BOOL),
    },
)
OPERATOR: Final = Table(
    "Operator",
    {
        "opcode_index": (0, _UINT),
        "inputs": (1, Numbers("int32")),
        "outputs": (2, Numbers("int32")),
        "builtin_options_type": (3, Scalar("uint8")),
        "builtin_options": (4, Union("builtin_options_type", OPTIONS)),
    },
)
SUBGRAPH: Final = Table(
    "SubGraph",
    {
        "tensors": (0, Tables(TENSOR)),
        "inputs": (1, Numbers("int32")),
        "outputs": (2, Numbers("int32")),
        "operators": (3, Tables(OPERATOR)),
        "name": (4, String()),
    },
)
BUFFER: Final = Table("Buffer", {"data": (0, Numbers("uint8", align=BUFFER_ALIGNMENT))})
METADATA: Final = Table("Metadata", {"name": (0, String()), "buffer": (1, _UINT)})
MODEL: Final = Table(
    "Model",
    {
        "version": (0, _UINT),
        "operator_codes": (1, Tables(OPERATOR_CODE)),
        "subgraphs": (2, Tables(SUBGRAPH)),
        "description": (3, String()),
        "buffers": (4, Tables(BUFFER)),
        "metadata": (6, Tables(METADATA)),
    },
)
