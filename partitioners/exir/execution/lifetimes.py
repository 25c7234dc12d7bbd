"""When each tensor of a method is needed, read off its instructions, and its place in the arena."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from npu_assay.partitioners.exir.execution.config import MemoryPlanningPass
from npu_assay.partitioners.exir.execution.memory_planning import MemoryPlan, Request, planned
from npu_assay.partitioners.exir.execution.table import ValueTable
from npu_assay.partitioners.exir.pte.model import Allocation, EValue, Instruction, Tensor, operands

Kind = Literal["input", "output", "buffer", "local"]
ARENA = 1


@dataclass
class Storage:
    """Which tensors have memory of their own, and which are views of another's.

    kinds: by value index, for those with memory of their own. names: for the report. bases: of views, by value index.
    shown: views that no instruction makes, so that they need their base's allocation.
    """

    kinds: dict[int, Kind] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    bases: dict[int, int] = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)

    def own(self, index: int, kind: Kind, name: str) -> None:
        """A tensor with memory of its own."""
        self.kinds[index], self.names[index] = kind, name

    def root(self, index: int) -> int:
        """The tensor whose memory a view has; the tensor itself if it is not a view."""
        while index in self.bases:
            index = self.bases[index]
        return index


def lifetimes(
    table: ValueTable, storage: Storage, instructions: Sequence[Instruction], outputs: Iterable[int]
) -> dict[int, tuple[int, int]]:
    """First and last instruction that need a tensor's memory, by value index.

    Inputs are there from before the first instruction (-1), outputs to after the last, buffers always.
    """
    end = len(instructions)
    spans: dict[int, tuple[int, int]] = {}

    def use(index: int, moment: int) -> None:
        root = storage.root(index)
        first, last = spans.get(root, (moment, moment))
        spans[root] = (min(first, moment), max(last, moment))

    for index, kind in storage.kinds.items():
        if kind in ("input", "buffer"):
            use(index, -1)
        if kind == "buffer":
            use(index, end)
    for moment, instruction in enumerate(instructions):
        for argument in operands(instruction):
            for index in table.tensors_in(argument):
                use(index, moment)
    for output in outputs:
        if isinstance(table.values[output], Tensor):
            use(output, end)
    return spans


def placed(
    table: ValueTable,
    storage: Storage,
    instructions: Sequence[Instruction],
    outputs: Sequence[int],
    options: MemoryPlanningPass,
    delegates: bool,
) -> tuple[list[EValue], MemoryPlan]:
    """The values with their allocations, and the plan. Raises ExirError for a plan in which tensors collide."""
    spans = lifetimes(table, storage, instructions, outputs)
    unplanned = _unplanned(storage, outputs, options)
    wanted = [index for index in storage.kinds if index not in unplanned]
    requests = [Request(storage.names[i], _nbytes(table.values[i]), *spans.get(i, (-1, -1))) for i in wanted]
    padding = options.delegate_padding if delegates else 0
    plan = planned(requests, options.alignment, options.algorithm, padding)
    values = list(table.values)
    for index, place in zip(wanted, plan.tensors, strict=True):
        values[index] = _at(values[index], Allocation(ARENA, place.offset))
    for index in storage.shown:
        values[index] = _at(values[index], _allocation(values[storage.root(index)]))
    return values, plan


def _unplanned(storage: Storage, outputs: Sequence[int], options: MemoryPlanningPass) -> set[int]:
    """Tensors whose memory the caller brings."""
    brought = set() if options.alloc_graph_input else {i for i, kind in storage.kinds.items() if kind == "input"}
    if not options.alloc_graph_output:
        brought |= {i for i in outputs if storage.kinds.get(i) == "output"}
    return brought


def _nbytes(value: EValue) -> int:
    assert isinstance(value, Tensor)
    return value.nbytes


def _allocation(value: EValue) -> Allocation | None:
    assert isinstance(value, Tensor)
    return value.allocation


def _at(value: EValue, allocation: Allocation | None) -> Tensor:
    assert isinstance(value, Tensor)
    return replace(value, allocation=allocation)
