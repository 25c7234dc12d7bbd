"""An ONNX graph while it is being written from an edge program, and one operator's place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from onnx import NodeProto, TensorProto, helper, numpy_helper
from torch import fx

from npu_assay.partitioners.exir.nodes import value

Array = npt.NDArray[Any]

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


class FormError(ValueError):
    """A case has no form in the requested format. `code`: a short stable word for the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


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
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), **attributes))
        return outputs


@dataclass(frozen=True)
class Site:
    """An operator to be written: its fx node, and its arguments by their names in the schema."""

    writer: Writer
    node: fx.Node
    given: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def x(self, name: str = "self") -> str:
        """The name of an argument's tensor; a number becomes a constant of the result's dtype."""
        found = self.given[name]
        return self.tensor(found) if isinstance(found, fx.Node) else self.number(found)

    def tensor(self, node: fx.Node) -> str:
        """The name of a node's only result."""
        name = self.writer.names[node]
        if not isinstance(name, str):
            raise FormError("form", f"{node.name}: expected a tensor, found a list of {len(name)}")
        return name

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

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one result."""
        return self.writer.emit(kind, inputs, self.node.name, 1, attributes)[0]

    def many(self, kind: str, count: int, *inputs: str, **attributes: Any) -> tuple[str, ...]:
        """Append a node with several results."""
        return self.writer.emit(kind, inputs, self.node.name, count, attributes)

    def ints(self, numbers: Sequence[int]) -> str:
        """A constant list of sizes, axes or indices."""
        return self.writer.constant(np.asarray(list(numbers), np.int64).reshape(len(numbers)), "ints")

    def number(self, number: float, dtype: torch.dtype | None = None) -> str:
        """A constant scalar, of the result's type or another."""
        kind = numpy_type(self.result.dtype if dtype is None else dtype)
        return self.writer.constant(np.asarray(number).astype(kind), "number")

    def refuse(self, code: str, message: str) -> FormError:
        """The error for arguments that ONNX has no form for."""
        return FormError(code, f"{self.node.target}: {message}")
