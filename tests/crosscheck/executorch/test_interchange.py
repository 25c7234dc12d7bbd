"""Exported `.pte` files on ExecuTorch's own runtime, and on ours as `assay run` has it: both give the goldens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")

import torch
from interchange_runs import Array, run_all

from npu_assay.conformance.devices.machine import Machine
from npu_assay.conformance.interchange.export import Request, export
from npu_assay.conformance.interchange.judging import Request as JudgeRequest
from npu_assay.conformance.interchange.judging import judge_folder
from npu_assay.conformance.pte.options import Request as RunRequest
from npu_assay.conformance.pte.run import run

REAL = Machine("npu_assay.conformance.adapters.executorch.xnn:device")
BACKEND = "npu_assay.partitioners.xnnpack:backend"
SOME = "baseline and (relu or add or conv2d) and (fp32 or static_int8) and accept"


def theirs(model: Path, inputs: Sequence[Array]) -> Sequence[Array]:
    """The outputs of ExecuTorch's runtime."""
    return [x.numpy() for x in REAL.run(model.read_bytes(), [torch.from_numpy(x) for x in inputs])]


def ours(model: Path, inputs: Sequence[Array]) -> Sequence[Array]:
    """The outputs of `assay run`."""
    files = tuple(model.parent / "test_data_set_0" / f"input_{index}.npy" for index in range(len(inputs)))
    return [x.value for x in run(RunRequest(model, files, "forward", None, None, backends=(BACKEND,)))]


@pytest.mark.long
def test_both_runtimes_give_the_goldens(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    manifest = export(Request(BACKEND, "pte", folder, SOME))
    assert len(manifest.cases) >= 5
    for name, how in (("ours", ours), ("theirs", theirs)):
        run_all(folder, tmp_path / name, how)
        report = judge_folder(JudgeRequest(folder, tmp_path / name))
        assert [(one.case, one.failures[0]) for one in report.judgements if one.failures] == []
    REAL.close()
