"""Models on unsigned codes compute what those on signed codes do, half a range higher."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from npu_assay.conformance.interchange.unsigned_form import unsigned

HEAD = '<ir_version: 10, opset_import: ["": 21]> '
ADD = """g (int8[2, 3] x) => (int8[2, 3] y, int8[2, 3] copied)
    <float s = {0.1}, int8 z = {-3}, int8[3] w = {-128, 0, 127}> {
    a = DequantizeLinear(x, s, z)   b = DequantizeLinear(w, s, z)   c = Add(a, b)
    y = QuantizeLinear(c, s, z)     copied = Identity(x)
}"""
CONV = """g (int8[1, 2, 4] x) => (int8[1, 2, 4] y)
    <float s = {0.1}, int8 z = {5}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0, 0}, int8[2, 1, 1] w = {-7, 9}> {
    a = DequantizeLinear(x, s, z)   b = DequantizeLinear<axis = 0>(w, ws, wz)
    c = Conv<group = 2>(a, b)       y = QuantizeLinear(c, s, z)
}"""
CLAMPED = """g (int16[4] x) => (int16[4] y) <float s = {{0.5}}, int16 z = {{{zero}}}, float low = {{{low}}},
    float high = {{16383.5}}> {{
    a = DequantizeLinear(x, s, z)   b = Neg(a)   c = Clip(b, low, high)   y = QuantizeLinear(c, s, z)
}}"""


def turned(text: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    model = parser.parse_model(HEAD + text)
    other = unsigned(model)
    onnx.checker.check_model(other, full_check=True)
    return model, other


def outputs(model: onnx.ModelProto, x: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for each in ReferenceEvaluator(model).run(None, {"x": x})]


@pytest.mark.parametrize("text", [ADD, CONV])
def test_codes_are_half_a_range_higher(text: str) -> None:
    model, other = turned(text)
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    higher = (x.astype(np.int16) + 128).astype(np.uint8)
    for signed, found in zip(outputs(model, x), outputs(other, higher), strict=True):
        assert found.dtype == np.uint8 and np.array_equal(found.astype(np.int16) - 128, signed)


def test_weights_with_a_scale_per_channel_stay_as_they_are() -> None:
    model, other = turned(CONV)
    before, after = ({each.name: each for each in one.graph.initializer} for one in (model, other))
    assert [after[name] == before[name] for name in ("w", "wz", "ws", "z")] == [True, True, True, False]


def test_the_model_that_is_given_stays_as_it_is() -> None:
    model = parser.parse_model(HEAD + ADD)
    data = model.SerializeToString()
    unsigned(model)
    assert model.SerializeToString() == data


@pytest.mark.parametrize(("low", "zero", "left_out"), [(-16383.5, 0, True), (-16383.0, 0, False), (-16383.5, 1, False)])
def test_only_the_clamp_to_symmetric_codes_is_left_out(low: float, zero: int, left_out: bool) -> None:
    model, other = turned(CLAMPED.format(low=low, zero=zero))
    assert ("Clip" not in [node.op_type for node in other.graph.node]) == left_out
    x = np.array([-32767, -1, 0, 32767], np.int16)
    (signed,), (found,) = outputs(model, x), outputs(other, (x.astype(np.int32) + 2**15).astype(np.uint16))
    assert np.array_equal(found.astype(np.int32) - 2**15, signed)
