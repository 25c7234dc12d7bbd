"""Root causes: which operators are left out for what they are themselves, and which because others are.

The partitioner is asked, not guessed at: an operator that is taken when it stands alone, between quantized operands and
after an operator that computes, is left out for what stands around it, and belongs to the cause of that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

from torch import fx

from npu_assay.conformance.explain.asking import Asking, spelled
from npu_assay.conformance.explain.coded import coded_layer, is_coded
from npu_assay.conformance.explain.company import FIXED, as_layers, in_company, of_its_own, weighted
from npu_assay.conformance.explain.costs import nbytes, values
from npu_assay.conformance.explain.cures import COPIES
from npu_assay.conformance.explain.lowered import NO_EDGE_FORM, Lowered, computing, source_behind
from npu_assay.conformance.explain.origins import operator_of, origin_of
from npu_assay.conformance.explain.record import Cause, Operator, Reason
from npu_assay.conformance.explain.single import (
    Unspoken,
    alone,
    constants_of,
    is_item,
    linear_layer,
    product_of,
)
from npu_assay.conformance.explain.summary import MODEL
from npu_assay.conformance.explain.training import CURE
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.run.outline import NO_WORK
from npu_assay.partitioners.exir.ops import DEQUANTIZE, DEQUANTIZE_DYNAMIC, DEQUANTIZE_PER_GROUP, target_name

NOT_QUANTIZED = Reason("not_quantized", "numbers are real", "this backend takes the operator in quantized models only")
LEFT_OUT = Reason(
    NOT_QUANTIZED.code,
    "its constants are real numbers",
    "this backend takes the operator with quantized constants only",
)
LEFT_ALONE = Reason("not_quantized", "", "this backend takes its operators in quantized form only")
SILENT = Reason("no_reason", "no tag", "the partitioner left the operator out and gave no reason")
A_CONSTANT, UNNAMED = "a constant", ("_tensor_constant", "lifted_tensor_", "_frozen_param")
"""What a constant is called that the user gave no name, and what names export and quantizers give those have."""
UNCODED = "quantized"
"""The code of operators whose operands or results are not quantized: what comes after codes is no cause."""
UNSUPPORTED = "unsupported"
"""The code of operators that no table row has."""
TRAINING = ("BatchNorm", "Dropout", "batch_norm", "dropout")
TRAINED = f"it does as in training: {CURE}"
HINTS: Mapping[str, str] = {
    NOT_QUANTIZED.sentence: "quantize the model: --calibrate FILE.npz, or --calibrate random",
    LEFT_OUT.sentence: "quantize it as the layers around it",
    LEFT_ALONE.sentence: "write it in operators that the quantizer knows (listed in docs/lowering.md)",
}
SHARED = f"the layer is called {{}} times with one bias, whose codes have the scale of one call: {COPIES}"
CONVERSION = re.compile(r"\b_to(_dim_order)?_copy\.default$")
"""Operators that convert a type, of the edge dialect and of ATen."""


@dataclass
class Causes:
    """The causes of one lowered model.

    quantized: whether it was quantized for the backend, whose quantizer may have left all of it alone.
    trained: modules that do as in training.
    graphs: each operator that is left out for itself, as a model of its own in the best company.
    """

    lowered: Lowered
    asking: Asking
    quantized: bool
    trained: frozenset[str] = frozenset()
    nodes: dict[str, fx.Node] = field(init=False)
    operators: dict[str, Operator] = field(init=False)
    graphs: dict[str, Graph] = field(default_factory=dict)
    own: dict[str, tuple[Reason, ...]] = field(default_factory=dict)
    follows: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = {node.name: node for node in computing(self.lowered.program)}
        self.operators = {one.name: one for one in self.lowered.operators}

    def found(self) -> tuple[tuple[Operator, ...], tuple[Cause, ...]]:
        """The operators with their causes' numbers, and the causes, the dearest first."""
        for one in self.lowered.operators:
            if one.delegate is None:
                self._look_at(one)
        self._fold_conversions()
        roots = {name: self.root(name) for name in list(self.follows)}
        groups: dict[tuple[Any, ...], list[str]] = {}
        for name in self.own:
            groups.setdefault(self._kind(name), []).append(name)
        behind = {first: [n for n in self.follows if roots[n] == first] for first in self.own}
        causes = sorted((self._cause(names, behind) for names in groups.values()), key=self._cost, reverse=True)
        numbers = {name: number for number, cause in enumerate(causes) for name in cause.operators}
        return tuple(self._told(one, numbers) for one in self.lowered.operators), tuple(causes)

    # -------------------------------------------------------------------------------- one operator

    def _look_at(self, one: Operator) -> None:
        """Sort it: for itself, or for another."""
        layer = coded_layer(self.nodes[one.name])
        if layer is not None and not self._delegated(layer):
            if layer.name == one.name:
                self.own[one.name] = one.reasons or (SILENT,)
            else:
                self.follows[one.name] = layer.name
            return
        product = product_of(self.lowered.program, self.nodes[one.name])
        if product is not None and not self._delegated(product):
            self.follows[one.name] = product.name
            return
        if any(reason.code == NO_EDGE_FORM for reason in one.reasons):
            self.own[one.name] = tuple(reason for reason in one.reasons if reason.code == NO_EDGE_FORM)
            return
        around = list(self._around(one))
        own = self._own_reasons(one)
        if own is None and (written := origin_of(self.nodes[one.name])) in self._left_alone:
            self.own[one.name] = (replace(LEFT_ALONE, found=f"no codes inside of {self._left_alone[written]}"),)
        elif own is None and around:
            self.follows[one.name] = around[0]
        elif own is None and self._is_real:
            self.own[one.name] = (NOT_QUANTIZED,)
        else:
            self.own[one.name] = own or one.reasons or (SILENT,)

    @cached_property
    def _left_alone(self) -> Mapping[str | None, str]:
        """Operators of the exported model that became several without codes between, although it was quantized here."""
        made: dict[str, list[fx.Node]] = {}
        for node in self.nodes.values() if self.quantized else ():
            made.setdefault(origin_of(node) or "", []).append(node)
        made.pop("", None)
        constants = constants_of(self.lowered.program)
        real = {n: nodes for n, nodes in made.items() if len(nodes) > 1 and _is_real_inside(nodes, constants)}
        return {name: operator_of(nodes[0]) for name, nodes in real.items()}

    def _fold_conversions(self) -> None:
        """A conversion of truths that a comparison left them in belongs to that: users write the comparison alone."""
        converting = [name for name in self.own if CONVERSION.search(self.operators[name].operator)]
        for name in converting:
            source = source_behind(self.nodes[name].all_input_nodes[0]).name
            if source in self.own and self.operators[source].dtype == "bool":
                self.follows[name] = source
                del self.own[name]

    def _own_reasons(self, one: Operator) -> tuple[Reason, ...] | None:
        """Why it is left out wherever it stands; None where it is taken in better company."""
        program, node = self.lowered.program, self.nodes[one.name]
        try:
            layer, graph = linear_layer(program, node), alone(program, node)
        except Unspoken:
            return one.reasons
        if layer is not None and self._is_real and any(map(self.asking.takes, as_layers(layer))):
            return None
        if layer is not None and not self._is_real and (told := self._of_the_layer(one, layer)):
            return told
        company = list(in_company(graph))
        if graph.steps[0].quant is None:
            company, fixed = company[: -len(FIXED)], company[-len(FIXED) :]
            if any(map(self.asking.takes, fixed)):
                return None
        answers = list(map(self.asking.reasons, company))
        if any(answer is None for answer in answers):
            return None
        whole = weighted(company[-1], bias=True)
        if whole != company[-1] and self.asking.takes(whole):
            self.graphs[one.name] = company[-1]
            return (LEFT_OUT,)
        graph = company[-1] if self.asking.takes(whole) or self.asking.refused(whole) else whole
        self.graphs[one.name] = graph
        kept = self.asking.reasons(graph) or ()
        inherent = {reason.code for reason in kept}
        return tuple(r for r in one.reasons if r.code in inherent) or kept or one.reasons

    def smallest(self, name: str, code: str) -> Iterator[Graph]:
        """Models of the operator that is left out for itself, the smallest first, that have this reason."""
        if name not in self.graphs:
            return
        for graph in (*in_company(alone(self.lowered.program, self.nodes[name])), self.graphs[name]):
            if code in {reason.code for reason in self.asking.reasons(graph) or ()}:
                yield graph

    def _of_the_layer(self, one: Operator, layer: Graph) -> tuple[Reason, ...]:
        """Why a linear layer is left out of which only parts are seen, as it was not quantized; empty if unknown."""
        if any(reason.code != UNSUPPORTED for reason in one.reasons):
            return ()
        whole = next(as_layers(layer))
        answers = (self.asking.reasons(graph) or () for graph in (whole, layer) if not self.asking.refused(graph))
        told = (tuple(reason for reason in answer if reason.code != UNSUPPORTED) for answer in answers)
        return next(filter(None, told), ())

    def _around(self, one: Operator) -> Iterator[str]:
        """The operators next to it that are left out as well: those that its reasons name come first."""
        node = self.nodes[one.name]
        near = [source.name for source in map(source_behind, node.all_input_nodes)]
        near += [user.name for user in users_of(node)]
        left = [name for name in dict.fromkeys(near) if name in self.nodes and self.operators[name].delegate is None]
        if {reason.code for reason in one.reasons} == {UNCODED} and (joined := set(_joined(node)) & set(left)):
            left = [name for name in left if name in joined]
        words = {word for reason in one.reasons for word in re.findall(r"\w+", reason.found)}
        if self._is_real:
            return
        yield from sorted(left, key=lambda name: name not in words)

    @cached_property
    def _is_real(self) -> bool:
        """Whether nothing in the program is quantized, and nobody tried."""
        if self.quantized:
            return False
        kinds = DEQUANTIZE | DEQUANTIZE_DYNAMIC | {DEQUANTIZE_PER_GROUP}
        nodes = self.lowered.program.graph.nodes
        return not any(n.op == "call_function" and (target_name(n.target) in kinds or is_coded(n)) for n in nodes)

    # -------------------------------------------------------------------------------- causes

    def root(self, name: str) -> str:
        """The operator at the end of the chain; of a circle that nothing leads out of, the first of the program."""
        seen = [name]
        while (name := self.follows.get(name, "")) and name not in seen:
            seen.append(name)
        if name:
            circle = seen[seen.index(name) :]
            if (end := self._way_out(circle)) is not None:
                return end
            name = min(circle, key=list(self.nodes).index)
            self.follows.pop(name)
            self.own[name] = self.operators[name].reasons or (SILENT,)
            return name
        return seen[-1]

    def _way_out(self, circle: Sequence[str]) -> str | None:
        """The nearest operator that is left out for itself; the circle's now follow it. None where there is none."""
        before = dict.fromkeys(circle, "")
        for name in (waiting := list(circle)):
            for near in self._around(self.operators[name]):
                if near not in before:
                    before[near] = name
                    waiting.append(near)
            if name in self.own:
                end = name
                while before[name]:
                    self.follows[before[name]], name = name, before[name]
                return end
        return None

    def _kind(self, name: str) -> tuple[Any, ...]:
        """What operators have in common that are left out for one cause."""
        reasons = self.own[name]
        if reasons == (NOT_QUANTIZED,):
            return (NOT_QUANTIZED.code,)
        if reasons[0].sentence == LEFT_ALONE.sentence:
            return (reasons[0].code, reasons[0].found)
        return (self.operators[name].operator, *sorted({reason.code for reason in reasons}))

    def _cause(self, roots: Sequence[str], behind: Mapping[str, Sequence[str]]) -> Cause:
        follows = [name for root in roots for name in behind[root]]
        everything = [self.operators[name] for name in (*roots, *follows)]
        first = self.own[roots[0]][0]
        return Cause(
            first.code,
            self._spoken(first.found),
            first.sentence,
            tuple(roots),
            tuple(follows),
            sum(one.macs for one in everything),
            sum(self._crossing(one) for one in everything),
            self._hint(roots[0], first),
        )

    def _hint(self, root: str, reason: Reason) -> str:
        if self._is_training(root):
            return TRAINED
        graph, calls = self.graphs.get(root), self._calls(self.nodes[root])
        if calls > 1 and graph is not None and self.asking.takes(of_its_own(graph)):
            return SHARED.format(calls)
        return HINTS.get(reason.sentence, "")

    def _calls(self, node: fx.Node) -> int:
        """How many operators take a constant of this one, at most."""
        constants = constants_of(self.lowered.program)
        sources = [source_behind(each) for each in node.all_input_nodes]
        return max((len(list(users_of(each))) for each in sources if each.name in constants), default=0)

    def _is_training(self, root: str) -> bool:
        one = self.operators[root]
        return one.module in self.trained and any(part in f"{one.kind} {one.operator}" for part in TRAINING)

    def _spoken(self, found: str) -> str:
        """What a partitioner found, in the user's words."""
        return spelled(found, self._names)

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """The user's names of parameters and buffers, and operators, by the names of their nodes."""
        signature = self.lowered.program.graph_signature
        known = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        known = {
            name: A_CONSTANT if any(part in target for part in UNNAMED) else target for name, target in known.items()
        }
        known |= dict.fromkeys(signature.inputs_to_lifted_tensor_constants, A_CONSTANT)
        known |= {name: f"{one.operator} of {one.module or MODEL}" for name, one in self.operators.items()}
        nodes = [node for node in self.lowered.program.graph.nodes if node.op == "call_function"]
        behind = {node.name: source_behind(node).name for node in nodes if node.name not in known}
        return known | {name: known.get(source, source) for name, source in behind.items()}

    def _crossing(self, one: Operator) -> int:
        """The bytes between an operator and the delegates next to it."""
        node = self.nodes[one.name]
        given = (each for each in node.all_input_nodes if self._delegated(source_behind(each)))
        taken = any(self._delegated(user) for user in users_of(node))
        return sum(map(_least, given)) + (min(map(nbytes, _results(node))) if taken else 0)

    def _cost(self, cause: Cause) -> tuple[int, int]:
        """What a cause costs, to rank it: what a processor computes instead of the device, and the bytes over borders.

        An operator counts its multiply-accumulates, or the numbers that it gives where nothing multiplies; each takes a
        small processor about as long as a byte. Of causes that cost the same, that of more operators is the dearer one.
        """
        work = (max(self.operators[name].macs, prod(self.operators[name].shape)) for name in cause.operators)
        return sum(work) + cause.bytes, len(cause.operators)

    def _delegated(self, node: fx.Node) -> bool:
        return node.name in self.operators and self.operators[node.name].delegate is not None

    def _told(self, one: Operator, numbers: Mapping[str, int]) -> Operator:
        """The operator with the number of its cause, and its reasons with what they follow from."""
        if one.delegate is not None:
            return one
        inherent = {reason.code for reason in self.own.get(one.name, ())}
        near = next(self._around(one), "")
        reasons = (replace(r, follows="" if r.code in inherent else near) for r in one.reasons)
        return replace(one, reasons=tuple(reasons), cause=numbers.get(one.name))


