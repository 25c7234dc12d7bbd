"""The execution dialect: edge programs whose operators write into memory that the graph allocates.

Calls of `memory.alloc` make the memory, out variants of the edge operators fill it, `memory.view` shows the same memory
in another shape, and `copy_` at the end writes mutated buffers back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._export.verifier import Verifier
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.ops import EdgeOp
from npu_assay.partitioners.exir.program import EdgeProgram
from npu_assay.partitioners.exir.pte.model import strides_of


def alloc(sizes: Sequence[int], dtype: torch.dtype, dim_order: Sequence[int]) -> torch.Tensor:
    """Memory for a tensor of these sizes (upper bounds) with its axes in this order, outermost first."""
    return torch.empty_strided(sizes, strides_of(sizes, dim_order), dtype=dtype)


def view(base: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """The same memory in another shape."""
    return base.view(size)


ALLOC = EdgeOp("memory.alloc", alloc)
VIEW = EdgeOp("memory.view", view)


class ExecutionVerifier(Verifier):
    """The execution dialect's name; emission checks what there is to check."""

    dialect = "EXECUTION"

    def allowed_op_types(self) -> tuple[type[Any], ...]:
        """The kinds of target a call_function node may have besides Python's own operators."""
        return (EdgeOp, OpOverload, HigherOrderOperator)


class ExecutionProgram(EdgeProgram):
    """An ExportedProgram of the execution dialect; like edge programs, `run_program` runs it."""

    verifier = ExecutionVerifier


WRITES = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def written_placeholders(program: ExportedProgram) -> dict[str, str]:
    """Placeholder names of the buffers and inputs that the program writes when it is through, by target."""
    targets = {s.target for s in program.graph_signature.output_specs if s.kind in WRITES}
    names = {(spec.target or spec.arg.name): node.name for node, spec in placeholders(program)}
    return {str(target): names[target] for target in targets if target in names}
