"""Rewrites of an edge graph that make more of it run on the NPU. They keep its meaning.

Every consumer gets a dequantize of its own, splits become slices,
squeeze and unsqueeze become reshapes, division becomes multiplication by constant reciprocals, and operators that
share one quantization get one each. A node that replaces another keeps its meta. Source: the edge passes and
the quantizer's preparation in v1.3.1; what they do there before quantization (splits, division) is
done here on the quantized graph.

Users need not run them: the partitioner judges a rewritten copy of its program, and the compiler rewrites its program
(`rewriting.py`).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor

from npu_assay.partitioners.exir.backend import ConstantPass, Pass
from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, rank, shape, value
from npu_assay.partitioners.exir.ops import (
    DEQUANTIZE,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE_PER_TENSOR,
    edge_op,
    node_name,
    target_name,
)
from npu_assay.partitioners.exir.qdq import is_compute, is_dequantize, is_quantize, qparams
from npu_assay.partitioners.exir.values import fake_like
from npu_assay.partitioners.neutron.operators import OPERATORS
from npu_assay.partitioners.neutron.support.division import DIVISION_RULES, divisor_values, reciprocal_codes
from npu_assay.partitioners.neutron.support.rule import Context

VIEW = "aten.view_copy.default"
SLICE = "aten.slice_copy.Tensor"
SPLITS = frozenset({"aten.split_with_sizes_copy.default", "aten.split_copy.Tensor"})
RESHAPES = frozenset(
    {
        "aten.squeeze_copy.default",
        "aten.squeeze_copy.dim",
        "aten.squeeze_copy.dims",
        "aten.unsqueeze_copy.default",
    }
)
REPLACED = SPLITS | RESHAPES | {"aten.max_pool2d.default", "aten.div.Tensor"}
"""What a judged pass replaces wherever it stands; the others, prelu's too, look for operators beside others."""
COPIES = frozenset({"aten.clone.default", "dim_order_ops._clone_dim_order.default"})
CLAMPS = frozenset(name for name, row in OPERATORS.items() if row.narrows)
# Operator -> position of its data operand, and what may stand unquantized before it.
LEADING: Mapping[str, tuple[int, frozenset[str]]] = {
    "aten.convolution.default": (0, frozenset({VIEW})),
    "aten.addmm.default": (1, frozenset({VIEW})),
    "aten.mm.default": (0, frozenset({VIEW})),
    "aten.avg_pool2d.default": (0, frozenset({VIEW})),
    "aten.max_pool2d_with_indices.default": (0, frozenset({VIEW})),
    VIEW: (0, COPIES),
}
# Operator -> what may stand unquantized behind it. sigmoid and tanh are missing: with their
# quantization in front of them, the values they need would be cut off.
TRAILING: Mapping[str, frozenset[str]] = {
    "aten.convolution.default": CLAMPS | {VIEW},
    "aten.addmm.default": CLAMPS | {VIEW},
    "aten.mm.default": CLAMPS | {VIEW},
    "aten.avg_pool2d.default": frozenset({VIEW}),
    GETITEM: frozenset({VIEW}),
    SLICE: frozenset({VIEW}),  # what a getitem of a split became
    VIEW: COPIES,
}


def calls(graph: fx.Graph, names: Iterable[str]) -> Iterator[fx.Node]:
    """The nodes, at the time of the call, that apply one of the named operators."""
    wanted = frozenset(names)
    return iter([n for n in graph.nodes if n.op == "call_function" and target_name(n.target) in wanted])


def insert_after(node: fx.Node, op: str, args: Sequence[Any], val: object) -> fx.Node:
    """A new application of the edge operator `op` right after `node`, with its value."""
    with node.graph.inserting_after(node):
        new = node.graph.create_node("call_function", edge_op(op), tuple(args), {}, name=node_name(op))
    new.meta["val"] = val
    return new


def replace(node: fx.Node, op: str, args: Sequence[Any]) -> fx.Node:
    """Put one application of `op` in the place of `node`, with its meta and users, and erase it."""
    new = insert_after(node, op, args, None)
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)
    node.graph.erase_node(node)
    return new


def retyped(like: fx.Node, dtype: torch.dtype) -> FakeTensor:
    """A value of `like`'s shape and another type."""
    found = value(like)
    if not isinstance(found, FakeTensor):
        raise TypeError(f"{like.name} has meta['val'] {found!r}, expected a FakeTensor")
    return fake_like(found, found.fake_mode, dtype)


def has_static_shape(node: fx.Node) -> bool:
    """Whether every dimension is a number."""
    return all(isinstance(size, int) for size in shape(node))


# ------------------------------------------------------------------------------------ dequantize


def own_dequantizes(module: fx.GraphModule) -> None:
    """A dequantize with several users is repeated for each, so that they can go to different partitions."""
    for node in calls(module.graph, DEQUANTIZE):
        for user in list(node.users)[1:]:
            user.replace_input_with(node, _copy(node))


def _copy(node: fx.Node) -> fx.Node:
    with node.graph.inserting_after(node):
        return node.graph.node_copy(node)