# ------------------------------------------------------------------------------------ neighbors


def users_of(node: fx.Node) -> Iterator[fx.Node]:
    """The operators that take its results, through conversions."""
    waiting, seen = list(node.users), set[fx.Node]()
    while waiting:
        each = waiting.pop(0)
        if each.op != "call_function" or each in seen:
            continue
        seen.add(each)
        if target_name(each.target) in NO_WORK:
            waiting += each.users
        else:
            yield each


def _is_real_inside(nodes: Sequence[fx.Node], constants: Collection[str]) -> bool:
    """Whether no codes stand between these operators, nor between a constant and one of them."""
    within = {*(node.name for node in nodes), *constants}
    coded = (each for node in nodes for each in node.all_input_nodes if _is_code_read(each))
    return not any(source_behind(each).name in within for each in coded)


def _is_code_read(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) in DEQUANTIZE


def _joined(node: fx.Node) -> Iterator[str]:
    """The names of operators that it gives real numbers, or takes them from."""
    yield from (each.name for each in map(_picked, node.all_input_nodes))
    for user in node.users:
        yield from (each.name for each in (user.users if is_item(user) else (user,)))


def _picked(node: fx.Node) -> fx.Node:
    """The operator of several results that a node picks one of; the node itself if it is another."""
    return node.all_input_nodes[0] if is_item(node) else node


def _least(node: fx.Node) -> int:
    """The bytes of an operand where they are fewest, between codes and real numbers."""
    found = [nbytes(values(node))]
    while node.op == "call_function" and target_name(node.target) in NO_WORK and node.all_input_nodes:
        node = node.all_input_nodes[0]
        found.append(nbytes(values(node)))
    return min(found)


def _results(node: fx.Node) -> Iterator[list[Any]]:
    """The results of a node, as they are and as they are quantized."""
    yield list(values(node))
    for user in node.users:
        if user.op == "call_function" and target_name(user.target) in NO_WORK:
            yield list(values(user))
