"""The cases of tables with integer precisions as data: unique, well formed, spelled in their precision."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.make import SUBJECT, Call, Q, X, activation, bias_quant, constant, weight_quant
from npu_assay.conformance.cases.pieces.spelling import spelled, wide
from npu_assay.conformance.programs.checks import Refuses
from npu_assay.conformance.programs.graph import Case, Quant, Ref
from npu_assay.conformance.record.results import to_line
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.ethosu import ethos_u85

TABLES = tuple(load_table(name) for name in ("ethos_u55@1.5", "ethos_u85@1.5"))
CASES = {table.name: cases_for(table) for table in TABLES}
LEAST = 8
CHECKED = "additional_check"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_row_has_several_cases_in_each_precision(table: Table) -> None:
    counts: dict[tuple[str, str | None], int] = {}
    for case in CASES[table.name]:
        counts[case.row, case.precision] = counts.get((case.row, case.precision), 0) + 1
    refused = {(row.name, precision) for row in table.refused for precision in row.precisions}
    assert counts.keys() == {(row.name, precision) for row in table.rows for precision in row.precisions} | refused
    assert min(count for place, count in counts.items() if place not in refused) >= LEAST


def test_a_refused_row_has_one_case_in_each_precision() -> None:
    (u55, *_) = TABLES
    refused = {row.name: row for row in u55.refused}
    cases = [case for case in CASES[u55.name] if case.row in refused]
    assert [(case.row, case.precision) for case in cases] == [
        (row.name, precision) for row in u55.refused for precision in row.precisions
    ]
    assert len(cases) == 16
    for case in cases:
        (reason,) = refused[case.row].constraints
        assert (case.constraint, case.expect, case.reason) == (reason.code, "reject", reason.code)
        assert case.row in {step.op for step in case.graph.steps}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_ids_say_what_the_case_is(table: Table) -> None:
    for case in CASES[table.name]:
        row, precision, constraint, side, variant = case.id.rsplit("/", 4)
        assert (row, precision, constraint, side) == (case.row, case.precision, case.constraint, case.side)
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", variant), case.id
        assert constraint in {*table.codes(table.row(row), precision), "operator"}, case.id
        assert (case.reason is not None) == (case.expect == "reject") == (side == "outside"), case.id
        assert case.reason in (None, constraint)


ONE_TO_ONE = ("/quantized_1_to_1", "/int16_quantized_1_to_1")
"""Integers that are converted to codes, the only ones of that precision with any."""


def _types(case: Case) -> set[str]:
    quants = [value.quant for value in case.graph.values if not value.constant]
    return {q.dtype for q in (*quants, *(step.quant for step in case.graph.steps)) if q is not None}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_accepted_cases_have_the_type_of_their_precision(table: Table) -> None:
    for case in CASES[table.name]:
        if case.expect == "accept":
            assert case.precision is not None
            integers = {"int8"} if case.id.endswith(ONE_TO_ONE) else set()
            expected = integers if case.precision == "integers" else {case.precision.removesuffix("_per_channel")}
            assert _types(case) == expected, case.id


def test_a_use_in_other_precisions() -> None:
    w, b = constant("w", (4, 7), weight_quant(0.01)), constant("b", (4,), bias_quant(Q, weight_quant(0.01)))
    u = Call("aten.linear.default", (activation("x", (2, 7)), w, b), (X, Ref("w"), Ref("b")), Q)
    scale = Q.scale
    assert isinstance(scale, float)
    x, weights, bias = spelled(u, "int16_per_channel").values
    assert x.quant == wide(Q) == Quant(scale / 256, 0, -32767, 32767, None, "int16")
    assert weights.quant is not None and bias.quant is not None
    assert weights.quant.axis == 0 and weights.quant.dtype == "int8"
    assert isinstance(weights.quant.scale, tuple) and isinstance(bias.quant.scale, tuple)
    assert bias.quant.scale == pytest.approx([scale / 256 * s for s in weights.quant.scale])
    assert spelled(u, "int8") == u


# ------------------------------------------------------------------------------------ a user's own conditions


def _additional(side: str) -> Case:
    return next(c for c in CASES["ethos_u85"] if c.constraint == CHECKED and c.side == side)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_row_meets_a_condition_that_it_fulfils_and_one_that_it_breaks(table: Table) -> None:
    found = {(c.row, c.precision, c.side, c.options) for c in CASES[table.name] if c.constraint == CHECKED}
    options = {"at_limit": Refuses("another"), "outside": Refuses(SUBJECT)}
    assert found == {
        (row.name, precision, side, (("additional_checks", (check,)),))
        for row in table.rows
        for precision in row.precisions
        for side, check in options.items()
    }


def test_the_condition_is_named_in_the_result() -> None:
    result = run_case(_additional("outside"), ethos_u85, TABLES[1])
    assert result.status == "pass" and result.reasons is not None
    assert [(r.code, r.found) for r in result.reasons] == [(CHECKED, "Refuses")]
    assert '"found":"Refuses"' in to_line(result).replace(" ", "")


def test_a_backend_that_does_not_ask_fails() -> None:
    deaf = replace(ethos_u85, partitioner=lambda **options: ethos_u85.partitioner())
    found = {side: run_case(_additional(side), deaf, TABLES[1]).status for side in ("at_limit", "outside")}
    assert found == {"at_limit": "pass", "outside": "fail"}
