"""Variations: programs near a plain one, asked of every row without a word of what it is."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from npu_assay.conformance import cases as package
from npu_assay.conformance.cases.variations import KINDS, SPELLED, variation, variations
from npu_assay.conformance.predicates.applications import application
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.variation_names import FLOW, SIDE, parts
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.run.selection import all_cases, cases_of, with_variations
from npu_assay.conformance.table import load_table
from npu_assay.reference.operators.lookup import home

ROWS = ("aten.cat.default", "aten.addmm.default", "aten.max_pool2d.default", "aten.mean.dim")
FOLDER = Path(str(package.__file__)).parent / "variations"
TABLES = Path(str(package.__file__)).parent.parent / "tables"
NEIGHBORS = {
    *("aten.abs.default", "aten.neg.default", "aten.relu.default", "aten.mul.Tensor"),
    "aten.max_pool2d.default",
}
"""The operators that stand beside the one that is varied."""


TABLE = load_table("neutron@1.3")


@cache
def plain() -> tuple[Case, ...]:
    return cases_of(TABLE, *ROWS)


@cache
def chosen() -> tuple[Case, ...]:
    return tuple(variations(plain(), "chosen", TABLE))


def kind_of(case: Case) -> str:
    return case.id.rpartition(f"/{SIDE}/")[2].partition(".")[0]


def test_every_kind_is_asked() -> None:
    assert set(map(kind_of, chosen())) == set(KINDS)


def test_none_is_a_program_of_the_table_and_each_is_asked_once() -> None:
    graphs = [case.graph for case in chosen() if f"/{SIDE}/{FLOW}." not in case.id]
    assert len(set(graphs)) == len(graphs) and not set(graphs) & {case.graph for case in plain()}


def test_the_predicates_say_what_is_promised() -> None:
    found = Counter(case.expect for case in chosen())
    assert found["accept"] > found["reject"] > 0 < found["unspecified"]
    assert {case.expect for case in chosen() if f"/{SIDE}/{FLOW}." in case.id} == {"unspecified"}
    assert all(case.reason is None or case.expect == "reject" for case in chosen())


def test_torch_takes_each() -> None:
    for case in chosen():
        application(case.graph, case.subject)


def test_a_variation_is_found_by_its_id() -> None:
    known = {case.id: case for case in plain()}
    assert [variation(case.id, known, TABLE) for case in chosen()] == list(chosen())
    with pytest.raises(KeyError):
        variation(f"aten.cat.default/operator/{SIDE}/argument.dim_99.baseline", known, TABLE)


def test_all_holds_the_chosen_ones() -> None:
    row = [case for case in plain() if case.row == "aten.mean.dim"][:3]
    every = {case.id for case in variations(row, "all", TABLE)}
    some = {case.id for case in variations(row, "chosen", TABLE)}
    assert some < every and not list(variations(row, "none", TABLE))


def test_every_plain_program_is_varied() -> None:
    """In turn, so that no kind is left to the first program alone."""
    varied = Counter(case.id.rpartition(".")[2] for case in chosen())
    bases = {c.id.rpartition("/")[2] for c in plain() if (c.constraint, c.side) == ("operator", "accept")}
    assert len(set(varied) & bases) > 0.9 * len(bases)


def test_the_last_of_several_is_varied() -> None:
    """Of a list, and of operands: what is written for the first alone fails there."""
    first = [case for case in plain() if case.id.endswith("/operator/accept/baseline")]
    found = {case.id.rpartition(f"/{SIDE}/")[2] for case in variations(first, "all", TABLE)}
    assert {"list_item.padding_rising.baseline", "list_item.stride_1_3.baseline"} <= found
    assert any(name.startswith("after.") for name in found) and any(name.startswith("exchanged.") for name in found)


def test_dimensions_from_the_other_end_change_no_verdict() -> None:
    """On both sides of limits, as a rule may read a negative dimension as it is written."""
    found = [case for case in chosen() if kind_of(case) == SPELLED]
    known = {case.id: case for case in plain()}
    for case in found:
        _, label, varied = parts(case.id, known)
        one, other = (next(step for step in c.graph.steps if step.name == c.subject) for c in (known[varied], case))
        assert label == "other_end" and one.op == other.op and one.args != other.args
        assert (case.expect, case.reason) == (known[varied].expect, known[varied].reason)
        assert application(case.graph, case.subject).results == application(known[varied].graph, case.subject).results
    mean = [c for c in plain() if c.row == "aten.mean.dim"]
    sides = {(c.constraint, known[parts(c.id, known)[2]].side) for c in found if c.row == "aten.mean.dim"}
    assert sides >= {(c.constraint, c.side) for c in mean if c.side == "outside"}
    assert "at_limit" in {side for _, side in sides}


def labels(row: str, kind: str) -> set[str]:
    """The labels of a kind for the plain program of a row of Ethos-U85."""
    table = load_table("ethos_u85@1.5")
    first = next(case for case in cases_of(table, row) if case.id.endswith("/operator/accept/baseline"))
    names = (case.id.rpartition(f"/{SIDE}/")[2] for case in variations([first], "all", table))
    return {name.split(".")[1] for name in names if name.startswith(f"{kind}.")}


def test_lists_have_uneven_parts_and_items_that_are_left_out() -> None:
    assert "split_sizes_uneven" in labels("aten.split_with_sizes_copy.default", "list_item")
    assert {"indices_none_0_0", "indices_none_1_1", "indices_none_1_2"} <= labels("aten.index.Tensor", "left_out")


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(path.stem for path in TABLES.glob("*.toml")))
def test_every_row_of_a_table_is_varied_without_an_error(name: str) -> None:
    table = load_table(name)
    cases = all_cases(table)
    assert len(with_variations(table, cases, "chosen")) > 1.5 * len(cases)


def test_a_selection_says_how_many() -> None:
    asked = Selection(variations="chosen")
    assert {case.id for case in asked.of(TABLE, plain())} == {case.id for case in (*plain(), *chosen())}
    assert str(asked) == "" and asked.everything
    assert str(Selection(variations="none")) == "--variations none" and not Selection(variations="none").everything
    one = chosen()[7]
    assert Selection(one.id).of(TABLE, plain()) == (one,)


def test_no_operator_is_named() -> None:
    """A kind holds for rows that nobody here has seen."""
    for path in FOLDER.glob("*.py"):
        found = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        texts = {text for text in found if isinstance(text, str)}
        assert {text for text in texts if text.count(".") == 2 and home(text) is not None} <= NEIGHBORS, path.name
