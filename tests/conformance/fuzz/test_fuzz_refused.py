"""Programs that torch refuses count against nobody; what the passes of a backend make of one that it takes counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import fake_backend
import pytest
from torch.export import ExportedProgram

from npu_assay.conformance.fuzz.observe import run_program_case
from npu_assay.conformance.programs.graph import Case, Graph, Quant, Ref, Step, Value
from npu_assay.conformance.table import load_table

TABLE = load_table(fake_backend.TABLE)
ROW = TABLE.rows[0].name


def failures(graph: Graph, passes: Any = None) -> list[str]:
    backend = replace(fake_backend.backend, passes=() if passes is None else (passes,))
    case = Case("fuzz/0/0", ROW, "operator", "variation", "unspecified", None, graph, "")
    return [f"{found.check}: {found.message}" for found in run_program_case(case, backend, TABLE).failures]


def convolution(bias: int, open_: tuple[int, ...] = ()) -> Graph:
    x = Value("x", (1, 2, 5, 5), None, dynamic=open_)
    w, b = Value("w", (3, 2, 3, 3), None, constant=True), Value("b", (bias,), None, constant=True)
    step = Step("subject", "aten.conv2d.default", (Ref("x"), Ref("w"), Ref("b")))
    return Graph((x, w, b), (step,), (Ref("subject"),))


def copy(order: tuple[int, ...]) -> Graph:
    step = Step("subject", "dim_order_ops._clone_dim_order.default", (Ref("x"),), (("dim_order", order),))
    return Graph((Value("x", (2, 3), None),), (step,), (Ref("subject"),))


def quotient(mode: str | None) -> Graph:
    values = (Value("x", (2, 3), Quant(0.1)), Value("y", (2, 3), Quant(0.1), constant=True))
    step = Step("subject", "aten.div.Tensor_mode", (Ref("x"), Ref("y")), (("rounding_mode", mode),), Quant(0.1))
    return Graph(values, (step,), (Ref("subject"),))


REFUSED = {
    "run": convolution(4),
    "written": convolution(4, (0,)),
    "missing": copy((0, 3)),
    "negative": copy((0, -1)),
    "twice": copy((1, 1)),
}


def fails(program: ExportedProgram) -> ExportedProgram:
    raise ValueError("no such program")


def breaks(program: ExportedProgram) -> ExportedProgram:
    """Leaves a program whose first operator has no operands."""
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    node.args = ()
    return program


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("passes", [None, fails, breaks])
def test_what_torch_refuses_counts_against_nobody(name: str, passes: Any) -> None:
    assert failures(REFUSED[name], passes) == []


@pytest.mark.parametrize("graph", [convolution(3), convolution(3, (0,)), copy((0, 1))])
def test_an_error_of_the_passes_counts(graph: Graph) -> None:
    assert failures(graph) == []
    assert failures(graph, fails) == ["crash: passes: ValueError: no such program (in fails, test_fuzz_refused.py)"]
    assert [message[:15] for message in failures(graph, breaks)] == ["crash: passes: "]


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_a_keyword_without_a_default_is_written_though_it_is_none(mode: str | None) -> None:
    assert failures(quotient(mode)) == []
