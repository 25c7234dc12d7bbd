"""From programs of the execution dialect to one program file's content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten

from npu_assay.partitioners.exir.execution.config import ExecutorchBackendConfig
from npu_assay.partitioners.exir.execution.data import merge, nesting, tensor_bytes
from npu_assay.partitioners.exir.execution.emitter import Emitter
from npu_assay.partitioners.exir.execution.memory_planning import MemoryPlan
from npu_assay.partitioners.exir.execution.table import value_code
from npu_assay.partitioners.exir.pte.model import Buffer, Chain, EValue, Plan, Program, Tensor


@dataclass(frozen=True)
class Emission:
    """A program, and where the tensors of each method are."""

    program: Program
    memory: Mapping[str, MemoryPlan]


def emit(
    programs: Mapping[str, ExportedProgram], constant_methods: Mapping[str, Any], config: ExecutorchBackendConfig
) -> Emission:
    """The program of all methods: those with a graph by name, then those that return constants. Raises ExirError."""
    plans: list[Plan] = []
    memory: dict[str, MemoryPlan] = {}
    named: dict[str, Buffer] = {}
    for name in sorted(programs):
        options = config.planning(name)
        emitter = Emitter(programs[name], options, config.emit_mutable_buffer_names, config.emit_stacktrace)
        plan, memory[name] = emitter.plan(name)
        plans.append(plan)
        merge(named, emitter.named_data)
    plans += [constant_plan(name, value) for name, value in constant_methods.items()]
    return Emission(Program(tuple(plans), named), memory)


def constant_plan(name: str, value: Any) -> Plan:
    """A method that returns a constant. Raises ExirError for one that no program can hold."""
    leaves, spec = tree_flatten(value)
    values: list[EValue] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            rank = tuple(range(leaf.dim()))
            values.append(Tensor(leaf.dtype, tuple(leaf.shape), rank, data=tensor_bytes(leaf.detach(), rank)))
        else:
            code = value_code(leaf)
            values.append(leaf if code is None else code)
    outputs = tuple(range(len(values)))
    empty = tree_flatten(((), {}))[1]
    return Plan(name, tuple(values), (), outputs, (Chain(()),), (), (), (0,), nesting(empty), nesting(spec))
