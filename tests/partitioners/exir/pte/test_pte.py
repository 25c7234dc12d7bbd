"""`.pte` files: what is written is read again, is where the format says, and what does not fit is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pte_programs import ADD, PROGRAMS, added, counting, delegated, floats, plan, with_constants

from npu_assay.partitioners.exir.pte import (
    Allocation,
    Chain,
    DelegateCall,
    FormatError,
    FreeCall,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Operator,
    OptionalTensorList,
    Plan,
    Program,
    Tensor,
    TensorList,
    read,
    write,
)
from npu_assay.partitioners.exir.pte.reader import layout


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(
    "options",
    [{}, {"delegate_segments": False}, {"segment_alignment": 4096, "constant_alignment": 64, "delegate_alignment": 32}],
    ids=["segments", "inline", "aligned"],
)
def test_what_is_written_is_read_again(make: Callable[[], Program], options: dict[str, Any]) -> None:
    program, blob = make(), write(make(), **options)
    assert read(blob) == program
    assert read(memoryview(bytearray(blob))) == program
    assert write(read(blob), **options) == blob


def test_every_dtype_is_kept() -> None:
    from npu_assay.partitioners.exir.pte.schema import DTYPES

    values = [Tensor(dtype, (2,), (0,), bytes(2 * dtype.itemsize)) for dtype in DTYPES]
    assert read(write(Program((plan(values, [], [], [], []),)))).plans[0].values == tuple(values)


def test_a_file_without_data_has_no_header() -> None:
    assert write(added())[4:12] != b"ET12eh00" and write(with_constants())[4:12] == b"ET12eh00"


def test_the_header_says_where_the_segments_are() -> None:
    blob = write(with_constants(), segment_alignment=256, constant_alignment=32)
    size, extent, base, length = struct.unpack_from("<IQQQ", blob, 12)
    assert size == 32 and base % 256 == 0 and base >= extent and base + length == len(blob)
    assert not any(blob[extent:base])
    constants = np.arange(6, dtype="<f4").tobytes(), np.array([1, 2, 3], "<f4").tobytes()
    assert blob[base:] == constants[0].ljust(32, b"\0") + constants[1]


def test_equal_data_are_stored_once() -> None:
    data = bytes(range(24))
    twice = [Tensor(torch.uint8, (24,), (0,), data), Tensor(torch.int8, (4, 6), (1, 0), data)]
    assert write(Program((plan(twice, [], [], [], []),))).count(data) == 1
    blob = write(delegated(b"0123456789abcdef"))
    assert blob.count(b"0123456789abcdef") == 1 and blob.count(b"abc" * 30) == 1
    assert write(delegated(b"0123456789abcdef"), delegate_segments=False).count(b"0123456789abcdef") == 1


def test_the_layout_names_the_segments() -> None:
    names = [name for name, _ in layout(write(delegated(b"x" * 300))).segments]
    assert names == ["constants", "delegate TwiceBackend", "named data same", "named data none"]
    assert layout(write(counting())).segments[1] == ("initial data of buffers", 24)
    assert layout(write(added())).segments == (("constants", 0),)


def test_what_is_read_stays_in_the_file() -> None:
    """Constants and blobs are views: nothing is copied."""
    blob = write(delegated(b"x" * 300))
    program = read(blob)
    for data in (program.plans[0].delegates[0].data, program.named_data["weights"]):
        assert isinstance(data, memoryview) and data.obj is blob and data.readonly


def _with(value: Any = None, call: Any = None, **changes: Any) -> Program:
    """The addition, with another value 2, another instruction or other fields."""
    (method,) = added().plans
    values = method.values if value is None else (*method.values[:2], value, *method.values[3:])
    chains = method.chains if call is None else (Chain((call,)),)
    return Program((replace(method, **{"values": values, "chains": chains, **changes}),))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (_with(inputs=(0, 4)), "method 'forward', inputs: value id is 4, expected from 0 to 3"),
        (_with(outputs=(-1,)), "outputs: value id is -1"),
        (_with(call=KernelCall(1, ())), "instruction 0: operator is 1, expected from 0 to 0"),
        (_with(call=KernelCall(0, (9,))), "value id is 9"),
        (_with(call=DelegateCall(0, ())), "delegate is 0, expected none"),
        (_with(call=MoveCall(0, 4)), "value id is 4"),
        (_with(call=JumpFalseCall(0, 0)), "condition is Tensor, expected a boolean"),
        (_with(value=True, call=JumpFalseCall(2, 2)), "destination is 2, expected from 0 to 1"),
        (_with(call=FreeCall(2)), "freed value is int, expected a tensor"),
        (_with(value=IntList((0,))), "value 2: list item 0 is Tensor, expected an integer"),
        (_with(value=TensorList((2,))), "list item 2 is TensorList, expected a tensor"),
        (_with(value=OptionalTensorList((-2,))), "value id is -2"),
        (_with(value=floats(-1)), "sizes is [-1]"),
        (_with(value=floats(*[1] * 17)), "expected at most 16"),
        (_with(value=Tensor(torch.float32, (2, 3), (0, 0))), "dim_order is [0, 0]"),
        (_with(value=Tensor(torch.qint8, (2,), (0,))), "dtype is torch.qint8"),
        (_with(value=floats(2**40, 2**40)), "size is"),
        (_with(value=floats(3, data=(1, 2))), "data is 8 bytes, expected 12 bytes for float32[3]"),
        (_with(value=floats(9, at=64)), "allocation is bytes 64 to 100, expected within the 96 bytes of memory 1"),
        (_with(value=replace(floats(1), allocation=Allocation(2, 0))), "memory id is 2, expected from 1 to 1"),
        (_with(value=replace(floats(1), allocation=Allocation(0, 0))), "memory id is 0"),
        (_with(value=floats(3, location="external")), "name is None"),
        (_with(buffer_sizes=()), "buffer sizes is []"),
        (replace(added(), version=1), "version is 1"),
        (_with(value=2**63), "number is 9223372036854775808"),
    ],
)
def test_what_does_not_fit_is_not_written(program: Program, message: str) -> None:
    if program.plans[0].buffer_sizes == (0, 256):
        program = Program((replace(program.plans[0], buffer_sizes=(0, 96)),), version=program.version)
    with pytest.raises(FormatError) as error:
        write(program)
    assert message in str(error.value)


def _patched(blob: bytes, at: int, code: str, number: int) -> bytes:
    data = bytearray(blob)
    struct.pack_into(code, data, at, number)
    return bytes(data)


@pytest.mark.parametrize(
    ("at", "code", "number", "message"),
    [
        (4, "<I", 0, "file identifier"),
        (12, "<I", 31, "header: size of the header is 31, expected at least 32"),
        (16, "<Q", 2**40, "header: size of the flatbuffer is 1099511627776"),
        (24, "<Q", 8, "header: segments is bytes 8 to"),
        (24, "<Q", 2**63, "header: segments"),
        (32, "<Q", 2**20, "header: segments"),
        (32, "<Q", 8, "within the 0 bytes"),
        (0, "<I", 2**31, "Program at byte 2147483648"),
    ],
)
def test_a_header_that_lies_is_refused(at: int, code: str, number: int, message: str) -> None:
    with pytest.raises(FormatError) as error:
        read(_patched(write(with_constants()), at, code, number))
    assert message in str(error.value) or "segment" in str(error.value)


def test_a_constant_past_its_segment_is_refused() -> None:
    blob = write(with_constants())
    with pytest.raises(FormatError, match=r"value 1: data is bytes 1000 to 1024, expected within the"):
        read(_offset_changed(blob, 1000))


def _offset_changed(blob: bytes, offset: int) -> bytes:
    """The file with another offset for its second constant, number 1 of [0, 0, 32]."""
    offsets = struct.pack("<IQQQ", 3, 0, 0, 32)
    assert blob.count(offsets) == 1
    return blob.replace(offsets, struct.pack("<IQQQ", 3, 0, offset, 32))


def test_several_methods_of_one_name_are_kept() -> None:
    method = Plan("same", (1,), (), (0,), (Chain(()),))
    program = Program((method, replace(method, values=(2,))))
    assert read(write(program)) == program


def test_an_operator_without_overload_has_none() -> None:
    assert read(write(_with(operators=(Operator("aten::add"),)))).plans[0].operators == (Operator("aten::add"),)
    assert Operator("aten::add", "out") == ADD
