"""Replaces the infinite numbers of constants before a quantizer observes them, and warns.

No code stands for an infinite number. Observers ignore it, so a mask of zeros and minus infinities would become
codes that all mean zero. Needs no torchao.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

LARGEST_NUMBER = 3.4028235e15
"""The histograms of torchao's observers fail above it, so that larger numbers count as infinite."""
FILLING = frozenset({"fill_value", "other", "s", "self", "value"})
"""Arguments whose number gets into the result, by their name in torch's schema; bounds do not."""


class ClampedConstantWarning(UserWarning):
    """A quantizer has replaced infinite numbers of constants."""


@dataclass(frozen=True)
class Clamped:
    """One constant or operator whose infinite numbers were replaced: `numbers` of its `elements`."""

    name: str
    numbers: int
    elements: int

    def __str__(self) -> str:
        return f"{self.name} ({self.numbers} of {self.elements})"


def is_infinite(number: object) -> bool:
    """Whether a number is too large for codes; NaN is not."""
    return isinstance(number, (int, float)) and abs(number) > LARGEST_NUMBER


def clamp_constants(model: GraphModule, readers: Iterable[Node], least: float, largest: float) -> list[Clamped]:
    """Replace the infinite numbers that quantized nodes read by `least` and `largest`; returns what was replaced.

    readers: the nodes that will be quantized. What they read are buffers and parameters, and the numbers among the
    arguments of the operators before them, e.g. of `full` and `masked_fill`; constants are also found through
    operators that compute on constants alone. The model's own tensors stay as they are: the readers get copies, and
    nodes that will not be quantized still read the infinite numbers.
    """
    found: list[Clamped] = []
    copies: dict[object, Node] = {}
    for node in _computing(model.graph, frozenset(readers)):
        found += _clamp_numbers(node, least, largest)
        for source in node.all_input_nodes:
            tensor = stored_tensor(source)
            infinite = 0 if tensor is None else int(_infinite(tensor).sum())
            if tensor is None or not infinite:
                continue
            if source.target not in copies:
                copies[source.target] = _copy(model, source, _clamped(tensor, least, largest))
                found.append(Clamped(str(source.target), infinite, tensor.numel()))
            node.replace_input_with(source, copies[source.target])
    if found:
        model.graph.eliminate_dead_code()
        model.recompile()
    return found


def warn_clamped(quantizer: str, found: Sequence[Clamped], least: float, largest: float) -> None:
    """Warn once about all that `clamp_constants` has replaced; silent when it has replaced nothing."""
    if found:
        names = ", ".join(map(str, found))
        warnings.warn(
            f"{quantizer}: no code stands for an infinite number; replaced by {least:g} and {largest:g} in: {names}",
            ClampedConstantWarning,
            stacklevel=2,
        )


def stored_tensor(node: Node) -> torch.Tensor | None:
    """The real numbers that a `get_attr` node reads; None for every other node."""
    module = node.graph.owning_module
    if node.op != "get_attr" or module is None:
        return None
    path, _, name = str(node.target).rpartition(".")
    found = getattr(module.get_submodule(path), name, None)
    return found if isinstance(found, torch.Tensor) and found.is_floating_point() else None


def _computing(graph: fx.Graph, readers: frozenset[Node]) -> list[Node]:
    """The readers, the nodes that give them reals, and those that compute these from constants; in graph order."""
    constant = _constant_nodes(graph)
    chosen = set(readers)
    for node in reversed(graph.nodes):
        is_read = any(user in chosen and (user in readers or node in constant) for user in node.users)
        if node.op == "call_function" and is_read and _is_real(node):
            chosen.add(node)
    return [node for node in graph.nodes if node in chosen]


def _constant_nodes(graph: fx.Graph) -> frozenset[Node]:
    found = set[Node]()
    for node in graph.nodes:
        computed = node.op == "call_function" and all(source in found for source in node.all_input_nodes)
        if node.op == "get_attr" or computed:
            found.add(node)
    return frozenset(found)


def _is_real(node: Node) -> bool:
    found = node.meta.get("val")
    return isinstance(found, torch.Tensor) and found.is_floating_point()


def _is_truth(node: Node) -> bool:
    found = node.meta.get("val")
    return isinstance(found, torch.Tensor) and found.dtype == torch.bool


def _infinite(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().abs() > LARGEST_NUMBER


def _clamped(tensor: torch.Tensor, least: float, largest: float) -> torch.Tensor:
    bounds = torch.where(tensor < 0, least, largest).to(tensor.dtype)
    return torch.where(_infinite(tensor), bounds, tensor.detach())


def _copy(model: GraphModule, source: Node, tensor: torch.Tensor) -> Node:
    """A buffer of the model's with other numbers, read in the same place."""
    name = next(name for index in count() if not hasattr(model, name := f"_clamped_constant{index}"))
    model.register_buffer(name, tensor)
    with model.graph.inserting_after(source):
        made = model.graph.get_attr(name)
    made.meta = dict(source.meta)
    return made


def _clamp_numbers(node: Node, least: float, largest: float) -> Iterator[Clamped]:
    """Replace the infinite numbers among the arguments that get into the result, or that a result is compared with."""
    if not isinstance(node.target, OpOverload) or not (_is_real(node) or _is_truth(node)):
        return
    names = [argument.name for argument in node.target._schema.arguments]

    def finite(name: str, value: Any) -> Any:
        if name not in FILLING or not is_infinite(value):
            return value
        return largest if value > 0 else least

    args = tuple(finite(name, value) for name, value in zip(names, node.args, strict=False))
    kwargs = {name: finite(name, value) for name, value in node.kwargs.items()}
    if args != node.args or kwargs != node.kwargs:
        node.args, node.kwargs = args, kwargs
        yield Clamped(node.name, 1, 1)
