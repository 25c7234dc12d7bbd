"""Programs as text, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npu_assay.partitioners.exir.flatbuffer import Kind, Nested, Record, Scalar, Table, Tables, Union
from npu_assay.partitioners.exir.pte import schema
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


LISTS = frozenset({"dim_order", "items"})
"""Fields of small numbers, which are shown one by one."""

ENUMS = {
    "scalar_type": {number: str(dtype).removeprefix("torch.") for dtype, number in schema.DTYPES.items()},
    "shape_dynamism": dict(enumerate(("STATIC", "DYNAMIC_BOUND", "DYNAMIC_UNBOUND"))),
}
"""What numbers of the schema mean."""


def dump_file(record: Record) -> str:
    """The root table of a file, by the names of ExecuTorch's schema, with all fields."""
    return "\n".join(_lines(schema.program(), record, 0))


def dump(program: Program) -> str:
    """The instructions of every method."""
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


def _lines(table: Table, record: Record, depth: int) -> Iterator[str]:
    """A table with every field of the schema, one below the other; "None" for what the file leaves out."""
    pad = "  " * depth
    yield f"{table.name}("
    for name, (_, kind) in table.fields.items():
        first, *rest = _field(name, kind, record, depth + 1)
        yield f"{pad}  {name}={first}"
        yield from rest
    yield f"{pad})"


def _field(name: str, kind: Kind, record: Record, depth: int) -> Iterator[str]:
    """A field's content; all lines but the first are indented."""
    value, pad = record.get(name), "  " * depth
    if value is None:
        yield str(kind.default) if isinstance(kind, Scalar) else "None"
    elif isinstance(kind, Nested):
        yield from _lines(kind.table, value, depth)
    elif isinstance(kind, Union):
        yield from _lines(kind.members[record[kind.tag]], value, depth)
    elif isinstance(kind, Tables) and value:
        yield "["
        for index, item in enumerate(value):
            first, *rest = _lines(kind.table, item, depth + 1)
            yield f"{pad}  {index}: {first}"
            yield from rest
        yield f"{pad}]"
    else:
        yield _short(name, value)


def _short(name: str, value: Any) -> str:
    """A number or text, or a list of numbers; of bytes, the first ones."""
    if isinstance(value, (bytes, memoryview)) and name not in LISTS:
        shown = bytes(value[:SHOWN_BYTES]).hex(" ")
        return f"<{len(value)} bytes: {shown}{' ...' if len(value) > SHOWN_BYTES else ''}>"
    if isinstance(value, (str, int, float)):
        names = ENUMS.get(name)
        return repr(value) if names is None else f"{value} ({names.get(int(value), '?')})"
    return str(list(value))
