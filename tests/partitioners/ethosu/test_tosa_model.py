"""TOSA flatbuffers: round trips, graphs that break a rule, blobs that lie, and ten thousand damaged ones."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import torch
from draw import Draw
from hostile import outcomes
from tosa_blobs import ADD, _conv, _same
from tosa_building import Building
from tosa_programs import PROGRAMS

from npu_assay.partitioners.common.machine import InputError, Port, UnpredictableError
from npu_assay.partitioners.ethosu import tosa_schema as schema
from npu_assay.partitioners.ethosu.runtime import EthosURuntime
from npu_assay.partitioners.ethosu.tosa_format import FormatError, read, write
from npu_assay.partitioners.ethosu.tosa_model import TModel
from npu_assay.partitioners.exir import flatbuffer


def _graph(name: str, seed: int = 0) -> TModel:
    return PROGRAMS[name](Draw(zlib.crc32(name.encode()) + seed)).model


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_round_trip(name: str) -> None:
    for seed in range(3):
        graph = _graph(name, seed)
        blob = write(graph)
        found = read(blob)
        assert _same(graph, found)
        assert write(found) == blob == write(graph)


def test_numbers_of_48_bits_keep_their_sign() -> None:
    values = np.array([0, 1, -1, 2**47 - 1, -(2**47), 2**40 + 3, -(2**33) - 7])
    b = Building()
    x = b.input(np.zeros((1, 1, 1, 1)), "INT16")
    w = b.constant(np.zeros((7, 1, 1, 1)), "INT8")
    zero = b.constant([0], "INT16"), b.constant([0], "INT8")
    window: dict[str, Any] = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1)}
    bias = b.constant(values, "INT48")
    acc = b.apply("CONV2D", x, w, bias, *zero, acc_type="INT48", **window)
    graph = b.program(acc).model
    found = next(each for each in read(write(graph)).tensors if each.name == bias)
    assert found.data is not None and found.data.tolist() == values.tolist()


def test_constants_are_made_first_and_arguments_keep_their_order() -> None:
    blob = write(_graph("CONV2D INT8"))
    record = flatbuffer.read(schema.GRAPH, blob, schema.IDENTIFIER)
    block = record["regions"][0]["blocks"][0]
    numbers = [each["op"] for each in block["operators"]]
    constants = [number for number in numbers if number in (schema.CONST, schema.CONST_SHAPE)]
    assert numbers[: len(constants)] == constants and schema.CONST in constants
    assert block["name"] == record["regions"][0]["name"] == "main"
    assert record["version"] == {"_major": 1, "_minor": 0, "_patch": 0, "_draft": False}


def _with_data(model: TModel, name: str, data: list[int]) -> bytes:
    """The flatbuffer with other bytes in one constant."""
    record = flatbuffer.read(schema.GRAPH, write(model), schema.IDENTIFIER)
    tensors = record["regions"][0]["blocks"][0]["tensors"]
    next(each for each in tensors if each["name"] == name)["data"] = np.array(data, np.uint8)
    return flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER)


def test_the_zero_point_of_weights_may_be_stored_for_every_channel_and_nothing_else() -> None:
    conv = _conv()
    (operator,) = conv.operators
    _, _, bias, _, zero = operator.inputs
    assert _same(conv, read(_with_data(conv, zero, [0, 0, 0, 0])))
    for name, data in ((zero, [0, 0, 0, 1]), (bias, [0] * 32)):
        with pytest.raises(FormatError, match="size of the data"):
            read(_with_data(conv, name, data))


# ------------------------------------------------------------------------------------------------ fuzz

RUNTIME = EthosURuntime()
FUZZED = [name for name in PROGRAMS if name.split()[-1] in ("INT8", "INT32") or name.startswith("CONV2D")]


def _input(port: Port, generator: torch.Generator) -> torch.Tensor:
    if port.dtype == torch.bool:
        return torch.randint(0, 2, port.shape, generator=generator).bool()
    return torch.randint(-100, 100, port.shape, generator=generator).to(port.dtype)


def _outcome(blob: bytes, generator: torch.Generator) -> str:
    """What a blob ends in; anything but a FormatError, a graph that runs or numbers without result is a failure."""
    try:
        program = RUNTIME.load(blob)
    except FormatError as error:
        assert error.what and error.expected and error.where
        return "refused"
    try:
        outputs = RUNTIME.execute(program, [_input(port, generator) for port in program.inputs])
    except UnpredictableError:
        return "unpredictable"
    for port, output in zip(program.outputs, outputs, strict=True):
        assert output.dtype == port.dtype and tuple(output.shape) == port.shape
    return "ran"


def test_ten_thousand_mutated_blobs_are_refused_or_run() -> None:
    """In bounded time each, and in bounded memory together."""
    found = outcomes([write(_graph(name)) for name in FUZZED], _outcome)
    assert found.total() >= 10_000
    assert found["refused"] > 1_000 and found["ran"] > 200


def test_every_truncation_is_refused() -> None:
    blob = write(ADD)
    for length in range(len(blob)):
        assert _outcome(blob[:length], torch.Generator().manual_seed(0)) == "refused"


def test_random_bytes_behind_a_right_identifier_are_refused() -> None:
    random = np.random.default_rng(5)
    for _ in range(500):
        blob = b"\x08\0\0\0TOSA" + random.integers(0, 256, int(random.integers(0, 200)), np.uint8).tobytes()
        assert _outcome(blob, torch.Generator().manual_seed(0)) == "refused"


def test_inputs_that_do_not_fit_are_refused() -> None:
    program = RUNTIME.load(write(ADD))
    a, b = torch.ones(1, 3, dtype=torch.int32), torch.ones(2, 1, dtype=torch.int32)
    (output,) = RUNTIME.execute(program, [a, b])
    assert output.tolist() == [[2] * 3] * 2
    for wrong in ([a], [a, b, b], [b, a], [a.long(), b], [a[0], b]):
        with pytest.raises(InputError, match="expected"):
            RUNTIME.execute(program, wrong)
