"""Which rule of which operator of Ethos-U refuses a node that nothing else refuses, and programs that ask for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from ethosu_graphs import WIDE, Builder, application
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.support.rule import Context, Rule
from npu_assay.partitioners.ethosu.support.rules import RULES, node_rejections
from npu_assay.partitioners.exir.constants import constant_values
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, edge_op, target_name

Decision = tuple[str, Rule]
"""An operator and a rule of it."""
Operand = Callable[..., fx.Node]

IMAGE = (1, 4, 6, 6)
ONE: tuple[Callable[[Operand], tuple[Any, ...]], ...] = (
    lambda x: (x(*IMAGE),),
    lambda x: (x(),),
    lambda x: (x(), 0),
    lambda x: (x(), [0]),
    lambda x: (x(), 0, 1, 1),
    lambda x: (x(2, 3), -1),
    lambda x: (x(2, 3), 1),
    lambda x: (x(2, 3), [1]),
)
TWO: tuple[Callable[[Operand, Operand], tuple[Any, ...]], ...] = (
    lambda x, y: (x(2, 3), y(2, 3)),
    lambda x, y: ([x(2, 3), y(2, 3)], 1),
    lambda x, y: (x(2, 3), y(3)),
    lambda x, y: (x(2, 3), y(1)),
    lambda x, y: (x(2, 3), 0, y(2)),
    lambda x, y: (x(2, 3), 0, y(2, 3)),
    lambda x, y: (x(2, 3), 1, y(2, 3)),
    lambda x, y: (y(2, 3), x(2, 3), x(2, 3)),
    lambda x, y: (x(*IMAGE), y(4, 4, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
)
"""Arguments of one operator or another."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"dtype": torch.float32},
    {"dtype": torch.int32},
    {"rounding_mode": "floor"},
)
KINDS: dict[str, Callable[[Builder], Operand]] = {
    "8 bits": lambda b: b.input,
    "16 bits": lambda b: lambda *sizes: b.input(*sizes, q=WIDE),
    "int8": lambda b: lambda *sizes: b.integers(*sizes, dtype=torch.int8),
    "int32": lambda b: b.integers,
    "uint8": lambda b: lambda *sizes: b.integers(*sizes, dtype=torch.uint8),
    "bool": lambda b: lambda *sizes: b.integers(*sizes, dtype=torch.bool),
    "constant": lambda b: b.weight,
    "wide": lambda b: partial(_wide, b),
    "indices": lambda b: lambda *sizes: b.raw_constant(torch.zeros(sizes, dtype=torch.int64)),
}


def _wide(b: Builder, *sizes: int) -> fx.Node:
    """A constant of -1."""
    codes = b.raw_constant(torch.full(sizes, -1, dtype=torch.int16))
    return b.call(DEQUANTIZE_PER_TENSOR, codes, 1.0, *WIDE[1:])


def _forms() -> Iterator[tuple[Callable[..., tuple[Any, ...]], tuple[Callable[[Builder], Operand], ...]]]:
    """Every form of arguments, with the kinds of its operands."""
    for forms, count in ((ONE, 1), (TWO, 2)):
        yield from product(forms, product(KINDS.values(), repeat=count))


def programs(operator: str) -> Iterator[ExportedProgram]:
    """The operator with every form of arguments that torch takes, of every two kinds, and real numbers of a type."""
    schema = edge_op(operator).schema
    taken = {argument.name for argument in schema.arguments} if schema is not None else set()
    for (form, kinds), options in product(_forms(), [each for each in OPTIONS if taken >= each.keys()]):
        builder = Builder()
        made = application(builder, operator, form(*(kind(builder) for kind in kinds)), **options)
        if made is None:
            continue
        found = made.meta["val"]
        if isinstance(found, torch.Tensor) and found.dtype == torch.float32:
            wide = torch.int16 in made.all_input_nodes[0].args
            made = builder.quantised(made, WIDE) if wide else builder.quantised(made)
        yield builder.program(made)


def decisions(program: ExportedProgram, is_u55: bool) -> Iterator[Decision]:
    """The rules that are the only reason why a node is refused."""
    context = Context(OPERATORS, is_u55, constant_values(program))
    for node in program.graph.nodes:
        name = target_name(node.target)
        refused = node_rejections(node, context) if name in RULES else ()
        if len(refused) == 1:
            same = (rule for rule in RULES[name] if rule.code == refused[0].code)
            own = [rule for rule in same if rule(node, context) == refused[0]]
            yield from ((name, rule) for rule in own if len(own) == 1)
