"""Activations that Ethos-U has no operator for."""

from __future__ import annotations

import torch
from torch import fx

from npu_assay.partitioners.ethosu.rewriting.writer import Writer, tensor

aten = torch.ops.aten


def logit(w: Writer, input: fx.Node, eps: float | None = None) -> fx.Node:
    """log(p / (1 - p)), with p at least `eps` away from 0 and 1"""
    if eps is not None:
        input = w.call(aten.clamp.default, input, eps, 1.0 - eps)
    rest = w.call(aten.add.Tensor, w.call(aten.mul.Tensor, input, -1.0), 1.0)
    odds = w.call(aten.mul.Tensor, input, w.call(aten.reciprocal.default, rest))
    return w.call(aten.log.default, odds)


def selu(w: Writer, input: fx.Node) -> fx.Node:
    """elu with the constants of self-normalising networks"""
    return w.call(aten.elu.default, input, 1.6732632423543772, 1.0507009873554805, 1.0)


def celu(w: Writer, input: fx.Node, alpha: float = 1.0) -> fx.Node:
    """elu of which the exponent is divided by alpha"""
    return w.call(aten.elu.default, input, alpha, 1.0, 1.0 / alpha)


def relu6(w: Writer, input: fx.Node) -> fx.Node:
    """A clamp from 0 to 6"""
    return w.call(aten.hardtanh.default, input, 0.0, 6.0)


def prelu(w: Writer, input: fx.Node, weight: fx.Node) -> fx.Node:
    """max(input, 0) + weight * min(input, 0)"""
    sizes = [1] * tensor(input).dim()
    if len(sizes) > 1:
        sizes[1] = tensor(weight).numel()
    up, down = w.call(aten.clamp.default, input, 0, None), w.call(aten.clamp.default, input, None, 0)
    slope = w.call(aten.reshape.default, weight, sizes)
    return w.call(aten.add.Tensor, up, w.call(aten.mul.Tensor, down, slope))


def sign(w: Writer, input: fx.Node) -> fx.Node:
    """-1, 0 or 1 by comparisons with 0."""
    above = w.call(aten.gt.Scalar, input, 0.0)
    below = w.call(aten.lt.Scalar, input, 0.0)
    zero = w.call(aten.mul.Tensor, input, 0.0)
    one = w.call(aten.add.Tensor, zero, 1.0)
    down = w.call(aten.where.self, below, w.call(aten.neg.default, one), zero)
    up = w.call(aten.where.self, above, one, zero)
    return w.call(aten.where.self, below, down, up)


def root(w: Writer, input: fx.Node) -> fx.Node:
    """input ** 0.5"""
    return w.call(aten.pow.Tensor_Scalar, input, 0.5)
