"""Sums of products on codes: CONV2D, CONV3D, DEPTHWISE_CONV2D, TRANSPOSE_CONV2D and MATMUL, each with its RESCALE."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.arithmetic.tosa.rescale import bits_of, centred, output
from npu_assay.reference.arithmetic.windows import Padding, Pair, convolved, padded, scattered, transposed

Triple = tuple[int, int, int]


def linear(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    zero_point: int = 0,
) -> Tensor:
    """codes [..., I], weights [O, I], bias [O] int32: [..., O]. scales, zero_point: those of the weights."""
    sums = centred(codes, x) @ (weights.to(torch.int64) - zero_point).mT
    return _rescaled(sums, bias, codes, x, scales, y)


def matmul(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p [..., M, K] times q [..., K, N]: [..., M, N]."""
    return output(centred(p, a) @ centred(q, b), a.scale * b.scale / y.scale, y, bits_of(p))


def conv(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    stride: Triple,
    dilation: Triple,
    padding: tuple[Pair, Pair, Pair],
    zero_point: int = 0,
) -> Tensor:
    """codes [N, D, H, W, I * groups], weights [O, KD, KH, KW, I], bias [O] int32: [N, OD, OH, OW, O]."""
    (front, back), *sides = padding
    depth = torch.constant_pad_nd(centred(codes, x), (0, 0, 0, 0, 0, 0, front, back), 0)
    kernel = weights.to(torch.int64) - zero_point
    count = (depth.shape[1] - (kernel.shape[1] - 1) * dilation[0] - 1) // stride[0] + 1
    sums = torch.zeros((), dtype=torch.int64)
    for k in range(kernel.shape[1]):
        planes = depth[:, k * dilation[0] + stride[0] * torch.arange(count)].flatten(0, 1)
        sums = sums + convolved(padded(planes, (sides[0], sides[1]), 0), kernel[:, k], stride[1:], dilation[1:])
    return _rescaled(sums.view(len(codes), count, *sums.shape[1:]), bias, codes, x, scales, y)


def transpose_conv2d(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    stride: Pair,
    dilation: Pair,
    padding: Padding,
    output_padding: Pair,
    zero_point: int = 0,
) -> Tensor:
    """codes [N, H, W, I * groups], weights [O, KH, KW, I], bias [O] int32: [N, OH, OW, O]."""
    kernel = weights.to(torch.int64) - zero_point
    place = transposed(codes, weights, stride, dilation, padding, output_padding)
    return _rescaled(scattered(centred(codes, x), kernel, *place), bias, codes, x, scales, y)


def _rescaled(
    sums: Tensor, bias: Tensor | None, codes: Tensor, x: Affine, scales: Sequence[float], y: Affine
) -> Tensor:
    """Sums with the bias, outputs on the last axis: by x.scale * scale / y.scale; of several scales, in float32."""
    acc = sums if bias is None else sums + bias.to(torch.int64)
    if len(scales) == 1:
        return output(acc, x.scale * scales[0] / y.scale, y, bits_of(codes))
    return output(acc, [x.scale * float32(scale) / y.scale for scale in scales], y, bits_of(codes))
