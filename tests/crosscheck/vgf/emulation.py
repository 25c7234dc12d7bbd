"""Arm's emulation layer for Vulkan as a second implementation of TOSA: its model converter and scenario runner.

They need the packages below, a Vulkan loader, and Mesa's lavapipe, which is a Vulkan driver for processors.
`python -m tests.crosscheck.vgf.emulation` fails with a reason where one is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from ctypes.util import find_library
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

CONVERTER = ("ai-ml-sdk-model-converter", "model_converter/binaries/bin/model-converter")
LIBRARY = ("ai-ml-sdk-vgf-library", "vgf_lib/binaries/bin/vgf_dump")
RUNNER = ("ai-ml-sdk-scenario-runner", "scenario_runner/binaries/bin/scenario-runner")
LAYERS = ("ai-ml-emulation-layer-for-vulkan", "emulation_layer/deploy")
DRIVERS = Path("/usr/share/vulkan/icd.d")
SECONDS = 300


class RefusedError(Exception):
    """A tool ended with an error."""


def missing() -> str:
    """The reason why nothing can be run here, "" where all is there."""
    packages = [name for name, _ in (CONVERTER, LIBRARY, RUNNER, LAYERS) if not _installed(name)]
    if packages:
        return f"not installed: {', '.join(packages)}"
    if find_library("vulkan") is None:
        return "no Vulkan loader: Debian's package libvulkan1 has one"
    return "" if _driver() else f"no lavapipe in {DRIVERS}: Debian's package mesa-vulkan-drivers has it"


def run_emulation(blob: bytes, inputs: Sequence[Array], folder: Path) -> list[Array]:
    """The outputs of a TOSA flatbuffer. Raises RefusedError where one of the tools refuses it."""
    (folder / "graph.tosa").write_bytes(blob)
    for number, array in enumerate(inputs):
        np.save(folder / f"input_{number}_ref.npy", array)
    _call(CONVERTER, folder, "--input", "graph.tosa", "--output", "graph.vgf")
    _call(LIBRARY, folder, "--input", "graph.vgf", "--scenario-template", "--output", "scenario.json")
    outputs = _name_files(folder / "scenario.json")
    _call(RUNNER, folder, "--scenario", "scenario.json", "--output", ".")
    return [np.load(folder / name) for name in outputs]


def _name_files(path: Path) -> list[str]:
    """Names the file of every tensor in a template after the tensor; returns the outputs' files."""
    scenario = json.loads(path.read_text(encoding="utf-8"))
    tensors = [resource["tensor"] for resource in scenario["resources"] if "tensor" in resource]
    for tensor in tensors:
        tensor["dst" if "dst" in tensor else "src"] = f"{tensor['uid']}.npy"
    path.write_text(json.dumps(scenario), encoding="utf-8")
    return [tensor["dst"] for tensor in tensors if "dst" in tensor]


def _call(tool: tuple[str, str], folder: Path, *arguments: str) -> None:
    command = [str(_located(tool)), *arguments]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise RefusedError(f"{tool[0]}: exit code {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")


def _environment() -> dict[str, str]:
    """Both layers, the graph layer above the tensor layer that it needs, on lavapipe.

    A loader as old as Debian 12's orders layers as it finds the files that describe them, so each file is named.
    """
    deployed = _located(LAYERS)
    described = deployed / "share" / "vulkan" / "explicit_layer.d"
    return os.environ | {
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(deployed / "lib"), os.environ.get("LD_LIBRARY_PATH")))),
        "VK_LAYER_PATH": os.pathsep.join(str(described / f"VkLayer_{name}.json") for name in ("Graph", "Tensor")),
        "VK_INSTANCE_LAYERS": "VK_LAYER_ML_Graph_Emulation:VK_LAYER_ML_Tensor_Emulation",
        "VK_DRIVER_FILES": _driver(),
        "VK_ICD_FILENAMES": _driver(),
    }


def _driver() -> str:
    return os.pathsep.join(map(str, DRIVERS.glob("lvp_icd.*.json")))


def _located(tool: tuple[str, str]) -> Path:
    package, path = tool
    return Path(str(distribution(package).locate_file(path)))


def _installed(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(missing() or 0)
