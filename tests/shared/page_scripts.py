"""The scripts of a page of docs/reports, each alone in a process of its own, and what the page installs for them."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
from pathlib import Path

from places import ROOT

from npu_assay.conformance.release import known

REPORTS = ROOT / "docs" / "reports"
LONGEST = 20
"""Lines that a script of a finding may have."""

DISTRIBUTIONS = {
    "ai_edge_litert": {"ai-edge-litert"},
    "executorch": {"executorch"},
    "executorch.backends.arm": {"executorch", "tosa-tools"},
    "executorch.backends.arm.ethosu": {"executorch", "tosa-tools", "ethos-u-vela"},
    "flatbuffers": {"flatbuffers"},
    "iree": {"iree-base-compiler"},
    "numpy": {"numpy"},
    "onnx": {"onnx"},
    "onnxruntime": {"onnxruntime"},
    "onnxruntime_qnn": {"onnxruntime-qnn"},
    "openvino": {"openvino"},
    "rknn": {"rknn-toolkit2"},
    "torch": {"torch"},
    "torchao": {"torchao"},
    "tosa": {"tosa-tools"},
    "tosa_reference_model": {"tosa-tools"},
}
"""What has to be installed for a module. Arm's import the serializer of TOSA, and those for Ethos-U run Vela."""


SHOWN = "the fault shows: "
"""What a script prints before it ends with 1."""

TRIES = {"findings/upsample-scale-factor.md": 4}
"""The pages whose script now and then ends in a segmentation fault (2 of 13 runs), and how often it is tried."""


def text(page: str) -> str:
    return (REPORTS / page).read_text(encoding="utf-8")


def scripts(page: str) -> list[str]:
    """The scripts of a page of docs/reports."""
    return known.scripts(text(page))


def installs(content: str) -> list[str]:
    """Each line of a page that installs something, without `pip install`."""
    return re.findall(r"^    pip install (.*)$", content, re.MULTILINE)


def shows(script: str, folder: Path, python: str = sys.executable, tries: int = 1) -> bool:
    """Whether the fault shows: exit code 1 and a line that says so, or an abort; 0 says that it does not.

    tries: how often a script is run that ends in a segmentation fault.
    """
    assert len(script.splitlines()) <= LONGEST
    for _ in range(tries):
        done = subprocess.run(
            [python, "-P", "-c", script], cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode != -signal.SIGSEGV:
            break
    assert done.returncode in (0, 1, -signal.SIGABRT), done.stderr
    shown = done.returncode != 0
    assert done.returncode < 0 or (SHOWN in done.stdout + done.stderr) == shown, done.stdout + done.stderr
    return shown


def nameless(script: str) -> list[str]:
    """The bytes without a name that a script gives ExecuTorch's `load_program`, as they are written.

    A method of its runtime does not keep them: freed, the script crashes now and then.
    """
    calls = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    loads = [call.args[0] for call in calls if ast.unparse(call.func).rpartition(".")[2] == "load_program"]
    return [ast.unparse(given) for given in loads if not isinstance(given, ast.Name | ast.NamedExpr)]


def needed(script: str) -> set[str]:
    """The distributions whose modules a script imports, those of the standard library left out."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
    found: set[str] = set()
    for module in modules:
        if module.partition(".")[0] not in sys.stdlib_module_names:
            parts = module.split(".")
            prefixes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
            found |= DISTRIBUTIONS[next((one for one in prefixes if one in DISTRIBUTIONS), module)]
    return found
