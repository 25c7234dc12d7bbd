"""What variations showed of the own backends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.fuzz.observe import run_program_case
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.selection import all_cases, cases_of
from npu_assay.conformance.table import load_table

Q = Quant(0.05, 3)


def result(backend: str, row: str, graph: Graph) -> CaseResult:
    own = load_backend(backend)
    table = load_table(own.table)
    case = cases_of(table, row)[0]
    return run_program_case(replace(case, expect="unspecified", reason=None, delegates=None, graph=graph), own, table)


def program(
    op: str,
    *args: Any,
    shape: tuple[int, ...],
    quant: Quant | None,
    more: tuple[Value, ...] = (),
    given: Quant | None = None,
) -> Graph:
    step = Step("subject", op, (Ref("x"), *args), (), quant)
    return Graph((Value("x", shape, given or quant), *more), (step,), (Ref("subject"),))


@pytest.mark.parametrize("backend", ["neutron", "neutron-1.4"])
@pytest.mark.parametrize("op", ["bilinear2d", "nearest2d"])
@pytest.mark.parametrize(("factor", "verdict"), [(2.0, "accept"), (2.000001907348633, "reject"), (2.2, "reject")])
def test_a_factor_that_rounds_to_a_size_is_no_scale(backend: str, op: str, factor: float, verdict: str) -> None:
    row = f"aten.upsample_{op}.vec"
    corners = () if op == "nearest2d" else (False,)
    graph = program(row, None, *corners, (2.0, factor), shape=(1, 8, 3, 4), quant=Q)
    found = result(backend, row, graph)
    assert (found.verdict, found.failures) == (verdict, ())


@pytest.mark.parametrize("backend", ["neutron", "neutron-1.4"])
def test_no_divisor_has_no_reciprocals(backend: str) -> None:
    y = Value("y", (1, 0, 8), Q, constant=True)
    graph = program("aten.div.Tensor", Ref("y"), shape=(1, 0, 8), quant=Q, more=(y,))
    found = result(backend, "aten.div.Tensor", graph)
    assert (found.verdict, found.failures) == ("reject", ())


@pytest.mark.parametrize("name", ["stride", "dilation"])
@pytest.mark.parametrize("size", [2**20 + 1, 2**31 - 1])
def test_xnnpack_takes_steps_past_everything(name: str, size: int) -> None:
    own = all_cases(load_table("xnnpack@1.5"))
    graph = next(c.graph for c in own if c.id == "aten.conv2d.default/fp32/operator/accept/baseline")
    place = 3 if name == "stride" else 5
    (step,) = graph.steps
    args = (*step.args[:place], (1, size), *step.args[place + 1 :])
    values = tuple(replace(v, shape=(6, 4, 3, 1)) if v.name == "w" else v for v in graph.values)
    graph = replace(graph, values=values, steps=(replace(step, args=args),))
    found = result("xnnpack", "aten.conv2d.default", graph)
    assert (found.verdict, found.failures) == ("accept", ())


FIXED = {"sigmoid": Quant(1 / 256, -128), "tanh": Quant(1 / 128, 0), "_softmax": Quant(1 / 256, -128)}


@pytest.mark.parametrize("scale", [2.0**39, 2.0**20, 2.0**-39])
@pytest.mark.parametrize("name", ["sigmoid", "tanh", "_softmax", "exp", "log"])
def test_a_table_takes_every_ratio_of_scales(name: str, scale: float) -> None:
    row = f"aten.{name}.default"
    quant = FIXED.get(name, Quant(2.0**-39, 3))
    args = (1, False) if name == "_softmax" else ()
    found = result("neutron-1.4", row, program(row, *args, shape=(1, 8), quant=quant, given=Quant(scale, 3)))
    assert found.failures == ()
    if name == "log":
        assert found.verdict == "accept"
