"""The workflow for GitHub Actions, and the page of exit codes."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from ci_asked import command
from places import ROOT

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cli import main
from npu_assay.conformance.record.names import CERTIFICATE

WORKFLOW = ROOT / "examples" / "github-workflow" / "assay.yml"


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each job's steps."""
    yaml: Any = importlib.import_module("yaml")
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    for name, job in jobs.items():
        for step in job["steps"]:
            yield name, step


def lines(job: str) -> list[str]:
    """The assay commands of a job, a line each, with shard numbers in place of GitHub's expressions."""
    texts = [str(step["run"]) for name, step in steps() if name == job and "run" in step]
    found = [line.strip() for text in texts for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in found if line.startswith("assay ")]


def test_every_command_of_the_workflow_can_be_given() -> None:
    commands = [line for job in ("shard", "certificate") for line in lines(job)]
    assert len(commands) >= 4
    for line in commands:
        verb, *arguments = shlex.split(re.split(r" (?:>>|\|\|) ", filled(line, 1))[0])[1:]
        main.commands[verb].make_context(verb, arguments)


def filled(line: str, number: int) -> str:
    line = line.replace("${{ matrix.shard }}", str(number)).replace('"$BACKEND"', "fake_backend:backend")
    return line.replace('--table "$TABLE"', "").replace('${WAIVERS:+--waivers "$WAIVERS"}', "")


def test_what_a_user_changes_stands_in_env_alone() -> None:
    yaml: Any = importlib.import_module("yaml")
    workflow = yaml.safe_load(WORKFLOW.read_text())
    backend, table = workflow["env"]["BACKEND"], workflow["env"]["TABLE"]
    assert Path(load_backend(backend).table).stem == table or load_backend(backend).table == table
    texts = [str(step["run"]) for _, step in steps() if "run" in step]
    assert not [text for text in texts if backend in text or "constraints.txt" in text]
    for verb in ("certify", "merge"):
        assert all(
            '--table "$TABLE"' in line for job in ("shard", "certificate") for line in lines(job) if verb in line
        )


def test_npu_assay_comes_from_an_address_that_is_to_be_replaced() -> None:
    """No index has it. The workflow and its page say the same."""
    readme = WORKFLOW.with_name("README.md").read_text()
    for text in (WORKFLOW.read_text(), readme):
        own, *others = re.findall(r"(?m)^[ #]*INSTALL: (.*)$", text)
        assert own == "-c constraints.txt git+https://git.example.com/npu-assay.git@TAG ."
        assert re.search(r"(?i)\breplace\b.* address and", " ".join(text.split())), text
        assert not [other for other in others if "npu-assay" in other]


@pytest.mark.parametrize(("waivers", "given"), [("", []), ("a b.toml", ["--waivers", "a b.toml"])])
def test_waivers_are_given_where_the_workflow_names_some(waivers: str, given: list[str]) -> None:
    (certify,) = lines("shard")
    script = f'assay() {{ printf "%s\\n" "$@"; }}\n{re.sub(r"[$]{{.*?}}", "1", certify)}'
    environment = {**os.environ, "BACKEND": "b", "TABLE": "t", "WAIVERS": waivers}
    told = subprocess.run(["bash", "-euc", script], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-2 - len(given) :] == ["--junit", "junit/shard-1.xml", *given]


def test_the_workflow_s_shards_are_those_of_its_matrix() -> None:
    yaml: Any = importlib.import_module("yaml")
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["shard"]
    numbers = job["strategy"]["matrix"]["shard"]
    (certify,) = lines("shard")
    assert numbers == list(range(1, len(numbers) + 1)) and f"/{len(numbers)} " in certify
    assert job["strategy"]["fail-fast"] is False


def test_steps_that_need_the_record_run_where_there_is_one() -> None:
    """`assay merge` leaves none where it refuses the shards."""
    needing = [step for _, step in steps() if re.search(r"assay (?!merge).*\brecord\b", str(step.get("run")))]
    assert len(needing) == 2
    assert all(f"hashFiles('record/{CERTIFICATE}') != ''" in step["if"] for step in needing)


@pytest.mark.parametrize(("verb", "fails"), [("verify", (False, True, True)), ("diff", (False, False, True))])
def test_a_step_fails_where_its_command_does(verb: str, fails: tuple[bool, ...], tmp_path: Path) -> None:
    """As GitHub runs it, with a command that ends with 0, 1 and 2; a difference alone is no failure."""
    (script,) = [str(step["run"]) for _, step in steps() if f"assay {verb} " in str(step.get("run"))]
    for code, expected in enumerate(fails):
        told = f'assay() {{ test "$1" != {verb} || return {code}; }}\n{script}'
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", told]
        environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
        assert (subprocess.run(shell, env=environment, cwd=tmp_path, check=False).returncode != 0) is expected


@pytest.mark.long
def test_the_workflow_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, one after another in one folder, with a small backend in the place of Neutron."""
    monkeypatch.chdir(tmp_path)
    summaries = tmp_path / "summary.md"
    job = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summaries)}
    (certify,) = lines("shard")
    for number in range(1, 5):
        assert command(*shlex.split(filled(certify, number))[1:], environment=job).exit_code == 0
    for line in lines("certificate"):
        words = shlex.split(re.split(r" (?:>>|\|\|) ", filled(line, 1))[0])[1:]
        words = [str(path) for word in words for path in (sorted(tmp_path.glob(word)) if "*" in word else [word])]
        if words[0] != "diff":  # against a certificate of another day, which is not here
            assert command(*words, environment=job).exit_code == 0, line
    assert summaries.read_text().count("### ") == 5 and "### Certified: " in summaries.read_text()


# ------------------------------------------------------------------------------------ exit codes


def every_command(group: click.Group, path: str = "") -> Iterator[tuple[str, str]]:
    """The name of each command, and its help."""
    for name, each in group.commands.items():
        if isinstance(each, click.Group):
            yield from every_command(each, f"{path}{name} ")
        else:
            yield f"{path}{name}", each.help or ""


def test_the_page_has_the_exit_codes_of_every_command_that_can_fail() -> None:
    """Each whose help says when it ends with 1, and no other."""
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page.partition("## Exit codes")[2].partition("\n## ")[0], re.MULTILINE)
    named = {name for row in rows for name in row.split("`")[1::2]}
    fails = {name for name, told in every_command(main) if re.search(r"Exit codes:[^.]*\b1 ", " ".join(told.split()))}
    assert named - {"certify --debug"} == fails and len(fails) > 10


@pytest.mark.parametrize(("name", "told"), [*every_command(main)])
def test_every_help_says_what_0_and_2_mean(name: str, told: str) -> None:
    codes = " ".join(told.split()).partition("Exit codes: ")[2]
    assert re.match(r"0 [^.]+[,;] 2 \w[^.]+\.", codes), name
