"""The second golden is asked at most once for a case, a table and a suite; a disagreement is never remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import fake_backend
import pytest
from click.testing import CliRunner

from npu_assay.conformance.cli import main
from npu_assay.conformance.common.remembered import CACHE, Remembered
from npu_assay.conformance.judge.agreements import KIND, Agreements
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import GOLDEN, Failure
from npu_assay.conformance.run import one_case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

DISAGREES = Failure(GOLDEN, "the goldens disagree: as this test wants")
MADE = {"table": "1", "sources": "2"}
Count = Callable[..., int]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "goldens"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """How many cases a run asked the second golden about, which finds what `found` says."""
    log = tmp_path / "asked"

    def run(*options: str, found: tuple[Failure, ...] = ()) -> int:
        log.write_text("")

        def golden_failures(_: Graph) -> list[Failure]:
            with log.open("a") as file:  # judges are other processes
                file.write("x")
            return list(found)

        monkeypatch.setattr(one_case, "golden_failures", golden_failures)
        out = ["--out", str(tmp_path / "run")]
        CliRunner().invoke(main, ["certify", "fake_backend:backend", "-n", "1", "-k", "neg", *out, *options])
        return len(log.read_text())

    return run


def agreements(table: str | None, made: Mapping[str, str] = MADE) -> Agreements:
    return Agreements(Remembered(KIND, table, made))


@pytest.mark.usefixtures("cache")
def test_each_case_is_asked_about_once(asked: Count) -> None:
    assert asked() > 5
    assert asked() == 0


@pytest.mark.long
@pytest.mark.usefixtures("cache")
def test_a_disagreement_is_found_in_every_run(asked: Count, tmp_path: Path) -> None:
    first = asked(found=(DISAGREES,))
    assert first > 5 and asked(found=(DISAGREES,)) == first
    records = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert sum(record["status"] == "undecided" for record in records) == first
    assert asked() == first and asked() == 0


@pytest.mark.long
@pytest.mark.usefixtures("cache")
def test_other_random_numbers_are_asked_about_anew(asked: Count) -> None:
    first = asked()
    assert asked("--seed", "3") == asked("--seed", "3") == first
    assert asked() == 0


def test_nothing_is_remembered_when_the_folder_is_empty_text(asked: Count, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE, "")
    assert asked() == asked() > 5


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"made": "?", "agreed": []}', b"[" * 10**6])
def test_a_file_that_says_nothing_is_written_anew(text: bytes, cache: Path) -> None:
    result = run_case(
        all_cases(load_table(fake_backend.TABLE))[0], fake_backend.backend, load_table(fake_backend.TABLE)
    )
    agreements("fake@1").add([result])
    (file,) = cache.iterdir()
    assert agreements("fake@1").known == {result.case}
    file.write_bytes(text)
    assert agreements("fake@1").known == frozenset()
    agreements("fake@1").add([result])
    assert agreements("fake@1").known == {result.case}


def test_a_folder_that_takes_no_file_costs_nothing_else(asked: Count, cache: Path) -> None:
    cache.parent.write_text("not a folder")
    assert asked() == asked() > 5


@pytest.mark.usefixtures("cache")
def test_another_table_or_suite_knows_nothing() -> None:
    table = load_table(fake_backend.TABLE)
    agreements("fake@1").add([run_case(all_cases(table)[0], fake_backend.backend, table)])
    assert agreements("fake@1").known
    for other in ({**MADE, "table": "3"}, {**MADE, "sources": "3"}):
        assert agreements("fake@1", other).known == frozenset()
    assert agreements("fake@2").known == agreements(None).known == frozenset()
