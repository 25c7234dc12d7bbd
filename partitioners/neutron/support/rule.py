"""What a rule is, what it may look at, and how operands are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor

from partitioners.exir.backend import Rejection
from partitioners.exir.ops import target_name
from partitioners.neutron.formats import Format, channel_dim, infer_formats
from partitioners.neutron.options import CustomDelegationOptions
from partitioners.neutron.qdq import Cluster, QParams, find_clusters, is_constant, qparams


@dataclass(frozen=True)
class Context:
    """The graph around a node. `constants` maps placeholder names to their data, None where it is not known.

    `macs` and `pipes` are the NPU's multiply-accumulate units and pipelines.
    """

    graph: fx.Graph
    constants: Mapping[str, torch.Tensor | None] = field(default_factory=dict)
    macs: int = 8
    pipes: int = 8
    options: CustomDelegationOptions = field(default_factory=CustomDelegationOptions)

    @cached_property
    def formats(self) -> dict[fx.Node, Format]:
        """Channels-first or not, for every value."""
        return infer_formats(self.graph)

    @cached_property
    def clusters(self) -> dict[fx.Node, Cluster]:
        """Quantised operators with their quantize and dequantize nodes."""
        return find_clusters(self.graph)

    def is_channels_first(self, node: fx.Node) -> bool:
        """Whether the device holds the value with its channels moved to the end."""
        return self.formats.get(node) is Format.CHANNELS_FIRST

    def channels(self, node: fx.Node) -> int:
        """Size of the channel dimension; 1 for a scalar."""
        sizes = shape(node)
        return sizes[channel_dim(node, self.formats)] if sizes else 1

    def is_constant(self, node: object) -> bool:
        """Whether the compiler knows the value."""
        return isinstance(node, fx.Node) and is_constant(node, self.constants)

    def data(self, node: object) -> torch.Tensor | None:
        """The tensor behind a constant placeholder; None when it is not one or its data is not known."""
        value = self.constants.get(node.name) if isinstance(node, fx.Node) else None
        return None if isinstance(value, FakeTensor) else value


Check = Callable[[fx.Node, Context], str | None]


@dataclass(frozen=True)
class Rule:
    """One limit: a stable code, the limit as a sentence, and the function that finds what exceeds it."""

    code: str
    sentence: str
    check: Check

    def __call__(self, node: fx.Node, context: Context) -> Rejection | None:
        """The rejection of `node`, or None when the rule holds or does not apply."""
        found = self.check(node, context)
        return None if found is None else rejection(node, self.code, found, self.sentence)


def rule(code: str) -> Callable[[Check], Rule]:
    """Make a rule of a function whose docstring is the limit as a sentence."""
    return lambda check: Rule(code, inspect.getdoc(check) or code, check)


def rejection(node: fx.Node, code: str, found: str, sentence: str) -> Rejection:
    """The record of why `node` stays out."""
    return Rejection(node.name, target_name(node.target), code, found, sentence)


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    """An argument by position or keyword; `default` when it is left out."""
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def value(node: object) -> torch.Tensor | None:
    """The node's (first) result without data; None for anything that has no tensor result."""
    found = node.meta.get("val") if isinstance(node, fx.Node) else None
    if isinstance(found, (list, tuple)):
        found = found[0] if found else None
    return found if isinstance(found, torch.Tensor) else None


def shape(node: object) -> tuple[int, ...]:
    """Sizes of the node's (first) result; () for a scalar and for anything that is no tensor."""
    found = value(node)
    return () if found is None else tuple(found.shape)


def rank(node: object) -> int:
    """Number of dimensions of the node's (first) result."""
    return len(shape(node))


def operand(node: fx.Node, position: int = 0) -> fx.Node | None:
    """A tensor argument by position, or None when there is none."""
    found = node.args[position] if position < len(node.args) else None
    return found if isinstance(found, fx.Node) else None


def pair(sizes: object) -> tuple[int, int] | None:
    """Height and width of `2`, `[2]` or `[2, 3]`; None for an empty or missing argument."""
    if isinstance(sizes, int):
        return (sizes, sizes)
    if not isinstance(sizes, Sequence) or not sizes:
        return None
    return (int(sizes[0]), int(sizes[-1]))


def non_negative(dim: int, dims: int) -> int:
    """A dimension counted from the front; negative ones count from the back of `dims` dimensions."""
    return dim + dims if dim < 0 else dim


def size_text(sizes: Sequence[int]) -> str:
    """A shape as messages print it: 1x8x4x4, or scalar."""
    return "x".join(map(str, sizes)) if sizes else "scalar"


def input_qparams(node: fx.Node, position: int = 0) -> QParams | None:
    """Quantisation of a tensor argument that comes straight from a per-tensor dequantize."""
    return qparams(operand(node, position))
