"""Operands that random programs brought up: plain integers beside codes, constants between codes, jumps in tables."""

from __future__ import annotations

import pytest
import torch

from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step, Value
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.ethosu import ethos_u85
from npu_assay.reference.golden import Bounded
from npu_assay.reference.golden.error_bound_tosa import error_bound, largest_within

X = Value("x", (1, 2, 2, 4), Quant(0.08, 1), Fill("ramp"))
PLAIN = Value("k", (1, 2, 2, 4), None, Fill(seed=3), dtype="int8")


def result(expect: str, reason: str | None, *parts: Value | Step) -> CaseResult:
    """What the suite says of the operator of the last step."""
    values = tuple(part for part in parts if isinstance(part, Value))
    steps = tuple(part for part in parts if isinstance(part, Step))
    last = steps[-1]
    graph = Graph(values, steps, (Ref(last.name),))
    case = Case("case", last.op, "operator", "value", expect, reason, graph, last.name)
    return run_case(case, ethos_u85, load_table("ethos_u85@1.5"))


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten.maximum.default", (Ref("x"), Ref("k"))),
        ("aten.add.Tensor", (Ref("k"), Ref("x"))),
        ("aten.sin.default", (Ref("k"),)),
    ],
)
def test_a_plain_integer_has_no_scale(op: str, args: tuple[Ref, ...]) -> None:
    found = result("reject", "mixed_dtype", X, PLAIN, Step("s", op, args, (), Quant(0.08, 1)))
    assert found.verdict == "reject" and "mixed_dtype" in {reason.code for reason in found.reasons or ()}


def test_a_constant_is_rescaled_as_the_device_would() -> None:
    """Every eighth code is half-way between two of the result: rounded up, not to the even one."""
    constant = Value("k", (1, 2, 2, 64), Quant(0.05, 3), Fill("ramp"), constant=True)
    x = Value("x", (1, 2, 2, 64), Quant(0.08, 1), Fill("ramp"))
    step = Step("s", "aten.cat.default", ((Ref("x"), Ref("k")), 1), (), Quant(0.08, 1))
    found = result("accept", None, x, constant, step)
    assert found.failures == () and found.checks["gate1"] == 0


@pytest.mark.parametrize(("off", "reaches"), [(0.0, False), (0.04, False), (0.06, True)])
def test_a_jump_of_a_table_counts_for_an_operand_that_may_be_there(off: float, reaches: bool) -> None:
    """Between the entries at 16/32 and 17/32 the line goes from 0 to 1; the function jumps."""
    step = 2.0**-12
    x = Bounded(torch.tensor([0.45], dtype=torch.float64), torch.tensor([off], dtype=torch.float64), step)
    found = error_bound("aten.round.default", {"self": x}, x, step, wide=True)
    assert isinstance(found, torch.Tensor)
    assert bool((found * step > 0.25).all()) == reaches


def test_the_largest_of_a_range() -> None:
    numbers = torch.rand(97, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first, last = torch.tensor([[0, 5], [96, 13]]), torch.tensor([[96, 5], [96, 77]])
    ranges = zip(first.flatten().tolist(), last.flatten().tolist(), strict=True)
    expected = torch.stack([numbers[a : b + 1].max() for a, b in ranges]).view(2, 2)
    assert torch.equal(largest_within(numbers, first, last), expected)
