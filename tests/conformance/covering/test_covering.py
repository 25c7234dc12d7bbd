"""MC/DC and 2-way coverage of limits by cases: what counts as shown, and what does not."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.witnesses import changed, changes, content_key, is_found
from npu_assay.conformance.cases.witnesses import shipped as found_cases
from npu_assay.conformance.cli import main
from npu_assay.conformance.covering import filling
from npu_assay.conformance.covering.atoms import owed
from npu_assay.conformance.covering.domain import Domain
from npu_assay.conformance.covering.looks import Look, looks, places
from npu_assay.conformance.covering.measure import RowCoverage, measure
from npu_assay.conformance.covering.pairs import pairings
from npu_assay.conformance.covering.proofs import proof, searched
from npu_assay.conformance.covering.renew import is_fuller, verdicts_of
from npu_assay.conformance.covering.shipped import shipped
from npu_assay.conformance.covering.text import counts, page, total
from npu_assay.conformance.predicates.definitions import Defined, defined
from npu_assay.conformance.predicates.grammar import parse_predicate
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table, load_table

NEUTRON = load_table("neutron@1.3")
POOL = "aten.max_pool2d.default"


def only(row: str) -> tuple[Table, list[Case]]:
    """The table with one row, and its cases."""
    table = replace(NEUTRON, rows=(NEUTRON.row(row),))
    return table, list(cases_for(table))


def said(row: str, code: str, cases: list[Case]) -> tuple[Defined, list[Look]]:
    """A constraint of a row, and what is said of the cases."""
    table = replace(NEUTRON, rows=(NEUTRON.row(row),))
    held = next(each for each in defined(table, table.row(row), None) if each.code == code)
    return held, list(looks(table, cases))


def shown(row: str, code: str, without: str = "") -> dict[tuple[str, str, bool], bool]:
    """Of each atom, feature and nearness of a constraint whether it is shown, without the cases of this name."""
    cases = [case for case in only(row)[1] if not without or without not in case.id]
    return {(each.atom, each.feature, each.near): each.shown is not None for each in owed(*said(row, code, cases))}


def test_each_direction_of_a_window_is_shown() -> None:
    atoms = shown(POOL, "dilation")
    assert atoms == {
        ("dilation_h == value", "dilation_h", False): True,
        ("dilation_w == value", "dilation_w", False): True,
    }


def test_without_the_cases_past_the_limit_nothing_is() -> None:
    assert set(shown(POOL, "dilation", "/dilation/outside/").values()) == {False}


def test_a_case_one_step_further_is_not_at_the_limit() -> None:
    near = ("out.rank <= value", "out.rank", True)
    assert shown("aten.abs.default", "max_rank")[near]
    assert not shown("aten.abs.default", "max_rank", "rank_9")[near]


def test_a_case_that_breaks_two_constraints_shows_neither() -> None:
    cases = only(POOL)[1]
    held, found = said(POOL, "dilation", cases)
    both = [replace(look, truths={**look.truths, "batch": look.case.expect == "accept"}) for look in found]
    assert all(each.shown is None for each in owed(held, both))


def test_atoms_that_depend_on_each_other_are_shown_by_masking() -> None:
    """Whether a rank is 3 or 4: no program changes one of the atoms alone, and each decides all the same."""
    either = Defined("rank", None, parse_predicate("x.rank == 1 or x.rank == 2"))
    held, found = said("aten.abs.default", "max_rank", only("aten.abs.default")[1])
    changed = list[Look]()
    for look in found:
        atoms = (look.application.operands[0].rank == 1, look.application.operands[0].rank == 2)
        case = replace(look.case, expect="accept" if any(atoms) else "reject", reason=None if any(atoms) else "rank")
        if look.case.expect == "accept":
            changed.append(replace(look, case=case, truths={"rank": any(atoms)}, atoms={"rank": atoms}))
    assert held.code == "max_rank"
    assert [(each.atom, each.shown is not None) for each in owed(either, changed)] == [
        ("x.rank == 1", True),
        ("x.rank == 2", True),
    ]


def test_pairs_of_limits_are_shown_together() -> None:
    table, cases = only("aten.convolution.default")
    held = defined(table, table.rows[0], None)
    found = list(pairings(held, list(looks(table, cases))))
    assert len(found) > 20 and any(each.shown is not None for each in found)
    plainest = [look for look in looks(table, cases) if look.case.id.endswith("operator/accept/baseline")]
    assert list(pairings(held, plainest)) == []


def test_a_table_is_measured_row_by_row() -> None:
    table, cases = only(POOL)
    (record,) = measure(table, cases)
    assert isinstance(record, RowCoverage) and record.name == POOL and record.undefined == ()
    assert counts(record) == total([record])
    text = page(table, [record], True)
    assert text.splitlines()[1].startswith(POOL) and text.splitlines()[-1].startswith("neutron@1.3: MC/DC ")
    for hole in record.holes:
        assert f"not shown: {record.name}: {hole.code}: {hole.atom!r} decides" in text


def test_torch_refusing_every_program_on_the_other_side_is_a_proof() -> None:
    table, cases = only("aten.mm.default")
    held, found = defined(table, table.rows[0], None), list(looks(table, cases))
    rank = next(each for each in held if each.code == "rank")
    (hole,) = owed(rank, found)
    domain = Domain(held, found, cases)
    domain.singles()
    said = proof(domain, hole)
    assert hole.shown is None and said.kind == "torch" and said.tried > said.refused > 0
    assert str(said).startswith(f"proof: of {said.tried} programs {said.refused} cannot be cases; none is")


def test_what_no_program_moves_is_no_proof() -> None:
    table, cases = only("aten.abs.default")
    held, found = defined(table, table.rows[0], None), list(looks(table, cases))
    unread = Defined("refused", None, parse_predicate("refusals == 0"))
    told = [
        replace(look, truths={**look.truths, unread.code: True}, atoms={**look.atoms, unread.code: (True,)})
        for look in found
    ]
    (hole,) = owed(unread, told)
    domain = Domain((*held, unread), told, cases)
    domain.singles()
    assert proof(domain, hole).kind == "open"


def test_a_case_that_is_missing_is_found() -> None:
    """Without the cases past the limit of ranks, the nearest program that is past it is found again."""
    table, cases = only("aten.abs.default")
    fewer = [case for case in cases if case.constraint != "max_rank" and not is_found(case)]
    held, found = defined(table, table.rows[0], None), list(looks(table, fewer))
    rank = next(each for each in held if each.code == "max_rank")
    assert any(each.shown is None for each in owed(rank, found))
    chosen, _ = searched(held, found, fewer)
    assert {each.look.case.reason for each in chosen} >= {"max_rank"}
    assert all(each.shown is not None for each in owed(rank, [*found, *(each.look for each in chosen)]))


def domain_of(name: str, row: str, precision: str | None) -> Domain:
    """The domain of a row of another table."""
    whole = load_table(name)
    table = replace(whole, rows=(whole.row(row),))
    cases = [case for case in cases_for(table) if case.precision == precision and not is_found(case)]
    return Domain(defined(table, table.rows[0], precision), list(looks(table, cases)), cases)


def test_a_program_that_is_taken_out_leaves_its_name_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one name were one to the choice: holes stayed open, and one program was chosen four times."""
    domain = domain_of("ethos_u85@1.5", "aten.where.self", "int8")
    domain.singles()
    with monkeypatch.context() as patch:
        patch.setattr("npu_assay.conformance.covering.domain._is_case", lambda look: False)
        assert not domain.confirmed(domain.tried[0])
    start = domain.starts[0]
    pairs = itertools.combinations([knob for knob in domain.knobs(start) if knob.values], 2)
    turns = (((one.name, one.values[-1]), (two.name, two.values[-1])) for one, two in pairs)
    assert any(domain.turn(start, each) is not None for each in turns)
    names = [each.look.case.id for each in domain.tried]
    assert len(names) == len(set(names))


