"""Programs near what torch itself makes of an operator: what passes look for, but for one number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map_only

from npu_assay.conformance.cases.variations.arguments import arguments, list_items
from npu_assay.conformance.cases.variations.base import Base, Variation, in_turn
from npu_assay.conformance.programs.graph import Graph, Ref, Step
from npu_assay.reference.golden.aten import aten, bound, canonical


def decomposed(base: Base) -> Iterator[Variation]:
    """The operator in the parts that torch makes of it, and that with another number in each of them."""
    if (found := _parts(base)) is None:
        return
    yield "parts", found
    steps = (step.name for step in found.steps if step.name.startswith(base.beside) or step.name == base.subject)
    yield from in_turn(*(_near(replace(base, graph=found, subject=name)) for name in steps))


def _near(base: Base) -> Iterator[Variation]:
    for label, graph in in_turn(arguments(base), list_items(base)):
        yield f"{base.subject}_{label}", graph


def _parts(base: Base) -> Graph | None:
    """The program with the operator in parts; None where torch has none, or they take what no step can."""
    from torch._decomp import decomposition_table  # late: with these two torch loads sympy
    from torch.fx.experimental.proxy_tensor import make_fx

    op = aten(canonical(base.step.op))
    if op not in decomposition_table or base.step.outputs > 1 or base.step.dynamic is not None:
        return None
    places = {f"taken_{index}": ref for index, ref in enumerate(base.operands)}
    tensors = [torch.empty(operand.shape, dtype=torch.float32) for operand in base.use.operands]
    try:
        traced = make_fx(_called(base, decomposition_table[op], places))(*tensors)
        steps = list(_steps(base, traced.graph, dict(zip(places, base.operands, strict=True))))
    except Exception:  # noqa: BLE001  (tracing refuses numbers, types and sizes with whatever it likes)
        return None
    place = base.graph.steps.index(base.step)
    return replace(base.graph, steps=(*base.graph.steps[:place], *steps, *base.graph.steps[place + 1 :]))


def _called(base: Base, parts: Any, places: Mapping[str, Ref]) -> Any:
    """Torch's decomposition as a function of the operands alone."""
    arguments = bound(base.step.op, base.step.args, dict(base.step.kwargs))
    names = [ref.name for ref in places.values()]

    def call(*tensors: torch.Tensor) -> Any:
        known = dict(zip(names, tensors, strict=True))
        return parts(**tree_map_only(Ref, lambda ref: known[ref.name], arguments))

    return call


def _steps(base: Base, graph: fx.Graph, operands: Mapping[str, Ref]) -> Iterator[Step]:
    """The calls as steps, the last with the operator's own name. Raises TypeError for what no step can say."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    taken = iter(operands.values())
    names = {node: next(taken) for node in graph.nodes if node.op == "placeholder"}
    for node in calls:
        aten(str(node.target))  # raises for what is no operator: of several outputs, the taking of one
        last = node is calls[-1]
        names[node] = Ref(base.subject if last else f"{base.beside}_{node.name}")
        args, kwargs = _argument(node.args, names), tuple((k, _argument(v, names)) for k, v in node.kwargs.items())
        yield Step(names[node].name, str(node.target), args, kwargs, base.step.quant if last else None)


def _argument(argument: Any, names: Mapping[fx.Node, Ref]) -> Any:
    if isinstance(argument, fx.Node):
        return names[argument]
    if isinstance(argument, tuple | list):
        return tuple(_argument(item, names) for item in argument)
    if isinstance(argument, bool | int | float | None):
        return argument
    raise TypeError(f"found {type(argument).__name__}, expected a number")
