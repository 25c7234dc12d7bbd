"""Annotates operators and their neighbors, and marks them for the partitioner."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import torch
from torch.fx import GraphModule, Node

from npu_assay.partitioners.common.rules import bounds
from npu_assay.partitioners.ethosu.operators import row_of
from npu_assay.partitioners.ethosu.operators.row import Annotation
from npu_assay.partitioners.ethosu.quantizing.config import QuantizationConfig, integers
from npu_assay.partitioners.ethosu.support.common import MARK
from npu_assay.partitioners.exir.annotations import ANNOTATION, has_other_reals, is_float
from npu_assay.partitioners.exir.pt2e import QuantizationAnnotation, QuantizationSpecBase, SharedQuantizationSpec

INTEGERS = (torch.int8, torch.int16, torch.int32)
LARGEST_NUMBER = 3.4028235e15
"""Above it the observers' histograms fail."""
Specs = Mapping[Node, QuantizationSpecBase]


def is_annotated(node: Node) -> bool:
    """Whether somebody has decided about the node."""
    return ANNOTATION in node.meta


def mark(node: Node, inputs: Specs, output: QuantizationSpecBase | None) -> None:
    """Annotate a node, and note for the partitioner that it is quantized."""
    node.meta[ANNOTATION] = QuantizationAnnotation(dict(inputs), output, _annotated=True)
    if node.op == "call_function":
        node.meta["custom"] = node.meta.get("custom", {}) | {MARK: {"quantized": True}}


def leave(node: Node) -> None:
    """Decide that a node stays as it is."""
    node.meta[ANNOTATION] = QuantizationAnnotation({}, None, _annotated=True)
    if node.op == "call_function":
        node.meta["custom"] = node.meta.get("custom", {}) | {MARK: {"quantized": False}}


def unmark(node: Node) -> None:
    """Forget what was decided."""
    node.meta.pop(ANNOTATION, None)
    node.meta["custom"] = {key: value for key, value in node.meta.get("custom", {}).items() if key != MARK}


# ------------------------------------------------------------------------------------ operators of their own


def annotate(nodes: Sequence[Node], config: QuantizationConfig | None) -> None:
    """Annotate those of the nodes about which nobody has decided; without a configuration they stay as they are."""
    chosen = frozenset(node for node in nodes if not is_annotated(node))
    for node in nodes:
        if node not in chosen or is_annotated(node):
            continue
        if config is None:
            leave(node)
        elif node.op in ("placeholder", "output"):
            _annotate([node], config)
        elif row_of(node).annotation not in (None, Annotation.SHARED) and _suits(node):
            _annotate(_chain(node, chosen, config), config)


def _chain(node: Node, chosen: frozenset[Node], config: QuantizationConfig) -> list[Node]:
    """A product with the norm and the activation that alone use its result; most operators are alone."""
    found = [node]
    if row_of(node).annotation is Annotation.PRODUCT:
        norm = _only_user(node, chosen)
        if norm is not None and row_of(norm).annotation is Annotation.NORM:
            found.append(norm)
    if row_of(node).annotation is Annotation.PRODUCT and config.is_affine:
        last = _only_user(found[-1], chosen)
        if last is not None and row_of(last).is_activation and bounds(last)[0] == 0:
            found.append(last)
    return found


def _only_user(node: Node, chosen: frozenset[Node]) -> Node | None:
    users = list(node.users)
    free = len(users) == 1 and users[0] in chosen and not is_annotated(users[0])
    return users[0] if free else None


def _suits(node: Node) -> bool:
    """Whether an operator with parameters of its own can have them here."""
    if has_other_reals(node):
        return False
    if row_of(node).annotation is Annotation.ARITHMETIC:
        return all(map(is_float, node.all_input_nodes))
    if row_of(node).annotation is Annotation.FILLED:
        number = node.args[1]
        return not isinstance(number, (int, float)) or abs(number) <= LARGEST_NUMBER
    return row_of(node).annotation is not Annotation.CAST or _is_cast(node)


def _is_cast(node: Node) -> bool:
    """Between integers, from integers to real numbers, or from real numbers to the same."""
    if not node.all_input_nodes:
        return False
    before, after = _dtype(node.all_input_nodes[0]), _dtype(node)
    if before in INTEGERS:
        return after in INTEGERS or is_float(node)
    return is_float(node) and before == after


