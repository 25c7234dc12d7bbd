"""ONNX models of an older opset: the same numbers, or the reason why it cannot say them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.onnx_rules import rule
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.reference.onnx_forms.site import FormError

TABLE = load_table("onnxruntime_cpu@1.31")
PLAIN = {
    case.row: case
    for case in all_cases(TABLE)
    if case.id.endswith("operator/accept/baseline") and "/int16/" not in case.id
}
SAID_OTHERWISE = ("aten.amax.default", "aten.amin.default", "aten.mean.dim", "aten.gelu.default", "aten.linear.default")


def _model(row: str, opset: int) -> onnx.ModelProto:
    graph = PLAIN[row].graph
    return onnx_model(build(graph, [op for op in TABLE.preserve if rule(op)], TABLE.mark), "x", opset)


@pytest.mark.parametrize("row", SAID_OTHERWISE)
def test_an_older_opset_computes_the_same(row: str) -> None:
    old, new = _model(row, 17), _model(row, 21)
    assert (old.opset_import[0].version, old.ir_version, new.ir_version) == (17, 8, 10)
    onnx.checker.check_model(old, full_check=True)
    inputs = [x.numpy() for x in model_inputs(PLAIN[row].graph)]
    results = []
    for model in (old, new):
        names = [each.name for each in model.graph.input]
        results.append(ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True))))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_what_an_older_opset_lacks_has_a_reason() -> None:
    wide = next(case for case in all_cases(TABLE) if "/int16/" in case.id)
    with pytest.raises(FormError, match="codes of 16 bits need opset 21, found 17") as raised:
        onnx_model(build(wide.graph, TABLE.preserve), "x", 17)
    assert raised.value.code == "opset"
