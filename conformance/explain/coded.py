"""Linear layers of torchao's `quantize_`, which `to_edge` decomposes where no backend takes them whole."""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx

from npu_assay.conformance.run.tagging import PRODUCTS
from npu_assay.partitioners.exir.ops import target_name

TORCHAO = "torchao."
LAYER = "aten.linear.default"
LAYERS = PRODUCTS | {LAYER}


def is_coded(node: fx.Node) -> bool:
    """Whether it is an operator of torchao's quantization, or a part of one."""
    names = (node.target, node.meta.get("original_aten"))
    return node.op == "call_function" and any(target_name(name).startswith(TORCHAO) for name in names if name)


def coded_layer(node: fx.Node) -> fx.Node | None:
    """The product of codes that a node is a part of, as what quantizes or dequantizes its operands is; else None."""
    if is_coded(node):
        return next((each for each in _within(node, ahead=True) if _is_product(each)), None)
    if _is_product(node):
        return node if any(map(is_coded, _within(node, ahead=False))) else None
    layer = next((each for each in _within(node, ahead=True) if _is_product(each)), None) if _is_part(node) else None
    return None if layer is None else coded_layer(layer)


def _is_product(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) in LAYERS


def _is_part(node: fx.Node) -> bool:
    whole = node.meta.get("original_aten")
    return node.op == "call_function" and whole is not None and target_name(whole) == LAYER


def _within(node: fx.Node, ahead: bool) -> Iterator[fx.Node]:
    """What follows a node, or what is before it, as far as it is torchao's or a part of a linear layer."""
    waiting, seen = [node], {node}
    while waiting:
        each = waiting.pop(0)
        for near in (*each.users,) if ahead else each.all_input_nodes:
            if near not in seen and (is_coded(near) or _is_part(near) or _is_product(near)):
                seen.add(near)
                yield near
                waiting += [] if _is_product(near) else [near]
