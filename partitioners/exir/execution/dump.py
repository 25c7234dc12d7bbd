"""Programs as text, for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from npu_assay.partitioners.exir.pte.model import (
    BoolList,
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

SHOWN_BYTES = 16
"""How much of a blob or a tensor's data the verbose form shows."""


def dump(program: Program, verbose: bool = False) -> str:
    """The instructions of every method, or with `verbose` all records with all their fields."""
    if verbose:
        return "\n".join(_record(program, 0))
    return "\n".join(line for plan in program.plans for line in _plan(plan))


def _plan(plan: Plan) -> Iterator[str]:
    """`index: operator (arguments)`, one line per instruction.

    An argument is its index in the plan's values and what is there: `3:float32[1, 8]@1.64` is value 3, a tensor at
    byte 64 of arena 1; `const`, data in the file; I0 and O0 are the method's first input and output.
    """
    count = sum(len(chain.instructions) for chain in plan.chains)
    arenas = ", ".join(f"{size} bytes" for size in plan.buffer_sizes[1:]) or "no memory"
    yield f"{plan.name}: {count} instruction{'' if count == 1 else 's'}, {arenas}"
    for chain in plan.chains:
        for index, instruction in enumerate(chain.instructions):
            yield f"  {index}: {_instruction(plan, instruction)}"
    if plan.outputs:
        yield f"  returns {', '.join(_value(plan, i) for i in plan.outputs)}"


def _instruction(plan: Plan, instruction: Instruction) -> str:
    if isinstance(instruction, KernelCall):
        op = plan.operators[instruction.op_index]
        name = f"{op.name}.{op.overload}" if op.overload else op.name
        return f"{name} ({_values(plan, instruction.args)})"
    if isinstance(instruction, DelegateCall):
        return f"{plan.delegates[instruction.delegate_index].id} ({_values(plan, instruction.args)})"
    if isinstance(instruction, MoveCall):
        return f"move {_value(plan, instruction.source)} -> {_value(plan, instruction.target)}"
    if isinstance(instruction, JumpFalseCall):
        return f"unless {_value(plan, instruction.condition)} go to {instruction.destination}"
    assert isinstance(instruction, FreeCall)
    return f"free {_value(plan, instruction.value)}"


def _values(plan: Plan, indices: tuple[int, ...]) -> str:
    return ", ".join(_value(plan, index) for index in indices)


def _value(plan: Plan, index: int) -> str:
    text = f"{index}:{_content(plan.values[index])}"
    if index in plan.inputs:
        text += f" I{plan.inputs.index(index)}"
    if index in plan.outputs:
        text += f" O{plan.outputs.index(index)}"
    return text


def _content(value: EValue) -> str:
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, (IntList, TensorList, OptionalTensorList)):
        return f"[{', '.join(f'#{item}' if item >= 0 else 'None' for item in value.items)}]"
    if isinstance(value, (DoubleList, BoolList)):
        return str(list(value.items))
    return repr(value)


def _tensor(tensor: Tensor) -> str:
    sizes = [f"<={size}" if tensor.dynamism == "bound" else str(size) for size in tensor.sizes]
    text = f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"
    if tensor.dim_order != tuple(range(len(tensor.sizes))):
        text += f" in order {list(tensor.dim_order)}"
    if tensor.allocation is not None:
        return f"{text}@{tensor.allocation.memory_id}.{tensor.allocation.offset}"
    return text if tensor.data is None else f"{text} const"


def _record(value: Any, depth: int) -> Iterator[str]:
    """A dataclass, list or mapping over several lines, anything else on one."""
    pad = "  " * depth
    if is_dataclass(value) and not isinstance(value, type):
        yield f"{pad}{type(value).__name__}("
        for one in fields(value):
            yield from _item(f"{one.name}=", getattr(value, one.name), depth + 1)
        yield f"{pad})"
    elif isinstance(value, (tuple, list)) and any(is_dataclass(item) for item in value):
        yield f"{pad}["
        for index, item in enumerate(value):
            yield from _item(f"{index}: ", item, depth + 1)
        yield f"{pad}]"
    else:
        yield f"{pad}{_short(value)}"


def _item(label: str, value: Any, depth: int) -> Iterator[str]:
    first, *rest = _record(value, depth)
    pad = "  " * depth
    yield f"{pad}{label}{first.removeprefix(pad)}"
    yield from rest


def _short(value: Any) -> str:
    if isinstance(value, (bytes, memoryview)):
        shown = bytes(value[:SHOWN_BYTES]).hex(" ")
        return f"<{len(value)} bytes: {shown}{' ...' if len(value) > SHOWN_BYTES else ''}>"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_short(item)}" for key, item in value.items()) + "}"
    return str(value) if isinstance(value, torch.dtype) else repr(value)
