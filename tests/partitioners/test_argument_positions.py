"""Where rules look for an operator's argument: at the position that torch's schema gives it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from npu_assay.partitioners.ethosu.operators import OPERATORS as ETHOSU
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.partitioners.exir.rules import Rule
from npu_assay.partitioners.neutron.operators import OPERATORS as NEUTRON
from npu_assay.partitioners.xnnpack.configs import COMPILED


def rows() -> Iterator[tuple[str, Rule[Any]]]:
    """Every operator with each of its own rules."""
    for table in (ETHOSU, NEUTRON):
        for name, row in table.items():
            yield from ((name, rule) for rule in (*getattr(row, "first", ()), *(row.rules or ())))
    for config in COMPILED:
        yield from ((config.target, rule) for rule in config.rules)


def functions(check: Callable[..., object]) -> Iterator[Callable[..., object]]:
    """The rule's function, and what it closes over: rules of rules."""
    yield check
    for cell in getattr(check, "__closure__", None) or ():
        inner = cell.cell_contents
        if isinstance(inner, Rule):
            yield from functions(inner.check)


def reads(check: Callable[..., object]) -> Iterator[tuple[int, str]]:
    """Position and name of each argument that the text of a rule asks for."""
    for function in functions(check):
        for call in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("argument", "operand"):
                found = [each.value for each in call.args[1:3] if isinstance(each, ast.Constant)]
                if len(found) == 2 and isinstance(found[0], int) and isinstance(found[1], str):
                    yield found[0], found[1]


def names_of(operator: str) -> list[str]:
    """The operator's arguments in the order of its schema."""
    schema = edge_op(operator).schema if operator.startswith("aten.") else None
    return [] if schema is None else [argument.name for argument in schema.arguments]


def test_rules_read_arguments_where_they_stand() -> None:
    asked = set()
    for operator, rule in rows():
        for position, name in reads(rule.check):
            if name in names_of(operator):
                asked.add((operator, rule.code, position, name))
    wrong = [each for each in asked if names_of(each[0]).index(each[3]) != each[2]]
    assert wrong == []
    assert len(asked) > 40
