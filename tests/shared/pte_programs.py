"""Hand-made `.pte` programs for tests: each kind of value, instruction and tensor is in one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.pte import (
    Allocation,
    BoolList,
    Chain,
    Delegate,
    DelegateCall,
    DoubleList,
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

ADD, COPY, INDEX = Operator("aten::add", "out"), Operator("aten::copy_"), Operator("aten::index", "Tensor_out")
EMPTY = (Chain(()),)


def floats(*sizes: int, at: int | None = None, data: Sequence[float] | None = None, **more: Any) -> Tensor:
    """A float32 tensor, at an offset of memory 1 or with data or neither."""
    raw = None if data is None else np.array(data, "<f4").tobytes()
    place = None if at is None else Allocation(1, at)
    return Tensor(torch.float32, sizes, tuple(range(len(sizes))), raw, place, **more)


def plan(
    values: Sequence[Any],
    operators: Sequence[Operator],
    instructions: Sequence[Instruction],
    inputs: Sequence[int],
    outputs: Sequence[int],
    size: int = 256,
    delegates: Sequence[Delegate] = (),
    name: str = "forward",
) -> Plan:
    """A method with one chain and one arena."""
    chain = Chain(tuple(instructions))
    return Plan(
        name,
        tuple(values),
        tuple(inputs),
        tuple(outputs),
        (chain,),
        tuple(operators),
        tuple(delegates),
        (0, size),
    )


def added() -> Program:
    """x + y."""
    values = [floats(2, 3, at=0), floats(2, 3, at=32), 1, floats(2, 3, at=64)]
    return Program((plan(values, [ADD], [KernelCall(0, (0, 1, 2, 3, 3))], [0, 1], [3]),))


def with_constants() -> Program:
    """x + constant, and methods that return constants."""
    values = [floats(2, 3, at=0), floats(2, 3, data=range(6)), 1, floats(2, 3, at=64), floats(3, data=(1, 2, 3))]
    constants = Plan("answers", (42, 2.5, "text", True, None), (), (0, 1, 2, 3, 4), EMPTY)
    return Program((plan(values, [ADD], [KernelCall(0, (0, 1, 2, 3, 3))], [0], [3, 4]), constants))


def counting() -> Program:
    """total += x, which starts from 0 to 5; returns the total."""
    total = floats(2, 3, data=range(6), at=32, name="total")
    values = [floats(2, 3, at=0), total, 1, floats(2, 3, at=64), False]
    calls = [KernelCall(0, (0, 1, 2, 3, 3)), KernelCall(1, (1, 3, 4, 1))]
    return Program((plan(values, [ADD, COPY], calls, [0], [3]),))


def choosing() -> Program:
    """x + x when the other input is true, else x, of any size up to 8."""
    values = [
        floats(8, at=0, dynamism="bound"),
        Tensor(torch.bool, (), (), allocation=Allocation(1, 96)),
        1,
        floats(8, at=32, dynamism="bound"),
        floats(8, dynamism="bound"),
        False,
    ]
    calls: list[Instruction] = [
        JumpFalseCall(1, 4),
        KernelCall(0, (0, 0, 2, 3, 3)),
        MoveCall(3, 4),
        JumpFalseCall(5, 5),
        MoveCall(0, 4),
    ]
    return Program((plan(values, [ADD], calls, [0, 1], [4]),))


def listing() -> Program:
    """Every kind of list: the rows of x that an index picks, and a view of them."""
    index = Tensor(torch.int64, (2,), (0,), np.array([1, 0], "<i8").tobytes())
    values = [
        floats(2, 3, at=0),
        index,
        OptionalTensorList((1,)),
        floats(2, 3, at=32),
        3,
        2,
        IntList((4, 5)),
        floats(3, 2),
        DoubleList((0.5, 1.5)),
        BoolList((True, False)),
        TensorList((0, 3)),
        OptionalTensorList((-1, 1)),
        floats(3, dynamism="unbound"),
    ]
    operators = [INDEX, Operator("executorch_prim::et_view")]
    calls: list[Instruction] = [KernelCall(0, (0, 2, 3, 3)), KernelCall(1, (3, 6, 7)), FreeCall(12)]
    return Program((plan(values, operators, calls, [0], [7, 6, 8, 9, 10]),))


def looping() -> Program:
    """Add x to the total as often as the other input says; returns how often it did."""
    values = [
        floats(2, 3, at=0),
        3,
        0,
        False,
        1,
        floats(2, 3, at=32),
        False,
        floats(2, 3, at=64, data=[0] * 6),
    ]
    number = [Operator(f"executorch_prim::{name}", "Scalar") for name in ("lt", "add")]
    calls: list[Instruction] = [
        KernelCall(2, (2, 2, 2)),
        KernelCall(0, (2, 1, 3)),
        JumpFalseCall(3, 7),
        KernelCall(3, (7, 0, 4, 5, 5)),
        KernelCall(4, (7, 5, 6, 7)),
        KernelCall(1, (2, 4, 2)),
        JumpFalseCall(6, 1),
    ]
    operators = [*number, Operator("executorch_prim::sub", "Scalar"), ADD, COPY]
    return Program((plan(values, operators, calls, [0, 1], [2, 7]),))


def delegated(blob: bytes = b"\1\2\3", backend: str = "TwiceBackend") -> Program:
    """Two delegates with equal blobs, one after the other, and named data."""
    values = [floats(2, 3, at=0), floats(2, 3, at=32), floats(2, 3, at=64)]
    delegate = Delegate(backend, blob, (CompileSpec("mode", b"fast"), CompileSpec("", b"")))
    calls = [DelegateCall(0, (0, 1)), DelegateCall(1, (1, 2))]
    plans = (plan(values, [], calls, [0], [2], delegates=[delegate, delegate]),)
    return Program(plans, {"weights": b"abc" * 30, "same": b"abc" * 30, "none": b""})


def external() -> Program:
    """x + a tensor that lies in the named data."""
    values = [floats(2, 3, at=0), floats(2, 3, name="w", location="external"), 1, floats(2, 3, at=64)]
    return Program(
        (plan(values, [ADD], [KernelCall(0, (0, 1, 2, 3, 3))], [0], [3]),),
        {"w": np.arange(6, dtype="<f4").tobytes()},
    )


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    each.__name__: each for each in (added, with_constants, counting, choosing, listing, looping, delegated, external)
}


class TwiceRuntime:
    """A runtime whose blobs all double their input."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        return processed_bytes, tuple(compile_specs)

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        (x,) = inputs
        return [2 * x]
