"""Operators by the names that people have for them, in `-k`, in `assay show` and in errors."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from npu_assay.conformance.cases import every_operator
from npu_assay.conformance.cli import main
from npu_assay.conformance.run.selection import all_cases, nearest_names, none_selected, select
from npu_assay.conformance.table import load_table
from npu_assay.conformance.table.operator_names import called, nearest_operators

NEUTRON = load_table("neutron@1.3")
CASES = all_cases(NEUTRON)


def rows(expression: str) -> set[str]:
    return {case.row for case in select(CASES, expression)}


@pytest.mark.parametrize("word", ["abs", "aten.abs", "aten.abs.default", "ABS"])
def test_the_name_of_an_operator_selects_its_cases_alone(word: str) -> None:
    """Not those of others that stand behind an abs."""
    assert any("abs" in case.id for case in CASES if case.row != "aten.abs.default")
    assert select(CASES, word) == tuple(case for case in CASES if case.row == "aten.abs.default")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("softmax", {"aten._softmax.default"}),
        ("conv2d", {"aten.convolution.default"}),
        ("squeeze", {"aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"}),
        ("squeeze.dims", {"aten.squeeze.dims"}),
        ("relu or tanh", {"aten.relu.default", "aten.tanh.default"}),
        ("view and outside", {"aten.view_copy.default"}),
        ("not dims and mean", {"aten.mean.dim"}),
    ],
)
def test_words_of_expressions(expression: str, expected: set[str]) -> None:
    assert rows(expression) == expected


@pytest.mark.parametrize("word", ["behind_conv", "channels_multiple_of", "context/behind_abs", "aten.abs.default/"])
def test_any_other_word_is_a_part_of_an_id(word: str) -> None:
    assert select(CASES, word) == tuple(case for case in CASES if word in case.id)


def test_every_operator_has_a_short_name() -> None:
    operators = every_operator()
    for operator in operators:
        assert called(operator, operators) == (operator,)
        assert operator in called(operator.split(".")[-2].lstrip("_"), operators)


@pytest.mark.parametrize("name", ["aten.tahn.default", "aten.max_pool3d.default", "sigmod", "aten._softmax.int"])
def test_few_near_names_are_told(name: str) -> None:
    text = nearest_operators(name, every_operator())
    assert text.startswith("; nearest: aten.") and 1 <= len(text.split(", ")) <= 5


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("aten.abs.default/max_rank/outside/rank_99", "aten.abs.default/max_rank/outside/rank_9"),
        ("aten.abss.default/max_rank/outside/rank_9", "aten.abs.default/max_rank/outside/rank_9"),
        ("abs/max_rank/outsidex/rank_9", "aten.abs.default/max_rank/outside/rank_9"),
        ("max_rank/outside/rank_99", "max_rank/outside/rank_9"),
        ("softmx", "softmax"),
        ("conv2s", "conv2d"),
        ("relu and channels_multiple_off", "channels_multiple_of"),
        ("not (max_rnk or abs)", "max_rank"),
    ],
)
def test_a_mistyped_word_of_an_expression_is_told_what_is_nearest(mistyped: str, meant: str) -> None:
    """The first name in the message selects cases; words that already match are not mentioned."""
    assert nearest_names(mistyped, CASES)[0] == meant
    assert select(CASES, meant)
    told = str(none_selected("-k", CASES, mistyped))
    assert told.startswith(f"-k: matches none of {len(CASES)} case ids; nearest: {meant}")


@pytest.mark.parametrize("expression", ["zzzz", "abs and relu", "zzzz/yyyy", "abs/zzzz"])
def test_without_a_near_name_the_message_shows_what_an_id_looks_like(expression: str) -> None:
    assert nearest_names(expression, CASES) == ()
    assert f"case ids, which look like {CASES[0].id}" in str(none_selected("-k", CASES, expression))


def shown(*arguments: str) -> list[str]:
    result = CliRunner().invoke(main, ["show", *arguments])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_an_operator_is_shown_by_its_short_name() -> None:
    assert shown("neutron", "cat") == shown("neutron", "aten.cat.default")
    assert [line.split()[0] for line in shown("neutron", "squeeze")[1:]] == sorted(rows("squeeze"))


@pytest.mark.parametrize(("backend", "table"), [("neutron", "neutron@1.3"), ("xnnpack", "xnnpack@1.5")])
def test_without_an_operator_all_are_listed(backend: str, table: str) -> None:
    known = load_table(table)
    head, *lines = shown(backend)
    assert head.startswith(f"{table}: ") and [line.split()[0] for line in lines] == [r.name for r in known.every_row]
    assert sum(int(line.split()[1]) for line in lines) == len(all_cases(known))
