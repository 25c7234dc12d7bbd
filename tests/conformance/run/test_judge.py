"""The process of a backend knows a program and its inputs; who judges is elsewhere and takes what comes for data."""

from __future__ import annotations

import ast
import json
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fake_backend
import pytest
import torch

from npu_assay.conformance.isolation import frames
from npu_assay.conformance.isolation.frames import FrameError
from npu_assay.conformance.isolation.judging import JUDGES
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.answering import ANEW, FIRST, LAST, SECOND, answer
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.one_case import asked, judged, partners
from npu_assay.conformance.run.question import Answer
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.run.wire_format import AnswerError, answer_bytes, question_bytes, read_answer, read_question
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend, CompileSpec
from tests.conformance.isolation.test_isolation import CASES, PATIENT, TABLE, failures
from tests.conformance.isolation.test_isolation_written import SOURCE

NEG = CASES["aten.neg.default/operator/accept/baseline"]
TABLES = ("neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5")

NOSY = """
JUDGES = ("cases", "judge", "judge.gates", "judge.numerics", "run.one_case", "run.selection", "run.tagging", "table")
SECRETS = ("Case", "Table", "Row", "Golden", "Known", "Bench")


def act(device, codes):
    found = [name for name in sys.modules if name.startswith("npu_assay.reference.golden")]
    found += [name for name in JUDGES if f"npu_assay.conformance.{name}" in sys.modules]
    kinds = {type(thing) for thing in gc.get_objects()}
    found += [kind.__name__ for kind in kinds if kind.__module__.startswith("npu_assay") and kind.__name__ in SECRETS]
    texts = [thing for thing in gc.get_objects() if isinstance(thing, dict) for thing in thing.values()]
    found += [text for text in texts if isinstance(text, str) and "/accept/baseline" in text[:80]]
    if found:
        raise ValueError(" ".join(found))
    return device(codes)
"""


def test_nothing_that_judges_is_in_the_process_of_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither loaded modules, nor objects, nor names of cases: a process that is forked from the run has them all."""
    (tmp_path / "nosy.py").write_text(SOURCE.format(imports="gc, sys", body=NOSY))
    monkeypatch.syspath_prepend(tmp_path)
    assert failures("nosy:backend", limits=PATIENT) == []


def test_what_judges_is_called_so() -> None:
    """A list of modules that are called otherwise by now would find nothing."""
    listed = re.search(r"^JUDGES = (\(.*\))$", NOSY, re.MULTILINE)
    assert listed is not None
    for name in (*JUDGES, *(f"npu_assay.conformance.{name}" for name in ast.literal_eval(listed[1]))):
        assert find_spec(name) is not None, name


def test_a_question_holds_nothing_of_the_case() -> None:
    """Neither its id, nor its row, constraint and side, nor what is expected; its name is another one every time."""
    case = CASES["aten.abs.default/static_shape/outside/no_elements"]
    question = asked(case, TABLE)
    text = question_bytes(question).decode()
    for secret in (case.id, case.constraint, case.side, str(case.reason), TABLE.name, "expect"):
        assert secret not in text.replace(TABLE.backend_id, "")
    assert asked(case, TABLE).name != question.name


@pytest.mark.parametrize("name", TABLES)
def test_questions_cross_as_they_are(name: str) -> None:
    table = load_table(name)
    for case in all_cases(table)[:: 1 if name == "neutron@1.3" else 4]:
        question = asked(case, table)
        assert repr(read_question(question_bytes(question))) == repr(question)


def test_answers_cross_as_they_are() -> None:
    question = asked(NEG, TABLE)
    given = answer(question, fake_backend.backend, Drawing(NEG.graph))
    read = read_answer(question.name, answer_bytes(question.name, given))
    assert repr(read) == repr(given) and read.runs and read.handed and read.finished


def _data(change: Callable[[dict[str, Any]], object]) -> bytes:
    """An answer, its line of JSON changed."""
    question = asked(NEG, TABLE)
    line, _, rest = answer_bytes("n", answer(question, fake_backend.backend, Drawing(NEG.graph))).partition(b"\n")
    data = json.loads(line)
    change(data)
    return json.dumps(data).encode() + b"\n" + rest


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "the answer to another program": lambda data: data.update(question="m"),
    "keys": lambda data: data.update(verdict="pass"),
    "expected str": lambda data: data["nodes"].append({**data["nodes"][0], "name": 1}),
    "bytes": lambda data: data["buffers"].append(10**9),
    "found type": lambda data: data["runs"][FIRST][0].update(dtype="object"),
    "expected those of": lambda data: data["runs"][FIRST][0].update(shape=[2**40, 2**40]),
    "expected those of float32": lambda data: data["runs"][FIRST][0].update(shape=[-1, -512]),
    "list index": lambda data: data["runs"][FIRST][0].update(at=99),
    "buffer -1": lambda data: data["runs"][FIRST][0].update(at=-1),
    "unpack": lambda data: data["rejections"].append(["node"]),
}


@pytest.mark.parametrize("text", FORGED)
def test_what_does_not_fit_is_no_answer(text: str) -> None:
    with pytest.raises(AnswerError, match=text):
        read_answer("n", _data(FORGED[text]))


@pytest.mark.parametrize("line", [b"", b"[" * 100_000, b"\xff", b"null", b"{}", b'{"runs": NaN}'])
def test_noise_is_no_answer(line: bytes) -> None:
    with pytest.raises(AnswerError):
        read_answer("n", line)


def test_a_message_that_is_too_long_is_refused_before_it_is_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall((2**40).to_bytes(8, "big"))
        with pytest.raises(FrameError, match="1099511627776 bytes"):
            frames.receive(ours)


# ------------------------------------------------------------------------------------ state


class Stateful(fake_backend.FakeRuntime):
    """A device that changes with what it ran: `act(number of the run since it was loaded, of all, answer)`."""

    def __init__(self, act: Callable[[int, int, torch.Tensor], torch.Tensor]) -> None:
        self.act, self.all = act, 0

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        device, ran = super().load(processed_bytes, compile_specs), 0

        def run(codes: torch.Tensor) -> torch.Tensor:
            nonlocal ran
            ran, self.all = ran + 1, self.all + 1
            return self.act(ran, self.all, device(codes))

        return run


def _other(answer: torch.Tensor) -> torch.Tensor:
    return (answer + 1).clamp(-128, 127).to(answer.dtype)


_LAST: dict[str, torch.Tensor] = {}


def _one_late(ran: int, everything: int, answer: torch.Tensor) -> torch.Tensor:
    """From the third run on, the answer to the input before."""
    before, _LAST["answer"] = _LAST.get("answer", answer), answer
    return before if ran > 2 else answer


STATES: dict[str, tuple[Callable[[int, int, torch.Tensor], torch.Tensor], str]] = {
    "right at first only": (lambda ran, _, y: y if ran == 1 else _other(y), "the second time"),
    "every second call": (lambda _, every, y: y if every % 2 else _other(y), "the second time"),
    "every third call": (lambda _, every, y: y if every % 3 != 2 else _other(y), "after other runs"),
    "second run of a load": (lambda ran, _, y: y if ran != 2 else _other(y), "after other runs"),
    "the answer before": (_one_late, "the second time"),
}


def _judged(backend: Backend, beside: Graph | None = None) -> CaseResult:
    drawing = Drawing(NEG.graph, beside)
    return judged(NEG, TABLE, answer(asked(NEG, TABLE, beside=beside), backend, drawing), drawing)


@pytest.mark.parametrize("name", STATES)
def test_a_device_that_remembers_is_noticed(name: str) -> None:
    act, text = STATES[name]
    backend = replace(fake_backend.backend, runtime=Stateful(act))
    result = _judged(backend)
    assert [f.check for f in result.failures if text in f.message] == ["determinism"], result.failures


def test_a_device_that_mixes_up_two_programs_is_noticed() -> None:
    """Right while one program runs, and wrong when another one was loaded since."""
    backend = replace(fake_backend.backend, runtime=_Mixing())
    alone = _judged(backend)
    assert alone.failures == ()
    partner = CASES["aten.abs.default/operator/accept/baseline"].graph
    beside = _judged(backend, partner)
    assert {f.message for f in beside.failures} & {
        "the same blob gave other outputs in turn with another one",
        "another blob gave other outputs in turn with this one",
    }


class _Mixing(fake_backend.FakeRuntime):
    """Keeps one program, the one that was loaded last."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        loaded = super().load(processed_bytes, compile_specs)
        self.blob = processed_bytes

        def run(codes: torch.Tensor) -> torch.Tensor:
            return loaded(codes) if self.blob == processed_bytes else _other(loaded(codes))

        return run


