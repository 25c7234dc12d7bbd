"""The forms of quantized computation in a graph, which the partitioner groups and the compiler serializes together.

There are three: operators between dequantize and quantize nodes with constant parameters (static), products whose
activations get their parameters at run time (dynamic), and weights that are stored as codes. torchao's affine
operators count as the quantized_decomposed ones that they correspond to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import argument, operand, shape
from npu_assay.partitioners.exir.ops import (
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    DEQUANTIZE_DYNAMIC,
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_GROUP,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE,
    QUANTIZE_DYNAMIC,
    QUANTIZE_PER_TENSOR,
    target_name,
)

CHOOSE_QPARAMS_AFFINE = "torchao.choose_qparams_affine.default"
QUANTIZE_AFFINE = "torchao.quantize_affine.default"
DEQUANTIZE_AFFINE = "torchao.dequantize_affine.default"
AFFINE = frozenset({CHOOSE_QPARAMS_AFFINE, QUANTIZE_AFFINE, DEQUANTIZE_AFFINE})

ANY_QUANTIZE = (
    QUANTIZE | QUANTIZE_DYNAMIC | {QUANTIZE_AFFINE, "quantized_decomposed.quantize_per_channel_group.default"}
)
ANY_DEQUANTIZE = DEQUANTIZE | DEQUANTIZE_DYNAMIC | {DEQUANTIZE_PER_GROUP, DEQUANTIZE_AFFINE}
ANY_CHOOSE = CHOOSE_QPARAMS | {CHOOSE_QPARAMS_AFFINE}

PERMUTE = "aten.permute_copy.default"


def is_named(node: object, names: frozenset[str]) -> bool:
    """Whether the node applies one of the named operators."""
    return isinstance(node, fx.Node) and target_name(node.target) in names


def is_dequantize(node: object) -> bool:
    """Whether the node turns codes into numbers, in any spelling."""
    return is_named(node, ANY_DEQUANTIZE)


def is_quantize(node: object) -> bool:
    """Whether the node turns numbers into codes, in any spelling."""
    return is_named(node, ANY_QUANTIZE)


# ------------------------------------------------------------------------------------ static


@dataclass(frozen=True)
class StaticForm:
    """An operator that is computed on codes: dequantize nodes -> operator (-> activation) -> quantize."""

    inputs: tuple[fx.Node, ...]
    activation: fx.Node | None
    output: fx.Node

    @property
    def members(self) -> tuple[fx.Node, ...]:
        """The nodes around the operator."""
        return (*self.inputs, *(() if self.activation is None else (self.activation,)), self.output)


def static_form(node: fx.Node, fused: frozenset[str] = frozenset()) -> StaticForm | None:
    """How `node` is computed on int8 codes, or None when it is computed on real numbers.

    Every operand must come from a per-tensor dequantize with constant parameters, and the result go to one quantize
    of that kind and nowhere else; one of the operators `fused` may stand between.
    """
    inputs = tuple(node.all_input_nodes)
    if not inputs or not all(is_named(source, _STATIC_DEQUANTIZE) for source in inputs):
        return None
    activation, output = result_path(node, fused)
    return StaticForm(inputs, activation, output) if is_named(output, _STATIC_QUANTIZE) and output else None


_STATIC_DEQUANTIZE = frozenset({DEQUANTIZE_PER_TENSOR})
_STATIC_QUANTIZE = frozenset({QUANTIZE_PER_TENSOR})


def result_path(node: fx.Node, fused: frozenset[str]) -> tuple[fx.Node | None, fx.Node | None]:
    """The activation right after `node`, if it is one of `fused`, and the one user of the result, if there is one."""
    user = only_user(node)
    if user is None or not is_named(user, fused):
        return None, user
    return user, only_user(user)


def only_user(node: fx.Node) -> fx.Node | None:
    """The node that alone uses the result, or None."""
    return next(iter(node.users)) if len(node.users) == 1 else None


# ------------------------------------------------------------------------------------ dynamic


@dataclass(frozen=True)
class DynamicInput:
    """An activation on its way into a product that is computed on codes with parameters chosen at run time.

    source -> choose -> (scale, zero_point); source -> quantize -> dequantize -> product.
    """

    source: fx.Node
    choose: fx.Node
    scale: fx.Node
    zero_point: fx.Node
    quantize: fx.Node
    dequantize: fx.Node

    @property
    def members(self) -> tuple[fx.Node, ...]:
        """The nodes from the source to the product."""
        return (self.dequantize, self.quantize, self.scale, self.zero_point, self.choose)


def qparam_nodes(node: fx.Node) -> tuple[object, object]:
    """The scale and zero point arguments of a quantize or dequantize, in any spelling."""
    first = 2 if target_name(node.target) in AFFINE else 1
    found = (*node.args[first : first + 2], None, None)
    return found[0], found[1]


def is_chosen_at_run_time(node: object) -> bool:
    """Whether a quantize or dequantize gets its scale and zero point from a choose_qparams."""
    if not isinstance(node, fx.Node) or not (is_dequantize(node) or is_quantize(node)):
        return False
    return all(_choose_of(argument) is not None for argument in qparam_nodes(node))


def _choose_of(node: object) -> fx.Node | None:
    """The choose_qparams that `node` selects a result of, or None."""
    if not isinstance(node, fx.Node) or not is_named(node, frozenset({GETITEM})):
        return None
    source = operand(node)
    return source if is_named(source, ANY_CHOOSE) else None


def dynamic_input(dequantize: object) -> DynamicInput | None:
    """The whole way from a real number to a dequantize with parameters chosen at run time; None for any other."""
    if not isinstance(dequantize, fx.Node) or not is_chosen_at_run_time(dequantize):
        return None
    quantize = operand(dequantize)
    if quantize is None or not is_quantize(quantize) or qparam_nodes(quantize) != qparam_nodes(dequantize):
        return None
    scale, zero_point = qparam_nodes(quantize)
    choose, source = _choose_of(scale), operand(quantize)
    if not (
        isinstance(scale, fx.Node) and isinstance(zero_point, fx.Node) and choose is not None and source is not None
    ):
        return None
    if _choose_of(zero_point) is not choose or operand(choose) is not source:
        return None
    selected = (argument(scale, 1, "index"), argument(zero_point, 1, "index"))
    return DynamicInput(source, choose, scale, zero_point, quantize, dequantize) if selected == (0, 1) else None


def code_range(node: fx.Node) -> tuple[Any, Any, Any]:
    """(lowest code, highest code, code type) that a quantize, dequantize or choose_qparams states."""
    name = target_name(node.target)
    if name in AFFINE:
        return _affine_range(node, name)
    if name == "quantized_decomposed.choose_qparams_per_token_asymmetric.default":
        return (-128, 127, argument(node, 1, "dtype"))
    first = 1 if name in ANY_CHOOSE else 4 if _has_axis(name) else 3
    shift = 1 if name in ANY_CHOOSE else 0  # choose_qparams has eps between the range and the type
    low, high = argument(node, first, "quant_min"), argument(node, first + 1, "quant_max")
    return (low, high, argument(node, first + 2 + shift, "dtype"))


def _has_axis(name: str) -> bool:
    return name in (DEQUANTIZE_PER_CHANNEL, "quantized_decomposed.quantize_per_channel.default")


def _affine_range(node: fx.Node, name: str) -> tuple[Any, Any, Any]:
    """torchao names the type first; without a range it is the type's."""
    first, keyword = (3, "target_dtype") if name == CHOOSE_QPARAMS_AFFINE else (4, "output_dtype")
    dtype = argument(node, first, "input_dtype" if name == DEQUANTIZE_AFFINE else keyword)
    low, high = argument(node, first + 1, "quant_min"), argument(node, first + 2, "quant_max")
    if isinstance(dtype, torch.dtype) and not dtype.is_floating_point:
        low = torch.iinfo(dtype).min if low is None else low
        high = torch.iinfo(dtype).max if high is None else high
    return (low, high, dtype)


