"""A device behind a command: what it answers is believed where it was asked, and nothing that it does ends a run."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
import torch
from places import ROOT

from npu_assay.conformance.backend.loading import BackendSpecError
from npu_assay.conformance.devices import command
from npu_assay.conformance.devices.call import Job
from npu_assay.conformance.devices.command import Answer, Command

BOARD = ROOT / "tests" / "shared" / "misbehaving_board.py"
X = torch.arange(-3, 3, dtype=torch.int8).reshape(2, 3)
RIGHT = "right"
COPY = "sh -c 'cp {inputs}/input_0.npy {outputs}/output_0.npy # {model}'"
FAR = 60.0  # seconds: much more than any of these takes

# How a board goes wrong with one of five models, and what is said of that one; the four others are right.
ONE_BAD = {
    "dies": "exit code 3",
    "crashes": "signal SIGSEGV",
    "hangs": "no answer in 1 s",
    "half": "answers nothing to it",
    "truncated": "output_0.npy: .*",
    "empty": "output_0.npy: .*",
    "objects": "output_0.npy: .*",
    "complex": "output_0.npy: found complex128, expected one of bool, int8",
    "text": "output_0.npy: .*",
    "stale": "done: found '0123456789abcdef', expected '[0-9a-f]{16}': an answer to something else",
    "second alone": "found the file 'output_1.npy'",
    "another file": "found the file 'result.bin'",
    "a pipe": "output_0.npy: found a pipe, expected a regular file",
    "a link": "output_0.npy: found a file outside of the folder",
    "a folder": "output_0.npy: ",
    "a folder for done": "done: ",
    "refuses": "no memory for this model",
    "refuses wordless": "the device refuses, and does not say why",
    "refuses at length": "error.txt: found 1000000 bytes, expected at most 4096",
    "many": "found more than 256 files",
    "fills the disk": "it wrote more than 8388608 bytes",
}
# How it goes wrong with a call, and what is said of all five; RIGHT where they are answered all the same.
WHOLE = {
    "line drops once": RIGHT,
    "is gone": r"exit code 1 \(no route to board\)",
    "silent once": RIGHT,
    "answers another": "answers nothing to it; it answered 'feedfeedfeedfeed', which was not asked",
    "answers twice": RIGHT,
    "removes its questions": RIGHT,
    "prints without end": RIGHT,
    "leaves a process": RIGHT,
}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PAUSE", 0.01)
    monkeypatch.setattr(command, "FILES", 2**23)


def board(how: str, tmp_path: Path) -> Command:
    """A board that goes wrong in this way."""
    return Command(f"{sys.executable} {BOARD} '{how}' {{folder}}", 2.0, 1.0, str(tmp_path))


def right(number: int, found: Answer) -> bool:
    """Whether it is the right answer to the job of this number."""
    return not isinstance(found, str) and torch.equal(found[0], X + 10 * number + 1)


def jobs() -> list[Job]:
    """Five jobs, the third of which is of a bad model."""
    return [Job(b"bad" if number == 2 else b"good", (X + 10 * number,)) for number in range(5)]


@pytest.mark.parametrize(("how", "said"), ONE_BAD.items())
def test_what_goes_wrong_with_one_model_is_said_of_that_one(how: str, said: str, tmp_path: Path) -> None:
    began, asked = time.monotonic(), jobs()
    answers = board(how, tmp_path).answers(asked)
    bad = answers.pop(2)
    assert isinstance(bad, str) and re.search(said, bad), bad
    assert all(map(right, (0, 1, 3, 4), answers))
    assert time.monotonic() - began < FAR


@pytest.mark.parametrize(("how", "said"), WHOLE.items())
def test_what_goes_wrong_with_a_call_is_asked_again_and_said(how: str, said: str, tmp_path: Path) -> None:
    began = time.monotonic()
    answers = board(how, tmp_path).answers(jobs())
    if said == RIGHT:
        assert all(map(right, range(5), answers))
    else:
        assert all(isinstance(found, str) and re.search(said, found) for found in answers), answers
    assert time.monotonic() - began < FAR


def test_a_board_that_is_gone_is_not_waited_for_again_and_again(tmp_path: Path) -> None:
    """Once three models had no answer the others are asked once each, until one has."""
    device = board("is gone", tmp_path)
    assert all(isinstance(found, str) for found in device.answers([Job(b"good", (X,)) for _ in range(8)]))
    calls = (tmp_path / "calls").stat().st_size
    assert calls == 3 * (1 + 1 + 1) + 4 * (1 + 1) + 1  # for all that are left, the first alone, and that one again


def test_one_job_in_its_own_words(tmp_path: Path) -> None:
    """A command with the places of one model's files needs no manifest and no mark: its exit code says all."""
    copy = Command(COPY, folder=str(tmp_path))
    assert torch.equal(copy.run(b"model", [X])[0], X)
    assert Command("false {model} {outputs}", folder=str(tmp_path)).answers([Job(b"", (X,))]) == ["exit code 1"]
    assert Command("true {model} {inputs} {outputs}", folder=str(tmp_path)).run(b"", [X]) == []


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_tensors_of_every_type_go_there_and_back(dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = torch.ones(shape).to(dtype)
    (found,) = Command(COPY, folder=str(tmp_path)).run(b"", [x])
    assert found.dtype == dtype and torch.equal(found, x)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "found no program ''"),
        ("no-such-program {folder}", "found no program 'no-such-program'"),
        ("true", "expected {folder}, or {model}, {inputs} and {outputs}, the places of its files"),
        ("true '{folder}", "No closing quotation"),
    ],
)
def test_a_command_that_is_none_is_refused(wrong: str, said: str) -> None:
    with pytest.raises(BackendSpecError, match=re.escape(said)):
        Command(wrong)


def test_files_of_a_call_are_gone_after_it(tmp_path: Path) -> None:
    board("answers twice", tmp_path).answers(jobs())
    assert [each.name for each in tmp_path.iterdir()] == ["calls"]


def test_a_disk_that_is_full_is_a_result(tmp_path: Path) -> None:
    device = Command("true {folder}", folder=str(tmp_path / "gone"))
    (found,) = device.answers([Job(b"", (X,))])
    assert isinstance(found, str) and found.startswith("the files of a call cannot be written: ")
