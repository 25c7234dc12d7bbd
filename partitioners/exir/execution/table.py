"""The values of a method under construction: constants are shared, results get places of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.pte.model import (
    ABSENT,
    BoolList,
    DoubleList,
    EValue,
    IntList,
    OptionalTensorList,
    Tensor,
    TensorList,
)
from npu_assay.partitioners.exir.pte.schema import DTYPES

MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}
"""torch's own numbers, which kernels expect."""


class ValueTable:
    """Values by index. `nodes` holds the index (or for several results, the indices) of every node's value."""

    def __init__(self) -> None:
        self.values: list[EValue] = []
        self.nodes: dict[fx.Node, int | list[int]] = {}
        self._shared: dict[Any, int] = {}

    def add(self, value: EValue) -> int:
        """A new value."""
        self.values.append(value)
        return len(self.values) - 1

    def constant(self, value: EValue) -> int:
        """A value that nothing writes; equal ones are one. Numbers are equal when their type and bits are."""
        key = (type(value), _bits(value))
        if key not in self._shared:
            self._shared[key] = self.add(value)
        return self._shared[key]

    def node(self, node: fx.Node) -> int:
        """The index of a node's single value. Raises EdgeError for one that has several."""
        found = self.nodes[node]
        if isinstance(found, list):
            raise EdgeError("several values for one argument", node.name, "a getitem of it", node.name)
        return found

    def argument(self, value: Any, kind: str, where: str) -> int:
        """The index of an argument for a parameter of type `kind`, as torch prints types. Raises EdgeError."""
        if isinstance(value, fx.Node) and not kind.endswith("List[Tensor]"):
            return self.node(value)
        optional = kind.startswith("Optional[")
        if value is None and optional:
            return self.constant(None)
        kind = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
        if kind.startswith("List["):
            return self._list(value, kind.removeprefix("List[").removesuffix("]"), where)
        return self.constant(scalar(value, kind, where))

    def _list(self, value: Any, kind: str, where: str) -> int:
        if kind in ("Tensor", "Optional[Tensor]"):
            return self.constant(self._tensors(value, kind))
        items = value if isinstance(value, (list, tuple)) else [value]
        if kind == "int":
            return self.constant(IntList(tuple(self.argument(item, "int", where) for item in items)))
        if kind in ("float", "bool") and not any(isinstance(item, fx.Node) for item in items):
            plain: Any = [scalar(item, kind, where) for item in items]
            return self.constant(DoubleList(tuple(plain)) if kind == "float" else BoolList(tuple(plain)))
        raise EdgeError("argument that no program can hold", repr(value), f"a constant list of {kind}", where)

    def _tensors(self, value: Any, kind: str) -> TensorList | OptionalTensorList:
        if isinstance(value, fx.Node):
            found = self.nodes[value]
            return TensorList(tuple(found if isinstance(found, list) else [found]))
        if kind == "Tensor":
            return TensorList(tuple(self.node(item) for item in value))
        return OptionalTensorList(tuple(ABSENT if item is None else self.node(item) for item in value))

    def tensors_in(self, index: int) -> Sequence[int]:
        """The tensors that an argument consists of."""
        value = self.values[index]
        if isinstance(value, Tensor):
            return (index,)
        if isinstance(value, (TensorList, OptionalTensorList)):
            return [item for item in value.items if item != ABSENT]
        return ()


def _bits(value: EValue) -> object:
    """What makes a value equal to another one: 0.0 and -0.0 are not."""
    if isinstance(value, DoubleList):
        return tuple(item.hex() for item in value.items)
    return value.hex() if isinstance(value, float) else value


def scalar(value: Any, kind: str, where: str) -> bool | int | float | str:
    """A Python value as a program holds it for a parameter of type `kind`. Raises EdgeError."""
    code = value_code(value)
    if code is not None and kind == "int":
        return code
    if kind == "float" and isinstance(value, (int, float)):
        return float(value)
    if kind == "bool" and isinstance(value, (bool, int)):
        return bool(value)
    if kind == "int" and isinstance(value, int):
        return int(value)
    if (kind == "number" and isinstance(value, (bool, int, float))) or (kind == "str" and isinstance(value, str)):
        return value
    raise EdgeError("argument that no program can hold", repr(value), kind, where)


def value_code(value: Any) -> int | None:
    """The number of a dtype, layout or memory format; None for anything else."""
    if isinstance(value, torch.dtype):
        return DTYPES.get(value)
    if isinstance(value, torch.memory_format):
        return MEMORY_FORMATS[value]
    return 0 if value is torch.strided else None
