"""Backends of ExecuTorch that nothing runs here: certificates of tags and of compiling, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")
pytest.importorskip("torchao", reason="ExecuTorch's partitioners need it")

from click.testing import CliRunner

from npu_assay.conformance.cli import main


def certify(backend: str, level: str, expression: str, folder: Path) -> tuple[int, str, dict[str, Any]]:
    words = ["certify", f"executorch:{backend}", "--level", level, "-n", "1", "-k", expression, "--out", str(folder)]
    done = CliRunner().invoke(main, words)
    file = folder / "certificate.json"
    return done.exit_code, done.output, json.loads(file.read_text()) if file.is_file() else {}


@pytest.mark.long
def test_vulkan_tags_and_compiles_without_a_gpu(tmp_path: Path) -> None:
    """The document: batch=1 for 2D conv, so both sides of it are among the cases."""
    code, output, certificate = certify(
        "vulkan",
        "compiles",
        "aten.convolution.default/fp32/batch_1_for_2d_conv or aten.relu and accept and baseline",
        tmp_path / "out",
    )
    assert code == 0, output
    assert "PASSED (compiles): executorch:vulkan against vulkan@1.4; nothing was run" in output
    assert certificate["level"] == "compiles" and certificate["environment"]["executorch"]
    assert certificate["counts"]["fail"] == 0 and certificate["counts"]["pass"] >= 3


@pytest.mark.long
def test_a_vulkan_case_that_does_not_compile_fails(tmp_path: Path) -> None:
    name = "aten.convolution.default/fp32/operator/context/batch_norm_after_transposed_groups"
    code, output, _ = certify("vulkan", "compiles", name, tmp_path / "out")
    assert code == 1 and "FuseBatchNormPass" in output


def test_the_certificate_says_what_stands_in_for_the_sdk(tmp_path: Path) -> None:
    """The document: alpha = 1."""
    code, output, certificate = certify(
        "neutron", "tags", "aten.sub.Tensor/alpha or aten.abs and operator/accept/baseline", tmp_path / "out"
    )
    assert code == 0, output
    assert "PASSED (tags): executorch:neutron against neutron@1.4; nothing was compiled or run" in output
    assert certificate["environment"]["eiq_neutron_sdk"].startswith("stood in for: a module of npu-assay answers")


@pytest.mark.long
def test_core_ml_tags_on_linux(tmp_path: Path) -> None:
    """Its code: alpha = 1, so both sides of it are among the cases; hardshrink is not among coremltools' operators."""
    expression = "aten.sub.Tensor/fp32/alpha/outside or aten.convolution and baseline"
    code, output, _ = certify("coreml", "tags", expression, tmp_path / "out")
    assert code == 0, output
    assert "PASSED (tags): executorch:coreml against coreml@1.5; nothing was compiled or run" in output
    code, output, _ = certify("coreml", "tags", "aten.hardshrink and baseline", tmp_path / "again")
    assert code == 1 and "[tag] reject, expected accept" in output


@pytest.mark.long
@pytest.mark.parametrize(
    ("backend", "level", "lacks"), [("vulkan", "runs", "runtime"), ("neutron", "compiles", "compiler")]
)
def test_more_than_there_is_cannot_be_asked_for(backend: str, level: str, lacks: str, tmp_path: Path) -> None:
    code, output, _ = certify(backend, level, "aten.abs", tmp_path / "out")
    assert code == 2 and f"has no {lacks}" in output


def reached(backend: str, expression: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """The exit code of `assay reach` for one case, and where the case ended."""
    file = folder / "met.jsonl"
    done = CliRunner().invoke(main, ["reach", f"executorch:{backend}", "-n", "1", "-k", expression, "--out", str(file)])
    (line,) = file.read_text().splitlines()
    return done.exit_code, json.loads(line)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["vulkan", "coreml"])
def test_a_module_reaches_the_delegate(backend: str, tmp_path: Path) -> None:
    code, met = reached(backend, "aten.relu.default and baseline", tmp_path)
    assert (code, met["end"], met["delegates"]) == (0, "delegated", 1), met


@pytest.mark.long
def test_what_does_not_compile_ends_a_module_too(tmp_path: Path) -> None:
    name = "aten.convolution.default/fp32/operator/context/batch_norm_after_transposed_groups"
    code, met = reached("vulkan", name, tmp_path)
    assert (code, met["end"], met["stage"]) == (1, "error", "lower"), met
