"""Rules that depend on which nodes share a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import fx

from npu_assay.partitioners.exir import rules
from npu_assay.partitioners.exir.layout import to_channels_first, to_channels_last
from npu_assay.partitioners.exir.nodes import operand, rank, shape, size_text
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.qdq import is_compute, is_dequantize, is_qdq, qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.formats import is_spatial_reshape, supported_transposition
from npu_assay.partitioners.neutron.support.activation import RELU_LIKE, bounds
from npu_assay.partitioners.neutron.support.common import channel_count_problem
from npu_assay.partitioners.neutron.support.layout import is_plain_layout
from npu_assay.partitioners.neutron.support.rule import Context
from npu_assay.partitioners.neutron.support.slicing import cat_dim, cat_operands, device_dim, device_shape
from npu_assay.partitioners.neutron.support.weights import ADDMM, MM, WEIGHT_POSITION

Partition = frozenset[fx.Node]
DATA_ONLY = frozenset({"aten.view_copy.default", "aten.clone.default", "dim_order_ops._clone_dim_order.default"})
CAT = "aten.cat.default"
NEUTRAL = {"aten.add.Tensor": (0, (0, 1)), "aten.sub.Tensor": (0, (1,)), "aten.mul.Tensor": (1, (0, 1))}
"""Operator -> the number that leaves the other operand as it is, and which operands it may be."""


@dataclass(frozen=True)
class Stage:
    """What a rule on a node inside a partition looks at: the partition, and the graph around it."""

    partition: Partition
    context: Context


StageRule: TypeAlias = rules.Rule[Stage]
"""A limit on a node inside a partition."""


def computing(partition: Partition) -> list[fx.Node]:
    """The operators of a partition, without quantize and dequantize."""
    return [node for node in partition if is_compute(node)]


def computing_users(node: fx.Node) -> list[fx.Node]:
    """The nearest operators, or the graph output, that use a result, looking through quantization."""
    users: list[fx.Node] = []
    for user in node.users:
        users += computing_users(user) if is_qdq(user) else [user]
    return users


def producer(node: fx.Node) -> fx.Node:
    """What computes a value, looking back through quantization."""
    while is_qdq(node):
        node = node.all_input_nodes[0]
    return node


# ------------------------------------------------------------------------------------ whole partition


def is_no_op(node: fx.Node, context: Context) -> bool:
    """Whether the operator computes nothing: a reshape, a copy, all of one tensor, or a known neutral constant."""
    name = target_name(node.target)
    if name in DATA_ONLY or len(cat_operands(node)) == 1:
        return True
    if name not in NEUTRAL:
        return False
    number, places = NEUTRAL[name]
    return any(_is_filled_with(operand(node, i), number, context) and _keeps_shape(node, 1 - i) for i in places)


def _keeps_shape(node: fx.Node, position: int) -> bool:
    return shape(operand(node, position)) == shape(node)


def _is_filled_with(node: fx.Node | None, number: int, context: Context) -> bool:
    params = qparams(node)
    data = None if node is None or params is None else context.data(node.args[0])
    if data is None or params is None:
        return False
    return bool(((data.to(torch.float64) - params.zero_point) * params.scale == number).all())


@rule("not_alone")
def not_alone(node: fx.Node, stage: Stage) -> str | None:
    """it computes nothing, so it must share its partition with an operator that does"""
    if stage.context.options.allow_no_op_partitions or not is_no_op(node, stage.context):
        return None
    others = computing(stage.partition)
    if any(target_name(n.target) != GETITEM and not is_no_op(n, stage.context) for n in others):
        return None
    return "alone in its partition" if len(others) == 1 else f"one of {len(others)} that compute nothing"


@rule("quantized")
def exclusive_dequantize(node: fx.Node, stage: Stage) -> str | None:
    """the operator must stand between dequantize and quantize nodes (static int8)"""
    members = stage.context.clusters[node].members if node in stage.context.clusters else ()
    for source in filter(is_dequantize, members):
        outside = next((user for user in source.users if user not in stage.partition), None)
        if outside is not None:
            return f"{source.name} also feeds {outside.name}, outside the partition"
    return None


# ------------------------------------------------------------------------------------ one operator


@rule("alone_channels_multiple_of")
def alone_channels(node: fx.Node, stage: Stage) -> str | None:
    """alone in its partition, the channel count must be a multiple of the number of MAC units"""
    if computing(stage.partition) != [node]:
        return None
    return channel_count_problem(stage.context.channels(node), stage.context)


def _bounded_channels(node: fx.Node, stage: Stage) -> str | None:
    return alone_channels.check(node, stage) if bounds(node) in RELU_LIKE else None


alone_bounded_channels = StageRule(alone_channels.code, alone_channels.sentence, _bounded_channels)
"""The activation of a clamp or hardtanh whose bounds are those of a relu."""


@rule("dim_before_axis")
def dim_before_axis(node: fx.Node, stage: Stage) -> str | None:
    """concatenating values from outside the partition needs a dimension other than 1 before the axis"""
    sources = cat_operands(node)
    if all(producer(source) in stage.partition for source in sources):
        return None
    axis = device_dim(cat_dim(node), node, stage.context)
    for source in sources:
        if all(size == 1 for size in device_shape(node, shape(source), stage.context)[:axis]):
            return f"{source.name} of shape {size_text(shape(source))}, axis {cat_dim(node)}"
    return None


@rule("memory_format")
def copy_at_border(node: fx.Node, stage: Stage) -> str | None:
    """the copy must keep or set the contiguous dim order"""
    x = operand(node)
    if x is not None and producer(x) not in stage.partition and not is_plain_layout(x):
        return f"{x.name} from outside the partition is neither contiguous nor channels-last"
    outside = any(user not in stage.partition for user in computing_users(node))
    return "the result is neither contiguous nor channels-last" if outside and not is_plain_layout(node) else None


@rule("transposition")
def reshaped_format(node: fx.Node, stage: Stage) -> str | None:
    """this transposition is not one that the NPU can do"""
    x = operand(node)
    if x is None:
        return None
    enters, leaves = stage.context.is_channels_first(x), stage.context.is_channels_first(node)
    if enters and leaves and is_spatial_reshape(node):
        return None
    if enters and not (not leaves and _flattens_into_product(node, stage.partition)):
        sizes = device_shape(x, shape(x), stage.context)
        if not supported_transposition(sizes, to_channels_first(len(sizes)), stage.context.macs):
            return f"channels-first input {size_text(shape(x))}"
    if leaves and not supported_transposition(shape(node), to_channels_last(rank(node)), stage.context.macs):
        return f"channels-first result {size_text(shape(node))}"
    return None


def _flattens_into_product(node: fx.Node, partition: Partition) -> bool:
    """Whether a matrix product with as many rows as weights takes the flattened image."""
    users, sizes = computing_users(node), shape(node)
    if len(users) != 1 or users[0] not in partition or target_name(users[0].target) not in (ADDMM, MM):
        return False
    weight = operand(users[0], WEIGHT_POSITION[target_name(users[0].target)])
    x = shape(operand(node))
    return len(sizes) == 2 and x[:1] == sizes[:1] and sizes[1:] == shape(weight)[:1]
