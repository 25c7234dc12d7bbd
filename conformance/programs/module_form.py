"""Operators as an nn.Module has them, which decompositions replace: what a vendor's quantizer looks for.

torch.export keeps `conv2d` and `permute`, edge programs have `convolution` and `permute_copy`; quantizers know the
former.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
CONVOLUTIONS = (aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
COPY = "_copy"


def as_written(root: fx.GraphModule) -> None:
    """Replace operators in place; those of which no module is known stay."""
    for node in list(root.graph.nodes):
        if node.op == "call_function":
            FORMS.get(node.target, _view)(root, node)
    root.graph.lint()


def _view(_: fx.GraphModule, node: fx.Node) -> None:
    """`permute_copy` is `permute`: whatever has a copy in its name and a namesake without one."""
    space, name, overload = f"{node.target}..".split(".")[:3]
    packet = getattr(aten, name.removesuffix(COPY), None) if space == "aten" and name.endswith(COPY) else None
    if packet is not None and overload in packet.overloads():
        node.target = getattr(packet, overload)


def _convolution(root: fx.GraphModule, node: fx.Node) -> None:
    """`convolution` by the rank of its weight, transposed or not."""
    bound = node.normalized_arguments(root, normalize_to_only_use_kwargs=True)
    assert bound is not None
    given: Mapping[str, Any] = bound.kwargs
    place = _spatial(root, given) - 1
    order = (given["input"], given["weight"], given["bias"], given["stride"], given["padding"])
    rest = ("output_padding", "groups", "dilation") if given["transposed"] else ("dilation", "groups")
    node.target = (TRANSPOSED if given["transposed"] else CONVOLUTIONS)[place]
    node.args, node.kwargs = (*order, *(given[name] for name in rest)), {}


def _spatial(root: fx.GraphModule, given: Mapping[str, Any]) -> int:
    """How many dimensions the window has. A list of one number may stand for all of them."""
    weight = given["weight"]
    if weight.op == "get_attr":
        return int(getattr(root, str(weight.target)).dim()) - 2
    return max(len(given[name]) for name in ("stride", "padding", "dilation"))


def _softmax(target: Any) -> Callable[[fx.GraphModule, fx.Node], None]:
    """Without the argument that asks for another type."""

    def form(_: fx.GraphModule, node: fx.Node) -> None:
        node.target, node.args = target, node.args[:2]

    return form


def _pad(_: fx.GraphModule, node: fx.Node) -> None:
    x, amounts, *value = node.args
    node.target, node.args = aten.pad.default, (x, amounts, "constant", *value)


def _copy(_: fx.GraphModule, node: fx.Node) -> None:
    """Written over a clone, as only that has no effect on the model's inputs."""
    x, *rest = node.args
    with node.graph.inserting_before(node):
        node.target, node.args = aten.copy_.default, (node.graph.call_function(aten.clone.default, (x,)), *rest)


def _adaptive(_: fx.GraphModule, node: fx.Node) -> None:
    node.target = aten.adaptive_avg_pool2d.default


def _max_pool(_: fx.GraphModule, node: fx.Node) -> None:
    """The values alone, where nothing takes the indices."""
    items = list(node.users)
    if items and all(item.target is operator.getitem and item.args[1] == 0 for item in items):
        node.target = aten.max_pool2d.default
        for item in items:
            item.replace_all_uses_with(node)
            node.graph.erase_node(item)


FORMS: Mapping[Any, Callable[[fx.GraphModule, fx.Node], None]] = {
    aten.convolution.default: _convolution,
    aten._softmax.default: _softmax(aten.softmax.int),
    aten._log_softmax.default: _softmax(aten.log_softmax.int),
    aten._adaptive_avg_pool2d.default: _adaptive,
    aten.constant_pad_nd.default: _pad,
    aten.copy.default: _copy,
    aten.max_pool2d_with_indices.default: _max_pool,
}
