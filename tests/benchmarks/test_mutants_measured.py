"""The tables of docs/lab/mutants.md about mutants that nobody chose are those of the records that are kept."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from benchmarks.mutants.headlines import right_kind, right_place, told
from benchmarks.mutants.measured import AGAIN, HEADLINES, Record, headlines, kept, none, rates
from npu_assay.conformance.report.symptoms import REFUSED

PAGE = (ROOT / "docs/lab/mutants.md").read_text().splitlines()
RECORD: Record = {
    "id": "partitioners/neutron/support/pooling.py:51:556:0",
    "part": "rules",
    "headline": "Rejected for stride_h, but the table allows it",
    "rows": [["aten.max_pool1d.default", 20], ["aten.max_pool2d.default", 4]],
    "shows": 0,
    "answers differ": ["aten.max_pool1d.default", "aten.max_pool2d.default"],
    "executes": {"aten.max_pool1d.default": 0.9, "aten.max_pool2d.default": 0.99, "aten.relu.default": 0.1},
}
OTHERS: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "as it is": ({}, True, True),
    "numbers of a rule": ({"headline": "Wrong numbers, negated"}, False, True),
    "an error of a rule": ({"headline": "An error, TypeError, in the stage 'partition'"}, True, True),
    "an error of the device": ({"headline": "An error, TypeError, in the stage 'run'"}, False, True),
    "what the compiler refuses": ({"headline": f"{REFUSED}: CompileError"}, True, True),
    "what no compiler refuses": ({"headline": f"{REFUSED}: CompileError", "shows": 2}, False, True),
    "numbers of a pass": ({"headline": "Wrong numbers", "part": "compilers and devices"}, True, True),
    "delegation of a device": ({"shows": 2}, False, True),
    "an operator that is as it was": ({"rows": [["aten.relu.default", 3]]}, True, False),
    "an operator that has little of it": (
        {"rows": [["aten.relu.default", 3]], "answers differ": ["aten.relu.default", "aten.max_pool1d.default"]},
        True,
        False,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_headline_is_right_where_kind_and_place_are_those_of_the_change(name: str) -> None:
    changed, kind, place = OTHERS[name]
    record = {**RECORD, **changed}
    assert (right_kind(record), right_place(record)) == (kind, place)


def test_rows_of_tables_count_records(tmp_path: Path) -> None:
    """A mutant that stands there twice is one; what no case shows has no headline."""
    none = {"id": "another", "part": "rules", "headline": "no case of these fails"}
    wrong = {**RECORD, "id": "wrong", "headline": "Wrong numbers"}
    judged: list[Record] = [
        {"id": "one", "part": part, "killed": killed} for part, killed in (("rules", True), ("rules", False))
    ]
    judged += [{"id": "two", "part": "compilers and devices", "killed": True}]
    files: dict[str, list[Record]] = {"neutron-1-headlines": [RECORD, RECORD, none, wrong], "ethos-u85-7": judged}
    for name, lines in files.items():
        text = "\n".join(map(json.dumps, lines))
        (tmp_path / f"{name}.jsonl.xz").write_bytes(lzma.compress(text.encode()))
    assert list(headlines(kept(HEADLINES, tmp_path))) == ["| `neutron`, 1 | 3 | 2 | 0 | 1 | 1 | 1 | 1 | 0 |"]
    assert [row.split(" % ")[0] for row in rates(tmp_path)] == [
        "| `ethos-u85`, 7 | rules | 0 of 1 | 0.0",
        "| `ethos-u85`, 7 | compilers and devices | 1 of 1 | 100.0",
    ]


def test_survivors_are_counted_again_without_those_that_nothing_can_kill(tmp_path: Path) -> None:
    def write(name: str, killed: dict[str, bool]) -> None:
        text = "\n".join(
            json.dumps({"id": one, "part": "rules", "killed": is_killed}) for one, is_killed in killed.items()
        )
        other = json.dumps({"id": "other", "part": "compilers and devices", "killed": True})
        (tmp_path / f"{name}.jsonl.xz").write_bytes(lzma.compress(f"{text}\n{other}".encode()))

    write("neutron-1", {"a": True, "b": False, "c": False, "d": False})
    write("neutron-1-again", {"b": True, "c": False, "d": False})
    assert next(rates(tmp_path)).endswith("| 2 of 4, 50.0 % |")
    (tmp_path / "none.toml").write_text('c = "two equal things"\na = "killed all the same"\n')
    assert next(rates(tmp_path)).endswith("| 2 of 3, 66.7 % |")


def test_what_cannot_be_killed_is_a_survivor_with_a_reason() -> None:
    again = {record["id"]: record for mine in kept(AGAIN).values() for record in mine}
    drawn = {record["id"] for mine in kept("").values() for record in mine if not record["killed"]}
    assert set(none()) <= drawn and all(none().values())
    assert not [one for one in none() if again.get(one, {"killed": False})["killed"]]


def test_the_page_has_the_rows_of_the_records() -> None:
    expected = [*rates(), *headlines(kept(HEADLINES))]
    assert expected and not [row for row in expected if row not in PAGE]


def test_headlines_of_a_hundred_mutants_name_the_kind_and_the_place() -> None:
    shown = [record for mine in kept(HEADLINES).values() for record in told(mine)]
    right = [record for record in shown if right_kind(record) and right_place(record)]
    assert len(shown) >= 100 and len(right) >= 0.9 * len(shown)


def test_no_headline_of_a_mutant_is_wrong_but_two_that_are_now_told_otherwise() -> None:
    """Those two of the first draw were errors of the compiler, which say now that it refuses what was delegated."""
    wrong = [
        (name, record)
        for name, mine in kept(HEADLINES).items()
        for record in told(mine)
        if not (right_kind(record) and right_place(record))
    ]
    assert [name for name, _ in wrong] == ["`xnnpack`, 102"] * 2
    for _, record in wrong:
        assert record["headline"] == "An error, CompileError, in the stage 'compile'" and record["part"] == "rules"
        assert right_kind({**record, "headline": f"{REFUSED}: CompileError"}) and right_place(record)
