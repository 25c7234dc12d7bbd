"""A change in the user's words: an argument, an attribute of a module, or what a size follows from.

Sizes are followed from operator to operator, each tried alone: the size of an operand with which that of the result
grows is the next one. The end is a parameter of a layer, an input of the model, or an operator whose arguments say it.
No operator is named here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, count
from typing import Any

from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.cases.boundaries.knob import Knob, Slot, subject, with_subject
from npu_assay.conformance.cases.boundaries.sizes import resized
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.explain.asking import whole_numbers
from npu_assay.conformance.explain.costs import shape
from npu_assay.conformance.explain.lowered import source_behind
from npu_assay.conformance.explain.neighbors import users_of
from npu_assay.conformance.explain.origins import module_of, place_of
from npu_assay.conformance.explain.single import Unspoken, constants_of, is_item, turned, with_operands
from npu_assay.conformance.explain.summary import MODEL
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.programs.graph import Graph

AXES = ("batch", "channels", "height", "width")
GROUP = re.compile(r"(x|operand_\d+)_group")
TOGETHER = 3  # sizes of operands that may have to grow together
MANY = 99  # more than an operator has numbers among its arguments
KERNEL = ("kernel_size[0]", "kernel_size[1]", "kernel_size[2]")
ATTRIBUTES = {
    "Linear": ("out_features", "in_features"),
    "Conv": ("out_channels", "in_channels", *KERNEL),
    "ConvTranspose": ("in_channels", "out_channels", *KERNEL),
    "Embedding": ("num_embeddings", "embedding_dim"),
    "GRU": ("3 * hidden_size",),
    "LSTM": ("4 * hidden_size",),
}
"""What the sizes of a module's weights are called, by its class without the dimensions in the name."""


@dataclass(frozen=True)
class _Size:
    """A size of a node's result: `at` in the model, `to` in the changed one, None where that is not known."""

    node: fx.Node
    axis: int
    at: int
    to: int | None


