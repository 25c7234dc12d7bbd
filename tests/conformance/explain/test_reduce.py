"""`assay reduce`: one operator that shows it alone, as a script of at most 20 lines that runs on its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import PATH

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from click.testing import CliRunner, Result
from planted import PLANTED, Planted
from torch import Tensor, nn

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.explaining import How
from npu_assay.conformance.explain.models import model_of, quantize
from npu_assay.conformance.explain.reducing import reduce
from npu_assay.partitioners.exir import Partitioner, PartitionResult

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
    pytest.mark.filterwarnings("ignore:The tensor attributes self.gru:UserWarning"),
]
MODEL = f"{__name__}:model"
DROPPED = "npu_assay.faults.neutron:bias_dropped"


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A factory for the command: Neutron takes all but the gelu."""
    torch.manual_seed(2)
    layers = (nn.Conv2d(8, 8, 3), nn.ReLU(), nn.GELU(), nn.Conv2d(8, 8, 3))
    return nn.Sequential(*layers), (torch.randn(1, 8, 12, 12),)


class DiesOfGelu(Partitioner):
    """Neutron's partitioner, but a gelu ends the process."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """The answer, if there is one."""
        if any("gelu" in str(node.target) for node in exported_program.graph.nodes):
            os._exit(3)
        found: PartitionResult = load_backend("neutron").partitioner()(exported_program)
        return found


dies = replace(load_backend("neutron"), partitioner=DiesOfGelu)


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["reduce", MODEL, *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.long
@pytest.mark.parametrize(
    ("backend", "what", "operator", "shown"),
    [
        ("neutron", ("undelegated",), "aten.gelu.default", "unsupported: the operator"),
        (DROPPED, ("wrong",), "aten.convolution.default", "dB, largest difference"),
        (f"{__name__}:dies", ("crash",), "aten.gelu.default", ""),
        ("neutron", ("op", "--op", "relu"), "aten.relu.default", "device against torch: equal"),
    ],
)
def test_a_script_shows_it_again(
    backend: str, what: tuple[str, ...], operator: str, shown: str, tmp_path: Path
) -> None:
    out = tmp_path / "reduced.py"
    run("--backend", backend, "--of", *what, "--calibrate", "random", "--out", out)
    lines = out.read_text().splitlines()
    assert len(lines) <= 20 and operator in lines[0]
    environment = {**os.environ, "PYTHONPATH": PATH}
    call = [sys.executable, str(out)]
    again = subprocess.run(
        call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert again.returncode == (3 if what == ("crash",) else 0), again.stderr
    assert shown in again.stdout


SHORT = ("neutron-groups_of_a_transposed_one", "ethos-u55-kernel_height", "neutron-broadcast", "neutron-mean_of_rows")


@pytest.mark.parametrize("planted", [each for each in PLANTED if str(each) in SHORT], ids=str)
def test_a_script_is_short_and_has_the_same_reason(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    backend, (module, inputs) = load_backend(planted.backend), planted.model
    model = model_of(torch.export.export(module, inputs), [inputs])
    program = quantize(model, How().quantizer(backend), [inputs]).program
    found = reduce(program, backend, planted.backend, "undelegated", None)
    assert found.operator is not None and planted.operator in found.operator.operator
    assert len(found.script.splitlines()) <= 20
    exec(found.script, {})  # the script that was just written, which prints what it finds
    assert capsys.readouterr().out.startswith(f"{planted.code}: ")


class Gated(nn.Module):
    """A convolution in groups, which Neutron does not take, then a dearer GRU, which its quantizer leaves alone."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.cheap, self.pw = nn.Conv2d(8, 8, 1, groups=2), nn.Conv2d(8, 8, 3, groups=2)
        self.gru = nn.GRU(16, 12, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.gru(self.pw(self.cheap(x)).flatten(2))[0]
        return y


def gated() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A factory for the command."""
    return Gated(), (torch.randn(1, 8, 6, 6),)


@pytest.mark.parametrize(
    ("only", "operator", "cause"),
    [
        ((), "gru (GRU)  aten.gru.input", "cause 1, GRU (gru): not_quantized: "),
        (("--op", "pw"), "pw (Conv2d)  aten.convolution.default", "cause 2, Conv2d (2 times) (cheap): groups: "),
    ],
)
def test_causes_are_tried_in_the_order_of_explain(only: tuple[str, ...], operator: str, cause: str) -> None:
    """The dearest is what many operators were made of: it is cut whole."""
    call = ["reduce", f"{__name__}:gated", "--backend", "neutron", "--of", "undelegated", "--calibrate", "random"]
    result = CliRunner().invoke(main, [*call, *only])
    told, script = result.stderr.splitlines(), result.stdout.splitlines()
    assert told[0].startswith(operator) and "test_reduce.py:" in told[0] and told[1].startswith(cause)
    assert len(told) == 2 and operator in script[0] and len(script) <= 20


def test_a_dearer_cause_that_no_operator_shows_alone_is_told() -> None:
    """A model in real numbers, whose operators the backend takes where they are quantized."""
    result = run("--backend", "neutron", "--of", "undelegated")
    told = result.stderr.splitlines()
    assert told[0].startswith("not shown alone: cause 1, not_quantized: ")
    assert told[0].endswith(": its operators are taken where they are quantized")
    assert told[1].startswith("2 (GELU)  aten.gelu.default") and len(told) == 3


COMPOSITES = {
    "aten.hardswish.default": nn.Hardswish(),
    "aten.silu.default": nn.SiLU(),
    "aten.mish.default": nn.Mish(),
    "aten.hardsigmoid.default": nn.Hardsigmoid(),
}


@pytest.mark.parametrize("operator", COMPOSITES)
def test_what_several_operators_were_made_of_is_cut_whole(operator: str) -> None:
    """And the script has the one operator that the user wrote, in which the same is left out."""
    torch.manual_seed(4)
    layers = nn.Sequential(nn.Conv2d(8, 8, 3), COMPOSITES[operator], nn.Conv2d(8, 8, 3)).eval()
    inputs, backend = (torch.randn(1, 8, 12, 12),), load_backend("neutron")
    model, quantizer = model_of(torch.export.export(layers, inputs), [inputs]), How().quantizer
    program = quantize(model, quantizer(backend), [inputs]).program
    found = reduce(program, backend, "neutron", "undelegated", None, quantizer=lambda: quantizer(backend))
    assert found.operator is not None and found.operator.operator == operator
    assert f"torch.ops.{operator}(" in found.script and len(found.script.splitlines()) <= 20


@pytest.mark.parametrize("what", ["wrong", "crash"])
def test_nothing_is_found_where_nothing_is_wrong(what: str) -> None:
    result = run("--backend", "neutron", "--of", what, "--calibrate", "random", code=1)
    assert result.output == f"no operator of {MODEL} shows it alone on neutron\n"


@pytest.mark.long
def test_from_a_shell_too() -> None:
    """Where torch was not loaded before: a copy of a process with several threads stood still, as if it had crashed."""
    code = "from npu_assay.conformance.cli import main; main(prog_name='assay')"
    call = [
        sys.executable,
        "-c",
        code,
        "reduce",
        MODEL,
        "--backend",
        "neutron",
        "--of",
        "crash",
        "--calibrate",
        "random",
    ]
    environment = {**os.environ, "PYTHONPATH": PATH}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (1, ""), done.stdout
    assert done.stdout == f"no operator of {MODEL} shows it alone on neutron\n"


def attention() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A factory of a model whose operators users call otherwise than edge programs do."""

    class Weighed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix, self.weigh = nn.Linear(8, 8), nn.Softmax(-1)

        def forward(self, x: Tensor) -> Tensor:
            return self.weigh(self.mix(x))  # type: ignore[no-any-return]

    return nn.Sequential(Weighed(), nn.ReLU()), (torch.randn(8, 8),)


SOFTMAX, PRODUCT = "aten._softmax.default", "aten.addmm.default"
MEANT = {
    "softmax": SOFTMAX,
    "_softmax": SOFTMAX,
    "aten.softmax.int": SOFTMAX,
    "torch.ops.aten.softmax.int": SOFTMAX,
    "aten._softmax.default": SOFTMAX,
    "aten.softmax": SOFTMAX,
    "F.softmax": SOFTMAX,
    "nn.Softmax": SOFTMAX,
    "0.weigh": SOFTMAX,
    "linear": PRODUCT,
    "Linear": PRODUCT,
    "0.mix": PRODUCT,
    "0": PRODUCT,
    "relu": "aten.relu.default",
    "1": "aten.relu.default",
}


@pytest.mark.parametrize("name", MEANT)
@pytest.mark.parametrize("quantized", [True, False])
def test_operators_are_called_as_users_write_them(name: str, quantized: bool) -> None:
    backend, (module, inputs) = load_backend("neutron"), attention()
    model = model_of(torch.export.export(module.eval(), inputs), [inputs])
    program = quantize(model, How().quantizer(backend), [inputs]).program if quantized else model.program
    found = reduce(program, backend, "neutron", "op", name)
    assert found.operator is not None and found.operator.operator == MEANT[name]


@pytest.mark.parametrize(("name", "near"), [("sofmax", "softmax"), ("0.mx", "0.mix"), ("aten.soft.int", None)])
def test_a_name_that_means_nothing_is_told_with_the_nearest(name: str, near: str | None) -> None:
    backend, (module, inputs) = load_backend("neutron"), attention()
    with pytest.raises(
        UsageError, match=r"expected an operator or a module of the model: linear, relu, softmax$"
    ) as told:
        reduce(torch.export.export(module.eval(), inputs), backend, "neutron", "op", name)
    assert near is None or f"--op: found {name!r} (near it: {near}" in str(told.value)


def test_what_cannot_be_asked() -> None:
    output = run("--backend", "neutron", "--of", "op", "--op", "gelo", code=2).output
    assert "--op: found 'gelo' (near it: gelu), expected an operator or a module of the model: conv2d, gelu" in output
    assert "--of op: expected --op NAME beside it" in run("--backend", "neutron", "--of", "op", code=2).output
    assert "no backend 'neutrons'" in run("--backend", "neutrons", "--of", "crash", code=2).output
