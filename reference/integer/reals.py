"""Real numbers that XNNPACK computes to the last bit.

What IEEE floats compute with one rounding, and products that quantize their operand at run time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.arithmetic.xnnpack import dynamic, flushed
from npu_assay.reference.golden.aten import aten, bound, canonical
from npu_assay.reference.golden.bounded import Bounded
from npu_assay.reference.golden.special import anything
from npu_assay.reference.integer.operand import Given, IntegerError, QTensor, added, on_images, require, window
from npu_assay.reference.integer.xnnpack import output_major
from npu_assay.reference.operators.home import INTEGERS, ByName, loaded
from npu_assay.reference.operators.lookup import home


def reals(x: QTensor) -> Tensor:
    """float32 of codes: f32((code - zero point) * scale), as dequantize nodes compute it."""
    if x.group is not None:
        scales = torch.tensor(x.scale, dtype=torch.float32).reshape(x.codes.shape[0], -1)
        return (x.codes - x.zero_point).float() * scales.repeat_interleave(x.group, 1)
    shape = [-1 if d == x.axis else 1 for d in range(x.codes.dim())] if x.axis is not None else []
    scales = torch.tensor(x.scale, dtype=torch.float32).reshape(shape)
    return (x.codes.to(torch.int32) - x.zero_point).float() * scales


def run_reals(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """The outputs of an operator of which floats of one type have one result; none for any other operator."""
    own = home(canonical(op))
    if own is None or not own.exact_on_reals:
        return ()
    found: tuple[Tensor, ...] = loaded(own.exact_on_reals, INTEGERS, own.name)(args, kwargs)
    return found


@ByName
def itself(op: str) -> Callable[..., tuple[Tensor, ...]]:
    """The operator itself: a choice, a move, or one operation that rounds correctly.

    float32 results below the normal range are flushed to zero, and so are operands that are calculated with: a device
    may also keep such results.
    """
    function, own = aten(op), home(canonical(op))
    calculates = own is not None and own.terms == 0

    def rule(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
        if calculates:
            args = [flushed(x) if isinstance(x, Tensor) else x for x in args]
        result = function(*(list(item) if isinstance(item, tuple) else item for item in args), **kwargs)
        outputs = (result,) if isinstance(result, Tensor) else tuple(result)
        return tuple(flushed(y) if y.dtype == torch.float32 else y for y in outputs)

    return rule


def copied(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """The operand: all further arguments name a layout."""
    return (args[0],)


def run_dynamic(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor | Bounded, ...]:
    """A product of real activations, quantized row by row (images: one by one), and quantized weights (QTensor).

    Bounded where the order of its float32 sums is the processor's choice, and where rows whose range is not finite may
    become anything: no codes stand for them.
    """
    own = home(canonical(op))
    if own is None or not own.dynamic:
        raise IntegerError(f"operator: found {op!r}, expected a product that quantizes its operand at run time")
    rule, given = loaded(own.dynamic, INTEGERS), bound(own.name, args, kwargs)
    y = rule(given)
    if isinstance(y, Bounded) or not bool(y.isnan().any()):
        return (y,)
    open_ = rule({**given, "bias": None}).isnan()
    return (anything(Bounded(y.double()), open_) if bool(open_.any()) else y,)


def _weights(given: Given) -> QTensor:
    weight = given["weight"]
    require(isinstance(weight, QTensor), "weights", type(weight).__name__, "codes")
    require(weight.zero_point == 0, "weights", f"zero point {weight.zero_point}", "0")
    quantised: QTensor = weight
    return quantised


def linear(given: Given) -> Tensor | Bounded:
    weight = _weights(given)
    if weight.group is None:
        return dynamic.linear(given["input"], weight.codes, weight.scales, given["bias"])
    scales = torch.tensor(weight.scales).reshape(weight.codes.shape[0], -1)
    operands = (given["input"], weight.codes, scales, given["bias"])
    y = dynamic.groupwise_linear(*operands)
    stored = y.double().abs() * torch.finfo(y.dtype).eps  # both are rounded to the type of the result
    return Bounded(y.double(), (dynamic.groupwise_error(*operands) + stored).nan_to_num(math.inf, math.inf))


def convolution(given: Given) -> Tensor:
    weight = _weights(given)
    rank, groups = weight.codes.dim() - 2, int(given["groups"])
    kernel = weight.codes if rank == 2 else weight.codes.unsqueeze(-2)
    x, bias = given["input"], given["bias"]
    places = window(given, rank)
    if given["transposed"]:
        more, laid = added(given["output_padding"], rank), output_major(kernel, groups)
        return on_images(lambda image: dynamic.transpose_conv2d(image, laid, weight.scales, bias, *places, more), x)
    laid = kernel.permute(0, 2, 3, 1)
    return on_images(lambda image: dynamic.conv2d(image, laid, weight.scales, bias, *places), x)
