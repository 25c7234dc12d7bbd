"""`.pte` files to programs.

Files are not trusted: offsets, counts and indices are checked before they are followed, and how much is made
of a file is limited, so that the program takes little more memory than the file. Data stay views of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.flatbuffer import FormatError, Limits, Record
from npu_assay.partitioners.exir.pte import schema
from npu_assay.partitioners.exir.pte.check import check, check_sizes
from npu_assay.partitioners.exir.pte.model import (
    Allocation,
    BoolList,
    Buffer,
    Chain,
    Delegate,
    DelegateCall,
    DoubleList,
    EValue,
    Frame,
    FreeCall,
    Instruction,
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
)

__all__ = ["FormatError", "Layout", "layout", "read"]

TABLES: Final = 2**16
ITEMS: Final = 2**18
TEXT: Final = 2**22
"""Tables, list items and bytes of text that any file may have; a larger file may have more, see `_limits`."""

_DTYPES: Final = {number: dtype for dtype, number in schema.DTYPES.items()}


def read(data: Buffer) -> Program:
    """The program in a `.pte` file. Raises FormatError for bytes that are not a valid one."""
    view = memoryview(data).cast("B").toreadonly()
    graph, segments = _parts(view)
    record = flatbuffer.read(schema.program(), graph, schema.IDENTIFIER, _limits(len(view)))
    program = _Reader(record, segments, len(view)).program()
    check(program)
    return program


@dataclass(frozen=True)
class Layout:
    """What a file's bytes are for: those of the flatbuffer, and name and size of each segment, in order."""

    flatbuffer: int
    segments: tuple[tuple[str, int], ...]


def layout(data: Buffer) -> Layout:
    """How a `.pte` file that `read` takes divides into segments. Raises FormatError."""
    graph, _ = _parts(memoryview(data).cast("B").toreadonly())
    record = flatbuffer.read(schema.program(), graph, schema.IDENTIFIER, _limits(len(data)))
    names = {each["segment_index"]: f"named data {each['key']}" for each in _list(record["named_data"])}
    for plan in _list(record["execution_plan"]):
        for each in _list(plan["delegates"]):
            if each["processed"] is not None and each["processed"]["location"] == schema.SEGMENT:
                names[each["processed"]["index"]] = f"delegate {each['id']}"
    names |= {each["segment_index"]: "initial data of buffers" for each in _list(record["mutable_data_segments"])}
    names |= {(record["constant_segment"] or {}).get("segment_index", 0): "constants"}
    segments = enumerate(_list(record["segments"]))
    return Layout(len(graph), tuple((names.get(index, "unused"), each["size"]) for index, each in segments))


