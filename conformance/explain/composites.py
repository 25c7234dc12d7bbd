"""The things that a user wrote, of which several operators were made: modules of torch's, operators, lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import fx

from npu_assay.conformance.explain.costs import macs
from npu_assay.conformance.explain.origins import calls_of, operator_of, origin_of, plain_path, source_of
from npu_assay.conformance.explain.summary import short
from npu_assay.partitioners.exir.ops import target_name

OF_TORCH = "torch.nn.modules."
FRAMES = ("Sequential", "ModuleList", "ModuleDict", "Identity")
"""Modules of torch's that only hold others."""
OF_OTHERS = "Transformer"
"""Begins the names of those that hold others and add them up."""
ATTENTION = "attention"
SOFTMAX = "aten._softmax.default"
PRODUCT = "aten.bmm.default"
NEAR = 8  # operators between the softmax of an attention and its products


@dataclass(frozen=True)
class Written:
    """One thing in the user's program. label: what it is called there; key: no other has it."""

    label: str
    key: tuple[str, ...]


def written(nodes: Sequence[fx.Node]) -> Mapping[str, Written]:
    """The thing that each operator of a program was made of, by its name: the largest that is one thing."""
    ways = (_modules(nodes), _attentions(nodes), _operators(nodes), _small_modules(nodes), _lines(nodes))
    return {name: thing for way in reversed(ways) for name, thing in way.items()}


def _modules(nodes: Sequence[fx.Node]) -> dict[str, Written]:
    """Modules of torch's, such as LayerNorm and GRU: the outermost ones that compute."""
    found = dict[str, Written]()
    for node in nodes:
        own = next(((path, kind) for path, kind in calls_of(node) if _computes(kind)), None)
        if own is not None:
            found[node.name] = Written(own[1].rpartition(".")[2], ("module", own[0]))
    return found


def _computes(kind: str) -> bool:
    name = kind.rpartition(".")[2]
    return kind.startswith(OF_TORCH) and name not in FRAMES and not name.startswith(OF_OTHERS)


def _attentions(nodes: Sequence[fx.Node]) -> dict[str, Written]:
    """A softmax with the products before and after it, and what lies between, in one module."""
    found = dict[str, Written]()
    for node in nodes:
        if target_name(node.target) == SOFTMAX:
            before, after = _to_product(node, True), _to_product(node, False)
            if before and after:
                thing = Written(ATTENTION, (ATTENTION, node.name))
                found |= dict.fromkeys((each.name for each in (*before, node, *after)), thing)
    return found


def _to_product(softmax: fx.Node, backwards: bool) -> list[fx.Node]:
    """The operators on the way to a product in the same module; empty where none is near."""
    came, waiting = dict[fx.Node, fx.Node | None]({softmax: None}), [softmax]
    for node in waiting:
        if node is not softmax and target_name(node.target) == PRODUCT:
            way = [node]
            while (node := came[node] or softmax) is not softmax:
                way.append(node)
            return way
        for each in node.all_input_nodes if backwards else node.users:
            is_near = len(waiting) < 4 * NEAR and each.op == "call_function" and each not in came
            if is_near and (_converts(each) or _place(each) == _place(softmax)):
                came[each] = node
                waiting.append(each)
    return []


def _operators(nodes: Sequence[fx.Node]) -> dict[str, Written]:
    """Operators of the exported program that became several."""
    made = Counter(origin_of(node) for node in nodes)
    return {
        node.name: Written(short(operator_of(node)), ("operator", origin))
        for node in nodes
        if (origin := origin_of(node)) is not None and made[origin] > 1
    }


def _small_modules(nodes: Sequence[fx.Node]) -> dict[str, Written]:
    """Modules of the user's that hold no other, and multiply nothing: an activation, a norm."""
    places = {node.name: _place(node) for node in nodes}
    dear = {places[node.name] for node in nodes if macs(node)}
    deeper = {outer for node in nodes for outer, _ in calls_of(node)[:-1]}
    found = dict[str, Written]()
    for node in nodes:
        path, kind = places[node.name]
        if plain_path(path) and path not in deeper and (path, kind) not in dear:
            found[node.name] = Written(kind.rpartition(".")[2], ("module", path))
    return found


def _lines(nodes: Sequence[fx.Node]) -> dict[str, Written]:
    """Operators of one line of the user's program that take each other's results, and multiply nothing."""
    found, known = dict[str, Written](), {node.name: node for node in nodes}
    for node in nodes:
        source, code = source_of(node)
        if not code or macs(node):
            continue
        before = (found.get(each.name) for each in _sources(node) if each.name in known)
        own = (_place(node)[0], source)
        thing = next((each for each in before if each is not None and each.key[1:3] == own), None)
        found[node.name] = thing or Written(_expression(code), ("line", *own, node.name))
    return found


def _sources(node: fx.Node) -> Iterator[fx.Node]:
    """The operators that give its operands, through conversions."""
    for each in node.all_input_nodes:
        while _converts(each):
            each = each.all_input_nodes[0]
        yield each


def _converts(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target).startswith("quantized_decomposed.")


def _expression(code: str) -> str:
    """The right side of a line: `x * torch.sigmoid(x)` of `return x * torch.sigmoid(x)`."""
    plain = code.removeprefix("return ").partition("  #")[0].strip()
    return re.sub(r"^[\w.]+(: *[\w.\[\]]+)? *=(?!=) *", "", plain)


def _place(node: fx.Node) -> tuple[str, str]:
    """The innermost module that computed it."""
    return (calls_of(node) or (("", ""),))[-1]
