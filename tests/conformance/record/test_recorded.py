"""Results are compared with recorded ones case by case; a change names its case."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import recorded

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.record.results import to_line
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table

LINES = '{"case":"a/1","n":1}\n{"case":"a/2","n":2}\n'


def test_a_change_is_named() -> None:
    before, after = recorded.digests(LINES), recorded.digests(LINES.replace('"n":2', '"n":3'))
    found = recorded.differences(after, before)
    assert [line.partition(":")[0] for line in found] == ["a/2", "results.jsonl"]
    assert recorded.differences(before, before) == []


def test_a_case_that_comes_or_goes_is_named() -> None:
    both, one = recorded.digests(LINES), recorded.digests(LINES.splitlines(keepends=True)[0])
    assert recorded.differences(both, one)[0] == f"a/2: found {both['a/2']}, but nothing is recorded"
    assert recorded.differences(one, both)[0] == f"a/2: expected {both['a/2']}, found no such case"


def test_what_is_recorded_are_the_cases_of_the_table() -> None:
    for folder in recorded.GOLDEN.iterdir():
        known = recorded.recorded(folder.name)
        if known is not None:
            cases = {case.id for case in cases_for(load_table(folder.name))}
            assert set(known) == cases | {recorded.WHOLE}, recorded.UPDATE


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, recorded.__file__, *arguments, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("certified", "message"), [(False, "not certified"), (True, "no results are recorded")])
def test_what_cannot_be_compared_says_why(certified: bool, message: str, tmp_path: Path) -> None:
    table = {"name": "nobody", "version": "1"}
    (tmp_path / "certificate.json").write_text(json.dumps({"certified": certified, "table": table}))
    (tmp_path / "results.jsonl").write_text(LINES)
    found = run(tmp_path)
    assert found.returncode == 1 and message in found.stderr and len(found.stderr.splitlines()) == 1


def test_the_order_of_cases_changes_nothing() -> None:
    """Equal numbers of different sign, one after the other and the other way round."""
    backend, table = load_backend("npu_assay.partitioners.neutron:backend"), load_table("neutron@1.3")
    row = "aten.clamp.default/bounds/at_limit/"
    pair = [case for case in cases_for(table) if case.id in (row + "0_to_6", row + "minus_zero_to_6")]
    assert len(pair) == 2
    there, back = ({c.id: to_line(run_case(c, backend, table)) for c in order} for order in (pair, pair[::-1]))
    assert there == back
