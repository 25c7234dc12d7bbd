"""ONNX models of an older opset: what it says otherwise, and the reason for what it cannot say."""

from __future__ import annotations

import onnx
import pytest

from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.onnx_rules import rule
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.reference.onnx_forms.site import FormError

TABLE = load_table("onnxruntime_cpu@1.31")
CASES = {case.id: case for case in all_cases(TABLE)}


def _model(name: str, opset: int) -> onnx.ModelProto:
    return onnx_model(build(CASES[name].graph, [op for op in TABLE.preserve if rule(op)], TABLE.mark), "x", opset)


def test_axes_are_an_attribute_and_gelu_is_an_expression() -> None:
    largest = _model("aten.amax.default/int8/operator/accept/baseline", 17)
    assert (largest.opset_import[0].version, largest.ir_version) == (17, 8)
    (node,) = [node for node in largest.graph.node if node.op_type == "ReduceMax"]
    assert len(node.input) == 1 and "axes" in {each.name for each in node.attribute}
    bent = {node.op_type for node in _model("aten.gelu.default/int8/operator/accept/baseline", 17).graph.node}
    assert "Erf" in bent and "Gelu" not in bent


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten.acos.default/int16/operator/accept/baseline", "codes of 16 bits need opset 21, found 17"),
        ("aten.avg_pool2d.default/operator/accept/ceil_mode_True", "opset 17 does not say what it divides by"),
    ],
)
def test_what_an_older_opset_lacks_has_a_reason(name: str, reason: str) -> None:
    with pytest.raises(FormError, match=reason) as raised:
        _model(name, 17)
    assert raised.value.code == "opset"