@dataclass(frozen=True)
class Following:
    """Follows sizes of one program."""

    program: ExportedProgram

    @cached_property
    def constants(self) -> Mapping[str, Tensor]:
        """Parameters and buffers."""
        return constants_of(self.program)

    def in_words(self, knob: Knob, to: Any, node: fx.Node) -> str | None:
        """A change of the operator that this node is: what is changed, from what to what, and what decides that.

        None for sizes that the layer or input that decides them cannot have, or that what else takes them refuses.
        """
        change = f"{_text(knob.at)} -> {_text(to)}"
        graph, nodes = with_operands(self.program, node)
        if (grouped := GROUP.fullmatch(knob.name)) is not None and not knob.slots:
            return f"group of {self._constant(source_behind(nodes[grouped[1]]))} {change}"
        if not knob.slots:
            argument = re.sub(r"_(\d+)$", r"[\1]", knob.name)
            return f"{argument} {change}"
        sizes = [_Size(nodes[name], axis, knob.at, to) for name, axis in knob.slots]
        own = [self._parameter(size, node) for size in sizes if self._is_constant(size.node)]
        others = [self._decider(size, node) for size in sizes if not self._is_constant(size.node)]
        if None in (*own, *others) or not self._goes_on(graph, resized(knob.slots, graph, to), node):
            return None
        names = dict.fromkeys(filter(None, own or map(_plain, sizes)))
        follows = f", which follows from {' and '.join(dict.fromkeys(filter(None, others)))}" if others else ""
        return f"{' and '.join(names)} {change}{follows}"

    def _constant(self, source: fx.Node) -> str:
        signature = self.program.graph_signature
        known = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        return str(known.get(source.name, "a constant"))

    def _parameter(self, size: _Size, user: fx.Node) -> str | None:
        """A size of a constant, by the attribute of the user's module where it is one; None for what it cannot be."""
        weight = turned(size.node, self.constants)
        source, axis = (
            (source_behind(size.node), size.axis) if weight is None else (source_behind(weight), 1 - size.axis)
        )
        path, kind = module_of(user)
        names = ATTRIBUTES.get(re.sub(r"\dd$", "", kind), ())
        if axis < len(names) and len(shape(source)) > 1:
            factor = int(names[axis].partition(" * ")[0]) if " * " in names[axis] else 1
            return None if size.to is not None and size.to % factor else f"{names[axis]} of {path or MODEL} ({kind})"
        return f"size {axis} of {self._constant(source)}"

    def _is_constant(self, node: fx.Node) -> bool:
        """Whether a node is a constant, or a transposed one."""
        return source_behind(node).name in self.constants or turned(node, self.constants) is not None

    def _decider(self, size: _Size, asked: fx.Node) -> str | None:
        """The layer, input or operator that decides a size, with its numbers; None where another refuses the change."""
        at = size.at
        while self._is_taken(size, asked):
            node, index = _made(size.node)
            found: str | None = f"size {size.axis} of the input {node.name}"
            if node.op != "placeholder":
                before = self._before(node, index, size)
                if before is None:
                    return place_of(node)
                size = before
                found = self._parameter(size, node)
            if node.op == "placeholder" or self._is_constant(size.node):
                numbers = str(size.at) if size.to is None else f"{size.at} -> {size.to}"
                return found if size.at == at or found is None else f"{found} ({numbers})"
        return None

    def _before(self, node: fx.Node, index: int, size: _Size) -> _Size | None:
        """The size of an operand with which this one of a result of the operator changes alone; None for none."""
        try:
            graph, nodes = with_operands(self.program, node)
        except Unspoken:
            return None
        values = {value.name: value for value in graph.values}
        to = 2 * size.at if size.to is None else size.to
        wanted = _sizes_of(graph, index)
        if wanted is None or not size.at:
            return None
        wanted = (*wanted[: size.axis], to, *wanted[size.axis + 1 :])
        for changed in _rewritten(graph, size.at, to):
            for slots in _slots(graph, size.at):
                name, axis = max(slots, key=lambda slot: (not values[slot[0]].constant, len(values[slot[0]].shape)))
                at = values[name].shape[axis]
                for number in dict.fromkeys((to, at * to // size.at) if changed is graph else (at * to // size.at,)):
                    if number != at and _sizes_of(resized(slots, changed, number), index) == wanted:
                        return _Size(nodes[name], axis, at, None if size.to is None else number)
        return None

    def _goes_on(self, graph: Graph, changed: Graph, node: fx.Node) -> bool:
        """Whether the users of the operator's result take the sizes that the changed operator gives."""
        sizes = zip(_sizes_of(graph, 0) or (), _sizes_of(changed, 0) or (), strict=False)
        return all(a == b or self._is_taken(_Size(node, axis, a, b), node) for axis, (a, b) in enumerate(sizes))

    def _is_taken(self, size: _Size, asked: fx.Node) -> bool:
        """Whether all users of a value, but the operator that is asked about, take the changed size."""
        source = _made(size.node)
        users = [user for user in users_of(source[0]) if user is not asked] if size.to is not None else []
        return all(self._takes(user, source, size) for user in users)

    def _takes(self, user: fx.Node, source: tuple[fx.Node, int], size: _Size) -> bool:
        try:
            graph, nodes = with_operands(self.program, user)
        except Unspoken:
            return True
        names = [name for name, node in nodes.items() if _made(node) == source]
        assert size.to is not None
        return not names or any(
            _sizes_of(resized(slots, changed, size.to), 0) is not None
            for changed in (*_rewritten(graph, size.at, size.to), *_divided(graph, size.at, size.to))
            for slots in _slots(graph, size.at)
            if (names[0], size.axis) in slots
        )


def _made(node: fx.Node) -> tuple[fx.Node, int]:
    """The operator or placeholder that a node converts a result of, and which one."""
    source, index = source_behind(node), 0
    while node is not source:
        index = int(node.args[1]) if is_item(node) else index  # type: ignore[arg-type]  # an index is a number
        node = node.all_input_nodes[0]
    return source, index


def _sizes_of(graph: Graph, index: int) -> tuple[int, ...] | None:
    try:
        return application(graph, SUBJECT, tried=True).results[index].shape
    except NoProgram:
        return None


def _rewritten(graph: Graph, at: int, to: int) -> Iterator[Graph]:
    """The operator as it is, and with arguments that say the size: these numbers, one of them, or their multiples."""
    yield graph
    equal = list(whole_numbers(subject(graph).args)).count(at) if at > 1 else 0
    for which in (range(equal), *([index] for index in range(equal) if equal > 1)):
        yield _with_numbers(graph, at, to, which)
    if at > 1:
        yield _with_numbers(graph, at, to, None)


def _divided(graph: Graph, at: int, to: int) -> Iterator[Graph]:
    """The operator with one of the numbers that the size is a product of as much larger as that."""
    for part in sorted({number for number in whole_numbers(subject(graph).args) if number > 1}):
        if at % part == 0 and part * to % at == 0:
            yield _with_numbers(graph, part, part * to // at, range(MANY))


def _with_numbers(graph: Graph, at: int, to: int, which: Collection[int] | None) -> Graph:
    """With another number instead of these of those that are equal; None: with as many times each multiple."""
    seen = count()

    def changed(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return tuple(map(changed, argument))
        if type(argument) is not int or argument % at:
            return argument
        if which is None:
            return argument * to // at
        return to if argument == at and next(seen) in which else argument

    step = subject(graph)
    return with_subject(graph, replace(step, args=changed(step.args)))


def _slots(graph: Graph, at: int) -> Iterator[tuple[Slot, ...]]:
    """Sizes of operands that may decide one of the result: those that are like it first, then alone first."""
    found: dict[int, list[Slot]] = {}
    for value in graph.values:
        for axis, size in enumerate(value.shape):
            found.setdefault(size, []).append((value.name, axis))
    for _, slots in sorted(found.items(), key=lambda item: item[0] != at):
        for together in range(1, min(TOGETHER, len(slots)) + 1):
            yield from combinations(slots, together)
        if len(slots) > TOGETHER:
            yield tuple(slots)


def _plain(size: _Size) -> str:
    return AXES[size.axis] if len(shape(size.node)) == len(AXES) else f"size {size.axis} of its operand"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
