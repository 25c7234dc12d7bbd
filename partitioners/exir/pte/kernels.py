"""Operators of a program, by name, as functions on the values of a running method.

An operator that torch has under that name, mostly an out variant, writes right into the planned memory. Of one that
torch has only without `out`, such as those of `quantized_decomposed`, the results are copied there. Names that are
not in `allowed` run nothing: torch has operators that read files, print, or end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

# Registers torch.ops.quantized_decomposed.*.
import torch.ao.quantization.fx._decomposed
from torch._ops import OpOverload, OpOverloadPacket

from npu_assay.partitioners.exir.pte.allowed import ALLOWED
from npu_assay.partitioners.exir.pte.frame import Frame
from npu_assay.partitioners.exir.pte.model import Operator, TensorList
from npu_assay.partitioners.exir.pte.primitives import PRIMITIVES

Kernel = Callable[[Frame, Sequence[int], str], None]

FAILURES = (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AssertionError, MemoryError)
"""What torch, or a delegate's runtime, raises for arguments that it does not take."""


def spelled(operator: Operator) -> str:
    """`aten::add.out`."""
    return f"{operator.name}.{operator.overload or 'default'}"


@cache
def kernel(operator: Operator) -> Kernel | None:
    """What runs the operator, or None when a file may not call it."""
    name = spelled(operator)
    if name in PRIMITIVES:
        return _counted(*PRIMITIVES[name])
    if name not in ALLOWED:
        return None
    packet = _packet(operator.name)
    if packet is None:
        return None
    overload = operator.overload or "default"
    direct, functional = getattr(packet, overload, None), _without_out(packet, overload)
    # Torch has no out variants but its own: what is there under another name depends on what else is imported.
    if isinstance(direct, OpOverload) and (functional is None or operator.name.startswith("aten::")):
        return _direct(direct)
    return None if functional is None else _copying(functional)


def _packet(name: str) -> OpOverloadPacket | None:
    namespace, _, base = name.partition("::")
    if not (namespace.isidentifier() and base.isidentifier()):
        return None
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return packet if isinstance(packet, OpOverloadPacket) else None


def _without_out(packet: OpOverloadPacket, overload: str) -> OpOverload | None:
    """The overload that an out variant's name was made from: `out` from `default`, `Tensor_out` from `tensor`."""
    if overload != "out" and not overload.endswith("_out"):
        return None
    base = overload.removesuffix("out").removesuffix("_").lower() or "default"
    names: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
    known = {each.lower(): each for each in names}
    found = getattr(packet, known[base]) if base in known else None
    return found if isinstance(found, OpOverload) else None


def _counted(run: Kernel, count: int) -> Kernel:
    """The primitive, refusing another number of values."""

    def checked(frame: Frame, ids: Sequence[int], where: str) -> None:
        if count and len(ids) != count:
            raise frame.error("arguments", len(ids), str(count), where)
        run(frame, ids, where)

    return checked


def _direct(op: OpOverload) -> Kernel:
    """The operator itself. Written arguments are values in place; other results are stored."""
    arguments, returns = op._schema.arguments, op._schema.returns
    written = [each.alias_info is not None and each.alias_info.is_write for each in arguments]

    def run(frame: Frame, ids: Sequence[int], where: str) -> None:
        if not len(arguments) <= len(ids):
            raise frame.error("arguments", len(ids), f"{len(arguments)} and the results", where)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument, index, is_written in zip(arguments, ids, written, strict=False):
            value = _writable(frame, argument, index, where) if is_written else frame.get(index, where)
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        results = op(*args, **kwargs)
        for argument, index, is_written in zip(arguments, ids, written, strict=False):
            if is_written and argument.is_out:
                _settle(frame, index, kwargs[argument.name], where)
        fresh = [each.alias_info is None for each in returns]
        if any(fresh):
            _store(frame, ids[len(arguments) :], results if len(returns) > 1 else (results,), where)

    return run


def _writable(frame: Frame, argument: Any, index: int, where: str) -> Any:
    """The tensor, or the list of them, that an operator is to write."""
    value = frame.plan.values[index]
    if isinstance(value, TensorList):
        return [frame.target(item, where) for item in value.items]
    if argument.is_out:
        return frame.target(index, where)
    frame.spec(index, where)
    return frame.tensor(index, where)


def _settle(frame: Frame, index: int, results: Any, where: str) -> None:
    value = frame.plan.values[index]
    if not isinstance(value, TensorList):
        frame.written(index, results, where)
        return
    for item, result in zip(value.items, results, strict=True):
        frame.written(item, result, where)


def _store(frame: Frame, ids: Sequence[int], results: Sequence[Any], where: str) -> None:
    if len(ids) != len(results):
        raise frame.error("results", len(ids), str(len(results)), where)
    for index, result in zip(ids, results, strict=True):
        if isinstance(result, torch.Tensor):
            frame.put(index, result, where)
        else:
            frame.store(index, result, where)


def _copying(op: OpOverload) -> Kernel:
    """The operator's results into the tensors after its arguments, and then once more, a list if several."""
    arguments, returns = op._schema.arguments, op._schema.returns

    def run(frame: Frame, ids: Sequence[int], where: str) -> None:
        if len(ids) != len(arguments) + len(returns) + 1:
            raise frame.error(
                "arguments", len(ids), f"{len(arguments)}, {len(returns)} results, and all of them", where
            )
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument, index in zip(arguments, ids, strict=False):
            if argument.kwarg_only:
                kwargs[argument.name] = frame.get(index, where)
            else:
                args.append(frame.get(index, where))
        results = op(*args, **kwargs)
        _store(frame, ids[len(arguments) : -1], results if len(returns) > 1 else (results,), where)

    return run
