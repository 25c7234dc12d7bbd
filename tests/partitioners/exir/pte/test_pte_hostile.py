"""Damaged and hostile `.pte` files: one clear error or a valid program, in bounded time and memory."""

from __future__ import annotations

import mmap
import re
import resource
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import torch
from hostile import mutated
from pte_programs import PROGRAMS, TwiceRuntime, floats, plan

from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.pte import (
    Chain,
    DelegateCall,
    EValue,
    FormatError,
    Instruction,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Operator,
    Plan,
    Program,
    TensorList,
    read,
    schema,
    write,
)
from npu_assay.partitioners.exir.pte.model import Tensor
from npu_assay.partitioners.exir.pte.run import load

MUTATIONS, EXECUTIONS = 24_000, 4_000
MIB = 2**20


def _blobs() -> list[bytes]:
    programs = [make() for make in PROGRAMS.values()]
    return [write(each, delegate_segments=inside) for each in programs for inside in (True, False)]


def _damaged(count: int, number: int) -> Iterator[bytes]:
    blobs, random = _blobs(), np.random.default_rng(number)
    for _ in range(count):
        blob = blobs[int(random.integers(len(blobs)))]
        for _ in range(int(random.choice([1, 1, 1, 2, 4]))):
            blob = mutated(blob, random) if len(blob) >= 8 else blob
        yield blob


def _bound(blob: bytes) -> int:
    return 4 * len(blob) + 64 * MIB


