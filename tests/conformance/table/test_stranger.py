"""A stranger's table: forty published rows are imported, completed with data alone, and certified for their tags."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from calling import call
from places import ROOT

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.exir.rules import Rule

FOLDER = ROOT / "examples" / "osprey"
FILE = FOLDER / "osprey" / "osprey@1.0.toml"
TABLE = load_table(str(FILE))
RULES = {
    "rank_at_most_5": "aten.sign.default",
    "channels_mod_4_0": "aten.relu.default",
    "batch_1": "aten.elu.default",
    "flat_input_size_at_most_32768": "aten.sin.default",
    "unread_rows_of_at_most_2_kib": "aten.exp.default",
    "unread_images_of_even_height_and_width": "aten.floor.default",
    "no_broadcasting": "aten.sub.Tensor",
    "the_second_operand_is_a_constant": "aten.mul.Tensor",
    "along_one_of_the_last_two_axes": "aten._log_softmax.default",
    "keepdim_true": "aten.amax.default",
    "unread_the_last_axis_stays": "aten.permute_copy.default",
    "kernel_at_most_6": "aten.max_pool2d.default",
    "stride_at_most_3": "aten.avg_pool2d.default",
    "weights_of_at_most_8_kib": "aten.mm.default",
}
"""Every constraint of the table, and a row that has it."""


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as if it were installed."""
    monkeypatch.syspath_prepend(str(FOLDER))


@cache
def of_row(row: str) -> tuple[Case, ...]:
    return cases_for(replace(TABLE, rows=(TABLE.row(row),)))


def test_the_table_is_the_published_one_and_three_predicates(tmp_path: Path) -> None:
    made = tmp_path / "osprey@1.0.toml"
    words = ["--name", "osprey", "--version", "1.0", "--out", str(made)]
    assert call("table", "import", str(FOLDER / "published.csv"), *words).exit_code == 0
    published, completed = (tomllib.loads(path.read_text()) for path in (made, FILE))
    assert len(published["operators"]) == 40
    written = {
        code: found["holds"]
        for code, found in completed["constraints"].items()
        if found != published["constraints"][code]
    }
    assert len(written) == 3 and all(code.startswith("unread_") for code in written)
    for code, holds in written.items():
        says = published["constraints"][code]["says"]
        published["constraints"][code] = {"says": says, "holds": holds}
    assert published == completed
    found = json.loads(call("table", "diff", str(made), str(FILE), "--json").output)
    assert {(one["where"], one["what"]) for one in found} == {(code, "definition") for code in written}


def test_its_limits_are_its_own() -> None:
    assert {*RULES} == {rule.code for rule in TABLE.own.definitions}
    assert not {*RULES} & {code for table in ("neutron@1.3", "xnnpack@1.5") for code, _ in load_table(table).meanings}
    assert not any(rule.holds is None for rule in TABLE.own.definitions)


def test_the_example_is_a_partitioner_alone(project: None) -> None:
    done = call("certify", "osprey:backend", "-k", "abs")
    assert done.exit_code == 2 and "has no compiler: found --level numbers, expected --level tags" in done.output
    files = list((FOLDER / "osprey").glob("*.py"))
    assert len(files) == 2 and "conformance" not in "".join(path.read_text() for path in files)


@pytest.mark.long
def test_some_rows_pass_as_a_user_runs_them(project: None, tmp_path: Path) -> None:
    rows = "aten.abs.default or aten.exp.default or aten.permute_copy.default"
    done = call("certify", "osprey:backend", "--level", "tags", "-k", rows, "-n", "2", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert "PASSED (tags): osprey:backend against osprey@1.0; nothing was compiled or run" in done.output


@pytest.mark.slow
def test_the_whole_table_is_certified_for_its_tags(project: None, tmp_path: Path) -> None:
    done = call("certify", "osprey:backend", "--level", "tags", "-n", "2", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0 and "CERTIFIED (tags): osprey:backend against osprey@1.0" in done.output
    assert "40 operators" in done.output


@pytest.mark.parametrize("code", RULES)
def test_a_rule_that_is_left_out_fails(project: None, code: str) -> None:
    right = partitioner()
    rules = {op: tuple(rule for rule in rules if rule.code != code) for op, rules in right.rules.items()}
    failed = failing(code, type("Forgetful", (right,), {"rules": rules}))
    assert failed and {check for _, check in failed} == {"tag"}
    outside = {case.id for case in of_row(RULES[code]) if (case.constraint, case.side) == (code, "outside")}
    assert outside <= {case for case, _ in failed}


OFF_BY_ONE = {
    "rank_at_most_5": 1,
    "flat_input_size_at_most_32768": 1,
    "unread_rows_of_at_most_2_kib": 1,
    "kernel_at_most_6": 1,
}


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("code", OFF_BY_ONE)
def test_a_rule_that_is_off_by_one_fails(project: None, code: str, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text with another number: 4 or 6 dimensions for 5."""
    limit = {"rank": "5", "flat": "32768", "unread": "2048", "kernel": "6"}[code.partition("_")[0]]
    text = (FOLDER / "osprey" / "partitioner.py").read_text()
    start = text.index(f'@rule("{code}")')
    end = text.index("\n\n\n", start)
    changed = re.sub(rf"> {limit}\b", f"> {int(limit) + more}", text[start:end])
    assert changed != text[start:end]
    space: dict[str, Any] = {"__name__": "changed"}
    exec(compile(text[:start] + changed + text[end:], "changed", "exec"), space)
    assert failing(code, space["OspreyPartitioner"])


def partitioner() -> Any:
    """The example's, once `project` makes it known."""
    return importlib.import_module("osprey.partitioner").OspreyPartitioner


def failing(code: str, partitioner: Any) -> set[tuple[str, str]]:
    """The failed cases of the row that stands for a constraint, each with the check."""
    backend = Backend("osprey", str(FILE), partitioner)
    found = ((case, run_case(case, backend, TABLE)) for case in of_row(RULES[code]) if case.constraint == code)
    return {(case.id, failure.check) for case, result in found for failure in result.failures}


def test_the_right_rules_fail_nothing(project: None) -> None:
    right = partitioner()
    assert not any(failing(code, right) for code in RULES)


def test_rules_are_named_as_the_table_names_them(project: None) -> None:
    rules: set[Rule[Any]] = {rule for found in partitioner().rules.values() for rule in found}
    assert {rule.code for rule in rules} == {*RULES}
    says = dict(TABLE.meanings)
    assert all(rule.sentence == says[rule.code] for rule in rules)
