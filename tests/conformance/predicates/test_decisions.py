"""What a row decides of a program: the three outcomes of constraints, and the precision that a program belongs to."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache

import pytest

from npu_assay.conformance.predicates.decisions import Decision, decide, decided
from npu_assay.conformance.predicates.definitions import CERTAIN, KINDS, SIDES, kind_of
from npu_assay.conformance.predicates.grammar import parse_predicate
from npu_assay.conformance.programs.graph import Case, Graph, Quant
from npu_assay.conformance.run.selection import cases_of
from npu_assay.conformance.table import Table, load_table

TABLES = ("neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5")
PLAIN = [
    *(("neutron@1.3", row) for row in ("aten.cat.default", "aten.convolution.default", "aten.split.Tensor")),
    *(
        ("xnnpack@1.5", row)
        for row in ("aten.add.Tensor", "aten.conv2d.default", "aten.linear.default", "aten.elu.default")
    ),
    *(
        ("ethos_u55@1.5", row)
        for row in ("aten.linear.default", "aten.permute_copy.default", "aten.add.Tensor", "aten.argmax.default")
    ),
]


@cache
def table(name: str) -> Table:
    return load_table(name)


@cache
def plain(name: str, row: str) -> tuple[Case, ...]:
    """The row's first case in each precision."""
    cases = [case for case in cases_of(table(name), row) if case.id.endswith("/operator/accept/baseline")]
    return tuple(cases)


def of(name: str, case: Case, graph: Graph | None = None, **options: object) -> Decision:
    return decide(table(name), table(name).row(case.row), graph or case.graph, case.subject, options)


def with_values(graph: Graph, **changes: object) -> Graph:
    return replace(graph, values=tuple(replace(value, **changes) for value in graph.values))  # type: ignore[arg-type]


def quantized(case: Case, quant: Quant | None) -> Graph:
    """The program with another quantization of its result."""
    steps = tuple(replace(step, quant=quant) if step.name == case.subject else step for step in case.graph.steps)
    return replace(case.graph, steps=steps)


@pytest.mark.parametrize(("name", "row"), PLAIN)
def test_a_plain_program_is_of_its_case_s_precision_and_accepted(name: str, row: str) -> None:
    found = {case.precision: of(name, case) for case in plain(name, row)}
    assert found == {precision: Decision("accept", precision) for precision in found}
    assert len(found) == max(1, len(table(name).row(row).precisions))


def test_a_broken_constraint_rejects_and_is_the_reason() -> None:
    case = next(c for c in cases_of(table("neutron@1.3"), "aten.max_pool2d.default") if c.reason == "stride_h")
    found = of("neutron@1.3", case)
    assert (found.expect, found.broken, found.silent, found.reason) == ("reject", ("stride_h",), (), "stride_h")


def test_of_two_broken_constraints_none_is_the_reason() -> None:
    case = next(c for c in cases_of(table("neutron@1.3"), "aten.max_pool2d.default") if c.reason == "stride_h")
    found = of("neutron@1.3", case, quantized(case, None))
    assert found.expect == "reject" and {"quantized", "stride_h"} <= set(found.broken) and found.reason is None


def test_a_scale_near_the_end_of_a_rescale_is_silent_and_one_beyond_is_broken() -> None:
    (case,) = plain("neutron@1.3", "aten.abs.default")
    (before,) = [value.quant for value in case.graph.values]
    assert before is not None and isinstance(before.scale, float)
    found = [of("neutron@1.3", case, quantized(case, replace(before, scale=before.scale / 2**n))) for n in (4, 23, 26)]
    assert [(each.expect, each.broken, each.silent) for each in found] == [
        ("accept", (), ()),
        ("unspecified", (), ("rescale",)),
        ("reject", ("rescale",), ()),
    ]


def test_a_user_s_options_are_silent() -> None:
    case = plain("xnnpack@1.5", "aten.elu.default")[0]
    found = of("xnnpack@1.5", case, None, config_precisions="FP32")
    assert (found.expect, found.silent) == ("unspecified", ("precision",))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_program_of_no_precision_of_the_row_is_not_decided(dtype: str) -> None:
    case = plain("xnnpack@1.5", "aten.elu.default")[0]
    assert of("xnnpack@1.5", case, with_values(case.graph, dtype=dtype)) == Decision("unspecified")


def test_reals_of_a_row_of_codes_are_refused_as_codes_are_asked_for() -> None:
    case = next(c for c in plain("ethos_u55@1.5", "aten.add.Tensor") if c.precision == "int8")
    found = of("ethos_u55@1.5", case, with_values(quantized(case, None), quant=None))
    assert (found.expect, found.precision) == ("reject", "int8") and "quantized" in found.broken


def test_a_program_that_torch_refuses_is_not_decided() -> None:
    (case,) = plain("neutron@1.3", "aten.cat.default")
    shapes = iter(range(1, 9))
    values = tuple(replace(value, shape=(*value.shape[:-1], next(shapes), 3)) for value in case.graph.values)
    assert of("neutron@1.3", case, replace(case.graph, values=values)) == Decision("unspecified")


def test_a_case_gets_the_verdict_of_its_row() -> None:
    case = next(c for c in cases_of(table("neutron@1.3"), "aten.max_pool2d.default") if c.reason == "stride_h")
    asked = replace(case, expect="unspecified", reason=None)
    assert decided(table("neutron@1.3"), asked) == case
    assert decided(table("neutron@1.3"), replace(case, row="aten.nothing.default")) == replace(
        asked, row="aten.nothing.default"
    )


def test_all_that_is_certain_can_be_read_and_is_about_shipped_rows() -> None:
    used = {kind: dict[str, set[str]]() for kind in KINDS}
    for row, common in ((row, each.common) for each in map(load_table, TABLES) for row in each.rows):
        for constraint in (*common, *row.constraints):
            used[kind_of(row)].setdefault(constraint.code, set()).add(row.name)
    found = tomllib.loads(CERTAIN.read_text(encoding="utf-8"))
    assert {*found.pop("tables")} == {load_table(name).name for name in TABLES}
    for kind, entries in found.items():
        for entry in entries:
            assert {"code"} < entry.keys() <= {"code", "operators", *SIDES}
            assert set(entry.get("operators", ())) <= used[kind][entry["code"]], entry
            assert all(parse_predicate(entry[side]).atoms for side in SIDES if side in entry)
