"""Means, variances, norms and softmax: sums, products and tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import fx

from npu_assay.partitioners.ethosu.rewriting.writer import Writer, dims_of, shape

aten = torch.ops.aten
IMAGE = 4


def mean(w: Writer, input: fx.Node, dim: Sequence[int] | None = None, keepdim: bool = False) -> fx.Node:
    """The sum times the reciprocal of the count, on a tensor of rank 4 at least."""
    before, dims = shape(input), dims_of(input, dim)
    after = [1 if d in dims else n for d, n in enumerate(before) if keepdim or d not in dims]
    reduced = [d for d in dims if before[d] != 1]
    if len(before) < IMAGE:
        added = IMAGE - len(before)
        input = w.call(aten.reshape.default, input, [1] * added + list(before))
        reduced = [d + added for d in reduced]
    if reduced:
        count = prod(shape(input)[d] for d in reduced)
        total = w.call(aten.sum.dim_IntList, input, reduced, True)
        input = w.call(aten.mul.Tensor, total, 1 / count)
    return input if list(shape(input)) == after else w.call(aten.reshape.default, input, after)


def variance(
    w: Writer, input: fx.Node, dim: Sequence[int] | None = None, correction: float | None = None, keepdim: bool = False
) -> fx.Node:
    """The sum of squares of the distances from the mean, times the reciprocal of their count less the correction."""
    dims = dims_of(input, dim)
    distance = w.call(aten.sub.Tensor, input, w.call(aten.mean.dim, input, dims, True))
    squares = w.call(aten.mul.Tensor, distance, distance)
    count = prod(shape(input)[d] for d in dims) - (1 if correction is None else correction)
    total = w.call(aten.sum.dim_IntList, squares, dims, keepdim)
    return w.call(aten.mul.Tensor, total, 1 / max(count, 1))


def unbiased_variance(
    w: Writer, input: fx.Node, dim: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False
) -> fx.Node:
    """The variance by the older arguments."""
    return variance(w, input, dim, int(unbiased), keepdim)


def _normalised(w: Writer, input: fx.Node, dims: list[int], eps: float) -> fx.Node:
    """The distance from the mean, in standard deviations."""
    distance = w.call(aten.sub.Tensor, input, w.call(aten.mean.dim, input, dims, True))
    spread = w.call(aten.add.Tensor, variance(w, input, dims, 0, True), eps)
    return w.call(aten.mul.Tensor, distance, w.call(aten.rsqrt.default, spread))


def _scaled(w: Writer, input: fx.Node, weight: fx.Node | None, bias: fx.Node | None, sizes: Sequence[int]) -> fx.Node:
    """input * weight + bias, with these reshaped."""
    if weight is not None:
        input = w.call(aten.mul.Tensor, input, w.call(aten.reshape.default, weight, sizes))
    if bias is not None:
        input = w.call(aten.add.Tensor, input, w.call(aten.reshape.default, bias, sizes))
    return input


def layer_norm(
    w: Writer,
    input: fx.Node,
    normalized_shape: Sequence[int],
    weight: fx.Node | None = None,
    bias: fx.Node | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> fx.Node:
    """Over the last dimensions."""
    rank, last = len(shape(input)), len(normalized_shape)
    found = _normalised(w, input, list(range(rank - last, rank)), eps)
    return _scaled(w, found, weight, bias, [1] * (rank - last) + list(normalized_shape))


def group_norm(
    w: Writer,
    input: fx.Node,
    num_groups: int,
    weight: fx.Node | None = None,
    bias: fx.Node | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> fx.Node:
    """Over groups of channels."""
    count, channels, *rest = shape(input)
    each = channels // num_groups
    groups = w.call(aten.reshape.default, input, [count, num_groups, each, prod(rest)])
    found = _scaled(w, _normalised(w, groups, [2, 3], eps), weight, bias, [1, num_groups, each, 1])
    return w.call(aten.reshape.default, found, list(shape(input)))


def batch_norm(
    w: Writer,
    input: fx.Node,
    weight: fx.Node | None,
    bias: fx.Node | None,
    running_mean: fx.Node | None,
    running_var: fx.Node | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> fx.Node | None:
    """With recorded statistics; after a product torchao has folded the norm already."""
    if training or running_mean is None or running_var is None:
        return None
    sizes = [1] * len(shape(input))
    sizes[1] = shape(input)[1]
    distance = w.call(aten.sub.Tensor, input, w.call(aten.reshape.default, running_mean, sizes))
    spread = w.call(aten.add.Tensor, w.call(aten.reshape.default, running_var, sizes), eps)
    found = w.call(aten.mul.Tensor, distance, w.call(aten.rsqrt.default, spread))
    return _scaled(w, found, weight, bias, sizes)


def softmax(w: Writer, input: fx.Node, dim: int, dtype: torch.dtype | None = None) -> fx.Node:
    """exp(x - max) times the reciprocal of the sum."""
    largest = w.call(aten.amax.default, input, [dim], True)
    powers = w.call(aten.exp.default, w.call(aten.sub.Tensor, input, largest))
    total = w.call(aten.sum.dim_IntList, powers, [dim], True)
    return w.call(aten.mul.Tensor, powers, w.call(aten.reciprocal.default, total))


def log_softmax(w: Writer, input: fx.Node, dim: int, dtype: torch.dtype | None = None) -> fx.Node:
    """The logarithm of the softmax."""
    return w.call(aten.log.default, softmax(w, input, dim))


def vector_norm(
    w: Writer,
    input: fx.Node,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> fx.Node | None:
    """Sum of magnitudes, or root of the sum of squares; no others."""
    dims = dims_of(input, dim)
    if ord == 1:
        return w.call(aten.sum.dim_IntList, w.call(aten.abs.default, input), dims, keepdim)
    if ord != 2:
        return None
    squares = w.call(aten.mul.Tensor, input, input)
    return w.call(aten.sqrt.default, w.call(aten.sum.dim_IntList, squares, dims, keepdim))


def cosine_similarity(w: Writer, x1: fx.Node, x2: fx.Node, dim: int = 1, eps: float = 1e-8) -> fx.Node:
    """The product of two vectors, over the product of their lengths, each at least `eps`."""
    total = w.call(aten.sum.dim_IntList, w.call(aten.mul.Tensor, x1, x2), [dim], False)
    lengths = [w.call(aten.linalg_vector_norm.default, x, 2, [dim], False) for x in (x1, x2)]
    least = w.call(aten.full_like.default, lengths[0], eps)
    bounded = [w.call(aten.maximum.default, length, least) for length in lengths]
    return w.call(aten.div.Tensor, total, w.call(aten.mul.Tensor, *bounded))
