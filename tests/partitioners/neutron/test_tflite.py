"""TFLite models: round trips, versions, the rules that any model keeps, and hostile bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hostile import outcomes
from tflite_models import MODELS, UNIT, Sketch, arithmetic, classifier, movement

from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.neutron import tflite_schema as schema
from npu_assay.partitioners.neutron.runtime import NeutronRuntime
from npu_assay.partitioners.neutron.tflite import FormatError, Model, Operator, Tensor, read, write
from npu_assay.partitioners.neutron.tflite_schema import OPERATORS, OPTIONS
from npu_assay.partitioners.neutron.tflite_versions import version

X = Tensor("x", (1, 4), "int8", None, (0.5,), (0,))
Y = replace(X, name="y")
RELU = Operator("RELU", (0,), (1,))
SMALL = Model((X, Y), (RELU,), (0,), (1,))


def _same(a: Tensor, b: Tensor) -> bool:
    fields = ("name", "shape", "dtype", "scales", "zero_points", "axis")
    if (a.data is None) != (b.data is None) or any(getattr(a, f) != getattr(b, f) for f in fields):
        return False
    return a.data is None or b.data is None or bool((a.data == b.data).all())


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_round_trip(make: Callable[[int], Model]) -> None:
    model = replace(make(7), metadata={"neutron_io": b"[true]", "empty": b""})
    blob = write(model)
    found = read(blob)
    assert all(map(_same, found.tensors, model.tensors))
    assert (found.inputs, found.outputs) == (model.inputs, model.outputs)
    assert (found.description, found.metadata) == (model.description, model.metadata)
    for ours, theirs in zip(model.operators, found.operators, strict=True):
        assert (ours.code, ours.inputs, ours.outputs) == (theirs.code, theirs.inputs, theirs.outputs)
        assert dict(theirs.options) | dict(ours.options) == dict(theirs.options)
    assert write(found) == blob == write(model)


@pytest.mark.parametrize("part", ["description", "metadata", "operator_codes"])
def test_what_a_file_leaves_out_is_empty(part: str) -> None:
    """A model that gives its input needs none of them."""
    bare = Model((X,), (), (0,), (0,))
    record = flatbuffer.read(schema.MODEL, write(bare), schema.IDENTIFIER)
    found = read(flatbuffer.write(schema.MODEL, {**record, part: None}, schema.IDENTIFIER))
    assert (found.description, found.metadata, found.operators) == ("", {}, ())


def test_metadata_that_others_wrote_may_have_no_name() -> None:
    blob = write(replace(SMALL, metadata={"a": b"1", "b": b"2"}))
    record = flatbuffer.read(schema.MODEL, blob, schema.IDENTIFIER)
    record["metadata"][0]["name"] = None
    assert read(flatbuffer.write(schema.MODEL, record, schema.IDENTIFIER)).metadata == {"": b"1", "b": b"2"}


@pytest.mark.parametrize("index", [1, 2])
def test_an_operator_has_one_of_the_codes_of_the_file(index: int) -> None:
    record = flatbuffer.read(schema.MODEL, write(SMALL), schema.IDENTIFIER)
    record["subgraphs"][0]["operators"][0]["opcode_index"] = index
    with pytest.raises(FormatError, match=f"is {index}, expected below 1"):
        read(flatbuffer.write(schema.MODEL, record, schema.IDENTIFIER))


def test_zero_points_that_a_file_leaves_out_are_zero() -> None:
    record = flatbuffer.read(schema.MODEL, write(SMALL), schema.IDENTIFIER)
    record["subgraphs"][0]["tensors"][0]["quantization"]["zero_point"] = None
    assert read(flatbuffer.write(schema.MODEL, record, schema.IDENTIFIER)).tensors[0].zero_points == (0,)


@pytest.mark.parametrize("end", [2.0**-126, (2 - 2.0**-23) * 2.0**127])
def test_scales_are_normal_float32(end: float) -> None:
    model = _with(scales=(end,))
    assert read(write(model)).tensors[0].scales == (end,)
    beyond = end / 2 if end < 1 else float("inf")
    with pytest.raises(FormatError, match="scale"):
        read(write(_with(scales=(beyond,))))


def test_the_models_use_every_operator() -> None:
    assert {operator.code for make in MODELS for operator in make(0).operators} == set(OPERATORS)


def test_every_operator_has_the_options_it_names() -> None:
    assert all(kind.options == 0 or kind.options in OPTIONS for kind in OPERATORS.values())
    assert all(1 <= kind.version <= kind.newest for kind in OPERATORS.values())


def _int8(*shape: int, scale: float = 0.5) -> Tensor:
    return Tensor("", shape, "int8", None, (scale,), (0,))


@pytest.mark.parametrize(
    ("code", "options", "inputs", "expected"),
    [
        ("CONV_2D", {}, [_int8(1, 4, 4, 8), _int8(8, 1, 1, 8), None], 3),
        ("CONV_2D", {}, [_int8(1, 4, 4, 8), _int8(8, 1, 1, 4), None], 6),
        ("FULLY_CONNECTED", {}, [_int8(1, 4), _int8(2, 4), _int8(2)], 4),
        ("FULLY_CONNECTED", {"keep_num_dims": True}, [_int8(1, 4), _int8(2, 4), _int8(2)], 5),
        ("FULLY_CONNECTED", {"keep_num_dims": True}, [_int8(1, 4), _int8(2, 4)], 6),
        ("MUL", {}, [_int8(4), _int8(4, scale=0.4)], 2),
        ("MUL", {}, [_int8(4), _int8(4, scale=1.5)], 3),
        ("PAD", {}, [_int8(1, 2, 3, 4)], 2),
        ("PADV2", {}, [_int8(1, 2, 3, 4, 5)], 4),
        ("RESIZE_BILINEAR", {"half_pixel_centers": False}, [_int8(1, 2, 3, 4)], 2),
        ("RESIZE_BILINEAR", {"half_pixel_centers": True}, [_int8(1, 2, 3, 4)], 3),
        ("RESIZE_NEAREST_NEIGHBOR", {"align_corners": True}, [_int8(1, 2, 3, 4)], 3),
        ("SLICE", {}, [_int8(1, 2, 3, 4, 5)], 5),
        ("SUB", {}, [_int8(1, 2, 3, 4, 5), _int8(1, 2, 3, 4, 5)], 2),
        ("SUB", {}, [_int8(1, 2, 3, 4, 5), _int8(5)], 3),
        ("TRANSPOSE", {}, [_int8(1, 2, 3, 4)], 2),
        ("TRANSPOSE", {}, [_int8(1, 2, 3, 4, 5)], 4),
        ("TRANSPOSE", {}, [_int8(1, 2, 3, 4, 5, 6)], 6),
        ("TRANSPOSE_CONV", {}, [_int8(4), _int8(1, 1, 1, 1), _int8(1, 1, 1, 1)], 2),
        ("TRANSPOSE_CONV", {}, [_int8(4), _int8(1, 1, 1, 1), _int8(1, 1, 1, 1), _int8(1)], 3),
        ("RELU_0_TO_1", {}, [_int8(4)], 1),
    ],
)
def test_versions(code: str, options: dict[str, Any], inputs: list[Tensor | None], expected: int) -> None:
    assert version(code, options, inputs, [_int8(4)]) == expected


def _with(**changes: Any) -> Model:
    return replace(SMALL, tensors=(replace(X, **changes), Y))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_with(dtype="uint8"), "tensor 0 'x': dtype is uint8"),
        (_with(shape=(1,) * 9), "rank is 9, expected at most 8"),
        (_with(shape=(-1, 4)), "shape is"),
        (_with(shape=(2**16, 2**16)), "shape is"),
        (_with(scales=(), zero_points=()), "quantization is absent"),
        (_with(scales=(float("nan"),)), "scale is nan"),
        (_with(scales=(0.0,)), "scale is 0.0"),
        (_with(scales=(1e-60,)), "scale is 1e-60"),
        (_with(scales=(1e60,)), "scale is 1e"),
        (_with(zero_points=(128,)), "zero point is 128, expected from -128 to 127"),
        (_with(zero_points=(0, 0)), "number of zero points is 2"),
        (_with(scales=(1.0, 1.0), zero_points=(0, 0), axis=1), "number of scales is 2, expected 4"),
        (_with(scales=(1.0, 1.0), zero_points=(0, 0), axis=2), "quantized dimension is 2"),
        (_with(scales=(1.0,) * 4, zero_points=(0,) * 4, axis=-1), "quantized dimension is -1"),
        (_with(dtype="float32"), "quantization is present"),
        (_with(data=np.zeros((1, 5), np.int8)), "data is int8 .1, 5., expected int8 .1, 4."),
        (_with(data=np.zeros((1, 4), np.int32)), "data is int32"),
        (replace(SMALL, inputs=(2,)), "tensor index in inputs is 2, expected from 0 to 1"),
        (replace(SMALL, inputs=(0, 0)), "tensor is 0, expected defined once"),
        (replace(SMALL, inputs=()), "operator 0 RELU: input tensor is 0, expected defined before its use"),
        (replace(SMALL, operators=()), "output tensor is 1, expected defined by an operator"),
        (replace(SMALL, operators=(RELU, RELU)), "operator 1 RELU: tensor is 1, expected defined once"),
        (replace(SMALL, operators=(replace(RELU, code="GELU"),)), "operator is GELU"),
        (replace(SMALL, operators=(replace(RELU, outputs=(-1,)),)), "tensor index in outputs is -1"),
        (replace(SMALL, operators=(replace(RELU, options={"axis": 1}),)), "option is 'axis'"),
        (replace(SMALL, operators=(Operator("SOFTMAX", (0,), (1,), {"beta": float("inf")}),)), "beta is inf"),
        (replace(SMALL, operators=(Operator("CONV_2D", (0,), (1,), {"padding": "FULL"}),)), "padding is 'FULL'"),
    ],
)
def test_what_is_no_model_is_refused(model: Model, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        write(model)


@pytest.mark.parametrize(
    ("find", "replacement", "message"),
    [
        (b"TFL3", b"TFL2", "file identifier"),
        (struct.pack("<ff", 0.015625, 0.25), struct.pack("<ff", -0.015625, 0.25), "scale is -0.015625"),
    ],
)
def test_bytes_that_break_a_rule_are_refused(find: bytes, replacement: bytes, message: str) -> None:
    sketch = Sketch(0)
    source = sketch.input((1, 2), (0.5, 0))
    sketch.tensors.append(
        Tensor("w", (2, 2), "int8", np.ones((2, 2), np.int8), (0.015625, 0.25), (0, 0)),
    )
    sketch.op("FULLY_CONNECTED", [source, 1], (1, 2), (0.5, 0))
    blob = write(sketch.model(2))
    assert blob.count(find) == 1
    with pytest.raises(FormatError, match=message):
        read(blob.replace(find, replacement))


def test_options_of_another_operator_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    blob = write(SMALL)
    (operator,) = SMALL.operators
    other = replace(OPERATORS[operator.code], options=OPERATORS["SOFTMAX"].options)
    monkeypatch.setattr(schema, "OPERATORS", {**OPERATORS, operator.code: other})
    with pytest.raises(FormatError, match=f"options type of {operator.code}"):
        read(blob)


@pytest.mark.parametrize("change", [{"builtin_options": None}, {"builtin_options_type": OPERATORS["SOFTMAX"].options}])
def test_an_operator_has_the_options_that_are_its_own(change: dict[str, Any]) -> None:
    record = flatbuffer.read(schema.MODEL, write(_concatenation()), schema.IDENTIFIER)
    (operator,) = record["subgraphs"][0]["operators"]
    operator |= {"builtin_options": {}} | change
    with pytest.raises(FormatError, match="options type of CONCATENATION"):
        read(flatbuffer.write(schema.MODEL, record, schema.IDENTIFIER))


@pytest.mark.parametrize("change", [{"custom_code": "RELU"}, {"builtin_code": 1000}])
def test_an_operator_is_one_of_the_builtin_ones(change: dict[str, Any]) -> None:
    record = flatbuffer.read(schema.MODEL, write(_concatenation()), schema.IDENTIFIER)
    record["operator_codes"][0] |= change
    with pytest.raises(FormatError, match=r"builtin code is .*(RELU|1000).*, expected a supported builtin operator"):
        read(flatbuffer.write(schema.MODEL, record, schema.IDENTIFIER))


def _concatenation() -> Model:
    sketch = Sketch(0)
    return sketch.model(sketch.op("CONCATENATION", [sketch.input((2, 3)), sketch.input((2, 3))], (4, 3), axis=0))


@pytest.mark.parametrize(
    ("shape", "message"),
    [((1,) * 70, "tensor 1.*: rank is 70, expected at most 8"), ((2**31 - 1,) * 500, "tensor 1.*: rank is 500")],
)
def test_constants_of_shapes_that_no_tensor_has_are_refused(shape: tuple[int, ...], message: str) -> None:
    """Numpy has no more than 64 axes, and Python writes no number of more than 4,300 digits."""
    sketch = Sketch(0)
    source = sketch.input((1, 2), (0.5, 0))
    sketch.tensors.append(Tensor("w", (1, 2), "int8", np.ones((1, 2), np.int8), (0.5,), (0,)))
    sketch.op("ADD", [source, 1], (1, 2), (0.5, 0))
    record = flatbuffer.read(schema.MODEL, write(sketch.model(2)), schema.IDENTIFIER)
    record["subgraphs"][0]["tensors"][1]["shape"] = shape
    with pytest.raises(FormatError, match=message):
        read(flatbuffer.write(schema.MODEL, record, schema.IDENTIFIER))


def test_more_work_than_the_limit_is_refused() -> None:
    """Five operators of 2^33 multiplications each, where one alone may have more."""
    sketch = Sketch(0)
    value = sketch.input((1, 2**11, 2**11), (0.5, 0))
    other = sketch.input((1, 2**11, 2**11), (0.5, 0))
    for _ in range(5):
        value = sketch.op("BATCH_MATMUL", [value, other], (1, 2**11, 2**11), (0.5, 0))
    with pytest.raises(FormatError, match="multiplications of all operators is 42949672960, expected at most 3435973"):
        NeutronRuntime().load(write(sketch.model(6)), [])


# ---------------------------------------------------------------------------------------------------- fuzz


def _slices() -> list[bytes]:
    """Small models to mutate: one for every operator of the big ones, and a chain of three."""
    blobs: dict[str, bytes] = {}
    for make in (classifier, arithmetic, movement):
        model = make(0)
        for operator in model.operators:
            blobs.setdefault(operator.code, write(_alone(model, operator)))
    sketch = Sketch(1)
    value = sketch.input((1, 4, 4, 2))
    for code in ("RELU", "ABS", "LOGISTIC"):
        value = sketch.op(code, [value], (1, 4, 4, 2), UNIT)
    return [*blobs.values(), write(sketch.model(value))]


def _alone(model: Model, operator: Operator) -> Model:
    """A model of one operator; what another one computed becomes an input."""
    used = list(dict.fromkeys(index for index in (*operator.inputs, *operator.outputs) if index >= 0))
    at = {index: position for position, index in enumerate(used)} | {-1: -1}
    inputs = [index for index in used if model.tensors[index].data is None and index not in operator.outputs]
    alone = replace(
        operator, inputs=tuple(at[i] for i in operator.inputs), outputs=tuple(at[i] for i in operator.outputs)
    )
    tensors = tuple(model.tensors[index] for index in used)
    return Model(tensors, (alone,), tuple(at[i] for i in inputs), tuple(at[i] for i in operator.outputs))


def _outcome(runtime: NeutronRuntime, blob: bytes, generator: torch.Generator) -> str:
    """What a blob ends in; anything but a FormatError or a model that runs is a failure of the test."""
    try:
        program = runtime.load(blob, [])
    except FormatError as error:
        assert error.what and error.expected and error.where
        return "refused"
    shapes = [port.shape for port in program.inputs]
    codes = [torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8) for shape in shapes]
    outputs = runtime.execute(program, codes)
    assert all(output.dtype == torch.int8 for output in outputs)
    return "ran"


def test_ten_thousand_mutated_blobs_are_refused_or_run() -> None:
    """In bounded time each, and in bounded memory together."""
    runtime = NeutronRuntime()
    found = outcomes(_slices(), lambda blob, generator: _outcome(runtime, blob, generator))
    assert found.total() >= 10_000
    assert found["refused"] > 1_000 and found["ran"] > 400


def test_every_truncation_of_a_model_is_refused_or_runs() -> None:
    blob, runtime = _slices()[0], NeutronRuntime()
    for length in range(0, len(blob), 7):
        assert _outcome(runtime, blob[:length], torch.Generator().manual_seed(0)) in ("refused", "ran")
