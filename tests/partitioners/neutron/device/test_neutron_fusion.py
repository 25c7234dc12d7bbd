"""Activations that the operator before them takes in: the same codes from fewer kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from tflite_models import Sketch, random_inputs

from npu_assay.partitioners.neutron.device.elementwise import REAL_LIMITS
from npu_assay.partitioners.neutron.device.fusion import RESCALING
from npu_assay.partitioners.neutron.runtime import load_model
from npu_assay.partitioners.neutron.tflite import FormatError, read, write

QUANT = (0.05, 3)
VALID = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
Make = Callable[[Sketch], int]


def _conv(s: Sketch) -> int:
    x = s.input((1, 4, 5, 3))
    return s.op("CONV_2D", [x, *s.weights((8, 3, 2, 3), 0, x, 2000)], (1, 2, 4, 8), QUANT, **VALID)


def _depthwise(s: Sketch) -> int:
    x = s.input((1, 4, 5, 8))
    w, b = s.weights((1, 3, 3, 8), 3, x, 2000)
    return s.op("DEPTHWISE_CONV_2D", [x, w, b], (1, 2, 3, 8), QUANT, **VALID, depth_multiplier=1)


def _transposed(s: Sketch) -> int:
    x = s.input((1, 3, 4, 4))
    w, b = s.weights((5, 2, 2, 4), 0, x, 500)
    return s.op("TRANSPOSE_CONV", [s.numbers([1, 4, 5, 5]), w, x, b], (1, 4, 5, 5), QUANT, **VALID)


def _dense(s: Sketch) -> int:
    x = s.input((3, 24))
    return s.op("FULLY_CONNECTED", [x, *s.weights((5, 24), 0, x, 3000)], (3, 5), QUANT)


def _pairs(code: str) -> Make:
    return lambda s: s.op(code, [s.input((2, 8)), s.input((2, 8), (0.03, -7))], (2, 8), QUANT)


MAKES: dict[str, Make] = {
    "ADD": _pairs("ADD"),
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    "MUL": _pairs("MUL"),
    "SUB": _pairs("SUB"),
    "TRANSPOSE_CONV": _transposed,
}


def _codes(sketch: Sketch, *outputs: int) -> tuple[int, list[torch.Tensor]]:
    """The number of kernels that run, and the outputs."""
    model = sketch.model(*outputs)
    program = load_model(read(write(model)))
    return len(program.calls), program.run(random_inputs(model, 5))


def test_every_operator_that_takes_activations_in_is_tested() -> None:
    assert set(MAKES) == RESCALING


@pytest.mark.parametrize("activation", REAL_LIMITS)
@pytest.mark.parametrize("code", MAKES)
def test_the_codes_are_those_of_two_operators(code: str, activation: str) -> None:
    """The same model with the codes between as an output keeps both operators."""
    sketch = Sketch(1)
    between = MAKES[code](sketch)
    result = sketch.op(activation, [between], sketch.tensors[between].shape)
    fused, (one,) = _codes(sketch, result)
    apart, (two, _) = _codes(sketch, result, between)
    assert (fused, apart) == (1, 2)
    assert torch.equal(one, two)
    assert two.min() < two.max()


def _other_quantisation(s: Sketch) -> Sequence[int]:
    return [s.op("RELU", [_dense(s)], (3, 5), (0.1, -128))]


def _second_reader(s: Sketch) -> Sequence[int]:
    between = _dense(s)
    return [s.op("RELU", [between], (3, 5)), s.op("ABS", [between], (3, 5))]


def _second_activation(s: Sketch) -> Sequence[int]:
    return [s.op("RELU", [s.op("RELU6", [_dense(s)], (3, 5))], (3, 5))]


def _no_rescale(s: Sketch) -> Sequence[int]:
    return [s.op("RELU", [s.op("ABS", [s.input((3, 5))], (3, 5))], (3, 5))]


def _no_activation(s: Sketch) -> Sequence[int]:
    return [s.op("ABS", [_dense(s)], (3, 5))]


def _computed_weights(s: Sketch) -> Sequence[int]:
    product = s.op("FULLY_CONNECTED", [s.input((3, 24)), s.input((5, 24), (0.01, 4))], (3, 5), QUANT)
    return [s.op("RELU", [product], (3, 5))]


@pytest.mark.parametrize(
    ("make", "kernels"),
    [
        (_other_quantisation, 2),
        (_second_reader, 3),
        (_second_activation, 2),
        (_no_rescale, 2),
        (_no_activation, 2),
        (_computed_weights, 2),
    ],
)
def test_other_activations_stay(make: Callable[[Sketch], Sequence[int]], kernels: int) -> None:
    sketch = Sketch(2)
    assert _codes(sketch, *make(sketch))[0] == kernels


def test_errors_name_the_operator_by_its_position_in_the_model() -> None:
    sketch = Sketch(3)
    result = sketch.op("RELU", [_dense(sketch)], (3, 5))
    wrong = sketch.op("ABS", [result], (5, 3))
    with pytest.raises(FormatError, match="operator 2 ABS"):
        load_model(read(write(sketch.model(wrong))))


def test_an_operator_without_its_inputs_is_left_to_the_checks() -> None:
    sketch = Sketch(4)
    between = _dense(sketch)
    model = sketch.model(sketch.op("RELU", [between], (3, 5)))
    first, relu = model.operators
    for inputs in ((), first.inputs[:1], (first.inputs[0], -1)):
        hollow = replace(model, operators=(replace(first, inputs=inputs), relu))
        with pytest.raises(FormatError, match="operator 0 FULLY_CONNECTED"):
            load_model(read(write(hollow)))


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("of", ["inputs", "outputs"])
def test_an_activation_of_no_or_two_tensors_is_left_to_the_checks(of: str, count: int) -> None:
    sketch = Sketch(5)
    model = sketch.model(sketch.op("RELU", [_dense(sketch)], (3, 5)))
    first, relu = model.operators
    other = replace(relu, inputs=relu.inputs * count) if of == "inputs" else replace(relu, outputs=relu.outputs * count)
    place = "model outputs: output tensor" if (of, count) == ("outputs", 0) else "operator 1 RELU"
    with pytest.raises(FormatError, match=place):
        load_model(read(write(replace(model, operators=(first, other)))))


def test_what_several_read_is_written_as_it_is() -> None:
    """Two activations read the sum, and the model gives it, too: neither may take its place."""
    s = Sketch(0)
    x = _pairs("ADD")(s)
    relu, clipped = (s.op(code, [x], (2, 8), QUANT) for code in ("RELU", "RELU6"))
    kernels, found = _codes(s, x, relu, clipped)
    assert kernels == 3
    assert torch.equal(found[1], found[0].clamp_min(3)) and torch.equal(found[2], found[0].clamp(3, 123))


def test_a_pool_takes_no_activation_in() -> None:
    s = Sketch(0)
    pool = {"filter_height": 2, "filter_width": 2, "stride_h": 2, "stride_w": 2, "padding": "VALID"}
    x = s.op("MAX_POOL_2D", [s.input((1, 4, 6, 8), QUANT)], (1, 2, 3, 8), **pool, fused_activation_function="NONE")
    kernels, (found, raw) = _codes(s, s.op("RELU", [x], (1, 2, 3, 8)), s.op("RELU6", [x], (1, 2, 3, 8)))
    assert kernels == 3 and found.min() >= 3 and raw.max() <= 123
    lone = Sketch(0)
    y = lone.op("MAX_POOL_2D", [lone.input((1, 4, 6, 8), QUANT)], (1, 2, 3, 8), **pool)
    assert _codes(lone, lone.op("RELU", [y], (1, 2, 3, 8)))[0] == 2
