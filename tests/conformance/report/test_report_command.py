"""`assay report`: the page of a run that is over, with what is new since another one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calling import call
from click.testing import Result
from reported import NEG, run

from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS, TABLE
from npu_assay.conformance.record.results import from_line, to_line


def invoke(*arguments: Any) -> Result:
    return call("report", *arguments)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of some cases: "right", and "drifts", of which two fail."""
    folder = tmp_path_factory.mktemp("runs")
    run(folder / "right", "backend", "baseline")
    run(folder / "drifts", "drifts", "baseline")
    return folder


def test_it_is_the_runs_own_page(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(folders / "drifts")
    assert (result.exit_code, result.output) == (0, "report: drifts.html\n")
    assert (tmp_path / "drifts.html").read_bytes() == (folders / "drifts" / "report.html").read_bytes()


@pytest.mark.parametrize("earlier", ["right", "right.zip"])
def test_it_says_what_is_new(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right").symlink_to(folders / "right")
    call("package", folders / "right", "--out", "right.zip")
    before = (folders / "drifts" / "report.html").read_bytes()
    assert invoke(folders / "drifts", "--since", earlier, "--out", "new.html").exit_code == 0
    text = (tmp_path / "new.html").read_text()
    assert f"<h2>What is new since {earlier}</h2>" in text
    page = text.partition("<script")[0]
    assert "<caption>The certificates differ in</caption>" in page
    assert page.count("<table") == page.count("<caption>")
    failing = sum('"status":"fail"' in line for line in (folders / "drifts" / RESULTS).read_text().splitlines())
    assert failing > 0 and f"<strong>{failing}</strong> newly failing" in text
    assert (folders / "drifts" / "report.html").read_bytes() == before
    assert invoke(folders / "right", "--since", folders / "drifts", "--out", "back.html").exit_code == 0
    assert f"<strong>{failing}</strong> newly passing" in (tmp_path / "back.html").read_text()


def test_a_file_that_is_there_stays(folders: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    result = invoke(folders / "drifts", "--out", page)
    assert result.exit_code == 2 and "it exists already" in result.output and page.read_text() == "mine"
    assert invoke(folders / "drifts", "--out", page, "--force").exit_code == 0 and page.read_text() != "mine"


def edited(folder: Path, case: str) -> None:
    """Give a case of a run another name, with all digests that `assay report` looks at."""
    lines = (folder / RESULTS).read_text().splitlines()
    data = [from_line(line) for line in lines]
    texts = [to_line(replace(one, case=case) if one.case == NEG else one) for one in data]
    text = "\n".join(texts) + "\n"
    (folder / RESULTS).write_text(text)
    certificate = json.loads((folder / CERTIFICATE).read_text())
    certificate["results_sha256"] = sha256(text)
    (folder / CERTIFICATE).write_text(json.dumps(certificate))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["right", "--since", "nowhere"], "nowhere"),
        (["right", "--out", "right/table.toml/page.html"], "cannot be written: Not a directory"),
        (["renamed"], "aten.neg.default/operator/accept/unheard_of: this version of the suite has no such case"),
        (["cut"], "cut: results.jsonl is not the file that certificate.json was made of"),
        (["right", "--since", "lost"], "lost: incomplete: results.jsonl is missing"),
        (["other"], "other: table.toml is not the table that the certificate names"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("right", "renamed", "cut", "lost", "other"):
        target = tmp_path / name
        target.mkdir()
        for path in (folders / "right").iterdir():
            (target / path.name).write_bytes(path.read_bytes())
    edited(tmp_path / "renamed", "aten.neg.default/operator/accept/unheard_of")
    (tmp_path / "cut" / RESULTS).write_text("")
    (tmp_path / "lost" / RESULTS).unlink()
    (tmp_path / "other" / TABLE).write_text("")
    result = invoke(*arguments)
    assert result.exit_code == 2 and said in result.output and result.output.count("\n") == 1
    assert not list(tmp_path.glob("*.html"))
