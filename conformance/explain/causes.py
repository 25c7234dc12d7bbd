"""Root causes: which operators are left out for what they are themselves, and which because others are.

The partitioner is asked, not guessed at: an operator that is taken when it stands alone, between quantized operands and
after an operator that computes, is left out for what stands around it, and belongs to the cause of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import fx

from npu_assay.conformance.explain.asking import Asking, spelled
from npu_assay.conformance.explain.coded import coded_layer, is_coded
from npu_assay.conformance.explain.combining import Group, grouped, with_gains, work
from npu_assay.conformance.explain.company import FIXED, as_layers, in_company, of_its_own, weighted
from npu_assay.conformance.explain.composites import written
from npu_assay.conformance.explain.costs import nbytes
from npu_assay.conformance.explain.lowered import NO_EDGE_FORM, Lowered, computing, source_behind
from npu_assay.conformance.explain.neighbors import is_real_inside, joined, least, picked, results, users_of
from npu_assay.conformance.explain.origins import operator_of, origin_of
from npu_assay.conformance.explain.reasons import (
    A_CONSTANT,
    CONVERSION,
    HINTS,
    LEFT_ALONE,
    LEFT_OUT,
    NOT_QUANTIZED,
    SHARED,
    SILENT,
    TRAINED,
    TRAINING,
    UNCODED,
    UNNAMED,
    UNSUPPORTED,
)
from npu_assay.conformance.explain.record import Cause, Operator, Reason
from npu_assay.conformance.explain.single import (
    Unspoken,
    alone,
    constants_of,
    linear_layer,
    product_of,
)
from npu_assay.conformance.explain.summary import MODEL, short
from npu_assay.conformance.explain.trying import Trying
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir.ops import DEQUANTIZE, DEQUANTIZE_DYNAMIC, DEQUANTIZE_PER_GROUP, target_name


@dataclass
class Causes:
    """The causes of one lowered model.

    quantized: whether it was quantized for the backend, whose quantizer may have left all of it alone.
    trained: modules that do as in training. trying: asks its quantizer, too, where there is one.
    graphs: each operator that is left out for itself, as a model of its own in the best company.
    """

    lowered: Lowered
    asking: Asking
    quantized: bool
    trained: frozenset[str] = frozenset()
    trying: Trying | None = None
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
        behind = {first: [n for n in self.follows if roots[n] == first] for first in self.own}
        groups = grouped(self.own, self.operators, written(list(self.nodes.values())))
        causes = sorted((self._cause(group, behind) for group in groups), key=self._cost, reverse=True)
        numbers = {name: number for number, cause in enumerate(causes) for name in cause.operators}
        waits = {name: self._waits_for(name) for name in numbers}
        told = tuple(self._told(one, numbers) for one in self.lowered.operators)
        return told, tuple(with_gains(causes, self.operators, waits))

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
        if own is None and (name := origin_of(self.nodes[one.name])) in self._left_alone:
            self.own[one.name] = (replace(LEFT_ALONE, found=f"no codes inside of {self._left_alone[name]}"),)
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
        real = {n: nodes for n, nodes in made.items() if len(nodes) > 1 and is_real_inside(nodes, constants)}
        return {name: operator_of(nodes[0]) for name, nodes in real.items() if not self._is_known(name)}

    def _is_known(self, name: str) -> bool:
        """Whether the quantizer gives codes to an exported operator where its operands have some."""
        graph = None if self.trying is None else self.whole(name)
        return graph is not None and self.trying is not None and self.trying.knows(graph)

    def whole(self, name: str) -> Graph | None:
        """An operator of the exported program as a model of its own; None where no graph says it."""
        node = next((each for each in self.lowered.exported.graph.nodes if each.name == name), None)
        with suppress(Unspoken):
            return None if node is None else alone(self.lowered.exported, node)
        return None

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

    def _left_around(self, one: Operator) -> list[str]:
        """The operators next to it that are left out as well."""
        node = self.nodes[one.name]
        near = [source.name for source in map(source_behind, node.all_input_nodes)]
        near += [user.name for user in users_of(node)]
        return [name for name in dict.fromkeys(near) if name in self.nodes and self.operators[name].delegate is None]

    def _around(self, one: Operator) -> Iterator[str]:
        """The same: those that its reasons name come first."""
        node, left = self.nodes[one.name], self._left_around(one)
        if {reason.code for reason in one.reasons} == {UNCODED} and (near := set(joined(node)) & set(left)):
            left = [name for name in left if name in near]
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

    def _cause(self, group: Group, behind: Mapping[str, Sequence[str]]) -> Cause:
        roots = group.roots
        follows = [name for root in roots for name in behind[root]]
        everything = [self.operators[name] for name in (*roots, *follows)]
        first = self.own[roots[0]][0]
        return Cause(
            first.code,
            self._spoken(first.found),
            first.sentence,
            "" if self.own[roots[0]] == (NOT_QUANTIZED,) else group.label,
            group.times,
            tuple(roots),
            tuple(follows),
            sum(one.macs for one in everything),
            sum(self._crossing(one) for one in everything),
            also=tuple(replace(r, found=self._spoken(r.found)) for r in self._also(first, roots)),
            hint=self._hint(roots[0], first),
        )

    def _also(self, first: Reason, roots: Sequence[str]) -> Iterator[Reason]:
        """The other reasons of roots, each code of an operator once: their own, and those of where the first stands."""
        known = set[tuple[str, str]]()
        for name in sorted(roots, key=lambda name: -work(self.operators[name])):
            one = self.operators[name]
            here = one.reasons if name == roots[0] and not set(self._left_around(one)) & set(roots) else ()
            for reason in (*self.own[name], *(r for r in here if self.own[name] != (NOT_QUANTIZED,))):
                key = (one.operator, reason.code)
                if key not in known and reason.code != first.code:
                    known.add(key)
                    yield replace(reason, found=f"{short(one.operator)}: {reason.found}")

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
        return sum(map(least, given)) + (min(map(nbytes, results(node))) if taken else 0)

    def _cost(self, cause: Cause) -> tuple[int, int]:
        """What a cause costs, to rank it: what a processor computes instead of the device, and the bytes over borders.

        Each unit of `work` takes a small processor about as long as a byte. Of causes that cost the same, that of more
        operators is the dearer one.
        """
        return sum(work(self.operators[name]) for name in cause.operators) + cause.bytes, len(cause.operators)

    def _delegated(self, node: fx.Node) -> bool:
        return node.name in self.operators and self.operators[node.name].delegate is not None

    def _waits_for(self, name: str) -> frozenset[str] | None:
        """The operators without which a left out one would have no reason but its own; None if it had one all the same.

        Of those around it, these are the ones that its reasons name, and those that it shares real numbers with; those
        that give it real numbers in any case, where operators without codes are left out.
        """
        one, own, node = self.operators[name], self.own.get(name, ()), self.nodes[name]
        if own[:1] in ((NOT_QUANTIZED,), (LEFT_OUT,)):
            return frozenset()
        left = set(self._left_around(one))
        given = left & {picked(each).name for each in node.all_input_nodes} if self._needs_codes else set()
        here = [r for r in one.reasons if r.code not in {reason.code for reason in own}]
        if not here:
            return frozenset(given)
        words = {word for reason in here for word in re.findall(r"\w+", reason.found)}
        waits = (left & (words | set(joined(node)))) or left
        return frozenset(waits | given) if waits or name in self.follows else None

    @cached_property
    def _needs_codes(self) -> bool:
        """Whether the backend leaves operators out that have no codes, of a model that was quantized."""
        return any(reason.code == UNCODED for one in self.lowered.operators for reason in one.reasons)

    def _told(self, one: Operator, numbers: Mapping[str, int]) -> Operator:
        """The operator with the number of its cause, and its reasons with what they follow from."""
        if one.delegate is not None:
            return one
        inherent = {reason.code for reason in self.own.get(one.name, ())}
        near = next(self._around(one), "")
        reasons = (replace(r, follows="" if r.code in inherent else near) for r in one.reasons)
        return replace(one, reasons=tuple(reasons), cause=numbers.get(one.name))
