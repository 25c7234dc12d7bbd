"""The `.pte` flatbuffer schema (file identifier ET12), and the layout of the file around it.

Names, slots, union members and enum values are those of ExecuTorch's `program.fbs` and `scalar_type.fbs`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import Final

import torch

from npu_assay.partitioners.exir.flatbuffer import Nested, Numbers, Scalar, String, Table, Tables, Union, in_order

IDENTIFIER: Final = b"ET12"
VERSION: Final = 0

HEADER_PLACE: Final = 8
HEADER_MAGIC: Final = b"eh00"
HEADER: Final = struct.Struct("<4sIQQQ")
"""Magic and size of the header, size of the flatbuffer with it, place and size of the segments."""

RANK_LIMIT: Final = 16
"""The most axes that ExecuTorch's runtime can handle."""

DTYPES: Final[Mapping[torch.dtype, int]] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex32: 8,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.float8_e5m2: 23,
    torch.float8_e4m3fn: 24,
    torch.float8_e5m2fnuz: 25,
    torch.float8_e4m3fnuz: 26,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
}
"""ScalarType of each dtype; torch's own quantized and packed types are left out."""

DYNAMISMS: Final = ("static", "bound", "unbound")
LOCATIONS: Final = ("segment", "external")
INLINE, SEGMENT = 0, 1

_INT: Final = Scalar("int32")
_UINT: Final = Scalar("uint32")
_BYTE: Final = Scalar("int8")
_INTS: Final = Numbers("int32")

# ------------------------------------------------------------------------------------------------ values

_ALLOCATION: Final = in_order("AllocationDetails", memory_id=_UINT, offset_low=_UINT, offset_high=_UINT)
_EXTRA: Final = in_order(
    "ExtraTensorInfo",
    mutable_data_segments_idx=Scalar("uint64"),
    fully_qualified_name=String(),
    location=_BYTE,
    device_type=_BYTE,
    device_index=_BYTE,
)
_TENSOR: Final = in_order(
    "Tensor",
    scalar_type=_BYTE,
    storage_offset=_INT,
    sizes=_INTS,
    dim_order=Numbers("uint8"),
    requires_grad=Scalar("bool"),
    data_buffer_idx=_UINT,
    allocation_info=Nested(_ALLOCATION),
    layout=_BYTE,
    shape_dynamism=_BYTE,
    extra_tensor_info=Nested(_EXTRA),
)

NULL, INT, BOOL, DOUBLE, TENSOR, STRING = range(1, 7)
INT_LIST, DOUBLE_LIST, BOOL_LIST, TENSOR_LIST, OPTIONAL_TENSOR_LIST = range(7, 12)

_EVALUE: Final = in_order(
    "EValue",
    val=Union(
        "val_type",
        {
            NULL: in_order("Null"),
            INT: in_order("Int", int_val=Scalar("int64")),
            BOOL: in_order("Bool", bool_val=Scalar("bool")),
            DOUBLE: in_order("Double", double_val=Scalar("float64")),
            TENSOR: _TENSOR,
            STRING: in_order("String", string_val=String()),
            INT_LIST: in_order("IntList", items=Numbers("int64")),
            DOUBLE_LIST: in_order("DoubleList", items=Numbers("float64")),
            BOOL_LIST: in_order("BoolList", items=Numbers("uint8")),
            TENSOR_LIST: in_order("TensorList", items=_INTS),
            OPTIONAL_TENSOR_LIST: in_order("OptionalTensorList", items=_INTS),
        },
    ),
)

# ------------------------------------------------------------------------------------------------ code

KERNEL_CALL, DELEGATE_CALL, MOVE_CALL, JUMP_FALSE_CALL, FREE_CALL = range(1, 6)

_INSTRUCTION: Final = in_order(
    "Instruction",
    instr_args=Union(
        "instr_args_type",
        {
            KERNEL_CALL: in_order("KernelCall", op_index=_INT, args=_INTS),
            DELEGATE_CALL: in_order("DelegateCall", delegate_index=_INT, args=_INTS),
            MOVE_CALL: in_order("MoveCall", move_from=_INT, move_to=_INT),
            JUMP_FALSE_CALL: in_order("JumpFalseCall", cond_value_index=_INT, destination_instruction=_INT),
            FREE_CALL: in_order("FreeCall", value_index=_INT),
        },
    ),
)
_FRAME: Final = in_order("Frame", filename=String(), lineno=_INT, name=String(), context=String())
_CHAIN: Final = in_order(
    "Chain",
    inputs=_INTS,
    outputs=_INTS,
    instructions=Tables(_INSTRUCTION),
    stacktrace=Tables(in_order("FrameList", items=Tables(_FRAME))),
)
_DELEGATE: Final = in_order(
    "BackendDelegate",
    id=String(),
    processed=Nested(in_order("BackendDelegateDataReference", location=_BYTE, index=_UINT)),
    compile_specs=Tables(in_order("CompileSpec", key=String(), value=Numbers("uint8"))),
)
_PLAN: Final = in_order(
    "ExecutionPlan",
    name=String(),
    container_meta_type=Nested(in_order("ContainerMetadata", encoded_inp_str=String(), encoded_out_str=String())),
    values=Tables(_EVALUE),
    inputs=_INTS,
    outputs=_INTS,
    chains=Tables(_CHAIN),
    operators=Tables(in_order("Operator", name=String(), overload=String())),
    delegates=Tables(_DELEGATE),
    non_const_buffer_sizes=Numbers("int64"),
)

# ------------------------------------------------------------------------------------------------ the file

_SUBSEGMENTS: Final = in_order("SubsegmentOffsets", segment_index=_UINT, offsets=Numbers("uint64"))


@cache
def program(inline_alignment: int = 16) -> Table:
    """The root table, with the alignment of the delegates' blobs inside the flatbuffer."""
    return in_order(
        "Program",
        version=_UINT,
        execution_plan=Tables(_PLAN),
        constant_buffer=Tables(in_order("Buffer", storage=Numbers("uint8", align=16))),
        backend_delegate_data=Tables(
            in_order("BackendDelegateInlineData", data=Numbers("uint8", align=inline_alignment))
        ),
        segments=Tables(in_order("DataSegment", offset=Scalar("uint64"), size=Scalar("uint64"))),
        constant_segment=Nested(_SUBSEGMENTS),
        mutable_data_segments=Tables(_SUBSEGMENTS),
        named_data=Tables(in_order("NamedData", key=String(), segment_index=_UINT)),
    )
