"""torch's compiler is loaded when something first needs it, whichever door that comes through, and once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

LATER = """
import sys
import torch
from npu_assay.conformance.debug.lazy_dynamo import postpone
postpone()
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    torch.empty(3) + 1
assert "torch._dynamo.convert_frame" not in sys.modules
class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""
DOORS = (
    "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))",
    "torch.export.export(Double(), (torch.ones(2),), strict=True)",
    "torch.export.export(Double(), (torch.ones(2),), strict=False); torch._dynamo.reset()",
    "torch._dynamo.disable(Double())(torch.ones(2)); torch._dynamo.reset()",
    "import torch._dynamo.variables.builder",
    "import torch._dynamo.eval_frame",
    "from torch._dynamo import eval_frame",
    "from torch._dynamo.source import ConstantSource; import torch._dynamo.guards",
)
SAME = """
assert torch._dynamo is sys.modules["torch._dynamo"] and "torch._dynamo.convert_frame" in sys.modules
for name, module in list(sys.modules.items()):
    if name.startswith("torch._dynamo."):
        assert hasattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2]), name
        assert type(module.__spec__.loader).__name__ != "_Loaded", name
assert torch._dynamo.variables is sys.modules["torch._dynamo.variables"]
with FakeTensorMode():
    torch.empty(3) + 1
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2, 2]
"""


def run(code: str) -> str:
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("door", DOORS)
def test_whatever_needs_it_finds_all_of_it(door: str) -> None:
    run(LATER + door + SAME)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(["config", "utils", "source", "exc", "callback"]))
def test_what_fake_tensors_ask_for_loads_alone(name: str) -> None:
    run(LATER + f"import torch._dynamo.{name}\nassert 'torch._dynamo.convert_frame' not in sys.modules")


@pytest.mark.long
@pytest.mark.parametrize("arguments", [("certify", "neutron", "--debug", "-k"), ("show", "neutron")])
def test_a_case_that_compiles_nothing_loads_no_compiler(arguments: tuple[str, ...], tmp_path: Path) -> None:
    case = "aten.abs.default/operator/accept/baseline"
    code = f"""
import os, sys
from npu_assay.conformance.cli import main
os.chdir({str(tmp_path)!r})
try:
    main([*{arguments!r}, {case!r}])
except SystemExit as end:
    assert not end.code, end.code
print("torch._dynamo.convert_frame" in sys.modules, "torch" in sys.modules)
"""
    assert run(code).splitlines()[-1] == "False True"


@pytest.mark.long
def test_a_record_with_codes_off_by_one_is_verified_without_it(tmp_path: Path) -> None:
    """Its limits are computed again from goldens, which loads torch, and nothing that builds edge programs."""
    case = "aten.avg_pool2d.default/ceil_mode/at_limit/by_name"
    code = f"""
import sys
from npu_assay.conformance.cli import main
from npu_assay.conformance.judge.known_limits import KnownLimits
asked, right = [], KnownLimits.of
KnownLimits.of = lambda *arguments: asked.append(arguments) or right(*arguments)
def call(*words):
    try:
        main(list(words))
    except SystemExit as end:
        return end.code
if len(sys.argv) > 1:
    assert call("certify", "neutron-1.4", "-k", {case!r}, "-n", "1", "--out", {str(tmp_path / "run")!r}) == 0
else:
    assert call("verify", {str(tmp_path / "run")!r}) == 1 and asked
    print([name for name in ("torch", "torch._dynamo.convert_frame", "sympy") if name in sys.modules])
"""
    subprocess.run([sys.executable, "-c", code, "run"], cwd=ROOT, check=True, capture_output=True)
    assert run(code).splitlines()[-1] == "['torch']"
