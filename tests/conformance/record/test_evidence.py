"""What a failing case leaves for a reader: the elements that are off, shapes, the frames of the backend's traceback."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import fake_backend
import pytest
import torch

from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.common.describing import FRAMES, WIDTH, frames
from npu_assay.conformance.isolation.text import encoded
from npu_assay.conformance.judge.elements import MOST, furthest
from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.programs.build import materialise, module
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value
from npu_assay.conformance.record.results import Element, Failure, ResultError, from_line, to_line
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.question import Answer
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.run.wire_format import answer_bytes, read_answer
from npu_assay.conformance.table import load_table
from tests.conformance.isolation.test_isolation import PATIENT, results

TABLE = load_table(fake_backend.TABLE)
CASES = {case.id: case for case in all_cases(TABLE)}
NEG = CASES["aten.neg.default/operator/accept/baseline"]
GRID = Quant(0.25)
NEGATED = Graph((Value("x", (2, 3), GRID),), (Step("y", "aten.neg.default", (Ref("x"),), quant=GRID),), (Ref("y"),))


def negated(*changes: tuple[int, int, int]) -> torch.Tensor:
    """The right result in reals, but for these: row, column, codes by which it is off."""
    codes = -materialise(NEGATED.values[0]).to(torch.float32)
    codes = codes.clamp(-128, 127)
    for row, column, off in changes:
        codes[row, column] += off if codes[row, column] <= 0 else -off
    return codes * 0.25


def told(*changes: tuple[int, int, int]) -> tuple[Element, ...]:
    return furthest(golden(NEGATED), [negated(*changes)], "tflite_double_round", True)


def test_the_elements_that_are_off_the_furthest_first() -> None:
    right, wrong = negated(), negated((0, 1, 1), (1, 2, 5))
    first, second = told((0, 1, 1), (1, 2, 5))
    for element, place in ((first, (1, 2)), (second, (0, 1))):
        assert element.index == place and element.output == "out"
        assert element.found == int(wrong[place] * 4) and element.expected == int(right[place] * 4)
        assert element.real == float(wrong[place]) and element.golden == float(right[place])
        assert element.allowed == 0.0 and element.inputs == {"x": int(materialise(NEGATED.values[0])[place])}


def test_what_is_right_is_not_told_and_not_more_than_a_few() -> None:
    assert told() == ()
    assert len(told(*((row, column, 2) for row in range(2) for column in range(3)))) == MOST == 6


def test_inputs_are_those_that_the_element_is_computed_from() -> None:
    values = (
        Value("x", (2, 3), None),
        Value("row", (3,), None),
        Value("unused", (1, 1), None),
    )
    graph = Graph(values, (Step("y", "aten.add.Tensor", (Ref("x"), Ref("row"))),), (Ref("y"),))
    x, row = (materialise(value) for value in values[:2])
    outputs = [(x + row).clone()]
    outputs[0][1, 2] += 3
    (element,) = (each for each in furthest(golden(graph), outputs, None, True) if each.index == (1, 2))
    given = {"x": float(x[1, 2]), "row": float(row[2])}
    assert element.inputs == pytest.approx(given, rel=1e-5)
    assert (element.found, element.expected, element.allowed) == (None, None, None)
    assert element.real == pytest.approx(float(outputs[0][1, 2]), rel=1e-5)


def test_a_failing_case_has_evidence_and_a_passing_one_none() -> None:
    passing, failing = (run_case(NEG, backend, TABLE) for backend in (fake_backend.backend, fake_backend.drifts))
    assert not {"elements", "shapes"} & json.loads(to_line(passing)).keys()
    assert failing.elements and all(element.found != element.expected for element in failing.elements)
    result = module(NEG.graph)(*(torch.zeros(value.shape) for value in NEG.graph.values))
    assert failing.shapes == {SUBJECT: (tuple(result[0].shape),)}
    assert from_line(to_line(failing)) == failing


def test_a_trace_names_the_backends_frames_not_those_of_the_suite_or_torch() -> None:
    (failure,) = (f for f in run_case(NEG, fake_backend.crashes, TABLE).failures if f.check == "crash")
    source = Path(fake_backend.__file__).read_text().splitlines()
    number = next(n for n, line in enumerate(source, 1) if "no rule at" in line)
    assert failure.trace[-1] == f"fake_backend.py:{number} in takes: {source[number - 1].strip()}"
    assert all(frame.startswith("fake_backend.py:") for frame in failure.trace)


def test_an_error_of_torch_ends_with_the_frame_that_raised_it() -> None:
    try:
        torch.nn.Linear(2, 3)(torch.zeros(1, 5))
    except RuntimeError as error:
        *before, last = frames(error)
    assert last.startswith("torch/nn/modules/linear.py:") and before and all("test_evidence" in each for each in before)


def test_a_trace_is_short_and_holds_no_address() -> None:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        assert 1 / left, "at 0xabcdef12 stands what is kept of a line, " + "which says nothing more of it"

    try:
        deep(50)
    except ZeroDivisionError as error:
        found = frames(error)
    assert len(found) == FRAMES and all(len(each) <= WIDTH for each in found)
    assert "0xabcdef12" not in found[-1] and "0x..." in found[-1]


def test_traces_are_the_same_in_every_process_and_cross_as_they_are() -> None:
    line = results("fake_backend:crashes", ids=(NEG.id,), limits=PATIENT)[NEG.id]
    (told,) = {f.trace for f in from_line(line).failures}
    (here,) = {f.trace for f in run_case(NEG, fake_backend.crashes, TABLE).failures if f.check == "crash"}
    assert told == here != ()
    answer = Answer(error=Failure("crash", "x", ("a", "b")))
    assert read_answer("q", answer_bytes("q", answer)).error == answer.error


def test_a_process_cannot_make_a_trace_long() -> None:
    endless = Answer(error=Failure("crash", "x", (*["a" * 10**6] * 99, "last")))
    found = read_answer("q", answer_bytes("q", endless)).error
    assert found is not None and found.trace[-1] == "last"
    assert len(found.trace) == FRAMES and max(map(len, found.trace)) == WIDTH


def test_halves_of_characters_in_a_trace_are_escapes() -> None:
    result = run_case(NEG, fake_backend.crashes, TABLE)
    odd = replace(result, failures=(Failure("crash", "x", ("\ud800",)),))
    assert b"\\\\ud800" in encoded(odd)


@pytest.mark.parametrize("key", ["elements", "shapes"])
@pytest.mark.parametrize("value", [1, [1], {"x": 1}, [{"output": "out"}]])
def test_evidence_of_another_shape_is_no_record(key: str, value: object) -> None:
    data = json.loads(to_line(run_case(NEG, fake_backend.drifts, TABLE)))
    with pytest.raises(ResultError, match="not a result record"):
        from_line(json.dumps(data | {key: value}))
