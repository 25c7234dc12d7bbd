"""What the Ethos-U backend knows of an operator stands in one row; no list of operators is left elsewhere."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from npu_assay.partitioners.ethosu import operators
from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.operators.row import Annotation, Row, named
from npu_assay.partitioners.exir.ops import QUANTIZE_PER_CHANNEL, find_overload

VENDOR = Path(__file__).parent.parent / "partitioners" / "ethosu"
ROWS = {"operators", "faults"}
"""Folders that name operators: their rows, and the cases that show faults."""
SPLITS = "SPLITS"
"""The one list of two elsewhere: the operators of whose results `getitem` is a slice."""
FAMILIES = [module for module in vars(operators).values() if hasattr(module, "ROWS")]


def lacking(row: Row) -> list[str]:
    """What a row does not say, in words."""
    found = []
    if row.rules is not None and row.lower is None:
        found.append("how it is lowered")
    if row.rules is None and (row.first or row.scalings or not row.on_u55 or row.vanishes):
        found.append("its limits")
    if row.annotation is None and row.rules is None and row.lower is None and row.rewrite is None:
        found.append("anything")
    if row.others and row.annotation is None:
        found.append("what the quantizer does with its other spellings")
    if row.is_activation and not row.limits:
        found.append("that it only limits numbers")
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_a_row_is_whole(name: str) -> None:
    """But for codes per channel, which programs have as constants."""
    assert lacking(OPERATORS[name]) == (["how it is lowered"] if name == QUANTIZE_PER_CHANNEL else [])


def test_what_a_row_lacks_is_named() -> None:
    relu = OPERATORS["aten.relu.default"]
    assert lacking(replace(relu, lower=None)) == ["how it is lowered"]
    assert lacking(replace(relu, rules=None)) == ["its limits"]
    assert lacking(Row()) == ["anything"]
    assert lacking(replace(relu, annotation=None)) == ["what the quantizer does with its other spellings"]
    assert lacking(replace(relu, limits=False)) == ["that it only limits numbers"]


def twice(families: list[Mapping[str, Row]]) -> set[str]:
    """Names that have two rows, or are a row and another spelling of an operator with another row."""
    counts = Counter(name for rows in families for name in rows)
    merged = {name: row for rows in families for name, row in rows.items()}
    others = {(other, id(row)) for row in merged.values() for other in named(row.others)}
    spelled = Counter(other for other, _ in others)
    return {name for name in counts | spelled if counts[name] + spelled[name] > 1}


def test_an_operator_has_one_row() -> None:
    families = [module.ROWS for module in FAMILIES]
    assert sum(map(len, families)) == len(OPERATORS) and twice(families) == set()
    assert twice([*families, {"aten.relu_.default": Row(annotation=Annotation.FREE)}]) == {"aten.relu_.default"}


def test_rows_have_names_of_torch() -> None:
    spellings = {other for row in OPERATORS.values() for other in named(row.others)}
    names = {name for name in OPERATORS.keys() | spellings if name.startswith("aten.")}
    assert {name for name in names if find_overload(name) is None} == set()


def listed(text: str) -> Iterator[str]:
    """The names of assigned collections that hold two operators or more."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            words = [leaf.value for leaf in ast.walk(node.value) if isinstance(leaf, ast.Constant)]
            if sum(isinstance(word, str) and word.startswith("aten.") for word in words) > 1:
                yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def test_operators_are_listed_in_rows_alone() -> None:
    sources = [path for path in VENDOR.rglob("*.py") if not ROWS.intersection(path.relative_to(VENDOR).parts)]
    assert len(sources) > 60
    assert [name for path in sources for name in listed(path.read_text())] == [SPLITS]


def test_a_list_is_found() -> None:
    assert list(listed('KEPT = frozenset({"aten.add.Tensor", "aten.sub.Tensor"})\nONE = "aten.add.Tensor"')) == ["KEPT"]
