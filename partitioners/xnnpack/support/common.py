"""Rules that hold for every operator."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from npu_assay.partitioners.common.rules import other_meaning
from npu_assay.partitioners.exir.nodes import is_open, operand, size_text, type_text, value
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import SMALLEST_NORMAL, QParams, is_dequantize, is_quantize, qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.xnnpack.linear import CONVOLUTION
from npu_assay.partitioners.xnnpack.site import Rule, Site

MAX_RANK = 6


def tensors(node: fx.Node) -> Iterator[tuple[fx.Node, torch.Tensor]]:
    """The operator's tensor operands and its result (the first, if there are several)."""
    for member in (*node.all_input_nodes, node):
        found = value(member)
        if found is not None:
            yield member, found


@rule("dtype")
def dtype(node: fx.Node, site: Site) -> str | None:
    """tensors must be float32 or float16, all inputs of one operator the same, and quantized ones int8"""
    allowed = {torch.float32, torch.float16}
    if takes_bfloat16(node, site):
        allowed.add(torch.bfloat16)
    found = [(member, tensor.dtype) for member, tensor in tensors(node)]
    for member, type_ in found:
        if type_ not in allowed:
            return f"{member.name} is {type_text(type_)}"
    types = list(dict.fromkeys(type_text(type_) for _, type_ in found[:-1]))
    return f"inputs are {' and '.join(types)}" if len(types) > 1 else code_dtype.check(node, site)


def takes_bfloat16(node: fx.Node, site: Site) -> bool:
    """Whether the option is on and the operator a matrix product: convolutions have no kernel in bfloat16.

    Its kernels add a bias in float32, which a bias in bfloat16 becomes if it is a constant.
    """
    if not site.program.options.enable_bf16 or site.product is None or target_name(node.target) == CONVOLUTION:
        return False
    return site.product.bias is None or site.program.is_constant(site.product.bias)


@rule("code_dtype")
def code_dtype(node: fx.Node, site: Site) -> str | None:
    """codes must be int8"""
    for member, params in _parameters(site):
        if params.dtype != torch.int8:
            return f"the codes of {member.name} are {type_text(params.dtype)}"
    return None


def _parameters(site: Site) -> Iterator[tuple[fx.Node, QParams]]:
    for member in site.coded:
        found = qparams(member)
        if found is not None:
            yield member, found


@rule("dtype")
def real_dtype(node: fx.Node, site: Site) -> str | None:
    """tensors must be float32 or float16, all inputs of one operator the same, and quantized ones int8"""
    real = operand(node) if is_quantize(node) else node
    found = value(real)
    allowed = (torch.float32, torch.float16)
    return None if found is None or found.dtype in allowed else f"the real number is {type_text(found.dtype)}"


@rule("nonempty")
def nonempty(node: fx.Node, site: Site) -> str | None:
    """no input and no output may be empty"""
    for member, tensor in tensors(node):
        if any(isinstance(size, int) and size == 0 for size in tensor.shape):
            return f"{member.name} has shape {size_text(tuple(tensor.shape))}"
    return None


@rule("max_rank")
def max_rank(node: fx.Node, site: Site) -> str | None:
    """inputs and output must have rank 6 or less"""
    found = ((member, tensor.dim()) for member, tensor in tensors(node))
    return next((f"{member.name} has rank {count}" for member, count in found if count > MAX_RANK), None)


@rule("static_shape")
def computed_sizes(node: fx.Node, site: Site) -> str | None:
    """every dimension must be known ahead of time"""
    for source in node.all_input_nodes:
        if isinstance(source.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return f"argument {source.name} is computed"
    for member, tensor in tensors(node):
        if any(map(is_open, tensor.shape)) and has_free_unbacked_symbols(tensor):
            return f"the sizes of {member.name} depend on data"
    return None


@rule("scalar_qparams")
def scalar_qparams(node: fx.Node, site: Site) -> str | None:
    """the scale must be a positive, normal number and the zero point within int8"""
    for member, params in _parameters(site):
        if not (math.isfinite(params.scale32) and params.scale32 >= SMALLEST_NORMAL):
            return f"{member.name} has scale {params.scale}"
        if not -128 <= params.zero_point <= 127:
            return f"{member.name} has zero point {params.zero_point}"
    return None


@rule("code_range")
def code_range(node: fx.Node, site: Site) -> str | None:
    """codes must use the whole range [-128, 127]"""
    for member, params in _parameters(site):
        if is_quantize(member) and (params.qmin, params.qmax) != (-128, 127):
            return f"{member.name} has codes {params.qmin}..{params.qmax}"
    return None


@rule("one_meaning")
def one_meaning(node: fx.Node, site: Site) -> str | None:
    """whoever reads the same codes must give them the same scale and zero point"""
    found = (other_meaning(member) for member, _ in _parameters(site) if is_dequantize(member))
    return next((text for text in found if text is not None), None)


REAL: tuple[Rule, ...] = (dtype, nonempty, max_rank, computed_sizes, scalar_qparams, code_range, one_meaning)
"""For operators on numbers, wherever these may be codes."""

CODES: tuple[Rule, ...] = (
    real_dtype,
    code_dtype,
    nonempty,
    max_rank,
    computed_sizes,
    scalar_qparams,
    code_range,
    one_meaning,
)
"""For quantize and dequantize."""