@contextmanager
def _limited(growth: int) -> Iterator[None]:
    """No more address space than now and `growth` bytes, where the system can say how much that is."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        yield
        return
    old = resource.getrlimit(resource.RLIMIT_AS)
    used = int(statm.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + growth, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much is in use")
def test_the_bound_on_memory_holds() -> None:
    with _limited(64 * MIB):
        bytes(32 * MIB)
        # Not `bytes`: what earlier tests freed may still be the process's own, and serve it.
        with pytest.raises(OSError, match="Cannot allocate"):
            mmap.mmap(-1, 256 * MIB)


@pytest.mark.long
def test_a_damaged_file_is_refused_or_read_in_bounded_time_and_memory() -> None:
    found = Counter[str]()
    with _limited(_bound(max(_blobs(), key=len))):
        for blob in _damaged(MUTATIONS, 20):
            start = time.process_time()
            found[_outcome(blob)] += 1
            assert time.process_time() - start < 5
    assert found.total() == MUTATIONS
    assert min(found["refused"], found["read"]) > MUTATIONS // 20


def test_every_single_read_takes_bounded_memory() -> None:
    """Of fewer files, to the byte: what others left free does not count."""
    for blob in _damaged(1_000, 23):
        assert _peak(blob) < _bound(blob)


def _outcome(blob: bytes) -> str:
    """Anything but a FormatError is a failure; what was read must be a program that can be written."""
    try:
        program = read(blob)
    except FormatError as error:
        assert error.what and error.expected and error.where
        return "refused"
    assert isinstance(program, Program)
    return "read"


def test_what_is_read_of_a_damaged_file_can_be_written_and_read_again() -> None:
    checked = 0
    for blob in _damaged(2_000, 21):
        try:
            program = read(blob)
        except FormatError:
            continue
        again = read(write(program))
        assert repr(_plain(again)) == repr(_plain(program))  # by text, as NaN is not NaN
        checked += 1
    assert checked > 100


def _plain(program: Program) -> object:
    """The program with bytes for views, and without what is spelled in two ways."""
    values = [
        [(each.dtype, each.sizes, bytes(each.data or b""), each.allocation) if isinstance(each, Tensor) else each]
        for plan in program.plans
        for each in plan.values
    ]
    code = [(plan.name, plan.inputs, plan.outputs, plan.chains, plan.operators) for plan in program.plans]
    return values, code, {key: bytes(each) for key, each in program.named_data.items()}


def _inputs(plan: Plan) -> list[object]:
    """What the plan seems to want; half of each dimension that it lets be smaller."""
    given: list[object] = []
    for index in plan.inputs:
        value = plan.values[index]
        if not isinstance(value, Tensor):
            given.append(value)
            continue
        sizes = [size if value.dynamism == "static" else size // 2 for size in value.sizes]
        given.append(torch.zeros(sizes if value.nbytes < MIB else [], dtype=value.dtype))
    return given


def _ran(source: bytes | Program) -> Iterator[str]:
    """What came of each method: it ran or failed with one line, soon."""
    loaded = load(source, {"TwiceBackend": TwiceRuntime()}, step_limit=2_000, memory_limit=2**28)
    for method in loaded.methods:
        start = time.process_time()
        try:
            loaded.execute(method, _inputs(loaded.plan(method)))
            yield "run"
        except ExirError as error:
            assert "\n" not in str(error)
            yield "failed"
        assert time.process_time() - start < 5


def test_a_damaged_program_runs_or_fails_with_one_clear_error() -> None:
    found = Counter[str]()
    for blob in _damaged(EXECUTIONS, 22):
        try:
            found.update(_ran(blob))
        except FormatError:
            found["refused"] += 1
    assert min(found["refused"], found["run"], found["failed"]) > EXECUTIONS // 100


def _other(plan: Plan, random: np.random.Generator) -> Plan:
    """The method with another value, instruction or operator."""

    def any_id() -> int:
        return int(random.integers(len(plan.values)))

    values, operators = list(plan.values), list(plan.operators)
    chains = [list(chain.instructions) for chain in plan.chains]
    match int(random.integers(5)):
        case 0 if chains[0]:
            at = int(random.integers(len(chains[0])))
            chains[0][at] = _rewired(chains[0][at], any_id)
        case 1 if operators:
            operators[int(random.integers(len(operators)))] = OPERATORS[int(random.integers(len(OPERATORS)))]
        case 2 if chains[0]:
            chains[0].insert(int(random.integers(len(chains[0]))), JumpFalseCall(any_id(), 0))
        case 3 if chains[0]:
            chains[0].pop(int(random.integers(len(chains[0]))))
        case _:
            values[any_id()] = VALUES[int(random.integers(len(VALUES)))]
    return replace(
        plan, values=tuple(values), operators=tuple(operators), chains=tuple(Chain(tuple(each)) for each in chains)
    )


def _rewired(instruction: Instruction, any_id: Callable[[], int]) -> Instruction:
    """The instruction on another value."""
    if isinstance(instruction, KernelCall | DelegateCall):
        args = list(instruction.args)
        args[any_id() % len(args)] = any_id()
        return replace(instruction, args=tuple(args))
    return MoveCall(any_id(), any_id())


OPERATORS = [
    Operator(name, overload)
    for name, overload in (
        ("aten::mul", "out"),
        ("aten::cat", "out"),
        ("aten::expand_copy", "out"),
        ("aten::full", "out"),
        ("aten::index", "Tensor_out"),
        ("aten::sum", "IntList_out"),
        ("aten::sym_size", "int"),
        ("aten::add", "Tensor"),
        ("aten::add_", "Tensor"),
        ("aten::nothing", ""),
        ("no operator", ""),
        ("executorch_prim::floordiv", "Scalar"),
        ("executorch_prim::mul", "Scalar"),
        ("executorch_prim::et_copy_index", "tensor"),
        ("executorch_prim::et_view", ""),
        ("dim_order_ops::_clone_dim_order", "out"),
        ("dim_order_ops::_empty_dim_order", "out"),
        ("quantized_decomposed::quantize_per_tensor", "out"),
    )
]
VALUES: list[EValue] = [
    None,
    0,
    -1,
    2**62,
    True,
    1e300,
    float("nan"),
    "text",
    floats(2**20, 2**20),
    floats(2**20, 2**20, dynamism="unbound"),
    floats(0, 3),
    floats(2, 3, at=34),
    floats(2, 3, at=0, dynamism="bound"),
    floats(2, 3, name="no such", location="external"),
    IntList(()),
    TensorList((0,)),
]


@pytest.mark.long
def test_a_program_of_other_parts_runs_or_fails_with_one_clear_error() -> None:
    found, random = Counter[str](), np.random.default_rng(24)
    programs = [make() for make in PROGRAMS.values()]
    for number in range(EXECUTIONS):
        program = programs[number % len(programs)]
        plan = program.plans[0]
        for _ in range(int(random.integers(1, 4))):
            plan = _other(plan, random)
        try:
            blob = write(replace(program, plans=(plan,)))
        except FormatError:
            found["refused"] += 1
            continue
        found.update(_ran(blob))
    assert min(found["refused"], found["run"], found["failed"]) > EXECUTIONS // 20


def test_every_truncation_is_refused_or_loses_only_zeros() -> None:
    for blob in _blobs()[::3]:
        whole = repr(_plain(read(blob)))
        for length in range(0, len(blob), 3):
            try:
                found = read(blob[:length])
            except FormatError:
                continue
            assert repr(_plain(found)) == whole and not any(blob[length:])


def test_an_endless_loop_ends() -> None:
    values = [False]
    endless = Program((plan(values, [], [JumpFalseCall(0, 0)], [], []),))
    with pytest.raises(ExirError, match="instruction 0: loop: found no end"):
        load(write(endless), step_limit=1000).execute()


# ------------------------------------------------------------------------------------------------ large files


def _peak(blob: bytes, message: str | None = None) -> int:
    """Bytes that reading the file takes at most, whatever comes of it, or the error that must."""
    tracemalloc.start()
    try:
        read(blob)
        assert message is None
    except FormatError as error:
        assert message is None or re.search(message, str(error)), error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def _record(**plan: object) -> flatbuffer.Record:
    """A root table with one method."""
    method = {"name": "m", "values": [], "inputs": (), "outputs": (), "non_const_buffer_sizes": (0,), **plan}
    return {"execution_plan": [method], "constant_segment": {"offsets": (0,)}}


def _shared(slot: int, count: int, text: str = "") -> bytes:
    """A file whose field at this slot has so many times the same table, whose first field is a text."""
    builder = flatbuffers.Builder(64)
    string = builder.CreateString(text)
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, string, 0)
    table = builder.EndObject()
    builder.StartVector(4, count, 4)
    place = builder.Offset() + 4 * count
    builder.head -= 4 * count
    distances = place - 4 * np.arange(count) - table
    builder.Bytes[builder.head : builder.head + 4 * count] = distances.astype("<u4").tobytes()
    vector = builder.EndVector()
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(slot, vector, 0)
    builder.Finish(builder.EndObject(), file_identifier=schema.IDENTIFIER)
    return bytes(builder.Output())


LARGE = {
    "many integers": lambda: _record(
        values=[{"val_type": schema.INT, "val": {"int_val": 2**40 + n}} for n in range(30_000)]
    ),
    "a long list": lambda: _record(
        values=[{"val_type": schema.DOUBLE_LIST, "val": {"items": np.arange(2_000_000, dtype="<f8")}}]
    ),
    "many booleans": lambda: _record(
        values=[{"val_type": schema.BOOL_LIST, "val": {"items": np.ones(8_000_000, np.uint8)}}]
    ),
    "a long text": lambda: _record(
        values=[{"val_type": schema.STRING, "val": {"string_val": "\U0001f600" + "a" * 8_000_000}}]
    ),
    "many tensors": lambda: _record(
        values=[
            {"val_type": schema.TENSOR, "val": {"scalar_type": 6, "sizes": (1, 2), "dim_order": bytes((0, 1))}}
            for _ in range(20_000)
        ]
    ),
    "a long spec": lambda: _record(
        delegates=[{"id": "x", "compile_specs": [{"key": "k", "value": bytes(8_000_000)}], "processed": {}}]
    ),
}


@pytest.mark.parametrize(
    ("slot", "count", "text"),
    [(1, 500_000, "m"), (7, 500_000, "k"), (7, 4_000, "k" * 10_000), (1, 4_000, "m" * 10_000)],
)
def test_a_table_shared_a_million_times_takes_bounded_memory(slot: int, count: int, text: str) -> None:
    blob = _shared(slot, count, text)
    assert _peak(blob, r"number of tables is excessive|text is excessive|sharing of data") < _bound(blob)


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
def test_a_large_file_takes_bounded_memory(name: str) -> None:
    blob = flatbuffer.write(schema.program(), LARGE[name](), schema.IDENTIFIER)
    assert _peak(blob) < _bound(blob)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((2**31 - 1,) * 500, "sizes is 500 of them, expected at most 16"),
        ((0, *[2**31 - 1] * 4), "size is .0, 2147483647, .*, expected at most"),
        ((1, -1), "sizes is .1, -1."),
    ],
)
@pytest.mark.parametrize("with_data", [True, False])
def test_sizes_that_no_tensor_has_are_refused(sizes: tuple[int, ...], message: str, with_data: bool) -> None:
    """Products of them have more digits than Python writes, or strides more bits than torch takes."""
    order = bytes(axis % 256 for axis in range(len(sizes)))
    tensor = {"scalar_type": 6, "sizes": sizes, "dim_order": order, "data_buffer_idx": int(with_data)}
    record = _record(values=[{"val_type": schema.TENSOR, "val": tensor}])
    with pytest.raises(FormatError, match=message):
        read(flatbuffer.write(schema.program(), record, schema.IDENTIFIER))
