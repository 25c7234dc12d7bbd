"""Two releases are compared in documents, answers and findings; what is there already is not asked again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import CliRunner, Result
from places import SHARED

from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.findings import Finding
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.release import compare, environments, known, packages
from npu_assay.conformance.release.environments import Environment, made
from npu_assay.conformance.release.packages import PACKAGES, Package, Release, release
from npu_assay.conformance.table.published.documents import document_changes

BACKEND = {"1": "FakePartitioner", "2": "Refuses"}
SCRIPTS = {
    "stays": "print('the fault shows: it'); raise SystemExit(1)",
    "went": "import os\nif os.environ['SIDE'] == '1':\n    print('the fault shows: it'); raise SystemExit(1)",
    "came": "import os\nif os.environ['SIDE'] == '2':\n    print('the fault shows: it'); raise SystemExit(1)",
    "dies": "import os\nos.abort()",
    "calls": "import subprocess\nraise SystemExit(subprocess.run(['own-command']).returncode)",
    "cannot": "import no_such_module",
    "quiet": "raise SystemExit(1)",
}
STATUSES = {
    "stays": "still there",
    "went": "gone",
    "came": "came",
    "dies": "still there",
    "calls": "still there",
    "cannot": "cannot be asked",
    "quiet": "cannot be asked",
    "unwritten": "cannot be asked",
}


def fake(folder: Path, version: str) -> Environment:
    """An environment of a release of changing-npu: this interpreter, with another backend in each."""
    (folder / "bin").mkdir(parents=True)
    made_of = f"TABLE, {BACKEND[version]}, FakeBackend, FakeRuntime()"
    text = f'from fake_backend import *\nbackend = Backend("fake", {made_of})\n'
    (folder / "changing_npu.py").write_text(text)
    python = folder / "bin" / "python"
    path = f"{folder}:{SHARED}:$PYTHONPATH"
    python.write_text(f'#!/bin/sh\nSIDE={version} PYTHONPATH="{path}" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = folder / "bin" / "own-command"
    command.write_text("#!/bin/sh\necho the fault shows; exit 1\n")
    command.chmod(0o755)
    return Environment(Release("changing-npu", version, f"changing-npu=={version}"), folder)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`assay release` of a package with one backend that is there and one that is not."""
    package = Package({"changing_npu:backend": NUMBERS, "changing_npu:nothing": NUMBERS}, inside=True)
    monkeypatch.setattr(packages, "PACKAGES", MappingProxyType({**PACKAGES, "changing-npu": package}))
    sides = {version: fake(tmp_path / version, version) for version in BACKEND}
    monkeypatch.setattr(compare, "made", lambda release, kept: sides[release.version])
    found = {
        name: Finding(name, f"findings/{name}", {"changing_npu:backend": "1"}, "crash", "", "", "", ())
        for name in (*SCRIPTS, "unwritten")
    }
    monkeypatch.setattr(known, "findings", lambda: found)
    (tmp_path / "pages" / "findings").mkdir(parents=True)
    for name, script in SCRIPTS.items():
        (tmp_path / "pages" / "findings" / f"{name}.md").write_text(f"# It\n\n```python\n{script}\n```\n")

    def call(*options: str) -> Result:
        words = ["release", "changing-npu==1", "changing-npu==2", "--findings", str(tmp_path / "pages"), "-n", "2"]
        return CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out"), *options])

    return call


def read(tmp_path: Path) -> dict[str, Any]:
    text = (tmp_path / "out" / "release.json").read_text()
    return dict(json.loads(text))


def test_what_changed_is_on_the_page(run: Callable[..., Result], tmp_path: Path) -> None:
    done = run("-k", "aten.neg.default/operator/accept or aten.abs.default/operator/accept")
    assert done.exit_code == 1, done.output
    found = read(tmp_path)
    rows = found["backends"]["changing_npu:backend"]["rows"]
    assert list(rows) == ["aten.neg.default"] and "tags" in rows["aten.neg.default"]
    assert "has no 'nothing'" in found["not asked"]["changing_npu:nothing"]
    assert {each["name"]: each["status"] for each in found["findings"]} == STATUSES
    (candidate,) = {(each["row"], each["check"]) for each in found["candidates"] if each["check"] == "tag"}
    assert candidate == ("aten.neg.default", "tag")
    for name in ("release.md", "release.html"):
        text = (tmp_path / "out" / name).read_text()
        assert all(word in text for word in ("aten.neg.default", "no_such_module", "mood"))


def test_what_was_asked_is_not_asked_again(run: Callable[..., Result], tmp_path: Path) -> None:
    run("-k", "aten.abs.default/operator/accept")
    certificate = tmp_path / "out" / "changing-npu-1" / "changing_npu.backend" / "certificate.json"
    first = certificate.stat().st_mtime_ns
    scripts = tmp_path / "out" / "changing-npu-1" / "findings.json"
    asked = scripts.stat().st_mtime_ns
    run("-k", "aten.abs.default/operator/accept")
    assert (certificate.stat().st_mtime_ns, scripts.stat().st_mtime_ns) == (first, asked)
    run("-k", "aten.abs.default/operator/accept", "--again")
    second = certificate.stat().st_mtime_ns
    assert second != first and scripts.stat().st_mtime_ns != asked
    run("-k", "aten.abs.default")
    assert certificate.stat().st_mtime_ns != second


