"""What must hold in a program, wherever it comes from: every index names something of the right kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import torch

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.exir.pte.model import (
    ABSENT,
    Chain,
    DelegateCall,
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
from npu_assay.partitioners.exir.pte.schema import DTYPES, RANK_LIMIT, VERSION

SIZE_LIMIT = 2**62
"""Bytes of a tensor, sizes of 0 taken for 1, so that strides and sums of a few sizes fit 63 bits."""


def check(program: Program) -> None:
    """Raises FormatError for the first thing in the program that does not fit the rest of it."""
    if program.version != VERSION:
        raise FormatError("version", program.version, str(VERSION), "program")
    for plan in program.plans:
        _check_plan(plan)


def _check_plan(plan: Plan) -> None:
    where = f"method {plan.name!r}"
    if not plan.buffer_sizes or min(plan.buffer_sizes) < 0:
        raise FormatError("buffer sizes", list(plan.buffer_sizes), "one or more, none negative", where)
    for index, value in enumerate(plan.values):
        _check_value(value, plan, f"{where}, value {index}")
    for what, ids in (("input", plan.inputs), ("output", plan.outputs)):
        _check_ids(ids, plan, f"{where}, {what}s")
    for number, chain in enumerate(plan.chains):
        _check_chain(chain, plan, f"{where}, chain {number}")


def _check_ids(ids: Iterable[int], plan: Plan, where: str) -> None:
    for index in ids:
        if not 0 <= index < len(plan.values):
            raise FormatError("value id", index, f"from 0 to {len(plan.values) - 1}", where)


# ------------------------------------------------------------------------------------------------ values


def _check_value(value: EValue, plan: Plan, where: str) -> None:
    match value:
        case Tensor():
            _check_tensor(value, plan, where)
        case IntList():
            _check_items(value.items, plan, int, "an integer", where)
        case TensorList():
            _check_items(value.items, plan, Tensor, "a tensor", where)
        case OptionalTensorList():
            present = [index for index in value.items if index != ABSENT]
            _check_items(present, plan, Tensor | None, "a tensor or None", where)


def _check_items(items: Sequence[int], plan: Plan, kind: object, expected: str, where: str) -> None:
    _check_ids(items, plan, where)
    for index in items:
        if not _is(plan.values[index], kind):
            raise FormatError(f"list item {index}", _kind(plan.values[index]), expected, where)


def _is(value: EValue, kind: object) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))  # type: ignore[arg-type]  # a union


def _kind(value: EValue) -> str:
    return "None" if value is None else type(value).__name__


def _check_tensor(tensor: Tensor, plan: Plan, where: str) -> None:
    if tensor.dtype not in DTYPES:
        raise FormatError("dtype", tensor.dtype, f"one of {len(DTYPES)} plain ones", where)
    check_sizes(tensor.sizes, tensor.dtype.itemsize, where)
    if sorted(tensor.dim_order) != list(range(len(tensor.sizes))):
        raise FormatError("dim_order", list(tensor.dim_order), f"the axes of {list(tensor.sizes)}", where)
    if tensor.location == "external" and not tensor.name:
        raise FormatError("name", repr(tensor.name), "the key of the external data", where)
    if tensor.data is not None and len(tensor.data) != tensor.nbytes:
        expected = f"{tensor.nbytes} bytes for {str(tensor.dtype)[6:]}{list(tensor.sizes)}"
        raise FormatError("data", f"{len(tensor.data)} bytes", expected, where)
    if tensor.allocation is not None:
        _check_allocation(tensor, plan.buffer_sizes, where)


def check_sizes(sizes: Sequence[int], itemsize: int, where: str) -> None:
    """Raises FormatError for sizes that no tensor can have, before anything is computed of them."""
    if len(sizes) > RANK_LIMIT or min(sizes, default=0) < 0:
        found = list(sizes) if len(sizes) <= RANK_LIMIT else f"{len(sizes)} of them"
        raise FormatError("sizes", found, f"at most {RANK_LIMIT}, none negative", where)
    # Strides are products of sizes, also those of a tensor without elements.
    if prod(max(size, 1) for size in sizes) * itemsize > SIZE_LIMIT:
        raise FormatError("size", list(sizes), f"at most {SIZE_LIMIT} bytes", where)


def _check_allocation(tensor: Tensor, sizes: Sequence[int], where: str) -> None:
    assert tensor.allocation is not None
    arena, offset = tensor.allocation.memory_id, tensor.allocation.offset
    if not 1 <= arena < len(sizes):
        raise FormatError("memory id", arena, f"from 1 to {len(sizes) - 1}", where)
    if offset < 0 or offset + tensor.nbytes > sizes[arena]:
        found = f"bytes {offset} to {offset + tensor.nbytes}"
        raise FormatError("allocation", found, f"within the {sizes[arena]} bytes of memory {arena}", where)


# ------------------------------------------------------------------------------------------------ code


def _check_chain(chain: Chain, plan: Plan, where: str) -> None:
    _check_ids(chain.inputs, plan, where)
    _check_ids(chain.outputs, plan, where)
    if len(chain.stacktrace) not in (0, len(chain.instructions)):
        raise FormatError("stacktrace", len(chain.stacktrace), f"none, or one of {len(chain.instructions)}", where)
    for index, instruction in enumerate(chain.instructions):
        _check_instruction(instruction, chain, plan, f"{where}, instruction {index}")


def _check_instruction(instruction: Instruction, chain: Chain, plan: Plan, where: str) -> None:
    match instruction:
        case KernelCall():
            _check_index("operator", instruction.op_index, len(plan.operators), where)
            _check_ids(instruction.args, plan, where)
        case DelegateCall():
            _check_index("delegate", instruction.delegate_index, len(plan.delegates), where)
            _check_ids(instruction.args, plan, where)
        case MoveCall():
            _check_ids((instruction.source, instruction.target), plan, where)
        case JumpFalseCall():
            _check_ids((instruction.condition,), plan, where)
            _check_condition(plan.values[instruction.condition], where)
            _check_index("destination", instruction.destination, len(chain.instructions) + 1, where)
        case FreeCall():
            _check_ids((instruction.value,), plan, where)
            if not isinstance(plan.values[instruction.value], Tensor):
                raise FormatError("freed value", _kind(plan.values[instruction.value]), "a tensor", where)


def _check_condition(value: EValue, where: str) -> None:
    if not (isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype == torch.bool)):
        raise FormatError("condition", _kind(value), "a boolean or a tensor of booleans", where)


def _check_index(what: str, index: int, count: int, where: str) -> None:
    if not 0 <= index < count:
        raise FormatError(what, index, f"from 0 to {count - 1}" if count else f"none, as there is no {what}", where)