def _limits(size: int) -> Limits:
    """An honest file visits a byte about twice; a table takes 1/2 KiB of memory, a character up to 4 bytes."""
    return Limits(visits=4, tables=TABLES + size // 512, text=TEXT + size // 16)


def _parts(data: memoryview) -> tuple[memoryview, memoryview]:
    """The flatbuffer and the segments; without a header there are none."""
    place = schema.HEADER_PLACE
    if bytes(data[place : place + 4]) != schema.HEADER_MAGIC:
        return data, data[:0]
    if len(data) < place + schema.HEADER.size:
        raise FormatError("length", f"{len(data)} bytes", f"at least {place + schema.HEADER.size}", "header")
    _, size, extent, base, length = schema.HEADER.unpack_from(data, place)
    if size < schema.HEADER.size:
        raise FormatError("size of the header", size, f"at least {schema.HEADER.size}", "header")
    if not place + size <= extent <= len(data):
        raise FormatError("size of the flatbuffer", extent, f"from {place + size} to {len(data)}", "header")
    if not length:
        return data[:extent], data[:0]
    if base < extent or base + length > len(data):
        raise FormatError("segments", f"bytes {base} to {base + length}", f"from {extent} to {len(data)}", "header")
    return data[:extent], data[base : base + length]


def _present(value: Any, what: str, where: str) -> Any:
    if value is None:
        raise FormatError(what, "absent", "present", where)
    return value


def _list(values: list[Record] | None) -> list[Record]:
    return [] if values is None else values


class _Reader:
    """The root table and the segments; `items` and `copied` are the list items and bytes that may still be made."""

    def __init__(self, record: Record, segments: memoryview, size: int) -> None:
        self.record, self.segments = record, segments
        self.items, self.copied = ITEMS + size // 16, size
        self.constants = _present(record["constant_segment"], "constant_segment", "program")

    def program(self) -> Program:
        plans = _list(self.record["execution_plan"])
        named = {
            _present(each["key"], "key", f"named datum {index}"): self.segment(
                each["segment_index"], f"named datum {index}"
            )
            for index, each in enumerate(_list(self.record["named_data"]))
        }
        return Program(
            tuple(self.plan(each, f"method {index}") for index, each in enumerate(plans)), named, self.record["version"]
        )

    def numbers(self, array: np.ndarray[Any, Any] | None, where: str) -> tuple[Any, ...]:
        """A vector as a tuple, empty when it is absent."""
        if array is None:
            return ()
        self.items -= array.size
        if self.items < 0:
            raise FormatError("lists", "too many items", "fewer in a file of this size", where)
        return tuple(array.tolist())

    def bytes(self, array: np.ndarray[Any, Any] | None, where: str) -> bytes:
        """A vector of bytes as a copy, empty when it is absent."""
        self.copied -= 0 if array is None else array.size
        if self.copied < 0:
            raise FormatError("copies", "more than the file has bytes", "no shared bytes", where)
        return b"" if array is None else array.tobytes()

    # -------------------------------------------------------------------------------------------- data

    def segment(self, index: int, where: str) -> memoryview:
        segments = _list(self.record["segments"])
        if index >= len(segments):
            raise FormatError("segment", index, f"one of {len(segments)}", where)
        start, end = segments[index]["offset"], segments[index]["offset"] + segments[index]["size"]
        if end > len(self.segments):
            found = f"bytes {start} to {end}"
            raise FormatError(f"segment {index}", found, f"within {len(self.segments)} bytes of segments", where)
        return self.segments[start:end]

    def data(self, record: Record, nbytes: int, where: str) -> memoryview:
        """The data of a tensor: so many bytes from the offset of its number on, in its segment."""
        index, offsets = record["data_buffer_idx"], self.constants
        if record["allocation_info"] is not None:
            number = (record["extra_tensor_info"] or {}).get("mutable_data_segments_idx", 0)
            groups = _list(self.record["mutable_data_segments"])
            if number >= len(groups):
                raise FormatError("mutable data segment", number, f"one of {len(groups)}", where)
            offsets = groups[number]
        places = offsets["offsets"]
        if places is None or index >= len(places):
            raise FormatError("data_buffer_idx", index, f"one of {0 if places is None else len(places)}", where)
        start = int(places[index])
        segment = self.segment(offsets["segment_index"], where)
        if start + nbytes > len(segment):
            found = f"bytes {start} to {start + nbytes}"
            raise FormatError("data", found, f"within the {len(segment)} bytes of the segment", where)
        return segment[start : start + nbytes]

    # -------------------------------------------------------------------------------------------- methods

    def plan(self, record: Record, where: str) -> Plan:
        meta = record["container_meta_type"] or {}
        sizes = self.numbers(_present(record["non_const_buffer_sizes"], "non_const_buffer_sizes", where), where)
        operators = [
            Operator(_present(each["name"], "name", f"{where}, operator {index}"), each["overload"] or "")
            for index, each in enumerate(_list(record["operators"]))
        ]
        values = _list(_present(record["values"], "values", where))
        return Plan(
            _present(record["name"], "name", where),
            tuple(self.value(each, f"{where}, value {index}") for index, each in enumerate(values)),
            self.numbers(_present(record["inputs"], "inputs", where), where),
            self.numbers(_present(record["outputs"], "outputs", where), where),
            tuple(self.chain(each, f"{where}, chain {index}") for index, each in enumerate(_list(record["chains"]))),
            tuple(operators),
            tuple(
                self.delegate(each, f"{where}, delegate {index}")
                for index, each in enumerate(_list(record["delegates"]))
            ),
            sizes,
            meta.get("encoded_inp_str") or "",
            meta.get("encoded_out_str") or "",
        )

    def value(self, record: Record, where: str) -> EValue:
        kind, value = record["val_type"], _present(record["val"], "value", where)
        match kind:
            case schema.NULL:
                return None
            case schema.TENSOR:
                return self.tensor(value, where)
            case schema.INT | schema.BOOL | schema.DOUBLE:
                (number,) = value.values()
                return number  # type: ignore[no-any-return]  # the reader gives what the schema says
            case schema.STRING:
                return str(_present(value["string_val"], "text", where))
        return _list_value(kind, self.numbers(value["items"], where), where)

    def tensor(self, record: Record, where: str) -> Tensor:
        dtype, dynamism = _DTYPES.get(record["scalar_type"]), record["shape_dynamism"]
        extra = record["extra_tensor_info"] or {"fully_qualified_name": None, "location": 0}
        if dtype is None:
            raise FormatError("scalar type", record["scalar_type"], f"one of {sorted(_DTYPES)}", where)
        if record["storage_offset"] or record["layout"]:
            raise FormatError("storage offset or layout", "other than 0", "a strided tensor from its start", where)
        if not 0 <= dynamism < len(schema.DYNAMISMS) or not 0 <= extra["location"] < len(schema.LOCATIONS):
            raise FormatError("dynamism and location", (dynamism, extra["location"]), "up to 2 and 1", where)
        tensor = Tensor(
            dtype,
            self.numbers(record["sizes"], where),
            self.numbers(record["dim_order"], where),
            None,
            self.allocation(record["allocation_info"]),
            schema.DYNAMISMS[dynamism],
            extra["fully_qualified_name"],
            schema.LOCATIONS[extra["location"]],
        )
        if not record["data_buffer_idx"] or tensor.location == "external":
            return tensor
        check_sizes(tensor.sizes, dtype.itemsize, where)
        return replace(tensor, data=self.data(record, tensor.nbytes, where))

    @staticmethod
    def allocation(record: Record | None) -> Allocation | None:
        if record is None:
            return None
        return Allocation(record["memory_id"], record["offset_low"] + (record["offset_high"] << 32))

    def delegate(self, record: Record, where: str) -> Delegate:
        place = _present(record["processed"], "processed", where)
        specs = [
            CompileSpec(_present(each["key"], "key", where), self.bytes(each["value"], where))
            for each in _list(record["compile_specs"])
        ]
        return Delegate(_present(record["id"], "id", where), self.blob(place, where), tuple(specs))

    def blob(self, place: Record, where: str) -> Buffer:
        if place["location"] == schema.SEGMENT:
            return self.segment(place["index"], where)
        inline = _list(self.record["backend_delegate_data"])
        if place["location"] != schema.INLINE or place["index"] >= len(inline):
            raise FormatError("blob", (place["location"], place["index"]), f"inline, one of {len(inline)}", where)
        data = inline[place["index"]]["data"]
        return b"" if data is None else memoryview(data)

    # -------------------------------------------------------------------------------------------- code

    def chain(self, record: Record, where: str) -> Chain:
        instructions = _list(record["instructions"])
        return Chain(
            tuple(self.instruction(each, f"{where}, instruction {index}") for index, each in enumerate(instructions)),
            self.numbers(record["inputs"], where),
            self.numbers(record["outputs"], where),
            tuple(_frames(each) for each in _list(record["stacktrace"])),
        )

    def instruction(self, record: Record, where: str) -> Instruction:
        args = _present(record["instr_args"], "instruction", where)
        match record["instr_args_type"]:
            case schema.KERNEL_CALL:
                return KernelCall(args["op_index"], self.numbers(args["args"], where))
            case schema.DELEGATE_CALL:
                return DelegateCall(args["delegate_index"], self.numbers(args["args"], where))
            case schema.MOVE_CALL:
                return MoveCall(args["move_from"], args["move_to"])
            case schema.JUMP_FALSE_CALL:
                return JumpFalseCall(args["cond_value_index"], args["destination_instruction"])
        return FreeCall(args["value_index"])


def _frames(record: Record) -> tuple[Frame, ...]:
    """The frames of one instruction; a text that is left out is empty."""
    return tuple(
        Frame(each["filename"] or "", each["lineno"], each["name"] or "", each["context"] or "")
        for each in _list(record["items"])
    )


def _list_value(kind: int, items: Sequence[Any], where: str) -> EValue:
    match kind:
        case schema.INT_LIST:
            return IntList(tuple(items))
        case schema.DOUBLE_LIST:
            return DoubleList(tuple(items))
        case schema.BOOL_LIST:
            if max(items, default=0) > 1:
                raise FormatError("boolean", max(items), "0 or 1", where)
            return BoolList(tuple(map(bool, items)))
        case schema.TENSOR_LIST:
            return TensorList(tuple(items))
    return OptionalTensorList(tuple(items))
