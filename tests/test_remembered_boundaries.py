"""What a search made of a row's own limits is kept between runs, and searched again when anything is not as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_asked_limits import TABLE

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.boundaries import drafts, remembered
from npu_assay.conformance.cases.drafts import CaseDraft
from npu_assay.conformance.cases.families.convolution.integers import Convolution
from npu_assay.conformance.cases.make import SUBJECT, model
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import load_table

Made = Callable[[str], tuple[Case, ...]]


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Made, list[str]]]:
    """Makes the cases of a table with one limit, as a process that just started; and the rows that were searched."""
    monkeypatch.setenv("NPU_ASSAY_CACHE", str(tmp_path / "cache"))
    rows, search = list[str](), drafts._bounded

    def listed(limits, *given):  # type: ignore[no-untyped-def]
        rows.append(limits.where)
        return search(limits, *given)

    def made(holds: str) -> tuple[Case, ...]:
        file = tmp_path / "acme@1.0.toml"
        file.write_text(TABLE.format(op="tanh.default", holds=holds))
        drafts._KNOWN.clear()
        return cases_for(load_table(str(file)))

    monkeypatch.setattr(drafts, "_bounded", listed)
    yield made, rows
    drafts._KNOWN.clear()


def test_a_row_is_searched_once(searched: tuple[Made, list[str]]) -> None:
    made, rows = searched
    first = made("x.elements <= 300")
    assert rows == ["acme@1.0: aten.tanh.default (int8)"] and any(case.expect == "reject" for case in first)
    assert made("x.elements <= 300") == first and len(rows) == 1
    assert made("x.elements <= 301") != first and len(rows) == 2


def test_another_suite_or_torch_searches_again(
    searched: tuple[Made, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, rows = searched
    first = made("x.elements <= 300")
    monkeypatch.setattr(remembered, "_made", lambda: {"suite": "another"})
    assert made("x.elements <= 300") == first and len(rows) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda told: told[: len(told) // 2],
        lambda told: json.dumps({**json.loads(told), "drafts": [1, 2]}),
        lambda told: json.dumps({**json.loads(told), "drafts": {"Case": {}}}),
        lambda told: json.dumps({**json.loads(told), "drafts": [{"CaseDraft": {"side": "accept"}}]}),
        lambda told: json.dumps({**json.loads(told), "drafts": [{"CaseDraft": 1}]}),
        lambda told: "[" * 100_000,
    ],
)
def test_what_is_no_such_file_is_searched_again(
    searched: tuple[Made, list[str]], tmp_path: Path, damage: Callable[[str], str]
) -> None:
    made, rows = searched
    first = made("x.elements <= 300")
    (file,) = (tmp_path / "cache" / remembered.KIND).iterdir()
    file.write_text(damage(file.read_text()))
    assert made("x.elements <= 300") == first and len(rows) == 2
    assert made("x.elements <= 300") == first and len(rows) == 2


def test_an_empty_name_of_the_folder_keeps_nothing(
    searched: tuple[Made, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, rows = searched
    monkeypatch.setenv("NPU_ASSAY_CACHE", "")
    assert made("x.elements <= 300") == made("x.elements <= 300") and len(rows) == 2


def test_what_a_file_cannot_hold_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_ASSAY_CACHE", str(tmp_path))
    graph = model(Convolution((1, 4, 8, 8), (4, 4), 1).call())
    for held in (object(), {"a": "dictionary"}):
        draft = CaseDraft("operator", "accept", "baseline", graph, options=(("held", held),))
        assert remembered.remembered("acme", "asked", lambda draft=draft: (draft,)) == (draft,)  # type: ignore[misc]
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("left_out", range(9))
def test_a_convolution_without_an_argument_is_no_program(left_out: int) -> None:
    """A search leaves out whatever it may: torch refuses most, but for a bias, and takes None for no transposed one."""
    graph = model(Convolution((1, 4, 8, 8), (4, 4), 1).call())
    assert application(graph, SUBJECT).results[0].rank == 4
    steps = tuple(
        replace(step, args=(*step.args[:left_out], None, *step.args[left_out + 1 :])) if step.name == SUBJECT else step
        for step in graph.steps
    )
    if left_out in (2, 6):
        assert application(replace(graph, steps=steps), SUBJECT).results[0].rank == 4
    else:
        with pytest.raises(NoProgram):
            application(replace(graph, steps=steps), SUBJECT)
