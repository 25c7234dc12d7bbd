"""Programs to `.pte` files.

A file is a flatbuffer, with a header in it that says where the segments after it start. Segment 0 holds the
constants, the next the initial data of buffers (if any), then each delegate's blob has one, then each named datum.
Equal constants, and equal blobs, are stored once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from math import lcm
from typing import Any

from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.exir.flatbuffer import FormatError, Record
from npu_assay.partitioners.exir.pte import schema
from npu_assay.partitioners.exir.pte.check import check
from npu_assay.partitioners.exir.pte.model import (
    BoolList,
    Buffer,
    Chain,
    Delegate,
    DelegateCall,
    DoubleList,
    EValue,
    FreeCall,
    Instruction,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Plan,
    Program,
    Tensor,
    TensorList,
)

__all__ = ["FormatError", "as_record", "write"]


def write(
    program: Program,
    *,
    delegate_segments: bool = True,
    segment_alignment: int = 128,
    constant_alignment: int = 16,
    delegate_alignment: int = 16,
) -> bytes:
    """The program as a `.pte` file; equal programs give equal bytes. Alignments are in bytes.

    `delegate_segments` False puts the delegates' blobs into the flatbuffer. Raises FormatError for a program that
    `check` refuses, and for a number that its field cannot hold.
    """
    inline_alignment = lcm(16, delegate_alignment)
    file = _File(program, delegate_segments, constant_alignment, delegate_alignment)
    record = _checked_record(file, program, segment_alignment)
    graph = flatbuffer.write(schema.program(inline_alignment), record, schema.IDENTIFIER)
    data = _laid_out(file.segments, segment_alignment)
    return _with_header(graph, data, segment_alignment, inline_alignment) if data else graph


def as_record(
    program: Program,
    *,
    delegate_segments: bool = True,
    segment_alignment: int = 128,
    constant_alignment: int = 16,
    delegate_alignment: int = 16,
) -> Record:
    """The root table of the file that `write` makes, field by field as `schema.program` names them."""
    file = _File(program, delegate_segments, constant_alignment, delegate_alignment)
    return _checked_record(file, program, segment_alignment)


def _checked_record(file: _File, program: Program, segment_alignment: int) -> Record:
    check(program)
    return file.record(program, segment_alignment)


def _with_header(graph: bytes, data: bytes, segment_alignment: int, graph_alignment: int) -> bytes:
    """The flatbuffer with a header after its identifier, which moves its root, and the segments after it."""
    room = _aligned(schema.HEADER.size, graph_alignment)
    root = struct.unpack_from("<I", graph)[0] + room
    size = len(graph) + room
    base = _aligned(size, segment_alignment)
    header = schema.HEADER.pack(schema.HEADER_MAGIC, schema.HEADER.size, size, base, len(data))
    place = schema.HEADER_PLACE
    start = struct.pack("<I", root) + graph[4:place] + header.ljust(room, b"\0")
    return b"".join((start, graph[place:], bytes(base - size), data))


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


# ------------------------------------------------------------------------------------------------ segments


class _Pool:
    """Pieces of data, equal ones once. With `reserved`, index 0 stands for no data."""

    def __init__(self, reserved: bool = False) -> None:
        self.pieces: list[Buffer] = [b""] if reserved else []
        self._found: dict[bytes, int] = {}

    def add(self, data: Buffer) -> int:
        """The index of the piece."""
        digest = sha256(data).digest()
        if digest not in self._found:
            self._found[digest] = len(self.pieces)
            self.pieces.append(data)
        return self._found[digest]


_Segment = tuple[Buffer, int]
"""Data and their alignment."""


def _places(pieces: Sequence[_Segment], alignment: int) -> list[int]:
    """Where each piece starts, one after the other."""
    places, end = [], 0
    for data, own in pieces:
        start = _aligned(end, lcm(alignment, own)) if len(data) else end
        places.append(start if len(data) else 0)
        end = start + len(data)
    return places


def _laid_out(pieces: Sequence[_Segment], alignment: int) -> bytes:
    """The pieces at their places, zeros between them."""
    parts: list[Buffer] = []
    end = 0
    for (data, _), place in zip(pieces, _places(pieces, alignment), strict=True):
        if len(data):
            parts += (bytes(place - end), data)
            end = place + len(data)
    return b"".join(parts)


class _File:
    """What of a program lies outside the flatbuffer, gathered while its records are made."""

    def __init__(self, program: Program, delegate_segments: bool, constant_alignment: int, blob_alignment: int) -> None:
        tensors = [value for plan in program.plans for value in plan.values if isinstance(value, Tensor)]
        self.has_initial = any(each.data is not None and each.allocation is not None for each in tensors)
        self.delegate_segments, self.alignment, self.blob_alignment = (
            delegate_segments,
            constant_alignment,
            blob_alignment,
        )
        self.constants, self.initial = _Pool(reserved=True), _Pool(reserved=True)
        self.blobs, self.inline, self.named = _Pool(), _Pool(), _Pool()

    def record(self, program: Program, segment_alignment: int) -> Record:
        """The root table."""
        plans = [self.plan(each) for each in program.plans]
        self.first_named = 1 + self.has_initial + len(self.blobs.pieces)
        named = [
            {"key": key, "segment_index": self.first_named + self.named.add(data)}
            for key, data in program.named_data.items()
        ]
        starts = _places(self.segments, segment_alignment)
        segments = [
            {"offset": start, "size": len(data)} for start, (data, _) in zip(starts, self.segments, strict=True)
        ]
        record: Record = {
            "version": program.version,
            "execution_plan": plans,
            "backend_delegate_data": [{"data": data} for data in self.inline.pieces],
            "segments": segments,
            "constant_segment": self.offsets(self.constants, 0),
        }
        if self.has_initial:
            record["mutable_data_segments"] = [self.offsets(self.initial, 1)]
        return {**record, "named_data": named} if named else record

    def offsets(self, pool: _Pool, segment: int) -> Record:
        return {"segment_index": segment, "offsets": _places(self.aligned(pool), 1)}

    def aligned(self, pool: _Pool) -> list[_Segment]:
        return [(data, self.alignment) for data in pool.pieces]

    @property
    def segments(self) -> list[_Segment]:
        """All segments in their order."""
        initial = [(_laid_out(self.aligned(self.initial), 1), self.alignment)] if self.has_initial else []
        return [
            (_laid_out(self.aligned(self.constants), 1), self.alignment),
            *initial,
            *((data, self.blob_alignment) for data in self.blobs.pieces),
            *((data, 1) for data in self.named.pieces),
        ]

    # -------------------------------------------------------------------------------------------- records

    def plan(self, plan: Plan) -> Record:
        return {
            "name": plan.name,
            "container_meta_type": {"encoded_inp_str": plan.input_spec, "encoded_out_str": plan.output_spec},
            "values": [self.value(value) for value in plan.values],
            "inputs": plan.inputs,
            "outputs": plan.outputs,
            "chains": [_chain_record(each) for each in plan.chains],
            "operators": [{"name": each.name, "overload": each.overload} for each in plan.operators],
            "delegates": [self.delegate(each) for each in plan.delegates],
            "non_const_buffer_sizes": plan.buffer_sizes,
        }

    def value(self, value: EValue) -> Record:
        number, record = self.tensor(value) if isinstance(value, Tensor) else _value_record(value)
        return {"val_type": number, "val": record}

    def tensor(self, tensor: Tensor) -> tuple[int, Record]:
        record: Record = {
            "scalar_type": schema.DTYPES[tensor.dtype],
            "sizes": tensor.sizes,
            "dim_order": bytes(tensor.dim_order),
            "shape_dynamism": schema.DYNAMISMS.index(tensor.dynamism),
        }
        if tensor.data is not None:
            pool = self.constants if tensor.allocation is None else self.initial
            record["data_buffer_idx"] = pool.add(tensor.data)
        if tensor.allocation is not None:
            high, low = divmod(tensor.allocation.offset, 2**32)
            record["allocation_info"] = {
                "memory_id": tensor.allocation.memory_id,
                "offset_low": low,
                "offset_high": high,
            }
        if tensor.name is not None or tensor.location == "external":
            extra = {"fully_qualified_name": tensor.name, "location": schema.LOCATIONS.index(tensor.location)}
            record["extra_tensor_info"] = extra
        return schema.TENSOR, record

    def delegate(self, delegate: Delegate) -> Record:
        if self.delegate_segments and len(delegate.data):
            index = 1 + self.has_initial + self.blobs.add(delegate.data)
            place = {"location": schema.SEGMENT, "index": index}
        else:
            place = {"location": schema.INLINE, "index": self.inline.add(delegate.data)}
        specs = [{"key": each.key, "value": each.value} for each in delegate.compile_specs]
        return {"id": delegate.id, "processed": place, "compile_specs": specs}


def _value_record(value: Any) -> tuple[int, Record]:
    """Number in the union, and record, of a value that is not a tensor."""
    match value:
        case None:
            return schema.NULL, {}
        case bool():
            return schema.BOOL, {"bool_val": value}
        case int():
            return schema.INT, {"int_val": value}
        case float():
            return schema.DOUBLE, {"double_val": value}
        case str():
            return schema.STRING, {"string_val": value}
        case BoolList():
            return schema.BOOL_LIST, {"items": bytes(value.items)}
    number = {
        IntList: schema.INT_LIST,
        DoubleList: schema.DOUBLE_LIST,
        TensorList: schema.TENSOR_LIST,
        OptionalTensorList: schema.OPTIONAL_TENSOR_LIST,
    }[type(value)]
    return number, {"items": value.items}


def _chain_record(chain: Chain) -> Record:
    instructions = [_instruction_record(each) for each in chain.instructions]
    record: Record = {"inputs": chain.inputs, "outputs": chain.outputs, "instructions": instructions}
    if chain.stacktrace:
        record["stacktrace"] = [{"items": [asdict(frame) for frame in frames]} for frames in chain.stacktrace]
    return record


def _instruction_record(instruction: Instruction) -> Record:
    match instruction:
        case KernelCall(op_index=index, args=args):
            number, record = schema.KERNEL_CALL, {"op_index": index, "args": args}
        case DelegateCall(delegate_index=index, args=args):
            number, record = schema.DELEGATE_CALL, {"delegate_index": index, "args": args}
        case MoveCall(source=source, target=target):
            number, record = schema.MOVE_CALL, {"move_from": source, "move_to": target}
        case JumpFalseCall(condition=condition, destination=destination):
            number, record = (
                schema.JUMP_FALSE_CALL,
                {"cond_value_index": condition, "destination_instruction": destination},
            )
        case FreeCall(value=value):
            number, record = schema.FREE_CALL, {"value_index": value}
    return {"instr_args_type": number, "instr_args": record}