def leaves(node: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """(consumer, what it consumes) of everything that is only converted or transposed on the way from `node`."""
    for user in node.users:
        passing = is_dequantize(user) or is_quantize(user) or is_named(user, frozenset({GETITEM, PERMUTE}))
        if passing:
            yield from leaves(user)
        else:
            yield user, node


# ------------------------------------------------------------------------------------ weights


@dataclass(frozen=True)
class QuantisedWeight:
    """Weights that are stored as codes.

    kind: "per_tensor", "per_channel" (`axis`) or "per_group" (`group` neighbors along the last axis).
    scale, zero_point: numbers for per_tensor, else nodes (the zero point may be None: 0).
    """

    kind: str
    codes: fx.Node
    dequantize: fx.Node
    scale: Any
    zero_point: Any
    axis: int = 0
    group: int = 0

    @property
    def members(self) -> tuple[fx.Node, ...]:
        """The nodes that the dequantize reads, and the dequantize itself."""
        parameters = (p for p in (self.scale, self.zero_point) if isinstance(p, fx.Node))
        return (self.dequantize, self.codes, *parameters)

    @property
    def bits(self) -> int:
        """How many bits a code has, by the range that the dequantize states."""
        low, high, _ = code_range(self.dequantize)
        return 4 if (low, high) == (-8, 7) else 8


def quantised_weight(node: object) -> QuantisedWeight | None:
    """The stored weights that a dequantize reads; None for any other node."""
    if not isinstance(node, fx.Node):
        return None
    codes = operand(node)
    if codes is None:
        return None
    scale, zero_point = qparam_nodes(node)
    name = target_name(node.target)
    if name == DEQUANTIZE_PER_TENSOR:
        return QuantisedWeight("per_tensor", codes, node, scale, zero_point)
    if name == DEQUANTIZE_PER_CHANNEL:
        return QuantisedWeight("per_channel", codes, node, scale, zero_point, axis=argument(node, 3, "axis"))
    group = _group_size(node, name, codes)
    if group is None:
        return None
    found = QuantisedWeight("per_group", codes, node, scale, zero_point, group=group)
    # One group per row is a scale per output; of 4-bit codes XNNPACK's format has it as groups nevertheless.
    is_row = name == DEQUANTIZE_AFFINE and group == shape(codes)[1] and found.bits == 8
    return replace(found, kind="per_channel", group=0) if is_row else found


def _group_size(node: fx.Node, name: str, codes: fx.Node) -> int | None:
    if name == DEQUANTIZE_PER_GROUP:
        found = argument(node, 6, "group_size")
        return found if isinstance(found, int) else None
    block = argument(node, 1, "block_size")
    rows = name == DEQUANTIZE_AFFINE and isinstance(block, Sequence) and len(block) == len(shape(codes)) == 2
    return block[1] if rows and block[0] == 1 and isinstance(block[1], int) else None
