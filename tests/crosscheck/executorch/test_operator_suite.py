"""ExecuTorch's operator suite goes through our export API, but for the models that the documentation lists."""

from __future__ import annotations

import pytest
from places import ROOT

pytest.importorskip("executorch", reason="the models are ExecuTorch's")

import torch

from tests.crosscheck.executorch.operator_suite import different, troubles
from tests.crosscheck.executorch.suite import samples

SHARES = 12
"""The suite in as many tests, for as many workers."""
PAGE = ROOT / "docs/lab/executorch-operator-suite.md"


def listed() -> dict[str, tuple[str, str]]:
    """The rows of the documentation's table: models by the beginning of their names, where they stop, and why."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `test_")]
    return {name.strip("`"): (stage, reason) for name, stage, reason in rows}


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", range(SHARES))
def test_all_but_the_listed_models_go_all_the_way(share: int) -> None:
    count, found = troubles(share, SHARES)
    assert count > 50
    rows = listed()
    assert [each for each in found if not _explained(each.model, each.stage, each.reason, rows)] == []


def _explained(model: str, stage: str, reason: str, rows: dict[str, tuple[str, str]]) -> bool:
    """Whether a row is about the model and what became of it."""
    return any(
        model.startswith(name) and stage.endswith(where) and why in reason for name, (where, why) in rows.items()
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", listed())
def test_every_row_of_the_table_is_needed(name: str) -> None:
    """The first model of each row does stop there."""
    names = [sample.name for sample in samples()]
    first = next(index for index, model in enumerate(names) if model.startswith(name))
    _, found = troubles(first, len(names))
    assert [_explained(each.model, each.stage, each.reason, listed()) for each in found] == [True]


def test_the_page_states_how_many_there_are() -> None:
    assert f"{len(samples())} models" in PAGE.read_text()


def test_another_number_would_be_seen() -> None:
    x = torch.tensor([1.0, 2.0])
    assert different([x], [x]) == ""
    assert different([x + 1e-4], [x]) == "numbers differ"
    assert different([x, x], [x]) == "2 results instead of 1"
    assert different([x.int()], [x.int() + 1]) == "integers differ"
