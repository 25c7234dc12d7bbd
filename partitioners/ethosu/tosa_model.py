"""TOSA 1.0 graphs as plain records: what the compiler builds and the simulated device loads.

A graph is one block: tensors, SHAPE constants, and operators in execution order that refer to both by name.
Images are channels-last (NHWC). The graph is of the integer profile (PRO-INT) with 16-bit activations
(EXT-INT16); shapes are static.

`tosa_format` reads and writes the bytes (`write(model) -> bytes`, `read(bytes) -> TModel`), `tosa_check` has
the rules that every graph keeps: the operands' kinds, dtypes, shapes and ranks of each operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

NUMPY_TYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "BOOL": np.dtype(np.bool_),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT48": np.dtype(np.int64),
}
"""The numpy type of a constant by its TOSA dtype."""


@dataclass(frozen=True, eq=False)
class TTensor:
    """One tensor. `dtype` is a key of `NUMPY_TYPES`; a scalar has shape ().

    `data` makes it a constant: an array of that numpy type and of `shape` (INT48 numbers as int64).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: Array | None = None


@dataclass(frozen=True)
class TShape:
    """A SHAPE constant: an operand that counts elements (RESHAPE's new shape, PAD's padding, ...)."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class TOperator:
    """One operator: `code` is its name in TOSA ("CONV2D"), operands are names of tensors or shapes.

    `inputs` by operator (s: SHAPE constant, c: constant tensor; all others one or two tensors):
      CONV2D, CONV3D, DEPTHWISE_CONV2D, TRANSPOSE_CONV2D: x, weights, bias, c input_zp [1], c weight_zp [1]
      MATMUL: a, b, c a_zp [1], c b_zp [1]             AVG_POOL2D, NEGATE: x, c input_zp [1], c output_zp [1]
      RESCALE: x, c multiplier, c shift (INT8), c input_zp [1], c output_zp [1]
      MUL: a, b, c shift (INT8 [1])                    SELECT: condition, on_true, on_false
      TABLE: x, c table ([256] INT8 or [513] INT16)    PAD: x, s padding, c pad_const [1]
      RESHAPE: x, s shape      TILE: x, s multiples    SLICE: x, s start, s size
      RESIZE: x, s scale [4], s offset [2], s border [2]
      GATHER: values, indices  SCATTER: values_in, indices, input      CONCAT: one or more tensors
    `outputs` is one tensor.
    Weights: CONV2D and TRANSPOSE_CONV2D [O, kh, kw, I]; DEPTHWISE_CONV2D [kh, kw, I, M]; CONV3D [O, kd, kh, kw, I].

    `attributes` are named as in the TOSA 1.0 schema, enumerators as strings, vectors as tuples; those in
    brackets may be left out and then take the value given here, all others must be there:
      CONV2D, CONV3D, DEPTHWISE_CONV2D: pad, stride, dilation, acc_type, [local_bound False]
      TRANSPOSE_CONV2D: out_pad, stride, acc_type, [local_bound False]
      AVG_POOL2D: kernel, stride, pad, acc_type        MAX_POOL2D: kernel, stride, pad, [nan_mode "PROPAGATE"]
      CLAMP: min_val, max_val (integers), [nan_mode "PROPAGATE"]
      ARGMAX, REDUCE_MAX, REDUCE_MIN: axis, [nan_mode "PROPAGATE"]
      MAXIMUM, MINIMUM: [nan_mode "PROPAGATE"]
      REDUCE_SUM, REDUCE_ALL, REDUCE_ANY, CONCAT, REVERSE: axis
      ARITHMETIC_RIGHT_SHIFT: round                    TRANSPOSE: perms
      RESIZE: mode ("NEAREST" or "BILINEAR")
      RESCALE: scale32, rounding_mode ("SINGLE_ROUND"), per_channel, [input_unsigned False],
        [output_unsigned False]
      all others: none
    acc_type is "INT32" or "INT48"; pads are (top, bottom, left, right), of CONV3D with (front, back) first.
    """

    code: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TModel:
    """A graph: `inputs` and `outputs` are names of tensors in the order of the delegate's arguments.

    The CONST and CONST_SHAPE operators of the format are not among `operators`: they follow from the `data`
    of the tensors and from the shapes.
    """

    tensors: tuple[TTensor, ...]
    shapes: tuple[TShape, ...]
    operators: tuple[TOperator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
