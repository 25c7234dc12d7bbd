"""TFLite models as plain records: what the Neutron compiler builds and the simulated device loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Tensor:
    """One tensor of a model's only subgraph.

    `dtype` is "int8", "int32", "int64" or "float32". `data` (an array of that dtype and `shape`) makes the
    tensor a constant. `scales` and `zero_points` are empty, of length 1 (per tensor) or of length
    `shape[axis]` (per channel); scales are stored as float32.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "int8"
    data: np.ndarray[Any, Any] | None = None
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True)
class Operator:
    """One operator: `code` is its BuiltinOperator name ("CONV_2D"); tensors by index, -1 = absent input.

    `options` are named as in the TFLite schema (`stride_h`, `filter_width`, `keep_dims`, `adj_x`, `new_shape`,
    `half_pixel_centers`, ...), with `padding` "SAME" or "VALID" and `fused_activation_function` "NONE",
    "RELU", "RELU_N1_TO_1" or "RELU6". What is left out takes the schema's default
    (`padding` then is "SAME", strides are 0: state them).
    """

    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A model with one subgraph: operators in execution order, inputs and outputs as tensor indices."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    description: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict)
