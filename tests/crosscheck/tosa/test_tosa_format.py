"""Our flatbuffers as the classes generated from Arm's schema see them, and those of Arm's serializer as we do."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import tosa_serializer as ts
from draw import Draw
from tosa import TosaGraph
from tosa_programs import PROGRAMS

from npu_assay.partitioners.ethosu import tosa_schema as schema
from npu_assay.partitioners.ethosu.tosa_format import read, write
from tests.crosscheck.tosa.model import run_device, run_reference


def _block(blob: bytes) -> Any:
    graph = TosaGraph.TosaGraph.GetRootAs(blob, 0)
    version = graph.Version()
    assert (version._Major(), version._Minor(), version._Patch(), version._Draft()) == (1, 0, 0, False)
    assert graph.RegionsLength() == graph.Regions(0).BlocksLength() == 1
    assert graph.Regions(0).Name() == graph.Regions(0).Blocks(0).Name() == b"main"
    return graph.Regions(0).Blocks(0)


def _names(record: Any, which: str) -> tuple[str, ...]:
    return tuple(getattr(record, which)(i).decode() for i in range(getattr(record, f"{which}Length")()))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_generated_classes_read_what_was_written(name: str) -> None:
    model = PROGRAMS[name](Draw(zlib.crc32(name.encode()))).model
    block = _block(write(model))
    assert (_names(block, "Inputs"), _names(block, "Outputs")) == (model.inputs, model.outputs)
    for i, tensor in enumerate(model.tensors):
        found = block.Tensors(i)
        shape = () if found.ShapeIsNone() or not tensor.shape else tuple(found.ShapeAsNumpy().tolist())
        assert (found.Name().decode(), shape, found.Type()) == (tensor.name, tensor.shape, schema.DTYPES[tensor.dtype])
        assert found.DataLength() == (0 if tensor.data is None else tensor.data.size * _size(tensor.dtype))
    for i, values in enumerate(model.shapes):
        found = block.Shapes(i)
        assert (found.Name().decode(), found.Rank()) == (values.name, len(values.values))
        data = found.DataAsNumpy().tobytes() if values.values else b""
        assert np.frombuffer(data, "<i8").tolist() == list(values.values)
    first = block.OperatorsLength() - len(model.operators)
    for i, operator in enumerate(model.operators):
        found, number = block.Operators(first + i), schema.OPERATORS[operator.code].number
        assert (found.Op(), found.AttributeType()) == (number, number)
        assert (_names(found, "Inputs"), _names(found, "Outputs")) == (operator.inputs, operator.outputs)


def _size(dtype: str) -> int:
    return {"BOOL": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT48": 6}[dtype]


def _by_serializer() -> bytes:
    """A convolution, its rescale and a slice, written by Arm's serializer."""
    graph = ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
    kind = ts.DType
    graph.addInputTensor(ts.TosaSerializerTensor("x", [1, 4, 5, 2], kind.INT16, data=None))
    rng = np.random.default_rng(3)
    weights = graph.addConst([3, 2, 2, 2], kind.INT8, rng.integers(-128, 128, (3, 2, 2, 2)).astype(np.int8), name="w")
    bias = graph.addConst([3], kind.INT48, np.array([-(2**40), 5, 2**33], np.int64), name="b")
    zeros = [
        graph.addConst([1], t, np.zeros(1, n), name=f"z{t}") for t, n in ((kind.INT16, np.int16), (kind.INT8, np.int8))
    ]
    wide_zero = graph.addConst([1], kind.INT48, np.zeros(1, np.int64), name="z48")
    acc, y = graph.addIntermediate([1, 4, 4, 3], kind.INT48), graph.addIntermediate([1, 4, 4, 3], kind.INT16)
    attribute = ts.TosaSerializerAttribute()
    attribute.Conv2dAttribute([1, 0, 0, 0], [1, 1], [1, 1], False, kind.INT48)
    graph.addOperator(ts.Op.CONV2D, ["x", weights.name, bias.name, zeros[0].name, zeros[1].name], [acc.name], attribute)
    multiplier = graph.addConst([3], kind.INT16, np.array([20000, 30000, 16384], np.int16), name="m")
    shift = graph.addConst([3], kind.INT8, np.array([42, 24, 34], np.int8), name="s")
    attribute = ts.TosaSerializerAttribute()
    attribute.RescaleAttribute(
        scale32=False,
        rounding_mode=ts.RoundingMode.SINGLE_ROUND,
        per_channel=True,
        input_unsigned=False,
        output_unsigned=False,
    )
    operands = [acc.name, multiplier.name, shift.name, wide_zero.name, zeros[0].name]
    graph.addOperator(ts.Op.RESCALE, operands, [y.name], attribute)
    start, size = (
        graph.addConst([4], kind.SHAPE, v, name=n).name for n, v in (("f", [0, 1, 0, 1]), ("g", [1, 3, 2, 2]))
    )
    cut = graph.addIntermediate([1, 3, 2, 2], kind.INT16)
    attribute = ts.TosaSerializerAttribute()
    attribute.SliceAttribute()
    graph.addOperator(ts.Op.SLICE, [y.name, start, size], [cut.name], attribute)
    graph.addOutputTensor(cut)
    return bytes(graph.serialize())


def test_what_the_serializer_writes_is_read_and_runs() -> None:
    blob = _by_serializer()
    model = read(blob)
    assert [operator.code for operator in model.operators] == ["CONV2D", "RESCALE", "SLICE"]
    bias = next(tensor for tensor in model.tensors if tensor.name == "b")
    assert bias.data is not None and bias.data.tolist() == [-(2**40), 5, 2**33]
    x = np.random.default_rng(4).integers(-(2**15), 2**15, (1, 4, 5, 2)).astype(np.int16)
    for each in (blob, write(model)):
        returned, simulated = run_reference(each, [x]), run_device(each, [x])
        assert returned is not None and simulated is not None
        np.testing.assert_array_equal(np.asarray(returned[0]), simulated[0], strict=True)
