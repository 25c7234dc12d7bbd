"""RKNN's simulator: what can be asked of its adapter without the toolkit."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from npu_assay.conformance.adapters import rknn
from npu_assay.conformance.adapters.rknn import provider
from npu_assay.conformance.backend import loading
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.devices.machine import MachineError
from npu_assay.conformance.interchange.onnx_rules import rule
from npu_assay.conformance.table import load_table

assert rknn.__file__ is not None
PROGRAM = Path(rknn.__file__).with_name("device.py")


def test_the_program_imports_nothing_of_the_suite() -> None:
    tree = ast.parse(PROGRAM.read_text(encoding="utf-8"))
    named = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    of = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {str(name).partition(".")[0] for name in named | of} - {*sys.stdlib_module_names} == {
        "numpy",
        "onnx",
        "rknn",
    }


@pytest.mark.parametrize("chip", provider.CHIPS)
def test_without_the_toolkit_nothing_is_run(chip: str) -> None:
    """It is an error of the command, not a refusal of each case, which some cases expect."""
    backend = load_backend(f"rknn:{chip}", elsewhere=True)
    with pytest.raises(MachineError, match="No module named 'rknn'"):
        backend.runtime.execute(b"", [])
    arguments = ["certify", f"rknn:{chip}", "--python", sys.executable, "-k", "aten.relu.default/int8/operator/accept"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and "No module named 'rknn'" in done.output


def test_without_another_interpreter_it_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="found no module 'rknn', expected --python"):
        load_backend("rknn:rk3588")


def test_each_row_has_a_form_and_each_limit_a_source() -> None:
    table = load_table("rknn@2.5")
    assert len(table.rows) >= 50
    assert [row.operator for row in table.rows if rule(row.operator) is None] == []
    sources = {constraint.source for row in table.rows for constraint in row.constraints}
    assert sources == {"compiler", "toolkit", "onnx"}
