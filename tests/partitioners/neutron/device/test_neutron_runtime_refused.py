"""What the Neutron device refuses to run, as it is loaded or as it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from neutron_runtime_programs import RUNTIME, loaded
from tflite_models import UNIT, Sketch, random_inputs, transposed_convolution

from npu_assay.partitioners.common.machine import DeviceError
from npu_assay.partitioners.neutron.runtime import NeutronRuntime, load_model
from npu_assay.partitioners.neutron.tflite import FormatError, Model, Operator, Tensor, write

NHWC = (1, 4, 6, 8)


def _one(code: str, shape: Sequence[int], out: Sequence[int], quant: Any = None, **options: Any) -> Model:
    """One operator on one input; options named `_x` make constants: their values follow as inputs."""
    sketch = Sketch(0)
    source = sketch.input(shape)
    constants = [sketch.numbers(options.pop(name)) for name in list(options) if name.startswith("_")]
    return sketch.model(sketch.op(code, [source, *constants], out, quant, **options))


def _two(code: str, a: Sequence[int], b: Sequence[int], out: Sequence[int], **options: Any) -> Model:
    sketch = Sketch(0)
    return sketch.model(sketch.op(code, [sketch.input(a), sketch.input(b)], out, (0.05, 3), **options))


def _conv(code: str = "CONV_2D", out: Sequence[int] = (1, 2, 4, 5), edit: Any = None, **options: Any) -> Model:
    """A convolution with 3 x 3 windows on `NHWC`; `edit` changes the tensors (x, weights, bias)."""
    sketch = Sketch(0)
    source = sketch.input(NHWC)
    shape, axis = ((1, 3, 3, 8), 3) if code == "DEPTHWISE_CONV_2D" else ((5, 3, 3, 8), 0)
    w, b = sketch.weights(shape, axis, source, 100)
    if edit:
        sketch.tensors = list(edit(*sketch.tensors))
        sketch.inputs = [index for index, tensor in enumerate(sketch.tensors) if tensor.data is None]
    defaults = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    return sketch.model(sketch.op(code, [source, w, b], out, (0.2, 0), **defaults | options))


def _pool(code: str, **changes: Any) -> Model:
    options = {"padding": "VALID", "filter_height": 2, "filter_width": 3, "stride_h": 2, "stride_w": 3}
    return _one(code, NHWC, changes.pop("out", (1, 2, 2, 8)), changes.pop("quant", None), **options | changes)


def _padv2(values: int) -> Model:
    sketch = Sketch(0)
    x = sketch.input((4, 5))
    fill = sketch.codes((values,), (0.05, 3))
    return sketch.model(sketch.op("PADV2", [x, sketch.numbers([[1, 0], [0, 0]]), fill], (5, 5)))


def _scales_along(axis: int) -> Model:
    """Eight outputs of eight inputs, so that scales along either axis are as many."""
    sketch = Sketch(0)
    x = sketch.input(NHWC)
    w, b = sketch.weights((8, 3, 3, 8), axis, x, 100)
    return sketch.model(sketch.op("CONV_2D", [x, w, b], (1, 2, 4, 8), padding="VALID", stride_h=1, stride_w=1))


ACCEPTED: dict[str, Model] = {
    "conv": _conv(),
    "depthwise": _conv("DEPTHWISE_CONV_2D", (1, 2, 4, 8), depth_multiplier=1),
    "average pool": _pool("AVERAGE_POOL_2D"),
    "max pool": _pool("MAX_POOL_2D"),
    "broadcast": _two("ADD", (4, 1, 3), (2, 1), (4, 2, 3)),
    "pad by a number": _padv2(1),
    "conv scales": _scales_along(0),
    "mean of a scalar axis": _one("MEAN", (2, 3), (2,), _axes=1),
    "slice to the end": _one("SLICE", (4, 5), (3, 2), _begin=[1, 3], _size=[-1, 2]),
    "reshape with one open size": _one("RESHAPE", (4, 5), (2, 10), new_shape=(2, -1)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_models_next_to_the_refused_ones_run(name: str) -> None:
    model = ACCEPTED[name]
    outputs = RUNTIME.execute(loaded(model), random_inputs(model, 0))
    assert [tuple(output.shape) for output in outputs] == [model.tensors[index].shape for index in model.outputs]


def _bias(**changes: Any) -> Callable[..., tuple[Tensor, ...]]:
    return lambda x, w, b: (x, w, replace(b, **changes))


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_scales_at_the_ends_of_what_the_device_takes(scale: float) -> None:
    sketch = Sketch(0)
    codes = torch.tensor([-5, 7], dtype=torch.int8)
    program = loaded(sketch.model(sketch.op("RELU", [sketch.input((2,), (scale, 0))], (2,), (scale, 0))))
    assert NeutronRuntime().execute(program, [codes])[0].tolist() == [0, 7]


def _weights(**changes: Any) -> Callable[..., tuple[Tensor, ...]]:
    return lambda x, w, b: (x, replace(w, **changes), b)


def _dynamic_weights(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return x, replace(w, data=None), b


REFUSED: dict[str, tuple[Model, str]] = {
    "pad values": (_padv2(2), "pad values is 2, expected 1"),
    "conv scales": (_scales_along(3), "quantized dimension of the weights is 3, expected 0"),
    "shape": (_one("RELU", (2, 3), (3, 2)), r"operator 0 RELU: output shape is \[3, 2\], expected \[2, 3\]"),
    "broadcast": (_two("ADD", (4, 3), (2, 3), (4, 3)), r"input shapes is \[4, 3\] and \[2, 3\]"),
    "add overflow": (_one("ADD", (2,), (2,), (1e-9, 0), _b=[1, 2]), "dtype of 'c1' is int32, expected int8"),
    "extreme scale": (_one("RELU", (2,), (2,), (2.0**-41, 0)), "scale of 't1'"),
    "ratio": (_one("RELU", (2,), (2,), (2.0**-36, 0)), "ratio of scales"),
    "logistic": (_one("LOGISTIC", (2,), (2,)), "output quantization"),
    "tanh": (_one("TANH", (2,), (2,), UNIT), "output quantization"),
    "softmax": (_one("SOFTMAX", (2,), (2,), (1 / 128, -128), beta=1.0), "output quantization"),
    "softmax beta": (_one("SOFTMAX", (2,), (2,), UNIT), "beta is 0.0, expected positive"),
    "softmax of a number": (_one("SOFTMAX", (), (), UNIT, beta=1.0), "last axis is 0, expected 1 to 8191"),
    "softmax row": (_one("SOFTMAX", (1, 8192), (1, 8192), UNIT, beta=1.0), "last axis is 8192, expected 1 to 8191"),
    "concat params": (_two("CONCATENATION", (2, 3), (2, 3), (4, 3), axis=2), "axis is 2, expected from -2 to 1"),
    "concat shape": (_two("CONCATENATION", (2, 3), (2, 4), (4, 3), axis=0), r"expected \[2, 3\] except at axis 0"),
    "concat size": (_two("CONCATENATION", (2, 3), (2, 3), (3, 3), axis=0), r"expected \[4, 3\]"),
    "pool params": (_pool("AVERAGE_POOL_2D", quant=(0.07, 3)), "quantization of 't1'"),
    "pool stride": (_pool("MAX_POOL_2D", stride_w=0), r"stride is \[2, 0\]"),
    "pool window": (_pool("MAX_POOL_2D", filter_height=5), "window extent is 5, expected at most the input's 4"),
    "pool activation": (_pool("MAX_POOL_2D", fused_activation_function="RELU"), "fused_activation_function is RELU"),
    "conv channels": (_conv(edit=lambda x, w, b: (replace(x, shape=(1, 4, 6, 9)), w, b)), "input channels is 9"),
    "conv shape": (_conv(out=(1, 4, 2, 5)), r"output shape is \[1, 4, 2, 5\], expected \[1, 2, 4, 5\]"),
    "conv weights": (_conv(edit=_dynamic_weights), "not constant, expected a constant"),
    "conv symmetric": (_conv(edit=_weights(zero_points=(0, 0, 0, 0, 1))), "zero points of the weights"),
    "conv bias scale": (_conv(edit=_bias(scales=(1.0,) * 5)), "bias scale is 1.0"),
    "conv bias dtype": (_conv(edit=_bias(dtype="int8", data=np.zeros(5, np.int8))), "expected int32"),
    "conv bias range": (_conv(edit=_bias(data=np.full(5, 2**31 - 1, np.int32))), "accumulator"),
    "depthwise": (_conv("DEPTHWISE_CONV_2D", (1, 2, 4, 8), depth_multiplier=2), "depth_multiplier is 2"),
    "mean axes": (_one("MEAN", (2, 3), (3,), _axes=[0, -2]), "axes is .0, 0., expected no axis twice"),
    "slice": (_one("SLICE", (4, 5), (3, 2), _begin=[2, 3], _size=[3, 2]), "begin and size"),
    "transpose": (_one("TRANSPOSE", (4, 5), (5, 4), _perm=[1, 1]), "perm is"),
    "reshape": (_one("RESHAPE", (4, 5), (2, 11), new_shape=(2, 11)), "elements is 22, expected 20"),
    "reshape open": (_one("RESHAPE", (4, 5), (4, 5), new_shape=(-1, -1)), "expected at most one -1"),
    "pad": (_one("PAD", (4, 5), (3, 5), _amounts=[[-1, 0], [0, 0]]), "paddings is"),
    "resize": (_one("RESIZE_BILINEAR", NHWC, (1, 8, 8, 8), _size=[8, 9]), "output shape"),
    "resize modes": (
        _one("RESIZE_BILINEAR", NHWC, (1, 8, 8, 8), _size=[8, 8], align_corners=True, half_pixel_centers=True),
        "at most one",
    ),
    "inputs": (_one("RELU", (2,), (2,), _extra=[1]), "number of inputs is 2, expected 1 to 1"),
    "memory": (_one("RELU", (2**12, 2**12), (2**12, 2**12)), "number of elements"),
    "empty": (_one("RELU", (0, 2), (0, 2)), "number of elements is 0"),
    "inner sizes": (_two("BATCH_MATMUL", (2, 3), (4, 5), (2, 5)), "inner sizes is 3 and 4"),
    "depth": (_two("BATCH_MATMUL", (1, 200_000), (200_000, 1), (1, 1)), "accumulator"),
}


def test_sums_are_as_long_as_their_codes_allow() -> None:
    """40,000 products of codes with zero points 0 stay below 2**31, and so does any mean that fits the memory."""
    for model in (
        _two("BATCH_MATMUL", (1, 40_000), (40_000, 1), (1, 1)),
        _one("MEAN", (70_000, 3), (3,), _axes=[0]),
    ):
        RUNTIME.load(write(model), [])


def test_the_longest_sums_that_32_bits_hold() -> None:
    """Codes less their zero point 3 reach -131, so that each product reaches 131 * 131."""
    longest = (2**31 - 1) // (131 * 131)
    loaded(_two("BATCH_MATMUL", (1, longest), (longest, 1), (1, 1)))
    with pytest.raises(DeviceError, match=f"accumulator is up to {(longest + 1) * 131 * 131}"):
        loaded(_two("BATCH_MATMUL", (1, longest + 1), (longest + 1, 1), (1, 1)))
    loaded(_two("FULLY_CONNECTED", (1, longest), (1, longest), (1, 1)))
    with pytest.raises(DeviceError, match=f"accumulator is up to {(longest + 1) * 131 * 131}"):
        loaded(_two("FULLY_CONNECTED", (1, longest + 1), (1, longest + 1), (1, 1)))


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_a_rule_is_refused_with_the_reason(name: str) -> None:
    model, message = REFUSED[name]
    blob = write(model)
    with pytest.raises(DeviceError, match=message):
        RUNTIME.load(blob, [])


def _scaled(code: str, scales: Sequence[float], out: float, shape: Sequence[int] = (2, 2), **options: Any) -> Model:
    """One operator on inputs of (2, 2) with these scales."""
    sketch = Sketch(0)
    sources = [sketch.input((2, 2), (scale, 0)) for scale in scales]
    constants = [sketch.numbers(options.pop(name)) for name in list(options) if name.startswith("_")]
    return sketch.model(sketch.op(code, [*sources, *constants], shape, (out, 0), **options))


def _prelu(x: float, slope: float, y: float) -> Model:
    sketch = Sketch(0)
    return sketch.model(
        sketch.op("PRELU", [sketch.input((2, 2), (x, 0)), sketch.codes((2,), (slope, 0))], (2, 2), (y, 0))
    )


RATIOS: dict[str, Callable[[float], Model]] = {
    "RELU": lambda y: _scaled("RELU", [2.0**3], y * 2.0**3),
    "MUL": lambda y: _scaled("MUL", [2.0**7, 2.0**-2], y * 2.0**5),
    "LEAKY_RELU": lambda y: _scaled("LEAKY_RELU", [2.0**3], y * 2.0**5, alpha=-4.0),
    "PRELU": lambda y: _prelu(2.0**3, 2.0**2, y * 2.0**5),
    "MEAN": lambda y: _scaled("MEAN", [2.0**3], y * 2.0**3, (2, 1), _axes=[1], keep_dims=True),
    "BATCH_MATMUL": lambda y: _scaled("BATCH_MATMUL", [2.0**7, 2.0**-2], y * 2.0**5),
}
"""Models whose rescale is by 1 / y."""


@pytest.mark.parametrize("name", RATIOS)
def test_a_ratio_of_scales_stays_below_its_limit(name: str) -> None:
    loaded(RATIOS[name](2.0**-29))
    with pytest.raises(DeviceError, match="ratio of scales"):
        loaded(RATIOS[name](2.0**-30))


def _rows() -> Model:
    s = Sketch(6)
    x = s.input((3, 24))
    w, b = s.weights((5, 24), 0, x, 9)
    return s.model(s.op("FULLY_CONNECTED", [x, w, b], (3, 5)))


WORK: dict[str, tuple[Model, int]] = {
    "rows": (_rows(), (3 * 5) * 24),
    "rows without a bias": (_two("FULLY_CONNECTED", (3, 24), (5, 24), (3, 5)), (3 * 5) * 24),
    "transposed conv": (transposed_convolution(), (2 * 3 * 5 * 4) * (7 * 2 * 3)),
    "conv": (ACCEPTED["conv"], (2 * 4 * 5) * (3 * 3 * 8)),
    "depthwise": (ACCEPTED["depthwise"], (2 * 4 * 8) * (3 * 3 * 8)),
    "average pool": (ACCEPTED["average pool"], (2 * 2 * 8) * (2 * 3)),
    "max pool": (ACCEPTED["max pool"], (2 * 2 * 8) * (2 * 3)),
    "product": (_two("BATCH_MATMUL", (2, 3), (3, 5), (2, 5)), (2 * 5) * 3),
    "transposed": (_two("BATCH_MATMUL", (3, 2), (3, 5), (2, 5), adj_x=True), (2 * 5) * 3),
    "products of a batch": (_two("BATCH_MATMUL", (2, 3, 4), (2, 4, 5), (2, 3, 5)), (2 * 3 * 5) * 4),
    "others": (_two("ADD", (2, 3), (2, 3), (2, 3)), 0),
}
"""Models with their multiplications, or the numbers in the windows of pools."""


@pytest.mark.parametrize("name", WORK)
def test_what_would_take_too_long_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, work = WORK[name]
    monkeypatch.setattr("npu_assay.partitioners.neutron.runtime.WORK_LIMIT", work)
    loaded(model)
    monkeypatch.setattr("npu_assay.partitioners.neutron.runtime.WORK_LIMIT", work - 1)
    with pytest.raises(FormatError, match="multiplications of all operators"):
        loaded(model)


@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL"])
@pytest.mark.parametrize("shapes", [[], [(3,)], [(3,), (3,)]])
def test_products_of_too_few_operands_or_dimensions_are_refused(code: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = (*(Tensor(f"x{i}", shape, "int8", None, (0.5,), (0,)) for i, shape in enumerate(shapes)),)
    y = Tensor("y", (3,), "int8", None, (0.5,), (0,))
    operator = Operator(code, tuple(range(len(shapes))), (len(shapes),), {"adj_x": True})
    with pytest.raises(FormatError, match=f"operator 0 {code}"):
        load_model(Model((*tensors, y), (operator,), operator.inputs, operator.outputs))


MOVED: dict[str, Callable[[Any], Model]] = {
    "TRANSPOSE": lambda quant: _one("TRANSPOSE", (4, 5), (5, 4), quant, _perm=[1, 0]),
    "RESHAPE": lambda quant: _one("RESHAPE", (4, 5), (2, 10), quant, new_shape=(2, 10)),
    "SLICE": lambda quant: _one("SLICE", (4, 5), (3, 2), quant, _begin=[1, 3], _size=[3, 2]),
    "PAD": lambda quant: _one("PAD", (4, 5), (5, 5), quant, _amounts=[[1, 0], [0, 0]]),
    "RESIZE_BILINEAR": lambda quant: _one("RESIZE_BILINEAR", NHWC, (1, 8, 12, 8), quant, _size=[8, 12]),
    "MAX_POOL_2D": lambda quant: _pool("MAX_POOL_2D", quant=quant),
}


@pytest.mark.parametrize(
    ("shape", "fits"),
    [((1, 4, 5, 5), True), ((1, 3, 5, 5), False), ((1, 4, 4, 5), False), ((2, 4, 5, 5), False), ((1, 4, 5, 6), False)],
)
def test_a_transposed_convolution_writes_at_least_its_windows(shape: tuple[int, ...], fits: bool) -> None:
    sketch = Sketch(0)
    x = sketch.input((1, 3, 4, 4))
    w, b = sketch.weights((5, 2, 2, 4), 0, x, 500)
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    model = sketch.model(sketch.op("TRANSPOSE_CONV", [sketch.numbers(shape), w, x, b], shape, (0.2, 0), **options))
    if fits:
        loaded(model)
    else:
        with pytest.raises(DeviceError, match=r"output_shape is \[.*\], expected at least \[1, 4, 5, 5\]"):
            loaded(model)


def test_a_transposed_convolution_writes_the_shape_that_it_says() -> None:
    sketch = Sketch(0)
    x = sketch.input((1, 3, 4, 4))
    operands = [sketch.numbers([1, 4, 5, 5]), *sketch.weights((5, 2, 2, 4), 0, x, 500)]
    operands.insert(2, x)
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    with pytest.raises(DeviceError, match=r"output shape is \[1, 5, 5, 5\], expected \[1, 4, 5, 5\]"):
        loaded(sketch.model(sketch.op("TRANSPOSE_CONV", operands, (1, 5, 5, 5), (0.2, 0), **options)))


def test_slopes_broadcast_to_the_input_and_not_the_input_to_them() -> None:
    sketch = Sketch(0)
    source, slopes = sketch.input((1, 3)), sketch.codes((2, 3))
    with pytest.raises(DeviceError, match=r"output shape is \[1, 3\], expected \[2, 3\]"):
        loaded(sketch.model(sketch.op("PRELU", [source, slopes], (1, 3))))


@pytest.mark.parametrize("code", MOVED)
def test_what_moves_codes_keeps_their_quantisation(code: str) -> None:
    model = MOVED[code]((0.0703125, 3))
    before, after = model.tensors[model.inputs[0]], model.tensors[model.outputs[0]]
    found, wanted = ((each.scales, each.zero_points) for each in (after, before))
    with pytest.raises(DeviceError) as caught:
        loaded(model)
    text = f"operator 0 {code}: quantization of {after.name!r} is {found}, expected {wanted} as {before.name!r}"
    assert str(caught.value) == text


def test_float_models_are_refused() -> None:
    tensors = (Tensor("x", (2,), "float32"), Tensor("y", (2,), "float32"))
    with pytest.raises(DeviceError, match="float32, expected int8"):
        loaded(Model(tensors, (Operator("RELU", (0,), (1,)),), (0,), (1,)))


@pytest.mark.parametrize(("inputs", "outputs"), [((), (1,)), ((0,), ()), ((0, 0), (1,)), ((0,), (1, 1))])
def test_an_activation_has_one_input_and_one_output(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
    """Also behind an operator that could take it in."""
    model = _one("ABS", (2,), (2,))
    tail = replace(model.tensors[1], name="z")
    second = Operator("RELU", tuple(i + 1 for i in inputs), tuple(i + 1 for i in outputs))
    with pytest.raises(FormatError, match="operator 1 RELU"):
        load_model(Model((*model.tensors, tail), (*model.operators, second), (0,), (2,)))


def test_a_missing_input_is_refused() -> None:
    model = _one("RELU", (2,), (2,))
    with pytest.raises(DeviceError, match=r"input 0 is absent \(-1\)"):
        loaded(replace(model, operators=(Operator("RELU", (-1,), (1,)),)))
