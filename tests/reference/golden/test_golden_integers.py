"""Integers that are no codes, over all that their types hold: torch's own results are right."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch

from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Case, Fill, Value
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import run_program

WIDE = ("int8", "int16", "int32")
TABLES = ("ethos_u55@1.5", "ethos_u85@1.5")
LARGEST = 5000  # elements that are written out


def _widened(value: Value, numbers: random.Random) -> Value:
    if value.quant is not None or value.dtype not in WIDE or value.constant or math.prod(value.shape) > LARGEST:
        return value
    ends = torch.iinfo(getattr(torch, value.dtype))
    drawn = [
        numbers.choice((ends.min, ends.max, numbers.randint(ends.min, ends.max))) for _ in range(math.prod(value.shape))
    ]
    return replace(value, fill=Fill("list", values=tuple(drawn)))


def _takes_integers(case: Case) -> bool:
    """The amounts of shifts have a range of their own."""
    return case.expect == "accept" and case.precision == "integers" and "shift.Tensor" not in case.row


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_every_operator_on_integers_has_torchs_results(table: str) -> None:
    """A conversion's golden kept the high bits that a narrower type drops; no case had any."""
    loaded, numbers, asked = load_table(table), random.Random(7), 0
    for case in filter(_takes_integers, all_cases(loaded)):
        values = tuple(_widened(value, numbers) for value in case.graph.values)
        if values == case.graph.values:
            continue
        graph = replace(case.graph, values=values)
        outputs = run_program(build(graph), model_inputs(graph))
        found = judge(golden(graph), outputs, loaded.rescale, delegated=True)
        assert [gate.messages for gate in found if not gate.passed] == [], case.id
        asked += 1
    assert asked > 400