def test_an_interrupted_run_goes_on(run: Callable[..., Result], tmp_path: Path) -> None:
    """Of the same cases; the journal of others is begun anew."""
    run("-k", "aten.abs.default/operator")
    folder = tmp_path / "out" / "changing-npu-1" / "changing_npu.backend"
    results = (folder / "results.jsonl").read_bytes()
    (folder / "certificate.json").unlink()
    (folder / "results.partial.jsonl").write_bytes(b'{"run": {"backend": "another"}}\n')
    run("-k", "aten.abs.default/operator")
    assert (folder / "results.jsonl").read_bytes() == results and not (folder / "results.partial.jsonl").exists()


def test_two_equal_releases_differ_in_nothing(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "findings", dict)
    os.replace(tmp_path / "1" / "changing_npu.py", tmp_path / "2" / "changing_npu.py")
    (tmp_path / "1" / "changing_npu.py").write_bytes((tmp_path / "2" / "changing_npu.py").read_bytes())
    done = run("-k", "aten.abs.default/operator/accept")
    assert done.exit_code == 0 and "changing_npu:backend: the same" in done.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("executorch==1.5.1", ("executorch", "1.5.1")),
        ("ai_edge_litert==2.3.0", ("ai-edge-litert", "2.3.0")),
        ("wheels/openvino-2026.4.1-21919-cp311-cp311-manylinux2014_x86_64.whl", ("openvino", "2026.4.1")),
    ],
)
def test_a_release_is_a_requirement_or_a_wheel(text: str, expected: tuple[str, str]) -> None:
    found = release(text)
    assert (found.name, found.version) == expected and found.source == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("executorch", "expected NAME==VERSION or a wheel"),
        ("executorch>=1.5", "expected NAME==VERSION or a wheel"),
        ("executorhc==1.5.1", "no package 'executorhc', did you mean 'executorch'"),
    ],
)
def test_anything_else_is_one_error(text: str, says: str) -> None:
    done = CliRunner().invoke(main, ["release", text, "executorch==1.5.1"])
    assert done.exit_code == 2 and says in done.output
    done = CliRunner().invoke(main, ["release", "openvino==1", "executorch==1.5.1"])
    assert done.exit_code == 2 and "expected two releases of one" in done.output


def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be called to make an environment."""
    calls: list[list[str]] = []

    def called(command: list[str], folder: Path) -> None:
        calls.append(list(command))
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(environments, "_run", called)
    return calls


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By pip, of what the package needs; what pip says is the error, and a broken one is made again."""
    calls = commands(monkeypatch)
    wanted = release("onnxruntime==1.32.0")
    found = made(wanted, tmp_path)
    assert found.folder == tmp_path / "onnxruntime-1.32.0" and len(calls) == 2
    assert any(word.startswith("onnx==") for word in calls[1]) and "onnxruntime==1.32.0" in calls[1]
    limits = (tmp_path / "onnxruntime-1.32.0-limits.txt").read_text()
    assert "numpy==" in limits and "onnxruntime==" not in limits
    made(wanted, tmp_path)
    assert len(calls) == 2
    (found.folder / environments.MADE).unlink()
    made(wanted, tmp_path)
    assert len(calls) == 4


def test_what_pins_older_versions_is_installed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release itself, too, where it is one of these."""
    calls = commands(monkeypatch)
    made(release("tosa-tools==2026.5.0"), tmp_path)
    _, usual, alone = calls
    assert "tosa-tools==2026.5.0" in alone and "--no-deps" in alone
    assert not [word for word in usual if word.startswith("tosa-tools")]


def test_what_pip_says_is_the_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"onnxruntime-0\.0\.1: cannot be made: .*onnxruntime==0\.0\.1"):
        made(release("onnxruntime==0.0.1"), tmp_path)
    assert not (tmp_path / "onnxruntime-0.0.1" / environments.MADE).exists()


# ------------------------------------------------------------------------------------ documents

OLD = "Operator,DType,Constraints\naten.abs.default,int8,\naten.mean.dim,int8,4D tensor only\naten.neg.default,int8,\n"
NEW = (
    OLD.replace("abs.default,int8", "abs.default,int8 int16")
    .replace("4D tensor only", "rank = 4")
    .replace("aten.neg", "npu.magic")
)


def test_documents_differ_in_rows_precisions_and_sentences(tmp_path: Path) -> None:
    for folder, text in (("a", OLD), ("b", NEW)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "table.csv").write_text(text)
    (tmp_path / "b" / "more.csv").write_text(OLD)
    found = {(change.where, change.what) for change in document_changes(tmp_path / "a", tmp_path / "b")}
    assert found == {
        ("more.csv", "document"),
        ("table.csv: aten.abs.default", "precisions"),
        ("table.csv: aten.mean.dim", "sentence"),
        ("table.csv: aten.neg.default", "row"),
        ("table.csv: npu.magic.default", "row"),
    }
    done = CliRunner().invoke(main, ["table", "diff", "--documents", *(f"{tmp_path}/{x}/table.csv" for x in "ab")])
    assert done.exit_code == 1 and "aten.mean.dim: sentence: 4D tensor only -> rank = 4" in done.output
    same = CliRunner().invoke(main, ["table", "diff", "--documents", *[f"{tmp_path}/a"] * 2])
    assert same.exit_code == 0
    for a, b in (("a", "b/table.csv"), ("none", "none")):
        done = CliRunner().invoke(main, ["table", "diff", "--documents", f"{tmp_path}/{a}", f"{tmp_path}/{b}"])
        assert done.exit_code == 2, done.output
