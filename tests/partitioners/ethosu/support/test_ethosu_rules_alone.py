"""Every rule of every operator of Ethos-U refuses a program that nothing else refuses: none may be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ethosu_rules_alone import Decision, decisions, programs

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.run.partitioning import prepared
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.ethosu.support.rules import RULES

TABLES = {"ethos-u85": "ethos_u85@1.5", "ethos-u55": "ethos_u55@1.5"}
MOST = 4
"""Cases of one row, precision and reason that are asked."""
POOLS = ("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d")
NEVER: Mapping[tuple[str, str], str] = {
    ("aten.clamp.default", "bounds"): "torch has no clamp without a bound",
    ("aten.clamp.Tensor", "bounds"): "torch has no clamp without a bound",
    ("aten.__lshift__.Scalar", "integer_operands"): "torch shifts no real numbers",
    ("aten.__rshift__.Scalar", "integer_operands"): "torch shifts no real numbers",
    **{(f"aten.{name}.default", "rank"): "torch's images have three or four dimensions" for name in POOLS},
    ("aten.elu.default", "mixed_dtype"): "torch takes no integers",
    ("aten.selu.default", "mixed_dtype"): "torch takes no integers",
    **{
        (f"aten.{name}.Scalar", "mixed_dtype"): "a comparison with a number has one quantized neighbor"
        for name in ("eq", "ge", "gt", "le", "lt")
    },
    ("aten.slice_copy.Tensor", "step"): "torch's steps are positive",
    ("aten.where.self", "condition_dtype"): "torch's conditions are boolean",
    ("dim_order_ops._clone_dim_order.default", "no_conversion"): "torch keeps the type",
    ("aten.max_pool2d_with_indices.default", "indices_unused"): "indices have 64 bits, which no_int64 refuses",
    ("aten.index.Tensor", "max_elements"): "of 2**31 elements",
}
"""Rules that no program asks for alone, with the reason."""
COUNT = 289
"""Pairs of an operator and a rule. One that is missing asks nothing, so they are counted, too."""
DECOMPOSED = "aten.max_pool2d.default"
"""No edge program has it: the pool with indices stands there instead."""


def of_operators() -> set[Decision]:
    """Rules that must decide; those of conversions are asked of the operator beside them, too."""
    every = {(name, rule) for name, rules in RULES.items() for rule in rules}
    return {(n, r) for n, r in every if not n.startswith("quantized_decomposed") and n != DECOMPOSED}


def without_cases(left: set[Decision]) -> set[Decision]:
    """Those of them that no case of the tables shows."""
    for vendor, name in TABLES.items():
        table, backend, asked = load_table(name), load_backend(vendor), Counter[object]()
        for case in (each for each in all_cases(table) if each.side == "outside"):
            kind = (case.row, case.reason, case.precision)
            if asked[kind] < MOST and case.reason in {rule.code for _, rule in left}:
                asked[kind] += 1
                program = prepared(case.graph, backend, tuple(table.preserve), table.mark)
                left = left.difference(decisions(program, vendor == "ethos-u55"))
    return left


def test_no_operator_has_lost_a_rule() -> None:
    assert len(of_operators()) == COUNT


def test_every_rule_of_an_operator_decides() -> None:
    left = without_cases(of_operators())
    assert len(left) < len(of_operators()) / 2
    for operator in sorted({name for name, rule in left if (name, rule.code) not in NEVER}):
        for program in programs(operator):
            if {(name, rule.code) for name, rule in left if name == operator} <= NEVER.keys():
                break
            left = left.difference(decisions(program, True), decisions(program, False))
    assert {(name, rule.code) for name, rule in left} == set(NEVER)
