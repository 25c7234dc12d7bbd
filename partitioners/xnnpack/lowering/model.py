"""An XNNPACK subgraph that is being written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npu_assay.partitioners.xnnpack.xnn_model import Array, Quantisation, XModel, XNode, XValue
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

Shape = tuple[int, ...]


class ModelBuilder:
    """Values and nodes so far; values are named by index. Scalars have the shape (1,)."""

    def __init__(self) -> None:
        self.values: list[XValue] = []
        self.nodes: list[XNode] = []

    def add(self, dtype: str, shape: Shape, quant: Quantisation | None = None, data: Array | None = None) -> int:
        """A value that is an input, a constant (with `data`), or a node's result."""
        self.values.append(XValue(dtype, shape or (1,), quant, data))
        return len(self.values) - 1

    def emit(
        self,
        op: str,
        inputs: Sequence[int],
        dtype: str | None = None,
        quant: Quantisation | None = None,
        options: Mapping[str, Any] = {},
        *,
        flags: int = 0,
        limits: tuple[float, float] | None = None,
    ) -> int:
        """Append a node; returns its result, whose shape follows from its operands.

        Without `dtype` the result is of the first operand's type and quantization. Raises FormatError for
        shapes that the operator does not take.
        """
        first = self.values[inputs[0]]
        node = XNode(op, tuple(inputs), (len(self.values),), dict(options), flags, _single(limits))
        shape = output_shape(node, [self.values[index].shape for index in inputs if index >= 0])
        result = self.add(first.dtype, shape, first.quant) if dtype is None else self.add(dtype, shape, quant)
        self.nodes.append(node)
        return result

    def finished(
        self, inputs: Sequence[int], outputs: Sequence[int], channels_last: Sequence[int], scalars: Sequence[int]
    ) -> XModel:
        """The subgraph with these arguments."""
        external = {index: position for position, index in enumerate((*inputs, *outputs))}
        values = tuple(replace(value, external=external.get(index)) for index, value in enumerate(self.values))
        return XModel(values, tuple(self.nodes), tuple(inputs), tuple(outputs), tuple(channels_last), tuple(scalars))


def _single(limits: tuple[float, float] | None) -> tuple[float, float] | None:
    """The limits as float32 numbers, which is how they are stored; none when nothing is out of them."""
    if limits is None:
        return None
    with np.errstate(over="ignore"):
        low, high = (float(np.float32(limit)) for limit in limits)
    return low, high
