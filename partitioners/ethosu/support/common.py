"""Rules that hold for every operator, and what several operators' rules share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import fx

from npu_assay.partitioners.common.rules import bounds
from npu_assay.partitioners.ethosu.support.rule import Context, Rule
from npu_assay.partitioners.exir.nodes import is_open, operand, rank, size_text, type_text, value
from npu_assay.partitioners.exir.nodes import tensors as all_tensors
from npu_assay.partitioners.exir.ops import (
    DEQUANTIZE,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE,
    QUANTIZE_PER_TENSOR,
    target_name,
)
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.exir.rules import rule

ANY_QUANTIZE = QUANTIZE | {"quantized_decomposed.quantize_per_tensor.tensor"}
ANY_DEQUANTIZE = DEQUANTIZE | {"quantized_decomposed.dequantize_per_tensor.tensor"}
MARK = "_arm_annotation_info"
"""The key in `node.meta["custom"]` under which the quantizer says whether it quantized the node."""

ARGMAX = "aten.argmax.default"
CONVERT = "dim_order_ops._to_dim_order_copy.default"
MAX_RANK = 6
MAX_SIZE = 65536
MAX_SIDE = 8192  # TOSA's level 8K, of windows
MAX_STRIDE = 3
REFUSED_DTYPES = (
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


def is_quantize(node: fx.Node) -> bool:
    """Whether the node quantizes, with parameters that are constant or computed."""
    return target_name(node.target) in ANY_QUANTIZE


def is_dequantize(node: fx.Node) -> bool:
    """Whether the node dequantizes, with parameters that are constant or computed."""
    return target_name(node.target) in ANY_DEQUANTIZE


def is_qdq(node: fx.Node) -> bool:
    """Whether the node converts between codes and real numbers."""
    return is_quantize(node) or is_dequantize(node)


def is_named(node: fx.Node, *names: str) -> bool:
    """Whether the node applies one of these operators."""
    return target_name(node.target) in names


def dtype_of(node: fx.Node) -> torch.dtype | None:
    """Type of the node's (first) result; None when it is not a tensor."""
    found = value(node)
    return None if found is None else found.dtype


def is_integer(dtype: torch.dtype | None) -> bool:
    """Whether the type holds integers or booleans."""
    return dtype is not None and not dtype.is_floating_point and not dtype.is_complex


def inputs(node: fx.Node) -> Iterator[tuple[fx.Node, torch.Tensor]]:
    """The tensors that the node takes; of several results of one operator the first."""
    for source in node.all_input_nodes:
        found = value(source)
        if found is not None and source.op != "get_attr":
            yield source, found


def tensors(node: fx.Node) -> Iterator[tuple[fx.Node, torch.Tensor]]:
    """What the node takes and gives."""
    yield from inputs(node)
    for found in all_tensors(node):
        yield node, found


# ------------------------------------------------------------------------------------ every node


@rule("max_rank", MAX_RANK)
def max_rank(node: fx.Node, context: Context) -> str | None:
    """inputs and outputs must have rank {value} or less"""
    # TOSA's level 8K.
    found = ((member, tensor.dim()) for member, tensor in tensors(node))
    return next((f"{member.name} has rank {count}" for member, count in found if count > MAX_RANK), None)


@rule("dtype")
def dtype(node: fx.Node, context: Context) -> str | None:
    """real numbers must be float32 or float16, nothing complex, and the result of the input's type"""
    # Real numbers stand between dequantize and quantize nodes only, where float16 and float32 mean the same.
    found = ((member, tensor.dtype) for member, tensor in tensors(node))
    return next((f"{member.name} is {type_text(kind)}" for member, kind in found if kind in REFUSED_DTYPES), None)


@rule("no_bool")
def no_bool(node: fx.Node, context: Context) -> str | None:
    """no tensor may be boolean"""
    # Ethos-U55 and Ethos-U65 have no boolean tensors.
    return _boolean(node) if context.is_u55 else None


@rule("no_bool")
def no_truths(node: fx.Node, context: Context) -> str | None:
    """no tensor may be boolean"""
    # REDUCE_MAX and REDUCE_MIN take none.
    return _boolean(node)


def _boolean(node: fx.Node) -> str | None:
    return next((f"{member.name} is bool" for member, tensor in tensors(node) if tensor.dtype == torch.bool), None)


