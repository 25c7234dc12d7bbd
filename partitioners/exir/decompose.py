"""Decomposes ATen programs into core ATen operators.

`torch.export.ExportedProgram.run_decompositions` does the same at a fixed cost of 130-190 ms: it lists all operators
with an implicit decomposition, replaces their kernels and puts them back. Here the dispatcher decomposes those
operators as it always does, and only the operators that are not to be decomposed are treated specially. Programs of
fixed shapes go node by node (`decompose_by_node`): most of their nodes are core ATen already and are copied;
in-place operators have functional ones in their place where nobody sees the difference (`in_place`). All others are
traced as a whole (`tracing`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table
from torch._export.verifier import Verifier
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import _override_composite_implicit_decomp
from torch.export.graph_signature import ExportGraphSignature
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from npu_assay.partitioners.exir.decompose_by_node import Decompositions, NotFunctionalError, is_implicit, recorded
from npu_assay.partitioners.exir.in_place import fresh_forms
from npu_assay.partitioners.exir.program import EdgeProgram, with_graph
from npu_assay.partitioners.exir.values import fake_mode_of

aten: Any = torch.ops.aten

KEPT: frozenset[OpOverload] = frozenset({aten.upsample_bilinear2d.vec, aten.upsample_nearest2d.vec})
"""Operators that torch decomposes by default, but not on the way to core ATen."""

IN_PYTHON: dict[OpOverload, OpOverload | None] = {
    aten._fused_rms_norm.default: aten.rms_norm.default,
    aten.mish_backward.default: None,
    aten.silu_backward.default: None,
}
"""Operators whose decomposition to core ATen is not the dispatcher's, with what calls them."""


@cache
def _core_table() -> dict[OpOverload, Callable[..., Any]]:
    """Torch's decompositions to core ATen, except those of the dispatcher itself."""
    found = dict(_core_aten_decompositions_post_autograd())
    norm = aten.linalg_vector_norm.default
    found[norm] = decomposition_table[norm]
    return {op: rule for op, rule in found.items() if isinstance(op, OpOverload)}


def decomposed(
    program: ExportedProgram, preserved: Collection[OpOverload] = (), kept: Collection[fx.Node] = ()
) -> EdgeProgram:
    """The program in functional core ATen. Constants are shared, and the input stays as it is.

    `preserved` operators are not decomposed, nor are the nodes `kept`. The result has operators of torch and is not
    verified. Raises EdgeError for a program that writes a constant.
    """
    return _taken_apart(program, plan_for(program.graph, preserved, kept))


def functional(program: ExportedProgram) -> EdgeProgram:
    """The program with only those operators decomposed that write tensors or return views; else as `decomposed`."""
    plain = with_plain_tensors(program)
    whole = frozenset(op for op in operators(plain.graph) if is_implicit(op) and is_functional(op))
    return _taken_apart(plain, Decompositions({}, whole, whole))


def with_plain_tensors(program: ExportedProgram) -> ExportedProgram:
    """The program whose weights are plain tensors; itself if no weight is a subclass of several tensors.

    Weights of torchao's `quantize_` are objects of codes, scales and zero points. Torch unwraps them, and names the
    parts; an empty table decomposes nothing else.
    """
    weights = (*program.state_dict.values(), *program.constants.values())
    return program.run_decompositions({}) if any(map(is_traceable_wrapper_subclass, weights)) else program


def _taken_apart(program: ExportedProgram, plan: Decompositions) -> EdgeProgram:
    mode = fake_mode_of(program.graph) or FakeTensorMode()
    forms = fresh_forms(program.graph) if is_fixed(program.graph) else None
    if forms is not None:
        try:
            module = recorded(program.graph_module, plan, lambda: dispatching(plan, mode), forms)
        except NotFunctionalError:
            pass
        else:
            return aten_program(program, module, program.graph_signature)
    with dispatching(plan, mode):
        from npu_assay.partitioners.exir.tracing import traced  # late: it loads sympy

        module, signature = traced(program, plan)
    return aten_program(program, module, signature)


def plan_for(graph: fx.Graph, preserved: Collection[OpOverload], kept: Collection[fx.Node]) -> Decompositions:
    """What to decompose in a graph, and how; see `decomposed`."""
    present = operators(graph)
    whole = KEPT.union(preserved)
    now_and_then = {n.target for n in kept if isinstance(n.target, OpOverload)} - whole
    python = {op for op in IN_PYTHON if op not in whole and (op in present or IN_PYTHON[op] in present)}
    special = {op for op in (*whole, *now_and_then) if is_implicit(op) and (op in preserved or op in present)} | python
    table = _core_table()
    rules = {op: rule for op, rule in table.items() if op not in whole} if preserved else table
    return Decompositions(rules, whole, frozenset(special), frozenset(kept))


def operators(graph: fx.Graph) -> frozenset[OpOverload]:
    """The torch operators that the graph calls."""
    return frozenset(n.target for n in graph.nodes if isinstance(n.target, OpOverload))


def is_functional(op: OpOverload) -> bool:
    """Whether the operator writes nothing and returns no view."""
    schema = op._schema
    return not schema.is_mutable and all(r.alias_info is None for r in (*schema.returns, *schema.arguments))


def is_fixed(graph: fx.Graph) -> bool:
    """Whether all shapes are numbers, and there is no control flow."""
    return not any(isinstance(n.target, HigherOrderOperator) or _is_open(n.meta.get("val")) for n in graph.nodes)


def _is_open(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_open(v) for v in value)
    if isinstance(value, torch.Tensor):
        return bool(getattr(value, "_has_symbolic_sizes_strides", False))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


@contextmanager
def dispatching(plan: Decompositions, mode: FakeTensorMode) -> Iterator[None]:
    """The state in which decompositions run: no gradients, and the tracer sees `plan.special` operators."""
    special = {op: plan.implicit(op) for op in plan.special}
    # Vendor libraries of this machine have operators of their own, which no program should have.
    libraries: tuple[Any, ...] = (torch.backends.mkldnn, torch.backends.nnpack)
    flags = [library.set_flags(False) for library in libraries]
    try:
        with mode, torch.no_grad(), _override_composite_implicit_decomp(special):
            yield
    finally:
        for library, before in zip(libraries, flags, strict=True):
            library.set_flags(*before)


class AtenProgram(EdgeProgram):
    """A program on its way to the edge dialect: functional, in operators of torch."""

    verifier = Verifier


def aten_program(program: ExportedProgram, module: fx.GraphModule, signature: ExportGraphSignature) -> EdgeProgram:
    """`program` with another graph."""
    return with_graph(program, module, module.graph, signature, AtenProgram)
