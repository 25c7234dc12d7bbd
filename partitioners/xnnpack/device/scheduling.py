"""Functions of several small values at once: each is some 20 calls of torch, whatever the size of its operand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import prod
from typing import Final

import torch
from torch import Tensor

from npu_assay.partitioners.common.machine import Call, Kernel
from npu_assay.partitioners.xnnpack.xnn_model import XModel, XNode

SMALL: Final = 1024
"""Elements of a value up to which a copy costs less than the calls that it saves."""

_FUNCTIONS: Final = frozenset(("Cos", "Exp", "Gelu", "Hardswish", "Log", "Sigmoid", "Sin", "Tanh"))
"""Each element of the result depends on one element of the operand, and on nothing else."""

Kind = tuple[str, str, str, tuple[int, ...]]


@dataclass(frozen=True)
class AtOnce:
    """A function's kernel for several operands; of one shape each in the blob, though perhaps not at run time."""

    kernel: Kernel

    def __call__(self, *operands: Tensor) -> Sequence[Tensor]:
        if len({each.shape for each in operands}) > 1:
            return [self.kernel(each) for each in operands]
        return self.kernel(torch.stack(operands)).unbind()


def together(model: XModel, calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls of the nodes, reordered so that functions of which none needs another's result are one call.

    A function waits until no other operator can run; the same functions that then wait with it run with it.
    """
    kinds = {node.outputs[0]: kind for node in model.nodes if (kind := _kind(model, node)) is not None}
    if max(Counter(kinds.values()).values(), default=0) < 2:
        return tuple(calls)
    return tuple(_at_once([calls[position] for position in group]) for group in _groups(calls, kinds))


def _groups(calls: Sequence[Call], kinds: Mapping[int, Kind]) -> list[list[int]]:
    """Positions of calls in the order in which they run, those of one kind that can run at once together."""
    made = {call.result for call in calls}
    users: dict[int, list[int]] = defaultdict(list)
    missing = []
    for position, call in enumerate(calls):
        needed = made.intersection(call.arguments)
        missing.append(len(needed))
        for index in needed:
            users[index].append(position)
    others: list[int] = []
    functions: dict[Kind, list[int]] = {}

    def ready(position: int) -> None:
        kind = kinds.get(calls[position].result)
        if kind is None:
            heappush(others, position)
        else:
            functions.setdefault(kind, []).append(position)

    groups = []
    for position, count in enumerate(missing):
        if not count:
            ready(position)
    while others or functions:
        group = [heappop(others)] if others else functions.pop(next(iter(functions)))
        groups.append(group)
        for user in (user for position in group for user in users[calls[position].result]):
            missing[user] -= 1
            if not missing[user]:
                ready(user)
    return groups


def _at_once(calls: Sequence[Call]) -> Call:
    first, *others = calls
    if not others:
        return first
    arguments = tuple(call.arguments[0] for call in calls)
    further = tuple(call.result for call in others)
    where = ", ".join(call.where for call in calls)
    return replace(first, kernel=AtOnce(first.kernel), arguments=arguments, where=where, further=further)


def _kind(model: XModel, node: XNode) -> Kind | None:
    """What functions that are computed at once have in common; None for another operator, and for large values."""
    if node.op not in _FUNCTIONS:
        return None
    x, y = model.values[node.inputs[0]], model.values[node.outputs[0]]
    return (node.op, x.dtype, y.dtype, x.shape) if prod(x.shape) <= SMALL else None
