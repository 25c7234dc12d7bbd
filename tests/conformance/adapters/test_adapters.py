"""Adapters: names, what is missing, what nothing runs, and the child process that may crash."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from fake_backend import backend as fake

from npu_assay.conformance.adapters import ADAPTERS, adapted, executorch, iree, litert, onnxruntime, openvino
from npu_assay.conformance.backend import loading
from npu_assay.conformance.backend.loading import check_installed, installed_tools, load_backend, needed_path, target
from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import NotRunError, UsageError
from npu_assay.conformance.devices.machine import Machine, MachineError
from npu_assay.conformance.devices.place import Place
from npu_assay.conformance.devices.placing import load_placed
from npu_assay.conformance.record.tensor_text import pack, unpack
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table


def test_names() -> None:
    assert adapted("executorch:ethos-u55") == "npu_assay.conformance.adapters.executorch:ethos_u55"
    assert adapted("mypkg.npu:backend") is adapted("neutron") is None
    assert target("executorch:arm-tosa") == "npu_assay.conformance.adapters.executorch:arm_tosa"
    assert needed_path("executorch:xnnpack") == ""


ABSENT = [
    (f"executorch:{name}", executorch, "executorch")
    for name in ("xnnpack", "arm-tosa", "ethos-u55", "ethos-u85", "vulkan", "neutron", "coreml", "qualcomm")
]
ABSENT += [
    ("onnxruntime:cpu", loading, "onnxruntime"),
    ("openvino:cpu", loading, "openvino"),
    ("iree:cpu", loading, "iree-base-compiler"),
    ("litert:reference", loading, "ai-edge-litert"),
    ("litert:xnnpack", loading, "ai-edge-litert"),
]


@pytest.mark.parametrize(("spec", "module", "package"), ABSENT)
def test_without_its_package_an_adapter_says_so(
    spec: str, module: ModuleType, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the process that loads backends, which hands the sentence on as it is."""
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as raised:
        load_backend(spec)
    assert str(raised.value) == f"{spec} needs the package {package}: pip install {package}"


LACKING = {
    "qualcomm": "Qualcomm's QNN SDK",
    "samsung": "PyEnnWrapperAdaptor, which Samsung's Exynos SDK builds",
    "mediatek": "mtk_converter and mtk_neuron, which are part of MediaTek's NeuroPilot SDK",
}


@pytest.mark.parametrize("name", LACKING)
def test_a_backend_that_cannot_be_asked_says_in_one_line_what_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executorch, "find_spec", lambda _: True)
    with pytest.raises(UsageError) as raised:
        load_backend(f"executorch:{name}")
    message = str(raised.value)
    assert message.startswith(f"executorch:{name} cannot be used: ") and LACKING[name] in message
    assert "\n" not in message


def test_what_stands_in_is_stated_beside_the_versions() -> None:
    found = installed_tools(replace(fake, stands_in={"sdk": "stood in for: a module answers"}), ())
    assert found["sdk"] == "stood in for: a module answers"


def test_a_package_of_packages_that_is_not_there_is_missing() -> None:
    """`find_spec` raises for a module whose package is not there."""
    some = replace(fake, runtime=Machine("some.py:run", needs=(("no_such_package.part", "of-none"),)))
    with pytest.raises(UsageError, match=r"^some:cpu needs the package of-none: pip install of-none$"):
        check_installed("some:cpu", some)


def test_what_runs_elsewhere_needs_no_package_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda _: None)
    for place in (Place(python=sys.executable), Place(device="true {folder}")):
        runtime = load_placed("openvino:cpu", place).runtime
        assert isinstance(runtime, Machine)
        runtime.python, runtime.instead = "", None  # the record is this process's only one


@pytest.mark.parametrize("module", [iree, litert, onnxruntime, openvino])
def test_an_adapter_lists_its_backends_and_stays_small(module: ModuleType) -> None:
    """100 lines at most for each device program, all files together; what all engines share is not of them."""
    assert module.__name__ in ADAPTERS.values() and dir(module)
    assert module.__file__ is not None
    lines = {
        file.name: len(file.read_text(encoding="utf-8").splitlines())
        for file in Path(module.__file__).parent.glob("*.py")
    }
    programs = lines.keys() - {"__init__.py", "provider.py"}
    assert 0 < sum(lines.values()) <= 100 * len(programs)
    with pytest.raises(AttributeError):
        _ = module.none_of_that_name


def test_an_unknown_backend_is_a_usage_error() -> None:
    done = CliRunner().invoke(main, ["certify", "executorch:xnpack", "--smoke"])
    assert done.exit_code == 2
    assert "has no 'xnpack', did you mean 'xnnpack'?" in done.output


class Nothing:
    """A runtime that has nothing to run blobs on."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[Any]) -> Any:
        raise NotRunError("nothing runs this here")

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        raise AssertionError("was not loaded")


def test_what_did_not_run_is_no_pass() -> None:
    table = load_table(fake.table)
    accepted = next(case for case in all_cases(table) if run_case(case, fake, table).partitions)
    found = run_case(accepted, replace(fake, runtime=Nothing()), table)
    assert found.status == "fail"
    assert [(failure.check, failure.message) for failure in found.failures] == [("not_run", "nothing runs this here")]


# ------------------------------------------------------------------------------------ the child process


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    found = Machine("machine_jobs:job")
    yield found
    found.close()


def test_outputs_come_back(machine: Machine) -> None:
    x = torch.arange(6.0).reshape(2, 3).t()
    (found,) = machine.run(b"", [x])
    assert torch.equal(found, x + 1)


def test_a_refusal_says_what_was_printed(machine: Machine) -> None:
    with pytest.raises(MachineError, match=r"^RuntimeError: error 0x12 \(tensor at 0x\.\.\. is wrong\)$"):
        machine.run(b"refuse", [])


def test_a_death_and_a_hang_are_errors_and_the_next_job_runs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match=r"^its process died \(signal SIGSEGV\)$"):
        machine.run(b"die", [])
    assert machine.run(b"", []) == []
    monkeypatch.setattr(machine, "timeout", 0.2)
    with pytest.raises(MachineError, match=r"no answer in 0\.2 seconds"):
        machine.run(b"hang", [])
    monkeypatch.undo()
    assert machine.run(b"", [torch.tensor(1)]) == [torch.tensor(2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.int64])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_packing(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape).to(dtype)
    found = unpack(pack(x))
    assert found.dtype == dtype and torch.equal(found, x)
