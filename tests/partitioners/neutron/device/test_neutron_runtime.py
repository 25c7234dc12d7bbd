"""The simulated device: what it runs, what it refuses and why, and what it does to its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from neutron_runtime_programs import RUNTIME, loaded
from tflite_models import MODELS, Sketch, random_inputs

from npu_assay.partitioners.common.machine import InputError
from npu_assay.partitioners.neutron import neutron_io
from npu_assay.partitioners.neutron.device.operators import RULES
from npu_assay.partitioners.neutron.tflite import FormatError, Model
from npu_assay.partitioners.neutron.tflite_schema import OPERATORS


def test_every_operator_of_the_format_has_a_rule() -> None:
    assert set(RULES) == set(OPERATORS)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_runs_leave_inputs_and_program_as_they_are(make: Callable[[int], Model]) -> None:
    model = make(3)
    program, inputs = loaded(model), random_inputs(model, 3)
    kept = [tensor.clone() for tensor in inputs]
    first = RUNTIME.execute(program, inputs)
    for output in RUNTIME.execute(program, inputs):
        output.zero_()
    assert all(map(torch.equal, inputs, kept))
    assert all(map(torch.equal, first, RUNTIME.execute(program, inputs)))


def test_outputs_never_share_memory_with_inputs_or_constants() -> None:
    sketch = Sketch(0)
    source, constant = sketch.input((2, 3)), sketch.codes((4,))
    flat = sketch.op("RESHAPE", [source], (6,), new_shape=(6,))
    program = loaded(sketch.model(flat, source, constant))
    codes = torch.arange(6, dtype=torch.int8).reshape(2, 3)
    outputs = RUNTIME.execute(program, [codes])
    for output in outputs:
        output.zero_()
    assert codes.flatten().tolist() == list(range(6))
    assert RUNTIME.execute(program, [codes])[2].any()


def test_strided_inputs_are_read_by_value() -> None:
    sketch = Sketch(0)
    program = loaded(sketch.model(sketch.op("ABS", [sketch.input((3, 2), (0.5, 0))], (3, 2))))
    codes = torch.tensor([[-1, -2, -3], [-4, -5, -6]], dtype=torch.int8)
    assert RUNTIME.execute(program, [codes.t()])[0].tolist() == [[1, 4], [2, 5], [3, 6]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "device inputs: found 0, expected 1"),
        ([torch.zeros(2, 3, dtype=torch.int8)] * 2, "device inputs: found 2, expected 1"),
        ([torch.zeros(2, 3)], r"device input 't0': found torch.float32 \[2, 3\], expected torch.int8 \[2, 3\]"),
        ([torch.zeros(3, 2, dtype=torch.int8)], r"found torch.int8 \[3, 2\], expected torch.int8 \[2, 3\]"),
    ],
)
def test_wrong_inputs_are_named(inputs: list[torch.Tensor], message: str) -> None:
    sketch = Sketch(0)
    program = loaded(sketch.model(sketch.op("RELU", [sketch.input((2, 3))], (2, 3))))
    with pytest.raises(InputError, match=message):
        RUNTIME.execute(program, inputs)


def test_formats_are_converted_where_the_metadata_says_so() -> None:
    sketch = Sketch(0)
    image, flat = sketch.input((1, 2, 3, 4)), sketch.input((2, 5))
    outputs = [sketch.op("RELU", [tensor], sketch.tensors[tensor].shape) for tensor in (image, flat)]
    model = sketch.model(*outputs)
    inputs = random_inputs(model, 0)
    plain = RUNTIME.execute(loaded(model), inputs)
    flagged = replace(model, metadata={neutron_io.KEY: neutron_io.encode([True, True], [True, False])})
    converted = RUNTIME.execute(loaded(flagged), [inputs[0].permute(0, 3, 1, 2), inputs[1]])
    assert converted[0].shape == (1, 4, 2, 3)
    assert torch.equal(converted[0].permute(0, 2, 3, 1), plain[0])
    assert torch.equal(converted[1], plain[1])


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"[true]", b"[true, 1]", b"[" * 100_000, b"\xff", b"[1, 2]"])
def test_bad_format_metadata_is_refused(data: bytes) -> None:
    sketch = Sketch(0)
    model = sketch.model(sketch.op("RELU", [sketch.input((2, 3))], (2, 3)))
    with pytest.raises(FormatError, match="neutron_io"):
        loaded(replace(model, metadata={neutron_io.KEY: data}))