def _dtype(node: Node) -> torch.dtype | None:
    found = node.meta.get("val")
    return found.dtype if isinstance(found, torch.Tensor) else None


def _annotate(members: Sequence[Node], config: QuantizationConfig) -> None:
    """What goes into the chain and what comes out of it; nothing in between."""
    for node in members:
        inputs = {
            source: spec
            for source in node.all_input_nodes
            if source not in members and (spec := _input(node, source, config)) is not None
        }
        inside = any(user in members for user in node.users)
        mark(node, inputs, None if inside or not is_float(node) else _output(node, config))


def _input(node: Node, source: Node, config: QuantizationConfig) -> QuantizationSpecBase | None:
    if not is_float(source) or (row_of(node).annotation is Annotation.NORM and source in node.args[1:]):
        return None
    if _is_stored(source, 1):
        return config.weights_of(node)
    if _is_stored(source, 2):
        return config.bias_of(node)
    domain = row_of(node).domain
    if domain is not None:
        return config.fixed_input(domain)
    first = node.args[0] if node.args else None
    if row_of(node).annotation is Annotation.COMPARISON and isinstance(first, Node) and source is not first:
        return SharedQuantizationSpec((first, node))
    return config.activation


def _is_stored(source: Node, position: int) -> bool:
    """Whether a constant is in this place in all of its users, which are products."""
    return source.op == "get_attr" and all(
        row_of(user).annotation is Annotation.PRODUCT and len(user.args) > position and user.args[position] is source
        for user in source.users
    )


def _output(node: Node, config: QuantizationConfig) -> QuantizationSpecBase:
    if row_of(node).annotation in (Annotation.POOL, Annotation.CAST):
        source = node.all_input_nodes[0]
        before = _dtype(source)
        if before in INTEGERS:
            return integers(before)
        return SharedQuantizationSpec((source, node))
    return config.activation


# ------------------------------------------------------------------------------------ operators that share


def annotate_shared(model: GraphModule) -> None:
    """One set of parameters for each group of connected operators that share; none without a quantized neighbor."""
    for node in model.graph.nodes:
        if _may_share(node):
            _annotate_group(node)


def _annotate_group(root: Node) -> None:
    if not any(map(is_float, (root, *root.all_input_nodes))):
        if not has_other_reals(root):
            mark(root, {}, None)
        return
    group = _group(root)
    if any(map(has_other_reals, group)):
        return
    spec = next(_neighbouring(group), None)
    ordered = [node for node in root.graph.nodes if node in group]
    owner = next(((source, node) for node in ordered for source in node.all_input_nodes if is_float(source)), None)
    if spec is None or owner is None:
        return
    shared = SharedQuantizationSpec(owner)
    for node in ordered:
        inputs = {source: shared for source in node.all_input_nodes if is_float(source)}
        mark(node, inputs, shared if is_float(node) and node.users else None)
    owner[1].meta[ANNOTATION].input_qspec_map[owner[0]] = spec


def _group(root: Node) -> frozenset[Node]:
    found, waiting = set[Node](), [root]
    while waiting:
        node = waiting.pop(0)
        if node not in found and _may_share(node):
            found.add(node)
            waiting += [*node.all_input_nodes, *node.users]
    return frozenset(found)


def _may_share(node: Node) -> bool:
    """Whether nobody has decided about a node that shares; of what is selected, about the operator it comes from."""
    if row_of(node).annotation is not Annotation.SHARED or is_annotated(node):
        return False
    sources = node.all_input_nodes if node.target is operator.getitem else []
    return all(row_of(source).annotation is Annotation.SHARED or is_annotated(source) for source in sources)


def _neighbouring(group: frozenset[Node]) -> Iterator[QuantizationSpecBase]:
    """The specifications next to the group, in graph order."""
    ordered = [node for node in next(iter(group)).graph.nodes if node in group]
    for node in ordered:
        outputs = (source.meta[ANNOTATION].output_qspec for source in node.all_input_nodes if is_annotated(source))
        inputs = (user.meta[ANNOTATION].input_qspec_map.get(node) for user in node.users if is_annotated(user))
        yield from (spec for spec in chain(outputs, inputs) if spec is not None)
