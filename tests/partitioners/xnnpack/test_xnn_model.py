"""XNNPACK delegate blobs: round trips, the layout of the bytes, the rules that any subgraph keeps, hostile bytes."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
import torch
from hostile import outcomes
from xnn_blobs import ABS, NUMBERS, _blob, _header, _record, _same
from xnn_models import (
    MODELS,
    X,
    bias,
    chain,
    coded,
    dynamic,
    number,
    one,
    unary,
    weights,
)

from npu_assay.partitioners.common.machine import InputError
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.runtime import Port, XnnpackRuntime
from npu_assay.partitioners.xnnpack.xnn_format import FormatError, parts, read, write
from npu_assay.partitioners.xnnpack.xnn_model import (
    XModel,
    XNode,
    XValue,
    packed_int4,
    unpacked_int4,
)


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name: str) -> None:
    blob = write(MODELS[name])
    assert _same(read(blob), MODELS[name])
    assert write(read(blob)) == blob == write(MODELS[name])


def test_the_models_use_every_operator_and_type() -> None:
    assert {node.op for graph in MODELS.values() for node in graph.nodes} == set(schema.OPERATORS)
    assert {value.dtype for graph in MODELS.values() for value in graph.values} == set(schema.DTYPES)


def test_a_difference_is_noticed() -> None:
    other = replace(MODELS["0-Softmax-fp32"], channels_last=(0,))
    assert not _same(other, MODELS["0-Softmax-fp32"])
    values = (weights("qcint8", 3, 4), weights("qcint8", 3, 4, axis=1))
    assert not _same(*values)


@pytest.mark.parametrize("columns", [1, 2, 5, 32])
def test_pairs_of_four_bit_codes(columns: int) -> None:
    """Even columns are the low halves, codes are stored with 8 added, and 8 fills an odd row."""
    found = (np.arange(3 * columns) % 16 - 8).astype(np.int8).reshape(3, columns)
    pairs = packed_int4(found)
    assert pairs.shape == (3, (columns + 1) // 2) and np.array_equal(unpacked_int4(pairs, columns), found)
    assert int(pairs[0, 0]) == int(found[0, 0] + 8) | (int(found[0, 1] + 8 if columns > 1 else 8) << 4)


# ------------------------------------------------------------------------------------------------ the bytes


def test_the_header_says_where_the_parts_are() -> None:
    """Magic at byte 4, then u16 size, u32 place and size of the flatbuffer, u32 place and u64 size of constants."""
    first, second = weights("qcint8", 3, 5), bias("fp32", 3)
    blob = write(dynamic(first, second))
    magic, size, start, length, behind, extent = struct.unpack_from("<4x4sHIIIQ", blob)
    assert (magic, size, start) == (b"XH00", 30, 32) and blob[:4] == bytes(4) and blob[30:32] == bytes(2)
    assert blob[start + 4 : start + 8] == b"XN01"
    assert behind % 16 == 0 and set(blob[start + length : behind]) <= {0}
    assert behind + extent == len(blob)


def test_a_header_may_reach_to_the_flatbuffer_and_a_graph_have_no_constants() -> None:
    graph = dynamic(weights("qcint8", 3, 5), bias("fp32", 3))
    blob = write(graph)
    assert write(read(_header(size=32)(blob))) == blob


def test_inputs_and_outputs_have_their_flag() -> None:
    record, _ = parts(write(chain(NUMBERS, [(XNode("Abs", (0,), ()), NUMBERS), (XNode("Negate", (1,), ()), NUMBERS)])))
    assert [each["xvalue_union"]["flags"] for each in record["xvalues"]] == [1, 0, 2]


def test_constants_are_aligned_padded_and_stored_once() -> None:
    """Codes 15 bytes, scales 12, bias 12; each from a multiple of 16, and 128 zeros to read past the end."""
    matrix, added = weights("qcint8", 3, 5), bias("fp32", 3)
    graph = dynamic(matrix, added)
    blob = write(graph)
    behind, extent = struct.unpack_from("<IQ", blob, 18)
    assert extent == 3 * 16 + 128 and blob[-128:] == bytes(128)
    assert matrix.data is not None and blob[behind : behind + 15] == matrix.data.tobytes()
    assert blob[behind + 15] == 0
    twice = chain(NUMBERS, [(XNode("Add", (0, 1), ()), NUMBERS), (XNode("Add", (3, 2), ()), NUMBERS)], *_equal_rows())
    assert struct.unpack_from("<Q", write(twice), 22) == (16 + 128,)


def _equal_rows() -> tuple[XValue, XValue]:
    return bias("fp32", 3), bias("fp32", 3)


def test_a_model_without_constants_has_no_data() -> None:
    assert struct.unpack_from("<Q", write(ABS), 22) == (0,)


def test_constants_that_the_blob_only_names() -> None:
    """ExecuTorch's compiler stores data elsewhere: they are read from what goes with the blob."""
    graph = one("Add", NUMBERS, bias("fp32", 3))
    record = _record(write(graph))
    record["constant_data"][1] |= {"named_key": "b", "offset": schema.NO_OFFSET}
    data = graph.values[1].data
    assert data is not None
    blob = _blob(record, b"")
    assert _same(read(blob, {"b": data.tobytes() + b"more"}), graph)
    for named in ({}, {"b": b"short"}):
        with pytest.raises(FormatError, match="named constant"):
            read(blob, named)


