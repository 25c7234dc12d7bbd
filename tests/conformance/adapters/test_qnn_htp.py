"""The HTP emulator's device program and table, without its packages; `tox -e qnn` runs it with them."""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from onnx import parser
from places import ROOT

from npu_assay.conformance.adapters import onnxruntime
from npu_assay.conformance.backend.loading import BackendSpecError
from npu_assay.conformance.devices.machine import Machine, MachineError
from npu_assay.conformance.devices.place import Place
from npu_assay.conformance.devices.placing import load_placed
from npu_assay.conformance.interchange.unsigned_form import TURNED, unsigned
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

PROGRAM = ROOT / "conformance" / "adapters" / "onnxruntime" / "qnn_htp.py"
STACK = {"numpy", "onnxruntime", "onnxruntime_qnn"}
SPECS = ("onnxruntime:qnn-htp", "onnxruntime:qnn-htp-signed")
# Stands in for the stack: the provider takes what onnx.reference runs, but for Tan.
RUNTIME = """
    from types import SimpleNamespace
    import onnx
    from onnx.reference import ReferenceEvaluator
    entries, taken = {}, []
    class SessionOptions:
        def add_session_config_entry(self, name, value): entries[name] = value
        def add_provider_for_devices(self, devices, options): taken.append((devices, options))
    class InferenceSession:
        def __init__(self, model, options):
            assert entries == {"session.disable_cpu_ep_fallback": "1"} and taken[-1][1] == {"backend_path": "htp"}
            model = onnx.load_from_string(model)
            if "Tan" in [node.op_type for node in model.graph.node]:
                raise RuntimeError("nodes are left to the CPU")
            self.graph, self.model = model.graph, ReferenceEvaluator(model)
            self.meta = {each.key: each.value for each in model.metadata_props}
        def get_inputs(self): return self.graph.input
        def get_outputs(self): return self.graph.output
        def get_modelmeta(self): return SimpleNamespace(custom_metadata_map=self.meta)
        def run(self, names, feeds): return self.model.run(names, feeds)
    def register_execution_provider_library(name, path): assert path == "library"
    def get_ep_devices(): return [SimpleNamespace(ep_name=n) for n in ("CPU", "QNNExecutionProvider")]
"""
PROVIDER = """
    from types import SimpleNamespace
    build_and_package_info = SimpleNamespace(qnn_version="2.51.0")
    def get_library_path(): return "library"
    def get_qnn_htp_path(): return "htp"
"""
MODEL = """<ir_version: 10, opset_import: ["": 21]>
g ({0}[{3}] x) => ({0}[{3}] y) <float s = {{0.5}}, {0} z = {{{1}}}> {{
    a = DequantizeLinear(x, s, z)   b = {2}(a)   y = QuantizeLinear(b, s, z)
}}"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The device program on what stands in for the stack."""
    for name, text in (("onnxruntime", RUNTIME), ("onnxruntime_qnn", PROVIDER)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    return Machine(f"{PROGRAM}:run")


def model(kind: str, zero: int, operator: str = "Neg", sizes: str = "3") -> bytes:
    found = unsigned(parser.parse_model(MODEL.format(kind.removeprefix("u"), zero, operator, sizes)))
    other = found if kind.startswith("u") else parser.parse_model(MODEL.format(kind, zero, operator, sizes))
    return bytes(other.SerializeToString())


def test_the_program_imports_the_standard_library_and_its_stack() -> None:
    tree = ast.parse(PROGRAM.read_text())
    found = {
        each.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    }
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} - {"__future__"}
    assert found >= STACK and {each.partition(".")[0] for each in found - STACK} <= sys.stdlib_module_names


@pytest.mark.parametrize(("kind", "zero"), [("uint8", 0), ("int8", 0), ("uint16", 0), ("int16", 0)])
def test_codes_go_in_and_come_out_signed(machine: Machine, kind: str, zero: int) -> None:
    x = torch.tensor([-100, 0, 25], dtype=torch.int8 if kind.endswith("8") else torch.int16)
    assert machine.run(model(kind, zero), []) == []
    (found,) = machine.run(model(kind, zero), [x])
    assert torch.equal(found, -x)
    assert machine.versions["QNN"] == "2.51.0"


def test_a_code_alone_goes_in_and_comes_out(machine: Machine) -> None:
    (found,) = machine.run(model("uint8", 0, sizes=""), [torch.tensor(-7, dtype=torch.int8)])
    assert found.dtype == torch.int8 and found.shape == () and found == 7


def test_the_lowest_code_of_16_bits_is_the_next(machine: Machine) -> None:
    (found,) = machine.run(model("uint16", -1), [torch.tensor([-32767, 0, 32767], dtype=torch.int16)])
    assert found.tolist() == [32765, -2, -32767]


def test_a_model_that_the_provider_does_not_take_is_refused_with_what_it_says(machine: Machine) -> None:
    with pytest.raises(MachineError, match="nodes are left to the CPU"):
        machine.run(model("uint8", 0, "Tan"), [])


@pytest.mark.parametrize("spec", SPECS)
def test_without_its_packages_it_is_refused(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_assay.conformance.backend.loading.find_spec", lambda name: None)
    with pytest.raises(BackendSpecError, match="found no module 'onnxruntime_qnn', expected --python"):
        load_placed(spec, Place())


def test_form_and_program_mean_the_same_metadata() -> None:
    assert f'TURNED = "{TURNED}"' in PROGRAM.read_text()


def test_both_forms_are_offered() -> None:
    assert {"cpu", "qnn_htp", "qnn_htp_signed"} <= set(dir(onnxruntime))


@pytest.mark.long
def test_the_table_has_the_operators_and_cases_that_it_should() -> None:
    table = load_table("qnn_htp@2.51")
    rows = {case.row for case in all_cases(table)}
    assert rows == {row.name for row in table.rows} and len(rows) >= 90
    assert {source for row in table.rows for source in (each.source for each in row.constraints)} <= {"builder", "onnx"}