# ------------------------------------------------------------------------------------ max pool


def index_max_pools(module: fx.GraphModule) -> None:
    """A max pool that is not decomposed, as another partitioner may want it, becomes the one with indices."""
    for node in calls(module.graph, ("aten.max_pool2d.default",)):
        values = (value(node), retyped(node, torch.int64))
        pool = insert_after(node, "aten.max_pool2d_with_indices.default", node.args, values)
        pool.kwargs = node.kwargs
        with module.graph.inserting_after(pool):
            maxima = module.graph.call_function(operator.getitem, (pool, 0))
        maxima.meta = dict(node.meta)
        node.replace_all_uses_with(maxima)
        module.graph.erase_node(node)


# ------------------------------------------------------------------------------------ prelu


def compose_prelu(module: fx.GraphModule) -> None:
    """where(x > 0, x, slopes * x), which to_edge makes of prelu, becomes prelu again; the slopes lose their reshape."""
    for node in calls(module.graph, ("aten.where.self",)):
        found = _prelu_operands(node)
        if found is None:
            continue
        absorbed = [operand(node, 0), operand(node, 2), _scaled_by(operand(node, 2), operand(node, 1))]
        replace(node, "aten.prelu.default", found)
        for old in absorbed:
            if old is not None and not old.users:
                module.graph.erase_node(old)