def test_a_third_knob_mends_what_breaks_one_constraint() -> None:
    """Of the knobs that move this constraint, and no other, without those that are turned already."""
    domain = domain_of("ethos_u55@1.5", "aten.max_pool2d_with_indices.default", "int8")
    domain.singles()
    broken = [(each, [c for c, said in each.look.truths.items() if said is False]) for each in domain.tried]
    alone = [(each, codes[0]) for each, codes in broken if each.turns and len(codes) == 1]
    mended = 0
    for each, code in alone[:60]:
        moving = domain._moving(code)
        for found in domain.further(each, code):
            (first, (name, _)) = found.turns
            assert (first,) == each.turns and name != first[0] and name in moving
            mended += found.look.good
    assert mended > 2 and domain.further(*alone[0]) == []


@pytest.mark.parametrize(
    ("name", "row", "precision", "kind"),
    [
        ("ethos_u85@1.5", "aten.alias_copy.default", "int8", "holes"),
        ("neutron@1.4", "aten.maximum.default", None, "apart"),
    ],
)
def test_a_third_knob_leaves_fewer_holes(
    name: str, row: str, precision: str | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of decisions and of pairs."""
    domain = domain_of(name, row, precision)
    cases = [look.case for look in domain.looks]
    _, mended = searched(domain.held, domain.looks, cases)
    monkeypatch.setattr(filling, "MENDED", 0)
    _, left = searched(domain.held, domain.looks, cases)
    assert len(mended[kind]) < len(left[kind])


def test_torch_refusing_every_other_type_of_an_operand_is_a_proof() -> None:
    domain = domain_of("ethos_u85@1.5", "aten.where.self", "int8")
    held = next(each for each in domain.held if each.code == "condition_dtype")
    (hole,) = owed(held, domain.looks)
    assert proof(domain, hole).kind == "open"  # nothing was tried
    domain.singles()
    assert "c_type" in domain.refusing and proof(domain, hole).kind == "torch"
    conditions = (value for look in domain.every_look for value in look.case.graph.values if value.name == "c")
    assert {value.dtype for value in conditions} == {"bool"}


def test_what_the_golden_has_no_numbers_of_is_no_case() -> None:
    """A power of two tensors: torch takes it, and nothing says what its numbers must be."""
    domain = domain_of("ethos_u55@1.5", "aten.pow.Tensor_Tensor", "int8")
    start = domain.starts[0]
    found = domain.turn(start, (("other_spread", start.application.operands[0].shape),))
    assert found is not None and not domain.confirmed(found)
    assert domain.unfit == [found] and domain.tried == [] and domain.refused == 1


def test_a_size_that_torch_closes_again_is_not_open() -> None:
    """The channels of a convolution, which its weights have; its height stays open."""
    domain = domain_of("xnnpack@1.5", "aten.conv2d.default", "fp32")
    channels, height = (domain.turn(domain.starts[0], ((f"x_open_{axis}", (axis,)),)) for axis in (1, 2))
    assert channels is not None and not domain.confirmed(channels)
    assert height is not None and domain.confirmed(height)


def test_int8_has_no_zero_point_of_int16() -> None:
    domain = domain_of("ethos_u55@1.5", "aten.abs.default", "int16")
    found = domain.turn(domain.starts[0], (("input_dtype", "int8"),))
    assert found is not None
    assert {(value.quant.dtype, value.quant.zero_point) for value in found.look.case.graph.values if value.quant} == {
        ("int8", 0)
    }


@pytest.mark.parametrize("name", ["neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5"])
def test_every_case_that_was_found_is_one_of_the_tables(name: str) -> None:
    """A case whose start is gone would vanish: then `covering.renew` has to search its row again."""
    table = load_table(name)
    kept = {content_key(table, row, precision) for row, precision in places(table)}
    written = sum(len(found["cases"]) for key, found in found_cases().items() if key in kept)
    assert sum(map(is_found, cases_for(table))) == written


def test_a_program_is_told_by_what_changes_in_another() -> None:
    programs = [case.graph for case in only("aten.convolution.default")[1]][:40]
    for before, after in itertools.pairwise(programs):
        assert changed(before, json.loads(json.dumps(changes(before, after)))) == after


def test_rows_of_another_content_have_none_of_these_cases() -> None:
    table, cases = only("aten.clamp.default")
    narrow = tuple(replace(c, value=7) if c.code == "max_rank" else c for c in table.rows[0].constraints)
    other = replace(table, rows=(replace(table.rows[0], constraints=narrow),))
    assert any(map(is_found, cases)) and not any(map(is_found, cases_for(other)))
    assert content_key(other, other.rows[0], None) != content_key(table, table.rows[0], None)


@pytest.mark.long
def test_the_command_prints_numbers_and_json() -> None:
    printed = CliRunner().invoke(main, ["table", "coverage", "neutron@1.3", "--json"])
    assert printed.exit_code == 0, printed.output
    data = json.loads(printed.output)
    assert data["total"]["atoms"] == sum(row["atoms"] for row in data["rows"]) > 0
    assert CliRunner().invoke(main, ["table", "coverage", "no_such_npu"]).exit_code == 2


@pytest.mark.long
@pytest.mark.parametrize("name", ["neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5"])
def test_reports_show_what_is_counted(name: str) -> None:
    """`shipped.toml` has what `assay table coverage` counts: `vars(total(...))` under the digest of the table."""
    table = load_table(name)
    assert shipped()[table.sha256] == total(measure(table, cases_for(table)))
    kept = {key: told["said"] for key, told in found_cases().items() if "said" in told}
    assert verdicts_of(table).items() <= kept.items(), "what predicates say of an operator's domain"


def test_a_search_that_shows_less_changes_nothing() -> None:
    """Of what an earlier search has shown, none is told as what no program near shows."""
    known: dict[str, Any] = {"cases": [{}], "holes": [{}], "apart": []}
    assert not is_fuller(3, 0, 4, known)
    assert not is_fuller(4, 1, 4, known)
    assert is_fuller(5, 2, 4, known)
    assert is_fuller(4, 0, 4, known), "as much with fewer cases"
    assert is_fuller(0, 0, 0, None)
