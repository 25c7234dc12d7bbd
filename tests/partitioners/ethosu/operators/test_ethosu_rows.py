"""What the Ethos-U backend knows of an operator stands in one row; no list of operators is left elsewhere."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
import torch
from ethosu_graphs import U55, Builder, judge
from places import ROOT
from torch import fx

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, EthosURuntime, operators
from npu_assay.partitioners.ethosu.operators import LOWERINGS, OPERATORS
from npu_assay.partitioners.ethosu.operators.row import Annotation, Row, named
from npu_assay.partitioners.ethosu.support.rules import RULES
from npu_assay.partitioners.exir import EdgeProgramManager, run_program
from npu_assay.partitioners.exir.config import EdgeCompileConfig
from npu_assay.partitioners.exir.ops import QUANTIZE_PER_CHANNEL, find_overload
from npu_assay.partitioners.exir.program import copy_program

VENDOR = ROOT / "partitioners" / "ethosu"
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


def test_a_new_operator_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is written into what is made of the rows when they are imported."""

    def write(b: Builder) -> fx.Node:
        return b.op("aten.hardshrink.default", b.input(2, 3))

    assert judge(write).of("aten.hardshrink.default") == ["unsupported"]
    row = OPERATORS["aten.tanh.default"]
    for made, value in ((OPERATORS, row), (LOWERINGS, row.lower), (RULES, row.rules)):
        assert isinstance(made, dict)
        monkeypatch.setitem(made, "aten.hardshrink.default", value)
    b = Builder()
    program, partitioner = b.program(write(b)), EthosUPartitioner(EthosUCompileSpec(U55))
    loose = EdgeCompileConfig(_check_ir_validity=False)  # hardshrink is no core operator
    manager = EdgeProgramManager({"forward": copy_program(program, verify=False)}, compile_config=loose)
    lowered = manager.to_backend(partitioner).exported_program()
    assert partitioner.rejections == []
    inputs = (torch.linspace(-2, 2, 6).reshape(2, 3),)
    (found,) = run_program(lowered, inputs, {"EthosUBackend": EthosURuntime()})
    (wanted,) = run_program(program, inputs)
    assert torch.equal(found, wanted) and 0 < int((found == 0).sum()) < 6
