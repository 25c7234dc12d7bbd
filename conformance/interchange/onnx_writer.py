"""An ONNX graph while it is being written from an edge program, and one operator's place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from onnx import NodeProto, TensorProto, helper, numpy_helper
from torch import fx

from npu_assay.conformance.interchange.onnx_opsets import in_opset
from npu_assay.partitioners.exir.nodes import value
from npu_assay.reference.onnx_forms import site
from npu_assay.reference.onnx_forms.site import Array, FormError

TYPES: Mapping[torch.dtype, tuple[int, Any]] = MappingProxyType(
    {
        torch.float16: (TensorProto.FLOAT16, np.float16),
        torch.float32: (TensorProto.FLOAT, np.float32),
        torch.float64: (TensorProto.DOUBLE, np.float64),
        torch.int8: (TensorProto.INT8, np.int8),
        torch.uint8: (TensorProto.UINT8, np.uint8),
        torch.int16: (TensorProto.INT16, np.int16),
        torch.int32: (TensorProto.INT32, np.int32),
        torch.int64: (TensorProto.INT64, np.int64),
        torch.bool: (TensorProto.BOOL, np.bool_),
    }
)
"""The dtypes that files can have, by their names in ONNX and numpy."""


def onnx_type(dtype: torch.dtype) -> int:
    """A dtype as ONNX numbers it. Raises FormError."""
    return _types(dtype)[0]


def numpy_type(dtype: torch.dtype) -> Any:
    """A dtype as numpy calls it. Raises FormError."""
    return _types(dtype)[1]


def _types(dtype: torch.dtype) -> tuple[int, Any]:
    if dtype not in TYPES:
        raise FormError("dtype", f"found {str(dtype).removeprefix('torch.')}, which the files cannot hold")
    return TYPES[dtype]


@dataclass
class Writer:
    """Nodes and constants so far; `names` are the tensors of fx nodes, one or several."""

    opset: int
    names: dict[fx.Node, str | tuple[str, ...]] = field(default_factory=dict)
    tensors: dict[fx.Node, torch.Tensor] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)

    def unique(self, hint: str) -> str:
        """A name that no tensor has yet."""
        name, count = hint, 0
        while name in self.taken:
            count += 1
            name = f"{hint}_{count}"
        self.taken.add(name)
        return name

    def constant(self, array: Array, hint: str = "constant") -> str:
        """The name of a new constant."""
        name = self.unique(hint)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def emit(
        self, kind: str, inputs: Sequence[str], hint: str, count: int = 1, attributes: Mapping[str, Any] = {}
    ) -> tuple[str, ...]:
        """Append a node; returns the names of its results. inputs: "" for an input that is left out."""
        outputs = tuple(self.unique(hint) for _ in range(count))
        node = helper.make_node(kind, list(inputs), list(outputs), **attributes)
        self.nodes.append(in_opset(node, self.initializers, self.opset))
        return outputs


@dataclass(frozen=True)
class Site(site.Site[str]):
    """An operator to be written: its fx node, and its arguments by their names in the schema."""

    writer: Writer
    node: fx.Node
    given: Mapping[str, Any]

    def tensor(self, given: Any) -> str:
        """The name of a node's only result, or of a number as a constant of the result's dtype."""
        if not isinstance(given, fx.Node):
            return self.number(given)
        name = self.writer.names[given]
        if not isinstance(name, str) or not name:
            raise FormError("form", f"{given.name}: expected a tensor, found a list of {len(name)}")
        return name

    def operand(self, name: str) -> str:
        """An argument in the result's dtype; where that is boolean, a number has the first operand's."""
        found = self.given[name]
        compares = self.result.dtype == torch.bool
        if not isinstance(found, fx.Node):
            return self.number(found, self.dtype() if compares else None)
        return self.tensor(found) if compares or self.dtype(name) == self.result.dtype else self._cast(self.x(name))

    def converted(self, x: str) -> str:
        """A tensor in the result's dtype, under a name of its own."""
        return self.op("Identity", x) if self.dtype() == self.result.dtype else self._cast(x)

    def _cast(self, x: str) -> str:
        return self.op("Cast", x, to=onnx_type(self.result.dtype))

    def shape(self, name: str = "self") -> tuple[int, ...]:
        """The sizes of an argument."""
        return tuple(int(size) for size in self._value(name).shape)

    def dtype(self, name: str = "self") -> torch.dtype:
        """The dtype of an argument."""
        return self._value(name).dtype

    def _value(self, name: str) -> torch.Tensor:
        found = value(self.given[name])
        if found is None:
            raise FormError("form", f"{self.node.name}: {name}: expected a tensor")
        return found

    @property
    def result(self) -> torch.Tensor:
        """The (first) result without its numbers."""
        found = value(self.node)
        if found is None:
            raise FormError("form", f"{self.node.name}: found a result that is not a tensor")
        return found

    def many(self, kind: str, count: int, *inputs: str | None, **attributes: Any) -> tuple[str, ...]:
        """Append a node."""
        return self.writer.emit(kind, [name or "" for name in inputs], self.node.name, count, attributes)

    def constant(self, array: Array, hint: str = "constant") -> str:
        """The name of a new constant."""
        return self.writer.constant(array, hint)

    def number(self, number: float, dtype: torch.dtype | None = None) -> str:
        """A constant scalar, of the result's type or another."""
        kind = numpy_type(self.result.dtype if dtype is None else dtype)
        return self.constant(np.asarray(number).astype(kind), "number")

    def numbers(self, numbers: Sequence[float], hint: str) -> str:
        """A constant list of float32."""
        return self.constant(np.asarray(numbers, np.float32), hint)

    def refuse(self, code: str, message: str) -> FormError:
        """The error for arguments that ONNX has no form for."""
        return FormError(code, f"{self.node.target}: {message}")
