"""Programs of one operator each, on tensors that leave little to compute on: scalars, empty ones and lists.

The arguments follow from the operators' schemas; what torch itself refuses is no program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from ethosu_graphs import Builder
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.ops import edge_op, is_dim_order_op

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (3,), (0, 3), (2, 0))
QUANTISED, REAL, INTEGERS, BOOLEANS = "quantised", "real", "int32", "bool"
KINDS = (QUANTISED, REAL, INTEGERS, BOOLEANS)
CHOICES: Mapping[str, tuple[object, ...]] = {
    "int": (0, 1, -1),
    "SymInt": (0, 1),
    "List[int]": ([], [0], [-1], [1, 1]),
    "List[SymInt]": ([], [0], [1], [1, 1]),
    "Optional[List[int]]": (None, [], [0]),
    "float": (0.5,),
    "number": (1,),
    "bool": (False, True),
    "str": ("constant",),
    "ScalarType": (torch.float32,),
}
"""What to try for a type of arguments; of the optional ones, that they are left out."""
MOST = 40
"""Sets of arguments for one operator."""


@dataclass(frozen=True)
class Tiny:
    """One program: the operator, what its tensors hold, their shape, and the other arguments by name."""

    operator: str
    kind: str
    shape: tuple[int, ...]
    options: tuple[tuple[str, object], ...]

    def program(self) -> ExportedProgram | None:
        """None where torch does not take the arguments."""
        builder = Builder()
        given = dict(self.options)
        args, kwargs = [], {}
        try:
            for argument in _arguments(self.operator):
                if "Tensor" in str(argument.type):
                    found = _tensors(builder, self, str(argument.type))
                elif argument.name in given:
                    found = given[argument.name]
                else:
                    break
                if argument.kwarg_only:
                    kwargs[argument.name] = found
                else:
                    args.append(found)
            node = builder.call(self.operator, *args, **kwargs)
            return builder.program(_result(builder, node))
        except Exception:  # noqa: BLE001  # of whatever kind: torch says that there is no such program
            return None


def tiny_programs(operator: str) -> Iterator[Tiny]:
    """Programs of one operator, well-formed ones and others."""
    required = [
        argument
        for argument in _arguments(operator)
        if "Tensor" not in str(argument.type) and (not argument.has_default_value() or argument.name in ("dim", "dims"))
    ]
    choices = [[(a.name, value) for value in CHOICES.get(str(a.type), (None,))] for a in required]
    for options in list(product(*choices))[:MOST]:
        for kind, shape in product(KINDS, SHAPES):
            yield Tiny(operator, kind, shape, options)


def _arguments(operator: str) -> list[Any]:
    """By the operator's schema; of those on the order of dimensions, the tensor alone."""
    if is_dim_order_op(operator):
        operator = "aten.alias_copy.default"
    return list(edge_op(operator)._schema.arguments)


def _tensors(builder: Builder, tiny: Tiny, type_name: str) -> Any:
    if "Optional" in type_name:
        return None
    return [_tensor(builder, tiny), _tensor(builder, tiny)] if "List" in type_name else _tensor(builder, tiny)


def _tensor(builder: Builder, tiny: Tiny) -> fx.Node:
    if tiny.kind == QUANTISED:
        return builder.input(*tiny.shape)
    if tiny.kind == REAL:
        return builder.raw_input(*tiny.shape)
    return builder.integers(*tiny.shape, dtype=torch.int32 if tiny.kind == INTEGERS else torch.bool)


def _result(builder: Builder, node: fx.Node) -> fx.Node:
    """The first result, quantized where it is real."""
    if isinstance(node.meta["val"], (tuple, list)):
        node = builder.item(node, 0)
    return builder.quantised(node) if node.meta["val"].is_floating_point() else node