CODES = one("Add", coded(X, 2, 3), coded(X, 2, 3))


# ------------------------------------------------------------------------------------------------ fuzz

RUNTIME = XnnpackRuntime()


def _input(port: Port, generator: torch.Generator) -> torch.Tensor:
    shape = [port.bounds[axis] for axis in (0, 3, 1, 2)] if port.channels_last else port.bounds
    if port.dtype == torch.int8:
        return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
    return torch.randn(tuple(shape), generator=generator).to(port.dtype)


def _outcome(blob: bytes, generator: torch.Generator) -> str:
    """What a blob ends in; anything but a FormatError or a model that runs is a failure of the test."""
    try:
        program = RUNTIME.load(blob)
    except FormatError as error:
        assert error.what and error.expected and error.where
        return "refused"
    outputs = RUNTIME.execute(program, [_input(port, generator) for port in program.inputs])
    for port, output in zip(program.outputs, outputs, strict=True):
        assert output.dtype == port.dtype
        assert output.numel() == torch.Size(port.bounds).numel()
    return "ran"


@pytest.mark.parametrize(
    ("graph", "work"),
    [
        (unary("Sin", number("fp32", 2, 2**24 - 1), number("fp32", 2, 2**24 - 1)), 2**33 - 512),
        (one("BatchMatrixMultiply", number("fp32", 2**12, 2**12), number("fp32", 2**12, 2**12)), 2**36),
        (one("BatchMatrixMultiply", number("fp16", 2**10, 2**10), number("fp16", 2**10, 2**10)), 2**33),
    ],
    ids=("function", "products", "half"),
)
def test_a_small_blob_that_would_compute_for_long_is_refused(graph: XModel, work: int) -> None:
    blob = write(graph)
    assert len(blob) < 600
    with pytest.raises(FormatError, match=f"model: multiplications, .* is {work}, expected at most 4294967296"):
        RUNTIME.load(blob)


def test_many_weights_may_compute_more() -> None:
    """512 rows by a filter of 64 MiB are 2^33 multiplications, which a small blob is refused for."""
    filters = replace(number("fp32", 2**12, 2**12), data=np.zeros((2**12, 2**12), np.float32))
    graph = one("FullyConnected", number("fp32", 2**9, 2**12), filters, y=number("fp32", 2**9, 2**12))
    assert RUNTIME.load(write(graph)).calls


def test_work_is_that_of_the_inputs_sizes() -> None:
    program = RUNTIME.load(write(one("BatchMatrixMultiply", number("fp32", 8, 8), number("fp32", 8, 8))))
    wide = torch.zeros(2**12, 2**12)
    with pytest.raises(InputError, match=r"multiplications, .* is 68719476736"):
        RUNTIME.execute(program, [wide, wide])


@pytest.mark.long
def test_ten_thousand_mutated_blobs_are_refused_or_run() -> None:
    """In bounded time each, and in bounded memory together."""
    found = outcomes([write(graph) for graph in MODELS.values()], _outcome)
    assert found.total() >= 10_000
    assert found["refused"] > 1_000 and found["ran"] > 400


def test_every_truncation_is_refused() -> None:
    blob = write(MODELS["81-Negate-fp32"])
    for length in range(len(blob)):
        assert _outcome(blob[:length], torch.Generator().manual_seed(0)) == "refused"


def test_random_bytes_behind_a_right_header_are_refused() -> None:
    random = np.random.default_rng(5)
    for _ in range(500):
        graph = b"\x08\0\0\0XN01" + random.integers(0, 256, int(random.integers(0, 200)), np.uint8).tobytes()
        blob = struct.pack("<4x4sHIIIQ", b"XH00", 30, 32, len(graph), 32 + len(graph), 0) + b"\0\0" + graph
        assert _outcome(blob, torch.Generator().manual_seed(0)) == "refused"


# ------------------------------------------------------------------------------------------------ sizes at run time


def test_outputs_follow_the_inputs_sizes() -> None:
    """Less and more than the blob's shapes are computed, nothing and what does not fit are refused."""
    program = RUNTIME.load(write(dynamic(weights("qcint8", 3, 32), bias("fp32", 3), rows=8)))
    for rows in (1, 5, 8, 9, 1000):
        (output,) = RUNTIME.execute(program, [torch.ones(rows, 32)])
        assert output.shape == (rows, 3)
    for shape in ((0, 32), (8, 31), (8, 1, 32)):
        with pytest.raises(InputError, match=r"expected torch.float32 of rank 2|input channels is 31"):
            RUNTIME.execute(program, [torch.ones(shape)])
