"""What export reads and edge programs may not have: the explanation goes on, and names the user's operator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from click.testing import CliRunner
from explain_models import of
from quantizing import QUANTIZES
from torch import Tensor, nn

from npu_assay.conformance.cli import main
from npu_assay.conformance.explain.explaining import NO_EDGE_FILE
from npu_assay.conformance.explain.lowered import NO_EDGE_FORM
from npu_assay.conformance.explain.record import Explanation
from npu_assay.partitioners.exir import EdgeError, to_edge

pytestmark = QUANTIZES


class Between(nn.Module):
    """A function between two layers, in a module of its own."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.middle, self.b = nn.Linear(8, 8), Of(function), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.middle(self.a(x)))  # type: ignore[no-any-return]


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.function(x)
        return result


def spectrum(y: Tensor) -> Tensor:
    return torch.fft.fft(y).abs()  # type: ignore[no-any-return]


def rotated(y: Tensor) -> Tensor:
    return torch.view_as_real(torch.view_as_complex(y.reshape(-1, 4, 2)) * torch.polar(y[:, :4], y[:, 4:])).flatten(1)


def middle(y: Tensor) -> Tensor:
    return y - y.median(-1, keepdim=True)[0]


def median() -> tuple[nn.Module, Tensor]:
    """A factory for the commands."""
    return Between(middle), torch.randn(4, 8)


OUTSIDE = {"aten.abs.default": spectrum, "aten.mul.Tensor": rotated, "aten.median.dim": middle}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55", "ethos-u85"])
@pytest.mark.parametrize("operator", OUTSIDE)
@pytest.mark.parametrize("quantized", [True, False])
def test_it_is_left_out_with_its_place_and_the_others_are_told(backend: str, operator: str, quantized: bool) -> None:
    module, inputs = Between(OUTSIDE[operator]).eval(), (torch.randn(4, 8),)
    with pytest.raises(EdgeError), torch.no_grad():
        to_edge(torch.export.export(module, inputs))
    one = of(module, inputs, backend, quantized=quantized)
    assert one.error == "" and one.numbers and one.no_file == one.warnings[-1] == NO_EDGE_FILE
    known = {each.name: each for each in one.operators}
    roots = [(cause, known[name]) for cause in one.causes for name in cause.roots]
    ((cause, root),) = [(cause, root) for cause, root in roots if root.operator == operator]
    assert (root.module, root.delegate) == ("middle", None)
    assert root.source.startswith("test_explain_outside.py:")
    told = [(cause.code, cause.found), *((reason.code, reason.found) for reason in cause.also)]
    found = [text for code, text in told if code == NO_EDGE_FORM]
    assert any(operator in each for each in found)  # whatever else its module is left out for
    assert not quantized or one.macs[0] == one.macs[1] > 0  # both layers go to the device


def test_a_program_that_is_not_written_is_told(tmp_path: Path) -> None:
    """By the command, in the page and in the JSON: a backend that raises, a model outside of the edge dialect."""
    backends = ["--backend", "neutron", "--backend", "tests.conformance.explain.test_explain_command:raises"]
    model = ["explain", f"{__name__}:median", *backends, "--calibrate", "random", "-n", "1"]
    result = CliRunner().invoke(main, [*model, "--pte", "--out", str(tmp_path)])
    record = Explanation.from_json(json.loads((tmp_path / "explain.json").read_text()))
    lines = [f"not written: {one.backend.replace(':', '.')}.pte: {one.no_file}" for one in record.backends]
    assert result.stdout.splitlines()[-2:] == lines and NO_EDGE_FILE in lines[0] and "RuntimeError" in lines[1]
    assert NO_EDGE_FILE in (tmp_path / "explain.html").read_text() and not list(tmp_path.glob("*.pte"))
    assert "not written" not in CliRunner().invoke(main, [*model, "--out", str(tmp_path)]).output


def test_a_part_of_such_a_model_is_found() -> None:
    arguments = ["reduce", f"{__name__}:median", "--backend", "neutron", "--of", "op", "--op", "addmm"]
    result = CliRunner().invoke(main, [*arguments, "--calibrate", "random"])
    assert (result.exit_code == 0 and "linear.py" in result.output) or "addmm" in result.output, result.output


def test_a_model_of_float64_is_told_with_its_place_and_a_cure() -> None:
    one = of(nn.Sequential(nn.ReLU(), nn.Linear(8, 8)).double(), (torch.ones(1, 8, dtype=torch.float64),), "neutron")
    (warning,) = one.warnings
    assert warning.startswith("quantizers take float32: found float64, aten.relu.default of 0 (ReLU)")
    assert one.error == "" and "module.float()" in warning


def test_a_type_that_no_question_can_say_is_no_error() -> None:
    one = of(Between(lambda y: y.abs().to(torch.uint16).float()), (torch.randn(4, 8),), "xnnpack")
    assert one.error == "" and [each.module for each in one.operators if each.delegate is None] == ["middle"] * 2
