"""What stands before and after an operator: other operators that compute, and take any layout or make one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from npu_assay.conformance.cases.make import (
    SUBJECT,
    Call,
    Q,
    X,
    activation,
    bias_quant,
    constant,
    fitting_weight_scale,
    quant,
    results,
    spread,
    weight_quant,
)
from npu_assay.conformance.programs.graph import Quant, Ref, Step, Value


def behind_abs(u: Call) -> tuple[tuple[Value, ...], tuple[Step, ...], Ref]:
    """Behind an abs, which computes, and takes any layout."""
    return u.values, (Step("before", "aten.abs.default", (X,), (), u.x.quant),), Ref("before")


def behind_neg(u: Call) -> tuple[tuple[Value, ...], tuple[Step, ...], Ref]:
    """Behind a neg whose output takes every code: its input has the mirrored zero point."""
    x, *rest = u.values
    assert x.quant is not None
    mirrored = replace(x, quant=replace(x.quant, zero_point=-1 - x.quant.zero_point))
    return (mirrored, *rest), (Step("before", "aten.neg.default", (X,), (), x.quant),), Ref("before")


def behind_conv(u: Call) -> tuple[tuple[Value, ...], tuple[Step, ...], Ref]:
    """Behind a 1x1 convolution from 4 channels, which makes `x`, of shape (1, C, ...), channels-first.

    The image before the convolution is filled the way `x` was to be.
    """
    x, *rest = u.values
    (image, *constants), convolution = pointwise((1, 4, *x.shape[2:]), x.shape[1], x.quant or Q)
    if x.fill.kind != "random":
        image = replace(image, fill=replace(x.fill, index=x.fill.index % math.prod(image.shape)))
    return (image, *constants, *rest), (convolution,), Ref("before")


def pointwise(shape: Sequence[int], channels: int, y: Quant) -> tuple[tuple[Value, ...], Step]:
    """Values and step "before": a 1x1 convolution with per-channel weights and a bias."""
    rank, x = len(shape) - 2, quant(0.04, -5)
    w = weight_quant(spread(2 * fitting_weight_scale(x, y, shape[1]), channels), 0)
    values = (
        activation("image", shape, x),
        constant("before_w", (channels, shape[1], *[1] * rank), w),
        constant("before_b", (channels,), bias_quant(x, w)),
    )
    ones, zeros = (1,) * rank, (0,) * rank
    args = (Ref("image"), Ref("before_w"), Ref("before_b"), ones, zeros, ones, False, zeros, 1)
    return values, Step("before", "aten.convolution.default", args, (), y)


def then_abs(u: Call) -> tuple[tuple[Step, ...], tuple[Ref, ...]]:
    """An abs takes the (first) result."""
    return (_consumer("abs", u),), (Ref("abs"), *results(u)[1][1:])


def then_two(u: Call) -> tuple[tuple[Step, ...], tuple[Ref, ...]]:
    """An abs and a neg both take the (first) result."""
    return (_consumer("abs", u), _consumer("neg", u)), (Ref("abs"), Ref("neg"), *results(u)[1][1:])


def then_abs_and_returned(u: Call) -> tuple[tuple[Step, ...], tuple[Ref, ...]]:
    """An abs takes the (first) result, which the model also returns."""
    return (_consumer("abs", u),), (*results(u)[1], Ref("abs"))


def _consumer(op: str, u: Call) -> Step:
    return Step(op, f"aten.{op}.default", (Ref(SUBJECT),), (), u.y)
