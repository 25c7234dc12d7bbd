"""Exported TFLite models on LiteRT's reference kernels: 0 codes beside the goldens, and `assay judge` says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from interchange_runs import Array, listed, read, run_all, write

from npu_assay.conformance.interchange.export import Request, export
from npu_assay.conformance.interchange.judging import Request as JudgeRequest
from npu_assay.conformance.interchange.judging import judge_folder

interpreter = pytest.importorskip("ai_edge_litert.interpreter")
SOME = "relu or mean or softmax.default/operator/accept or bmm.default/operator"


def by_litert(model: Path, inputs: Sequence[Array]) -> Sequence[Array]:
    """The outputs of LiteRT's reference kernels."""
    loaded = interpreter.Interpreter(
        model_path=str(model), experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF
    )
    loaded.allocate_tensors()
    for place, array in zip(loaded.get_input_details(), inputs, strict=True):
        loaded.set_tensor(place["index"], array)
    loaded.invoke()
    return [loaded.get_tensor(place["index"]) for place in loaded.get_output_details()]


def test_no_code_differs(tmp_path: Path) -> None:
    folder, outputs = tmp_path / "cases", tmp_path / "outputs"
    manifest = export(Request("npu_assay.partitioners.neutron:backend", "tflite", folder, SOME))
    assert {entry.expect for entry in manifest.cases} >= {"accept", "reject"}
    run_all(folder, outputs, by_litert)
    differing = 0
    for case in listed(folder):
        for name in case["outputs"]:
            golden, found = read(folder / case["folder"] / name), read(outputs / case["folder"] / Path(name).name)
            differing += int(np.count_nonzero(golden != found))
    assert differing == 0
    report = judge_folder(JudgeRequest(folder, outputs))
    assert report.passed, [one for one in report.judgements if one.failures][:3]
    case = listed(folder)[0]
    path = outputs / case["folder"] / "output_0.npy"
    spoiled = read(path).copy()
    spoiled.flat[0] ^= 1
    write(path, spoiled)
    (wrong,) = [one for one in judge_folder(JudgeRequest(folder, outputs)).judgements if one.failures]
    assert wrong.case == case["case"]
