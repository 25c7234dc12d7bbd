"""The simulated device against LiteRT's reference kernels: the same bytes, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from tflite_models import MODELS, UNIT, Sketch, arithmetic, classifier, random_inputs

from npu_assay.partitioners.neutron.runtime import NeutronRuntime
from npu_assay.partitioners.neutron.tflite import Model, write
from npu_assay.partitioners.neutron.tflite_schema import OPERATORS

pytest.importorskip("ai_edge_litert")

from ai_edge_litert import schema_py_generated as schema

from tests.crosscheck.litert import run_litert

SCALES = (0.1, 0.05, 0.025, 0.2, 1 / 128, 1 / 256, 0.3)
"""Round numbers: their quotients in float32 and in float64 fall on different sides of ties."""


def _differing(model: Model, inputs: list[torch.Tensor]) -> dict[str, int]:
    """Differing elements of every value that an operator makes, by operator."""
    made = [index for operator in model.operators for index in operator.outputs]
    blob = write(replace(model, outputs=tuple(made)))
    runtime = NeutronRuntime()
    found = runtime.execute(runtime.load(blob), inputs)
    expected = run_litert(blob, [tensor.numpy() for tensor in inputs])
    pairs = zip(model.operators, found, expected, strict=True)
    return {
        f"{position} {operator.code}": int((mine.numpy() != theirs).sum())
        for position, (operator, mine, theirs) in enumerate(pairs)
    }


@pytest.mark.sampled(8)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_every_value_of_a_model_equals_litert(make: Callable[[int], Model], seed: int) -> None:
    """But sums, which LiteRT 2.3.0's reference kernel gets wrong where they are negative."""
    model = make(seed)
    found = _differing(model, random_inputs(model, seed))
    differing = {operator: count for operator, count in found.items() if not operator.endswith(" SUM")}
    assert differing == dict.fromkeys(differing, 0)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("y", SCALES)
@pytest.mark.parametrize("x", SCALES)
def test_all_codes_equal_litert_between_round_scales(x: float, y: float) -> None:
    shape, q = (1, 1, 16, 16), (y, -3)
    sketch = Sketch(0)
    source = sketch.input(shape, (x, 5))
    for code in ("QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ABS"):
        sketch.op(code, [source], shape, q)
    sketch.op("LEAKY_RELU", [source], shape, q, alpha=0.2)
    sketch.op("TANH", [source], shape, (1 / 128, 0))
    sketch.op("LOGISTIC", [source], shape, UNIT)
    sketch.op("SOFTMAX", [source], shape, UNIT, beta=1.0)
    sketch.op("PRELU", [source, sketch.codes((16,))], shape, q)
    constant = sketch.codes(shape, (0.025, 1))
    for code in ("ADD", "SUB", "MUL", "BATCH_MATMUL"):
        sketch.op(code, [source, constant], shape, q)
    sketch.op("MEAN", [source, sketch.numbers([2])], (1, 1, 16), q)
    sketch.op("FULLY_CONNECTED", [source, sketch.codes((16, 16))], (16, 16), q)
    codes = torch.arange(-128, 128, dtype=torch.int8).reshape(shape)
    differing = _differing(sketch.model(), [codes])
    assert differing == dict.fromkeys(differing, 0)


def test_litert_decodes_what_we_wrote() -> None:
    model = classifier()
    decoded = schema.ModelT.InitFromObj(schema.Model.GetRootAs(write(model)))
    graph = decoded.subgraphs[0]
    codes = [decoded.operatorCodes[operator.opcodeIndex] for operator in graph.operators]
    assert [code.builtinCode for code in codes] == [OPERATORS[operator.code].number for operator in model.operators]
    assert decoded.version == 3
    assert not decoded.buffers[0].data
    for ours, theirs in zip(model.tensors, graph.tensors, strict=True):
        assert tuple(theirs.shape) == ours.shape
        scales = () if theirs.quantization is None else tuple(theirs.quantization.scale.tolist())
        assert scales == ours.scales
    convolution = graph.operators[1].builtinOptions
    assert isinstance(convolution, schema.Conv2DOptionsT)
    assert (convolution.padding, convolution.strideH, convolution.strideW) == (schema.Padding.VALID, 2, 1)


@pytest.mark.parametrize("code", sorted(OPERATORS))
def test_operator_numbers_are_the_published_ones(code: str) -> None:
    kind = OPERATORS[code]
    assert kind.number == getattr(schema.BuiltinOperator, code)


def test_a_device_that_rounds_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from npu_assay.partitioners.common.int8 import elementwise

    model = arithmetic()
    monkeypatch.setattr(elementwise, "tflite_double_round", lambda acc, m, e: (acc * m + (1 << (30 - e))) >> (31 - e))
    assert any(_differing(model, random_inputs(model, 0)).values())


def test_constants_start_at_multiples_of_16_bytes() -> None:
    blob = write(classifier())
    decoded = schema.Model.GetRootAs(blob)
    for index in range(1, decoded.BuffersLength()):
        data = decoded.Buffers(index).DataAsNumpy()
        start = data.__array_interface__["data"][0] - np.frombuffer(blob, np.uint8).__array_interface__["data"][0]
        assert start % 16 == 0


@pytest.mark.parametrize("rank", [0, 1, 8])
def test_reshapes_of_every_rank_equal_litert(rank: int) -> None:
    """A scalar's shape fits only the options."""
    sketch, shape = Sketch(0), (1,) * rank
    inputs = [sketch.input((1, 1))] + ([sketch.numbers(shape)] if rank else [])
    reshaped = sketch.op("RESHAPE", inputs, shape, new_shape=shape)
    sketch.op("RELU", [reshaped], shape)
    model = sketch.model()
    assert set(_differing(model, random_inputs(model, 0)).values()) == {0}
