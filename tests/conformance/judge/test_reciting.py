"""No device is certified that ignores its inputs, whatever its compiler finds and wherever it keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fake_backend
import pytest
import reciting

from npu_assay.conformance.isolation.judging import GOLDENS, JUDGES
from npu_assay.conformance.programs.seeds import OPEN, fills
from npu_assay.conformance.run.answering import answer
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.one_case import asked, judged
from npu_assay.conformance.run.question import Inputs
from npu_assay.partitioners.exir import Backend
from tests.conformance.isolation.test_isolation import CASES, PATIENT, TABLE, failures
from tests.conformance.isolation.test_isolation_written import SOURCE
from tests.conformance.judge.test_oracle_breakers import certify, failing

NAMES = [name for name, value in vars(reciting).items() if isinstance(value, Backend)]
NEG = CASES["aten.neg.default/operator/accept/baseline"]


@pytest.mark.parametrize("name", NAMES)
def test_a_device_that_ignores_its_inputs_is_not_certified(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code, output = certify(f"reciting:{name}", reciting.WHICH, tmp_path / "run")
    assert code == 1 and failing(tmp_path / "run"), output


def test_a_question_has_no_inputs() -> None:
    for case in CASES.values():
        question = asked(case, TABLE, beside=NEG.graph)
        for graph in (question.graph, question.beside):
            assert graph is None or set(fills(graph)) <= {OPEN}


def test_inputs_are_drawn_for_the_blobs_and_the_secret() -> None:
    def drawn(blobs: str, secret: str = "") -> Inputs:
        return Drawing(NEG.graph, secret=secret)(blobs)

    one, other, elsewhere = drawn("a"), drawn("b"), drawn("a", "s")
    assert one == drawn("a") and one.runs[0] == fills(NEG.graph) and len(set(one.runs)) == 3
    assert one.runs[1] != other.runs[1] and one.runs[2] != other.runs[2]
    assert one.runs[:2] == elsewhere.runs[:2] and one.runs[2] != elsewhere.runs[2]


def test_inputs_are_drawn_once() -> None:
    drawing = Drawing(NEG.graph)
    drawing("a")
    with pytest.raises(ValueError, match="once"):
        drawing("b")


@pytest.mark.parametrize(("right_until", "text"), [(1, "expected"), (2, "wrong")])
def test_every_run_on_drawn_inputs_is_judged(right_until: int, text: str) -> None:
    """A device that is wrong on one input in every way it runs on it, as one is that knows the others by heart."""
    drawing, seen = Drawing(NEG.graph), list[bytes]()

    class Knows(fake_backend.FakeRuntime):
        def execute(self, handle, inputs):  # type: ignore[no-untyped-def]
            key = inputs[0].numpy().tobytes()
            seen.append(key) if key not in seen else None
            outputs = super().execute(handle, inputs)
            return outputs if seen.index(key) != right_until else [~y for y in outputs]

    given = answer(asked(NEG, TABLE), replace(fake_backend.backend, runtime=Knows()), drawing)
    found = judged(NEG, TABLE, given, drawing).failures
    assert found[0].check == "gate1" and text in found[0].message and "were drawn when" in found[0].message


IMPORTS = f"""
NAMES = {(*JUDGES, *GOLDENS)!r}


def act(device, codes):
    found = []
    for name in NAMES:
        with contextlib.suppress(ImportError):
            found.append(importlib.import_module(name).__name__)
    if found:
        raise ValueError(" ".join(found))
    return device(codes)
"""


def test_what_judges_cannot_be_imported_where_the_backend_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imports.py").write_text(SOURCE.format(imports="contextlib, importlib", body=IMPORTS))
    monkeypatch.syspath_prepend(tmp_path)
    assert failures("imports:backend", limits=PATIENT) == []