@rule("static_shape")
def static_shape(node: fx.Node, context: Context) -> str | None:
    """every dimension must be known ahead of time"""
    # Vela compiles fixed sizes.
    if is_qdq(node):
        return None
    for source in node.all_input_nodes:
        if isinstance(source.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return f"argument {source.name} is computed"
    for member, tensor in tensors(node):
        if any(map(is_open, tensor.shape)):
            return f"{member.name} has shape {size_text(tuple(tensor.shape))}"
    return None


def is_empty(sizes: Sequence[int | torch.SymInt]) -> bool:
    """Whether one of the sizes is 0; those that depend on data cannot be compared."""
    return any(isinstance(size, int) and size == 0 for size in sizes)


@rule("not_empty")
def not_empty(node: fx.Node, context: Context) -> str | None:
    """no tensor may be empty"""
    # TOSA has no tensor without elements.
    if is_qdq(node):
        return None
    found = ((member, tuple(tensor.shape)) for member, tensor in tensors(node))
    return next((f"{member.name} has shape {size_text(sizes)}" for member, sizes in found if is_empty(sizes)), None)


@rule("min_rank")
def along_dims(node: fx.Node, context: Context) -> str | None:
    """the input must have rank 1 or more"""
    # TOSA goes along an axis, where torch takes a scalar for a list of one.
    return "a scalar" if rank(operand(node)) == 0 else None


@rule("spatial_rank")
def matrix_of_weights(node: fx.Node, context: Context) -> str | None:
    """the weight must have rank 2"""
    # torch takes a list of weights for a single output.
    found = rank(operand(node, 1))
    return f"rank {found}" if found != 2 else None


# ------------------------------------------------------------------------------------ 64-bit integers


def turns_into_int32(node: fx.Node) -> bool:
    """Whether the node converts to int32."""
    return is_named(node, CONVERT) and node.kwargs.get("dtype") == torch.int32


def is_argmax_for_int32(node: fx.Node) -> bool:
    """Whether the node is an argmax whose indices everybody turns into int32."""
    return is_named(node, ARGMAX) and bool(node.users) and all(map(turns_into_int32, node.users))


@rule("no_int64")
def no_int64(node: fx.Node, context: Context) -> str | None:
    """64-bit integers must be constants within 32 bits that every user turns into something else"""
    # Vela has 32 bits; argmax gives 32-bit indices where everybody wants them so.
    return int64_result(node, context) or next(
        (
            f"{source.name} is int64"
            for source, tensor in inputs(node)
            if tensor.dtype == torch.int64 and not _may_be_int64(source, node, context)
        ),
        None,
    )


def int64_result(node: fx.Node, context: Context) -> str | None:
    """What is wrong with a 64-bit result."""
    if is_named(node, ARGMAX) or all(tensor.dtype != torch.int64 for tensor in all_tensors(node)):
        return None
    unread = all(dtype_of(user) not in (torch.int64, None) for user in node.users)
    if context.is_computed_ahead(node) and unread:
        return _beyond_int32(node)
    selected = all(is_named(user, GETITEM) for user in node.users)
    return None if unread and selected else f"{node.name} is int64"


def _beyond_int32(node: fx.Node) -> str | None:
    """What does not fit into 32 bits in a constant that the node computes, without computing it."""
    info = torch.iinfo(torch.int32)
    numbers = [n for n in _numbers(node.args) if isinstance(n, (int, float))]
    wrong = [n for n in numbers if not info.min <= n <= info.max]
    return f"{wrong[0]} in {node.name}" if wrong else None


def _numbers(found: object) -> Iterator[object]:
    if isinstance(found, (list, tuple)):
        for one in found:
            yield from _numbers(one)
    else:
        yield found


def _may_be_int64(source: fx.Node, node: fx.Node, context: Context) -> bool:
    """Whether a 64-bit operand is a constant, or indices on their way to int32."""
    if is_argmax_for_int32(source) and turns_into_int32(node):
        return True
    if source.op != "call_function":
        return context.is_constant(source)
    return context.is_computed_ahead(source) and int64_result(source, context) is None


# ------------------------------------------------------------------------------------ quantization


@rule("quantized")
def quantized(node: fx.Node, context: Context) -> str | None:
    """the operator must be marked as quantized by the quantizer, or have integers in and out"""
    # The quantizer's mark survives export; operators without operands count when all users quantize them.
    if is_qdq(node) or _computes_integers(node) or _is_quantised_constant(node, context):
        return None
    mark = node.meta.get("custom", {}).get(MARK)
    return None if mark is not None and mark["quantized"] else "not marked"


def _computes_integers(node: fx.Node) -> bool:
    operands = [value(source) for source in node.all_input_nodes]
    return is_integer(dtype_of(node)) and all(found is not None and is_integer(found.dtype) for found in operands)


def _is_quantised_constant(node: fx.Node, context: Context) -> bool:
    if not context.traits(node).is_constant or not node.users:
        return False
    if all(map(is_quantize, node.users)):
        return True
    return all(is_named(user, CONVERT) and is_integer(dtype_of(user)) for user in node.users)


def is_fusing(node: fx.Node, context: Context) -> bool:
    """Whether an activation after the node may become part of it."""
    return context.traits(node).is_weighted and len(node.users) == 1


def is_fused(node: fx.Node, context: Context) -> bool:
    """Whether the node is an activation from 0 to the largest code, before one per-tensor quantize."""
    user = next(iter(node.users), None)
    alone = user is not None and len(node.users) == 1 and is_named(user, QUANTIZE_PER_TENSOR)
    if not alone or not context.traits(node).is_activation:
        return False
    params, (low, high) = qparams(user), bounds(node)
    if params is None or low != 0:
        return False
    if math.isinf(high):
        return True
    largest = torch.tensor(high, dtype=torch.float32)
    code = torch.clamp(torch.round(largest / params.scale) + params.zero_point, params.qmin, params.qmax)
    return bool(code == params.qmax)


@rule("quantized_inputs")
def quantized_inputs(node: fx.Node, context: Context) -> str | None:
    """every input must come from a dequantize node or hold integers"""
    # Of an activation that becomes part of a product, the product counts; of a selected result, its operator.
    source = operand(node)
    if is_named(node, GETITEM):
        return None
    if is_fused(node, context) and source is not None and is_fusing(source, context):
        return None
    plain = not context.traits(node).needs_codes
    for source in node.all_input_nodes:
        is_plain = plain and is_integer(dtype_of(source))
        if not (is_dequantize(source) or is_plain or passes_codes(source, node, context)):
            return f"{source.name} is {type_text(dtype_of(source))}"
    return None


@rule("quantized_outputs")
def quantized_outputs(node: fx.Node, context: Context) -> str | None:
    """every use of the result must quantize it, or the result must hold integers"""
    # Of a product that takes an activation in, the activation's result counts.
    if is_integer(dtype_of(node)) or (is_fusing(node, context) and is_fused(next(iter(node.users)), context)):
        return None
    others = (user for user in readers(node) if not is_quantize(user) and not passes_codes(node, user, context))
    real = next((f"{user.name} uses the real numbers" for user in others), None)
    results = list(node.users) if context.traits(node).splits else [node]
    torn = any(len(set(map(qparams, readers(result)))) > 1 for result in results)
    return real or ("quantized in several ways" if torn else None)


def passes_codes(source: fx.Node, user: fx.Node, context: Context) -> bool:
    """Whether the codes of real numbers that one operator gives and another takes follow from the ones it moves."""
    after = context.traits(user)
    return context.traits(source).moves and (after.moves or after.reads_moved)


def readers(node: fx.Node) -> Iterator[fx.Node]:
    """What reads the node's results, looking through the selection of one of several."""
    for user in node.users:
        if is_named(user, GETITEM):
            yield from user.users
        else:
            yield user


EVERY_NODE: tuple[Rule, ...] = (
    max_rank,
    dtype,
    no_bool,
    no_int64,
    static_shape,
    not_empty,
    quantized,
)
"""What holds for all operators, conversions between codes and real numbers included."""


# ------------------------------------------------------------------------------------ types of codes


@rule("integer_operands")
def integer_operands(node: fx.Node, context: Context) -> str | None:
    """the operands must be integers or booleans"""
    # There is no truth of quantized numbers.
    real = (source for source in node.all_input_nodes if not is_integer(dtype_of(source)))
    return next((f"{source.name} is {type_text(dtype_of(source))}" for source in real), None)


def code_type(node: fx.Node | None) -> torch.dtype | None:
    """The integers of a value: its own type, or that of the dequantize or the first quantize next to it."""
    found = None if node is None else dtype_of(node)
    if node is None or not (found is None or found.is_floating_point):
        return found
    if is_named(node, DEQUANTIZE_PER_TENSOR):
        return dtype_of(node.all_input_nodes[0])
    params = qparams(next(iter(node.users), None))
    return None if params is None or not is_quantize(next(iter(node.users))) else params.dtype


def code_dtype(*allowed: torch.dtype) -> Rule:
    """On Ethos-U55 and Ethos-U65, the values must be of one of these types; unknown ones count as allowed."""
    names = " or ".join(map(type_text, allowed))

    @rule("code_dtype", names)
    def check(node: fx.Node, context: Context) -> str | None:
        """the values must be {value}"""
        found = code_type(node) if context.is_u55 else None
        return None if found is None or found in allowed else f"{node.name} is {type_text(found)}"

    return check
