"""Reports of backends that no other test runs: the release answers as the results beside its page record it.

Cases that the tables have no more are left out. Of ExecuTorch 1.5.1 and 1.3.1 each environment has one
(`tox -e executorch`, `tox -e executorch13`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pytest
from places import ROOT

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")

from click.testing import CliRunner

from npu_assay.conformance.cli import main
from npu_assay.conformance.compare.drift import drift
from npu_assay.conformance.findings.triage import read
from npu_assay.conformance.record.results import CaseResult, read_results
from npu_assay.conformance.table import load_table

REPORTS = ROOT / "docs" / "reports"
PAGES = {
    "executorch-arm-tosa-1.5.1": ("ethos_u85@1.5", "numbers"),
    "executorch-coreml-1.5.1": ("coreml@1.5", "tags"),
    "executorch-neutron-1.3.1": ("neutron@1.3", "tags"),
    "executorch-neutron-1.5.1": ("neutron@1.4", "tags"),
    "executorch-vulkan-1.5.1": ("vulkan@1.4", "compiles"),
}
"""The table and the level of each page's run."""
PARTS = {"executorch-arm-tosa-1.5.1": "static_shape/outside or regression"}
"""What is asked again of pages whose whole run takes a quarter of an hour: here, where it differs from Ethos-U85's."""
HERE = [page for page in PAGES if page.endswith(f"-{version('executorch')}")]
STILL = 0.9
"""The part of the recorded cases that must still be there."""


def answers(page: str, results: Iterable[CaseResult]) -> dict[str, tuple[str, str]]:
    """Agreement of backend and table, and what became of the model, by case."""
    found = drift(_backend(page), load_table(PAGES[page][0]), results)
    return {entry.result.case: (entry.agreement, entry.flag) for entry in found.entries}


def _backend(page: str) -> str:
    return "executorch:" + page.removeprefix("executorch-").rpartition("-")[0]


def recorded(page: str) -> dict[str, tuple[str, str]]:
    found = read(REPORTS / "raw" / f"{page}.jsonl.xz", _backend(page), PAGES[page][0])
    return answers(page, [entry.result for entry in found.entries])


def changed(expected: dict[str, tuple[str, str]], found: dict[str, tuple[str, str]]) -> list[str]:
    return [case for case in expected if case in found and found[case] != expected[case]]


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize("page", HERE)
def test_the_release_answers_as_recorded(page: str, tmp_path: Path) -> None:
    _, level = PAGES[page]
    words = ["certify", _backend(page), "--level", level, "-n", "1", "--out", str(tmp_path / "run")]
    part = PARTS.get(page)
    done = CliRunner().invoke(main, [*words, *(("-k", part) if part else ())])
    assert done.exit_code == 1, done.output[-2000:]
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert certificate["environment"]["executorch"] == page.rpartition("-")[2]
    text = (tmp_path / "run" / "results.jsonl").read_text()
    found, expected = answers(page, read_results(text, "results.jsonl").values()), recorded(page)
    whole = [case for case in expected if part is None or "/static_shape/outside/" in case]
    assert len(found.keys() & set(whole)) > STILL * len(whole)
    assert changed(expected, found) == []


@pytest.mark.parametrize("page", HERE)
def test_another_answer_is_found(page: str) -> None:
    expected = recorded(page)
    first = next(iter(expected))
    assert changed(expected, {**expected, first: ("no_answer", "unanswered_breaks")}) == [first]
