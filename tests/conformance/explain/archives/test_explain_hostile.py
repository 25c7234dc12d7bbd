"""Hostile `.pt2` files: one line, exit code 2, and nothing was unpickled, evaluated, called or written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from hostile_archives import HOSTILE
from pt2_archives import CODE, MARKER, MODEL, PICKLED, Archive, Change, program, saved
from watching import watched

from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain import models
from npu_assay.conformance.explain.archives import read_program
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.isolation.sandbox import Work, confined

ALL = [(kind, name) for kind, changes in HOSTILE.items() for name in changes]
SHOWN = {kind: next(iter(changes)) for kind, changes in HOSTILE.items()}
EXPLAIN = ("--backend", "neutron", "-n", "1")
REDUCE = ("--backend", "neutron", "--of", "crash")


@pytest.fixture(scope="module")
def whole() -> bytes:
    return saved(program())


def changed(whole: bytes, change: Change, path: Path) -> Path:
    archive = Archive(whole)
    change(archive)
    path.write_bytes(archive.data())
    return path


@pytest.fixture(scope="module")
def told(whole: bytes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Of each hostile archive, read in a process of its own: the error, and what the process did meanwhile."""
    folder = tmp_path_factory.mktemp("hostile")
    paths = [changed(whole, HOSTILE[kind][name], folder / f"{number}.pt2") for number, (kind, name) in enumerate(ALL)]

    def prepare() -> Work:
        os.chdir(folder)
        read_program(changed(whole, lambda _: None, folder / "unchanged.pt2"))  # what is loaded once
        did = watched(evaluating=True)
        return lambda: json.dumps([_read(path, did) for path in paths]).encode()

    answers = json.loads(confined(prepare, Limits(300, 1024), "reading"))
    return {f"{kind}: {name}": answer for (kind, name), answer in zip(ALL, answers, strict=True)}


def _read(path: Path, did: Callable[[], list[str]]) -> list[str]:
    did()
    try:
        read_program(path)
        error = ""
    except UsageError as raised:
        error = str(raised)
    return [error, *did(), *(["left a file"] if Path(MARKER).exists() else [])]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_a_hostile_archive_is_one_error_and_nothing_else(kind: str, name: str, told: dict[str, list[str]]) -> None:
    error, *did = told[f"{kind}: {name}"]
    assert error.partition(": ")[0].endswith(".pt2") and len(error) < 500 and error.isprintable(), error
    assert "found" in error and ("not a program that torch can read: " not in error or "found no JSON" in error)
    assert not did


def test_there_are_many_of_them() -> None:
    assert len(ALL) >= 150 and min(map(len, HOSTILE.values())) >= 10


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("command", [("explain", *EXPLAIN), ("reduce", *REDUCE)], ids=["explain", "reduce"])
def test_the_commands_end_with_one_line(
    kind: str, command: tuple[str, ...], whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changed(whole, HOSTILE[kind][SHOWN[kind]], tmp_path / "model.pt2")
    result = CliRunner().invoke(main, [command[0], "model.pt2", *command[1:]])
    assert result.exit_code == 2 and result.stdout == "", result.output
    assert result.stderr.startswith("assay: model.pt2: ") and result.stderr.count("\n") == 1
    assert result.stderr.count("model.pt2: ") == 1
    assert os.listdir(tmp_path) == ["model.pt2"]


# ------------------------------------------------------------------------------------ what is left out


def _sources(archive: Archive) -> None:
    archive.node("relu")["metadata"].update(
        source_fn_stack="x,torch.os.system", from_node='[{"name": 1}]', torch_fn=f"{CODE};{CODE}", stack_trace=CODE
    )


LEFT_OUT: dict[str, Change] = {
    "sample inputs": lambda archive: archive.records.update({"data/sample_inputs/model.pt": PICKLED}),
    "files of the user": lambda archive: archive.records.update({"extra/x.pkl": PICKLED}),
    "where nodes came from": _sources,
    "guards": lambda archive: archive.json[MODEL].update(guards_code=["L['x'].size()[0] % 2 == 0"]),
    "fields of classes": lambda archive: archive.json[MODEL]["graph_module"].update(treespec_namedtuple_fields=CODE),
    "unknown fields": lambda archive: archive.json[MODEL].update(code=CODE),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_no_program_needs_is_not_read(
    name: str, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"state": {"h": torch.arange(4.0)}, "mode": "plain"}
    found = read_program(changed(whole, LEFT_OUT[name], tmp_path / "model.pt2")).module()(torch.ones(2, 4), **given)
    wanted = program().module()(torch.ones(2, 4), **given)
    assert all(torch.equal(found[key], wanted[key]) for key in ("y", "z"))
    assert os.listdir(tmp_path) == ["model.pt2"]


# ------------------------------------------------------------------------------------ what ends the reader


def _exits(_: Path) -> None:
    os._exit(3)


def _goes_on(_: Path) -> None:
    while time.monotonic():
        pass


def _fills(_: Path) -> None:
    torch.ones(2**30)


ENDS = {
    "exits": (_exits, "its process ended without an answer, with exit code 3", "200"),
    "goes on": (_goes_on, "no answer in 15 s", "15"),
    "fills": (_fills, "needs more than 512 MiB (--memory)", "200"),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("command", [("explain", *EXPLAIN), ("reduce", *REDUCE)], ids=["explain", "reduce"])
def test_a_file_that_ends_its_reader_is_no_answer_of_a_backend(
    name: str, command: tuple[str, ...], whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no check foresees; `explain` would else say that the backend has no answer, and end with 0."""
    action, message, seconds = ENDS[name]
    path = changed(whole, lambda _: None, tmp_path / "model.pt2")
    monkeypatch.setattr(models, "read_program", action)
    result = CliRunner().invoke(main, [command[0], str(path), *command[1:], "--timeout", seconds, "--memory", "512"])
    assert result.exit_code == 2 and result.output.startswith(f"assay: {path}: {message}"), result.output
    assert result.output.count("\n") == 1
