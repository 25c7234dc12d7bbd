"""What new users stumbled over, each of whom had README and its pages alone: the messages say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from ci_asked import command

import npu_assay
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.report.symptoms import symptom
from npu_assay.conformance.report.traits import traits
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.reference.golden import operators as goldens
from npu_assay.reference.golden.bounded import Bounded, GoldenError
from npu_assay.reference.operators import Operator
from tests.conformance.report.test_symptoms import failed

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).cumsum(-1)

def make():
    return Net().eval(), (torch.ones(1, 4),)
"""


NOTHING = "assay: --fail-under: neutron: 0 % of the multiply-accumulates are delegated, expected at least 100 %\n"


@pytest.mark.parametrize(
    ("backend", "code", "said"),
    [
        ("xnnpack", 0, ""),
        ("neutron", 1, NOTHING),
    ],
)
def test_a_share_is_of_what_multiplies(
    backend: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XNNPACK takes all that multiplies, and not the sum; Neutron takes nothing of a model that is not quantized."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    found = command("explain", "net:make", "--backend", backend, "-n", "1", "--fail-under", "1")
    assert (found.exit_code, found.stderr) == (code, said)


def test_a_file_without_a_name_of_one_may_be_meant_as_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    found = command("explain", "net:make", "--backend", "neutron", "-n", "1", "--calibrate", "rand")
    assert found.exit_code == 2
    assert (
        found.stderr == "assay: rand: cannot be read: No such file or directory; expected an .npz file, or 'random'\n"
    )


def test_debugging_without_a_case_says_how_many_there_are() -> None:
    found = command("certify", "fake_backend:backend", "--debug")
    assert found.exit_code == 2 and found.output.startswith("assay: all cases: found ")


@pytest.mark.long
def test_a_backend_without_a_quantizer_is_told_to_have_none() -> None:
    found = command("reach", "fake_backend:backend", "-k", "aten.neg.default/operator/accept/baseline", "-n", "1")
    why = "  no documented way: found no quantizer of fake for int8: 1 case\n"
    assert (found.exit_code, found.output) == (0, f"{why}1 case: 1 have no documented way\n")


@pytest.mark.parametrize(
    ("program", "backends", "samples", "said"),
    [
        (torch.nn.ReLU(), ["xnnpack"], None, "program: found a ReLU, expected what torch.export.export returns"),
        (None, "xnnpack", None, "backends: found a str, expected a list"),
        (None, [3], None, "backends: found a int, expected a name or a Backend"),
        (None, ["xnnpack"], torch.ones(1, 4), "samples, inputs: found a Tensor, expected a list"),
    ],
)
def test_what_python_is_given_by_mistake(program: Any, backends: Any, samples: Any, said: str) -> None:
    exported = program or torch.export.export(torch.nn.ReLU(), (torch.ones(1, 4),))
    with pytest.raises(TypeError, match=said):
        npu_assay.explain(exported, backends, samples)


def test_a_golden_that_gives_a_tensor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Operator("acme.clip.default", lambda x: x.value)
    monkeypatch.setattr(goldens, "home", lambda name: own)
    with pytest.raises(GoldenError, match=r"golden of acme\.clip\.default: found a Tensor, expected a Bounded"):
        goldens.run("acme.clip.default", (Bounded(torch.ones(1)),))


def test_an_error_of_what_judges_is_not_looked_for_in_the_backend() -> None:
    wrong = failed("accept", "accept", "crash", failures=(Failure("crash", "judge: NameError: no x"),))
    assert "no part of the backend" in symptom(wrong, "").look


def test_joining_words_of_a_name_are_nothing_that_cases_have_in_common() -> None:
    cases = [case for case in all_cases(load_table("neutron@1.3")) if "_and_" in case.id]
    told = {trait for case in cases for trait in traits(case)}
    assert len(cases) > 10 and "have 'and' in their name" not in told
    assert any(trait.endswith("in their name") for trait in told)
