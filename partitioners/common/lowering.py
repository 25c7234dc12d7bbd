"""The common part of compilers: walk a delegated program, and keep the value of every node so far."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.compiling import refusal, require
from npu_assay.partitioners.exir.constants import constant_values
from npu_assay.partitioners.exir.layout import Layout, between, composed, identity
from npu_assay.partitioners.exir.nodes import value as value_of
from npu_assay.partitioners.exir.ops import target_name

Array = np.ndarray[Any, Any]
IdT = TypeVar("IdT", int, str)
"""How a format names a tensor."""
LowerT = TypeVar("LowerT")

# ------------------------------------------------------------------------------------ the program


def constants_of(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Data of the constants by placeholder name. Raises CompileError for one without, as fake tensors are."""
    found, values = dict[str, torch.Tensor](), constant_values(program)
    for node in program.graph.nodes:
        data = values.get(node.name)
        if data is not None:
            found[node.name] = data
        elif node.name in values:
            raise refusal(node, "constant", "a tensor without data", "a tensor with data")
    return found


def function_calls(graph: fx.Graph, constants: Container[fx.Node] = ()) -> Iterator[fx.Node]:
    """The operator applications in order. Raises CompileError for any other kind of node outside of `constants`."""
    for node in graph.nodes:
        if node.op == "call_function":
            yield node
        elif node.op not in ("placeholder", "output") and node not in constants:
            raise refusal(node, "node", node.op, "a function call")


def lowering_of(lowerings: Mapping[str, LowerT], node: fx.Node) -> LowerT:
    """What lowers an operator. Raises CompileError for one that the compiler does not know."""
    name = target_name(node.target)
    if name not in lowerings:
        raise refusal(node, "operator", name, "one that the compiler knows")
    return lowerings[name]


def returned_nodes(output: fx.Node) -> list[fx.Node]:
    """The nodes that the program returns, one or more. Raises CompileError for anything else."""
    results = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    found = [node for node in results if isinstance(node, fx.Node)]
    require(bool(found) and len(found) == len(results), output, "outputs", results, "one or more nodes")
    return found


def result_of(node: fx.Node) -> torch.Tensor:
    """A node's (first) result, without data. Raises CompileError for a value that is not a tensor."""
    found = value_of(node)
    if found is None:
        raise refusal(node, "result", type(node.meta.get("val")).__name__, "a tensor")
    return found


def static_shape(node: fx.Node) -> tuple[int, ...]:
    """The sizes of a node's (first) result. Raises CompileError for dynamic ones."""
    shape = tuple(result_of(node).shape)
    require(all(isinstance(size, int) for size in shape), node, "shape", shape, "static sizes")
    return shape


def separate(
    nodes: Sequence[fx.Node],
    inputs: Iterable[IdT],
    tensor_of: Callable[[fx.Node], IdT],
    is_constant: Callable[[IdT], bool],
    copied: Callable[[IdT, fx.Node], IdT],
) -> list[IdT]:
    """A tensor of its own for every output, in order: inputs, constants and outputs given before are `copied`."""
    taken, found = set(inputs), list[IdT]()
    for node in nodes:
        tensor = tensor_of(node)
        if tensor in taken or is_constant(tensor):
            tensor = copied(tensor, node)
        taken.add(tensor)
        found.append(tensor)
    return found


# ------------------------------------------------------------------------------------ values

ValueT = TypeVar("ValueT")


class Values(Generic[ValueT]):
    """The values of the nodes walked so far."""

    def __init__(self) -> None:
        self.values: dict[fx.Node, ValueT] = {}

    def value(self, operand: Any, user: fx.Node) -> ValueT:
        """What an operand of `user` is. Raises CompileError when the delegate does not compute it."""
        if isinstance(operand, fx.Node):
            made = None if operand in self.values else self.made(operand)
            if made is not None:
                self.values[operand] = made
            if operand in self.values:
                return self.values[operand]
        raise refusal(user, "operand", operand, "a tensor that the delegate computes")

    def made(self, node: fx.Node) -> ValueT | None:
        """The value of a node that is made when it is first needed, such as a constant; None for any other node."""
        return None


class Writer(Protocol[IdT]):
    """A model that is being written."""

    def reshape(self, tensor: IdT, shape: Sequence[int], name: str) -> IdT:
        """The same elements in another shape."""

    def transpose(self, tensor: IdT, permutation: Layout, name: str) -> IdT:
        """Axis i of the result is axis permutation[i] of the tensor."""


ModelT = TypeVar("ModelT", bound=Writer[Any])


@dataclass(eq=False)
class LaidOut(Generic[ModelT, IdT]):
    """A value of torch shape `shape`, in one layout of axes or several.

    `tensors` holds the device tensor of each layout made so far, the first one being its home. A constant has
    `data` (in torch's axis order) instead. A value that only renames another one's elements is an alias: a
    `source` seen through `permutation`, or reshaped when that is None. Nothing is written for aliases and
    constants until a consumer asks for a layout, so that transpositions that undo each other never appear and
    constants are permuted by the compiler.
    """

    name: str
    shape: tuple[int, ...]
    tensors: dict[Layout, IdT] = field(default_factory=dict, kw_only=True)
    data: Array | None = field(default=None, kw_only=True)
    source: Self | None = field(default=None, kw_only=True)
    permutation: Layout | None = field(default=None, kw_only=True)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_reshaped(self) -> bool:
        """Whether it is another value in another shape, not written yet."""
        return self.source is not None and self.permutation is None and not self.tensors

    @property
    def home(self) -> Layout:
        """The layout in which the value needs no transposition, or the cheapest one."""
        if self.tensors:
            return next(iter(self.tensors))
        if self.source is not None and self.permutation is not None:
            return between(self.permutation, self.source.home)
        return identity(self.rank)

    @abstractmethod
    def constant(self, model: ModelT, data: Array, layout: Layout) -> IdT:
        """The tensor of a constant, with its data in a layout."""

    def tensor(self, model: ModelT, layout: Layout | None = None) -> IdT:
        """The value's device tensor in a layout (None: its home), written to the model when it is new."""
        wanted = self.home if layout is None else layout
        if self.data is not None:
            return self.constant(model, self.data.transpose(wanted), wanted)
        if wanted not in self.tensors:
            self.tensors[wanted] = self._written(model, wanted)
        return self.tensors[wanted]

    def _written(self, model: ModelT, layout: Layout) -> IdT:
        if self.source is not None and self.permutation is not None:
            return self.source.tensor(model, composed(self.permutation, layout))
        if not self.tensors:
            assert self.source is not None, f"{self.name}: found neither tensor nor source, expected one of them"
            flat, natural = self.source.tensor(model, identity(self.source.rank)), identity(self.rank)
            made: IdT = model.reshape(flat, self.shape, self.name)
            self.tensors[natural] = made
            if layout == natural:
                return made
        transposed: IdT = model.transpose(self.tensor(model), between(self.home, layout), f"{self.name}_transposed")
        return transposed
