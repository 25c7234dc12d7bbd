"""Operators whose outputs pick, average or move inputs: the operator itself propagates the errors.

With coefficients that are not negative, the bound of sum c_i * x_i is sum c_i * dx_i; the bound of a
maximum is the maximum of the bounds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.aten import CLONE, aten
from npu_assay.reference.golden.bounded import Bounded, GoldenError, errors, operands, values
from npu_assay.reference.golden.special import anything, between_infinities

MOVEMENT = frozenset(
    {
        "aten.alias_copy.default",
        "aten.as_strided_copy.default",
        "aten.cat.default",
        "aten.clone.default",
        CLONE,
        "aten.detach_copy.default",
        "aten.dropout.default",
        "aten.expand_copy.default",
        "aten.flatten.using_ints",
        "aten.flip.default",
        "aten.permute.default",
        "aten.permute_copy.default",
        "aten.repeat.default",
        "aten.reshape.default",
        "aten.select_copy.int",
        "aten.slice.Tensor",
        "aten.slice_copy.Tensor",
        "aten.split.Tensor",
        "aten.split.default",
        "aten.split.sizes",
        "aten.split_copy.Tensor",
        "aten.split_with_sizes.default",
        "aten.split_with_sizes_copy.default",
        "aten.squeeze.default",
        "aten.squeeze.dim",
        "aten.squeeze.dims",
        "aten.squeeze_copy.default",
        "aten.squeeze_copy.dim",
        "aten.squeeze_copy.dims",
        "aten.transpose.int",
        "aten.transpose_copy.int",
        "aten.unfold_copy.default",
        "aten.unsqueeze.default",
        "aten.unsqueeze_copy.default",
        "aten.upsample_nearest2d.vec",
        "aten.view.default",
        "aten.view_copy.default",
    }
)
"""Every output element is one of the input elements."""

POOLS = frozenset({"aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"})

BILINEAR = "aten.upsample_bilinear2d.vec"
AVERAGES = frozenset(
    {
        "aten._adaptive_avg_pool2d.default",
        "aten.adaptive_avg_pool2d.default",
        "aten.avg_pool1d.default",
        "aten.avg_pool2d.default",
        "aten.mean.dim",
        BILINEAR,
    }
)

PAD = "aten.constant_pad_nd.default"
WEIGHTED = MOVEMENT | POOLS | AVERAGES | {PAD}

# Arguments that choose a dtype or a memory format: they change no number (the golden stays float64).
_IGNORED = frozenset({"dtype", "memory_format", "dim_order", "non_blocking"})


def weighted(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, ...]:
    """Runs an operator of `WEIGHTED` on the values and, unless they are exact, on the errors.

    The index output of a max pool is exact when its input is, and else unbounded.
    """
    function = aten(op)
    options = {name: item for name, item in kwargs.items() if name not in _IGNORED}
    if op == "aten.mean.dim":
        args = args[:3]  # the fourth is the dtype
    if op == "aten.as_strided_copy.default":  # strides are those of numbers that lie one behind the other
        args = (_dense(args[0]), *args[1:])
    outputs = _tuple(op, function(*values(args), **values(options)))
    found = operands(args)
    if all(x.exact for x in found):
        return tuple(_resized(op, function, args, options, y) for y in outputs)
    if op == PAD:
        args = (*args[:2], 0.0)  # the constant itself is exact
        options.pop("value", None)
    bounds = _tuple(op, function(*errors(args), **errors(options)))
    if op == "aten.max_pool2d_with_indices.default":
        bounds = (bounds[0], torch.full_like(bounds[0], torch.inf))
    return tuple(Bounded(y, bound) for y, bound in zip(outputs, bounds, strict=True))


def _resized(op: str, function: Any, args: tuple[Any, ...], options: dict[str, Any], result: Tensor) -> Bounded:
    """A result, which a bilinear resize leaves open where it is made of infinities."""
    if op != BILINEAR or bool(result.isfinite().all()):
        return Bounded(result)
    nan = function(args[0].value.isnan().to(torch.float64), *args[1:], **options)
    return anything(Bounded(result), between_infinities(nan, result))


def _dense(x: Bounded) -> Bounded:
    value = x.value.contiguous()
    return Bounded(value) if x.exact else Bounded(value, x.spread().contiguous(), x.scale, x.axis)


def _tuple(op: str, result: Any) -> tuple[Tensor, ...]:
    """The operator's results as float64 tensors, indices too."""
    if isinstance(result, Tensor):
        return (result,)
    if isinstance(result, list | tuple):
        return tuple(item if item.is_floating_point() else item.to(torch.float64) for item in result)
    raise GoldenError(f"{op}: found a result of type {type(result).__name__}, expected tensors")