def test_every_accepted_program_runs_on_three_inputs_and_the_first_again() -> None:
    given = answer(asked(NEG, TABLE), fake_backend.backend, Drawing(NEG.graph))
    assert list(given.runs) == [FIRST, "second", "third", LAST, f"{ANEW}third", f"{ANEW}second"]
    assert torch.equal(given.runs[FIRST][0], given.runs[LAST][0])
    assert not torch.equal(given.runs[FIRST][0], given.runs[SECOND][0])


def test_the_first_case_of_every_row_has_a_partner() -> None:
    for name in TABLES:
        table = load_table(name)
        cases = {case.id: case for case in all_cases(table)}
        found = partners(cases.values())
        assert all(cases[one].row == cases[other].row and one != other for one, other in found.items())
        assert len({cases[one].row for one in found}) > 0.9 * len(
            {c.row for c in cases.values() if c.expect == "accept"}
        )


def _lying(change: Callable[[Answer], object]) -> CaseResult:
    drawing = Drawing(NEG.graph)
    given = answer(asked(NEG, TABLE), fake_backend.backend, drawing)
    change(given)
    return judged(NEG, TABLE, given, drawing)


LIES: dict[str, Callable[[Answer], object]] = {
    "all runs": lambda given: given.runs.clear(),
    "its end": lambda given: given.__dict__.update(finished=False),
    "blobs of 1 partitions": lambda given: given.__dict__.update(blobs=[], blobs_again=[]),
    "tags": lambda given: given.__dict__.update(tags_again=None),
    "as many blobs again": lambda given: given.blobs_again.clear(),
    "all runs, what a delegate was given": lambda given: given.__dict__.update(runs={}, handed=[]),
    "what a delegate was given": lambda given: given.handed.clear(),
}


@pytest.mark.parametrize("name", LIES)
def test_an_answer_that_leaves_something_out_fails(name: str) -> None:
    """A process that says what it likes cannot pass by saying less."""
    messages = [failure.message for failure in _lying(LIES[name]).failures]
    assert [text for text in messages if text.startswith("the process of the backend left out ") and name in text]


def test_the_same_answer_passes() -> None:
    assert _lying(lambda _: None).failures == ()
