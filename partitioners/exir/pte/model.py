"""What a `.pte` file holds, as plain records: methods, each a list of values and instructions on them.

Everything refers to a value by its index in the plan's `values`. Names follow ExecuTorch's `program.fbs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, Literal

import torch

from npu_assay.partitioners.exir.backend import CompileSpec

Buffer = bytes | memoryview
"""Bytes; the reader gives views of the file."""

ABSENT: Final = -1
"""Stands for None in an OptionalTensorList."""


# ------------------------------------------------------------------------------------------------ values


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where a tensor lives: `offset` bytes into the arena `memory_id`, from 1 on."""

    memory_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor. `dim_order` names its axes from the outermost to the innermost in memory.

    Its data and its allocation say what it is: data alone, a constant; an allocation alone, planned memory;
    neither, memory that the caller or a kernel brings; both, a buffer that starts from the data, which the
    program writes. `sizes` are upper bounds when `dynamism` is "bound". `name` is needed for `location`
    "external", whose data are the program's named data (or those of another file) of that name.
    """

    dtype: torch.dtype
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    data: Buffer | None = None
    allocation: Allocation | None = None
    dynamism: Literal["static", "bound", "unbound"] = "static"
    name: str | None = None
    location: Literal["segment", "external"] = "segment"

    @property
    def nbytes(self) -> int:
        """Size in bytes at the (upper bounds of the) sizes."""
        return prod(self.sizes) * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Distances in elements between neighbors, by axis."""
        return strides_of(self.sizes, self.dim_order)


def strides_of(sizes: Sequence[int], dim_order: Sequence[int]) -> tuple[int, ...]:
    """Distances in elements between neighbors, by axis, of a tensor whose axes lie in memory in this order."""
    strides, distance = [0] * len(sizes), 1
    for axis in reversed(dim_order):
        strides[axis] = distance
        distance *= max(sizes[axis], 1)
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class IntList:
    """A list of integers: indices of Int values, so that dynamic sizes can be in it."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DoubleList:
    """A list of numbers, held in place."""

    items: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoolList:
    """A list of booleans, held in place."""

    items: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors: indices of Tensor values."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OptionalTensorList:
    """A list of tensors or None: indices of values, ABSENT for None."""

    items: tuple[int, ...]


EValue = None | bool | int | float | str | Tensor | IntList | DoubleList | BoolList | TensorList | OptionalTensorList


# ------------------------------------------------------------------------------------------------ code


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator by its names: `aten::add` and `out`; the overload `default` is spelled ""."""

    name: str
    overload: str = ""


@dataclass(frozen=True, slots=True)
class Delegate:
    """A compiled piece: the backend's id, its blob, and what the blob was compiled with."""

    id: str
    data: Buffer
    compile_specs: tuple[CompileSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Call an operator. `args` has every argument of the schema in its order, then the returned values."""

    op_index: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Call a delegate. `args` has the inputs, then the outputs."""

    delegate_index: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveCall:
    """Let the value `target` be the value `source`."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class JumpFalseCall:
    """Go on at the instruction `destination` of the chain when the value `condition` is false."""

    condition: int
    destination: int


@dataclass(frozen=True, slots=True)
class FreeCall:
    """Give back the memory of a tensor of dynamic size."""

    value: int


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


def operands(instruction: Instruction) -> tuple[int, ...]:
    """The values that an instruction reads or writes."""
    if isinstance(instruction, (KernelCall, DelegateCall)):
        return instruction.args
    if isinstance(instruction, MoveCall):
        return (instruction.source, instruction.target)
    return (instruction.condition,) if isinstance(instruction, JumpFalseCall) else (instruction.value,)


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of the model's sources: file, number from 1 on, function, and the line itself."""

    filename: str
    lineno: int
    name: str
    context: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Instructions, run one after the other. `inputs` and `outputs` are informative and mostly empty.

    `stacktrace` has the frames of each instruction, or is empty altogether.
    """

    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    stacktrace: tuple[tuple[Frame, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A method. `buffer_sizes` are the bytes of the arenas by memory id; the first, of id 0, is reserved and 0.

    `input_spec` and `output_spec` say how inputs and outputs nest, as torch's pytree writes it in JSON.
    """

    name: str
    values: tuple[EValue, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[Chain, ...]
    operators: tuple[Operator, ...] = ()
    delegates: tuple[Delegate, ...] = ()
    buffer_sizes: tuple[int, ...] = (0,)
    input_spec: str = ""
    output_spec: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """The methods of a file, and data that delegates and external tensors find by name."""

    plans: tuple[Plan, ...]
    named_data: Mapping[str, Buffer] = field(default_factory=dict)
    version: int = 0