def _prelu_operands(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """x and the slopes, one number or one per channel, of a decomposed prelu that ends in `node`; else None."""
    condition, x = operand(node, 0), operand(node, 1)
    reshaped = _scaled_by(operand(node, 2), x)
    if condition is None or x is None or reshaped is None or target_name(condition.target) != "aten.gt.Scalar":
        return None
    if condition.args != (x, 0) or list(condition.users) != [node] or target_name(reshaped.target) != VIEW:
        return None
    slopes = operand(reshaped)
    sizes = shape(slopes)
    plain = len(sizes) == 1 and rank(x) > 1 and sizes[0] in (1, shape(x)[1])
    return (x, slopes) if slopes and plain and shape(reshaped) == (1, *sizes, *(1,) * (rank(x) - 2)) else None


def _scaled_by(product: fx.Node | None, x: fx.Node | None) -> fx.Node | None:
    """The other factor of a product with `x` that has one user; None for anything else."""
    if product is None or target_name(product.target) != "aten.mul.Tensor" or len(product.users) != 1:
        return None
    factors = [factor for factor in product.args if factor is not x]
    return factors[0] if len(factors) == 1 and isinstance(factors[0], fx.Node) else None


# ------------------------------------------------------------------------------------ splits


def split_to_slice(module: fx.GraphModule) -> None:
    """Every used piece of a split becomes a slice of the input, with a dequantize of its own."""
    _slice_splits(module, own_dequantize)


def split_to_slices_of_one(module: fx.GraphModule) -> None:
    """The same, but all slices keep the split's dequantize, so that they go to one partition or to none."""
    _slice_splits(module, lambda x, user: x)


def _slice_splits(module: fx.GraphModule, dequantized: Callable[[fx.Node, fx.Node], fx.Node]) -> None:
    for node in calls(module.graph, SPLITS):
        x = operand(node)
        pieces = [user for user in node.users if target_name(user.target) == GETITEM]
        if x is None or len(pieces) != len(node.users) or not has_static_shape(x):
            continue
        dim = non_negative(int(argument(node, 2, "dim", 0)), rank(x))
        limits = [0, *itertools.accumulate(_sizes(node, shape(x)[dim]))]
        for piece in pieces:
            start, end = limits[argument(piece, 1, "index")], limits[argument(piece, 1, "index") + 1]
            replace(piece, SLICE, (dequantized(x, node), dim, start, end))
        module.graph.erase_node(node)


def _sizes(node: fx.Node, length: int) -> list[int]:
    """The sizes of the pieces; a number means equal pieces, the last one maybe shorter."""
    sizes = node.args[1]
    if isinstance(sizes, int):
        return [min(sizes, length - start) for start in range(0, length, sizes)]
    return [int(size) for size in sizes]  # type: ignore[union-attr, arg-type]  # a list of numbers


def own_dequantize(x: fx.Node, user: fx.Node) -> fx.Node:
    """`x`, or its copy if it is a dequantize that others than `user` have as well."""
    return _copy(x) if is_dequantize(x) and any(other is not user for other in x.users) else x


# ------------------------------------------------------------------------------------ reshapes


def reshape_to_view(module: fx.GraphModule) -> None:
    """squeeze and unsqueeze become view_copy with the output's shape."""
    for node in calls(module.graph, RESHAPES):
        if has_static_shape(node):
            replace(node, VIEW, (node.args[0], list(shape(node))))


# ------------------------------------------------------------------------------------ division


class DivideToMultiply(ConstantPass):
    """Division by constants becomes multiplication by reciprocals in int8: scale = max |1/d| / 127, zero point 0.

    Only where the support rules of division hold, so that what stays in the model stays exact.
    macs: the NPU's multiply-accumulate units, which these rules depend on.
    """

    def __init__(self, macs: int = 8) -> None:
        self.macs = macs

    def __call__(self, module: fx.GraphModule, constants: Mapping[str, torch.Tensor]) -> None:
        """Rewrite the divisions of the module."""
        context = Context(module.graph, OPERATORS, constants, self.macs)
        for node in filter(has_static_shape, calls(module.graph, ("aten.div.Tensor",))):
            divisor = divisor_values(node, context)
            if divisor is not None and all(one(node, context) is None for one in DIVISION_RULES):
                old = operand(node, 1)
                replace(node, "aten.mul.Tensor", (node.args[0], _reciprocals(module, node, divisor)))
                if old is not None and not old.users:
                    module.graph.erase_node(old)


def _reciprocals(module: fx.GraphModule, node: fx.Node, divisor: torch.Tensor) -> fx.Node:
    """A dequantized constant of the quotient's shape, placed before `node`."""
    codes, scale = reciprocal_codes(divisor)
    name = next(name for name in (f"_reciprocals_{n}" for n in itertools.count()) if not hasattr(module, name))
    module.register_buffer(name, codes.expand(shape(node)).contiguous())
    with node.graph.inserting_before(node):
        constant = node.graph.create_node("get_attr", name, name=name.strip("_"))
    constant.meta["val"] = retyped(node, torch.int8)
    args = (constant, scale, 0, -127, 127, torch.int8)
    return insert_after(constant, DEQUANTIZE_PER_TENSOR, args, retyped(node, torch.float32))


# ------------------------------------------------------------------------------------ own quantization


def split_leading(module: fx.GraphModule) -> None:
    """A reshape or copy between dequantize and an operator gets the dequantize's parameters after it.

    Moved codes are codes of the same parameters, so the numbers stay exactly the same.
    """
    for node in calls(module.graph, LEADING):
        position, auxiliaries = LEADING[target_name(node.target)]
        auxiliary = operand(node, position)
        if auxiliary is None or not _applies(auxiliary, auxiliaries) or list(auxiliary.users) != [node]:
            continue
        source = operand(auxiliary)
        if source is not None and is_dequantize(source) and _has_plain_params(source):
            requantize(auxiliary, source.args[1:])


def split_trailing(module: fx.GraphModule) -> None:
    """A reshape, copy or clamp between an operator and quantize gets the quantize's parameters before it.

    A code that a clamp changes is one beyond the bound's code, and rounding is monotone, so the
    numbers stay exactly the same.
    """
    for node in calls(module.graph, TRAILING):
        auxiliary = next(iter(node.users), None)
        if auxiliary is None or len(node.users) != 1 or not _applies(auxiliary, TRAILING[target_name(node.target)]):
            continue
        ends = list(auxiliary.users)
        plain = all(is_quantize(end) and _has_plain_params(end) for end in ends)
        if plain and len({end.args[1:] for end in ends}) == 1:
            requantize(node, ends[0].args[1:])


def _has_plain_params(node: fx.Node) -> bool:
    """Whether a quantize or dequantize is per tensor, with all its parameters (none has a default) by position."""
    return qparams(node) is not None and not node.kwargs


def _applies(node: fx.Node, names: frozenset[str]) -> bool:
    return node.op == "call_function" and target_name(node.target) in names


def requantize(node: fx.Node, params: Sequence[Any]) -> None:
    """Put quantize and dequantize with these arguments between `node` and its users."""
    users = list(node.users)
    codes = insert_after(node, QUANTIZE_PER_TENSOR, (node, *params), retyped(node, params[4]))
    number = insert_after(codes, DEQUANTIZE_PER_TENSOR, (codes, *params), retyped(node, torch.float32))
    for user in users:
        user.replace_input_with(node, number)


PASSES: tuple[Pass, ...] = (
    own_dequantizes,
    split_to_slice,
    reshape_to_view,
    DivideToMultiply(),
    split_leading,
    split_trailing,
)
"""What can run before partitioning, in this order. Running it again changes nothing."""


def judged_passes(macs: int) -> tuple[Pass, ...]:
    """The passes before the partitioner judges a program: none adds dequantize nodes, which it could not tag.

    A decomposed prelu counts as one operator. The other passes leave it, as prelu is not core ATen.

    macs: the NPU's multiply-accumulate units.
    """
    division = DivideToMultiply(macs)
    whole = (compose_prelu, index_max_pools)
    return (*whole, split_to_slices_of_one, reshape_to_view, division, split_leading, split_trailing)


def may_change(graph: fx.Graph) -> bool:
    """Whether these passes may change the graph: it has an operator that they replace, or two right after another."""
    for node in filter(is_compute, graph.nodes):
        if target_name(node.target) in REPLACED:
            return True
        if any(is_compute(user) and target_name(user.target) != GETITEM for user in node.users):
            return True
    return False


COMPILED = judged_passes(macs=1)
"""What the compiler does to the nodes that it gets. The partitioner has applied the rule on sizes."""
