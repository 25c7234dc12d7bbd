"""A case's graph as the source of a torch module, its inputs and constants as expressions."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx

from npu_assay.conformance.programs.build import DTYPES, REALS, materialise, module
from npu_assay.conformance.programs.graph import Graph, Quant, Value

FEW = 64
"""Numbers that are written out; more come from an expression, where there is one."""


def model_source(graph: Graph) -> str:
    """`class Model`, whose constants are buffers."""
    root = module(graph)
    assert isinstance(root, fx.GraphModule)
    made = dict(_constants(graph))
    register = [f'        self.register_buffer("{name}", {text})' for name, text in made.items()]
    init = ["    def __init__(self):", "        super().__init__()", *register, ""] if register else []
    inputs = "".join(f", {value.name}" for value in graph.inputs)
    body = [f"        {line}" for line in _body(root.graph)]
    return "\n".join(["class Model(torch.nn.Module):", *init, f"    def forward(self{inputs}):", *body])


def _body(graph: fx.Graph) -> Iterator[str]:
    names: dict[fx.Node, str] = {}
    for node in graph.nodes:
        match node.op:
            case "placeholder":
                names[node] = node.name
            case "get_attr":
                names[node] = f"self.{node.target}"
            case "call_function":
                names[node] = node.name
                yield f"{node.name} = {_call(node, names)}"
            case "output":
                yield f"return {', '.join(names[item] for item in node.args[0])}"


def _call(node: fx.Node, names: dict[fx.Node, str]) -> str:
    args = [argument(item, names) for item in node.args]
    if node.target is operator.getitem:
        return f"{args[0]}[{args[1]}]"
    keywords = [f"{key}={argument(item, names)}" for key, item in node.kwargs.items()]
    return f"torch.ops.{node.target}({', '.join([*args, *keywords])})"


def argument(item: Any, names: dict[fx.Node, str]) -> str:
    """An argument of an operator as Python."""
    if isinstance(item, fx.Node):
        return names[item]
    if isinstance(item, list | tuple):
        return f"[{', '.join(argument(x, names) for x in item)}]"
    if isinstance(item, torch.dtype | torch.memory_format):
        return str(item)
    return number(item) if isinstance(item, float) else repr(item)


def number(value: float) -> str:
    """A number as Python, infinities and NaN included."""
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else f'float("{value}")'


# ------------------------------------------------------------------------------------ numbers


def input_sources(graph: Graph) -> list[str]:
    """The model's inputs in order."""
    return [_real(value) for value in graph.inputs]


def _constants(graph: Graph) -> Iterator[tuple[str, str]]:
    for value in graph.values:
        if value.constant:
            yield value.name, codes(value)
        if value.quant is not None and isinstance(value.quant.scale, tuple):
            shape = (value.shape[0], -1) if value.quant.group is not None else None
            scales = f"torch.tensor([{', '.join(map(number, value.quant.scale))}])"
            scales = scales if shape is None else f"{scales}.reshape({shape})"
            yield f"{value.name}_scale", scales
            yield f"{value.name}_zero_point", f"torch.full({_scales_shape(value)}, {value.quant.zero_point})"
    for step in graph.steps:
        if step.quant is not None and isinstance(step.quant.scale, tuple):
            yield f"{step.name}_scale", f"torch.tensor([{', '.join(map(number, step.quant.scale))}])"
            yield f"{step.name}_zero_point", f"torch.full(({len(step.quant.scale)},), {step.quant.zero_point})"


def _scales_shape(value: Value) -> tuple[int, ...]:
    assert value.quant is not None and isinstance(value.quant.scale, tuple)
    count = len(value.quant.scale)
    return (count,) if value.quant.group is None else (value.shape[0], count // value.shape[0])


def _real(value: Value) -> str:
    """What `model_inputs` makes of a value."""
    quant = value.quant
    if quant is None:
        return codes(value)
    scale = _scale(quant, len(value.shape))
    return f"({codes(value)}.to(torch.float32) - {quant.zero_point}) * {scale}"


def _scale(quant: Quant, rank: int) -> str:
    if not isinstance(quant.scale, tuple):
        return number(quant.scale)
    sizes = [-1 if axis == quant.axis else 1 for axis in range(rank)]
    return f"torch.tensor([{', '.join(map(number, quant.scale))}]).reshape({sizes})"


def codes(value: Value) -> str:
    """What `materialise` makes of a value."""
    dtype = DTYPES[value.quant.dtype] if value.quant is not None else REALS[value.dtype]
    numbers = materialise(value)
    if numbers.numel() <= FEW and value.fill.kind != "random":
        return literal(numbers)
    if value.fill.kind != "random":
        return _folded(numbers)
    seeded = f"generator=torch.Generator().manual_seed({value.fill.seed})"
    if value.quant is None and dtype.is_floating_point:
        made = f"torch.rand({value.shape}, {seeded}) * 8 - 4"
        return made if dtype == torch.float32 else f"({made}).to({dtype})"
    low, high = _bounds(value, dtype)
    return f"torch.randint({low}, {high + 1}, {value.shape}, {seeded}).to({dtype})"


def _bounds(value: Value, dtype: torch.dtype) -> tuple[int, int]:
    if value.quant is not None:
        return value.quant.qmin, value.quant.qmax
    return (0, 1) if dtype == torch.bool else (0, 255) if dtype == torch.uint8 else (-128, 127)


def _folded(numbers: Tensor) -> str:
    """Many numbers; a run of the same ones, or a period, is written once."""
    flat = numbers.flatten()
    for period in range(1, min(FEW, flat.numel()) + 1):
        if torch.equal(flat[period:], flat[:-period]):
            once = f"torch.tensor({_listed(flat[:period])}, dtype={numbers.dtype})"
            return f"{once}[torch.arange({flat.numel()}) % {period}].reshape({tuple(numbers.shape)})"
    return literal(numbers)


def literal(numbers: Tensor) -> str:
    """All numbers of a tensor, written out."""
    made = f"torch.tensor({_listed(numbers.flatten())}, dtype={numbers.dtype})"
    return made if numbers.dim() == 1 else f"{made}.reshape({tuple(numbers.shape)})"


def _listed(flat: Tensor) -> str:
    return f"[{', '.join(number(item) for item in flat.tolist())}]"
