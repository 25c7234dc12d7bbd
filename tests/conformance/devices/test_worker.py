"""Another interpreter, which has numpy and neither torch nor this suite, answers the same questions."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from npu_assay.conformance.backend.loading import BackendSpecError
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.devices import worker
from npu_assay.conformance.devices.machine import Machine, MachineError
from npu_assay.conformance.devices.place import Place
from npu_assay.conformance.devices.placing import load_placed, versions_there

PROGRAM = """
import importlib.util, os, signal, sys, time
import numpy

def run(model, inputs):
    if model == b"die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if model == b"hang":
        time.sleep(60)
    if model == b"refuse":
        os.write(2, b"the reason\\n")
        raise ValueError("not this model")
    if model == b"other":
        found = [name for name in ("torch", "npu_assay") if importlib.util.find_spec(name)]
        return [numpy.frombuffer(" ".join([sys.executable, *found]).encode(), numpy.uint8)]
    if model == b"litter":
        open("litter", "w").close()
        return [numpy.frombuffer(os.getcwd().encode(), numpy.uint8)]
    if model == b"write":
        inputs[0][...] = 0
    if model == b"object":
        return [numpy.array([{}])]
    return [x + x.dtype.type(1) for x in inputs]

def versions():
    return {"firmware": "7"}
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter whose only package is numpy."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    installed = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    return str(folder / "bin" / "python")


@pytest.fixture
def machine(python: str, tmp_path: Path) -> Machine:
    (tmp_path / "device.py").write_text(PROGRAM)
    return Machine(f"{tmp_path}/device.py:run", python=python)


def test_it_runs_without_torch_and_without_the_suite(
    machine: Machine, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (found,) = machine.run(b"other", [])
    assert bytes(found.tolist()).decode() == python


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32]
)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_tensors_go_there_and_back(machine: Machine, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape).to(dtype).t() if len(shape) == 2 else torch.zeros(shape).to(dtype)
    (found,) = machine.run(b"", [x])
    assert found.dtype == dtype and torch.equal(found, torch.ones(x.shape).to(dtype))


def test_a_death_a_hang_and_a_refusal_are_errors_and_the_next_job_runs(machine: Machine) -> None:
    for model, said in (
        ("die", "its process died (signal SIGSEGV)"),
        ("refuse", "ValueError: not this model (the reason)"),
    ):
        with pytest.raises(MachineError) as error:
            machine.run(model.encode(), [])
        assert str(error.value) == said
    machine.timeout = 0.3
    with pytest.raises(MachineError, match=r"no answer in 0\.3 seconds"):
        machine.run(b"hang", [])
    machine.timeout = 60
    assert machine.run(b"", [torch.tensor(1)]) == [torch.tensor(2)]


def test_what_a_program_writes_into_its_inputs_stays_there(machine: Machine) -> None:
    x = torch.ones(3)
    machine.run(b"write", [x])
    assert torch.equal(x, torch.ones(3))


def test_what_a_program_leaves_lies_in_a_folder_of_its_process(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (found,) = machine.run(b"litter", [])
    folder = Path(bytes(found.tolist()).decode())
    assert (folder / "litter").exists() and [each.name for each in tmp_path.iterdir()] == ["device.py"]
    machine.close()
    assert not folder.exists()


def test_what_is_no_array_of_numbers_is_an_error(machine: Machine) -> None:
    with pytest.raises(MachineError, match="found an array of type 'object', expected one of bool, int8"):
        machine.run(b"object", [])


LYING = """
import os, struct, sys
sys.path.insert(0, {folder!r})
import worker

def run(model, inputs):
    raise SystemExit

def versions():
    data = {data!r}
    if data:
        os.write(4, data)  # beside the protocol: the connection itself is reachable for what runs there
    return {{}}
"""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (worker.SIZE.pack(2**40), "found a header of"),
        (worker.SIZE.pack(3) + b"{}\n", "found no header with sizes"),
        (worker.SIZE.pack(2) + b"[]", "found no header with sizes"),
        (worker.SIZE.pack(17) + b'{"sizes": [-1]}  ', "found parts of more than"),
        (worker.SIZE.pack(21) + b'{"sizes": [99999999999', "found no header with sizes"),
        (worker.message({"protocol": 2}), "found protocol 2, expected 1"),
        (worker.message({"protocol": 1, "versions": {}}) + worker.message({"number": 7}), "found an answer to job"),
        (b"Segmentation fault", "found a header of"),
    ],
)
def test_a_process_that_writes_to_the_connection_is_not_believed(
    data: bytes, said: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "device.py").write_text(LYING.format(folder=str(Path(worker.__file__).parent), data=data))
    with pytest.raises(MachineError, match=said):
        Machine(f"{tmp_path}/device.py:run", python=python, timeout=20).run(b"", [])


def test_versions_are_those_of_the_other_interpreter(python: str, machine: Machine) -> None:
    machine.start(["numpy", "no-such-distribution"])
    told = machine.versions
    machine.close()
    assert told["numpy of the device"] == np.__version__ and told["firmware"] == "7"
    assert told["no-such-distribution"] == "not installed"


def test_an_engine_can_be_placed_there_and_says_what_it_lacks(python: str) -> None:
    pytest.importorskip("onnxruntime")
    backend = load_placed("onnxruntime:cpu", Place(python=python))
    assert isinstance(backend.runtime, Machine)
    try:
        with pytest.raises(BackendSpecError, match="ModuleNotFoundError: No module named 'onnxruntime'"):
            versions_there(backend, ["onnxruntime"])
    finally:
        backend.runtime.python = ""  # the record is this process's only one


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place(python="/no/such/python"), "found no such program"),
        (Place(python=sys.executable, device="true {folder}"), "found --python, too"),
        (Place(device="true"), "expected {folder}"),
    ],
)
def test_places_that_are_none_are_refused(place: Place, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        place.check()


def test_the_worker_needs_python_3_8_and_numpy_alone() -> None:
    """Its imports, and its grammar as that version reads it."""
    tree = ast.parse(Path(worker.__file__).read_text(), feature_version=(3, 8))
    plain = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    of = [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in plain + of} - sys.stdlib_module_names == {"numpy"}
