"""XNNPACK's float32 kernels: products by sequential fused multiply-adds, averages and resizes in its order.

Products go to a library where it is shown to make the same chain (`chain`), else they are added up term by term.

Images are NHWC. Element-wise operators of one rounding (add, sub, mul, div, minimum, maximum, abs, neg, floor, ceil,
square, clamp, leaky_relu, prelu) are torch's own, with subnormal numbers flushed to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, pad_hw, windows
from npu_assay.partitioners.common.int8.output import Kernel, Kernel2
from npu_assay.partitioners.xnnpack.kernels import chain
from npu_assay.partitioners.xnnpack.kernels.accumulators import reach, spread
from npu_assay.partitioners.xnnpack.kernels.fma import accumulate, flushed, fma

Reals = tuple[float, float]

_CHUNK = 9
"""Taps that an average adds up as one tree."""
_FEW_CELLS = 16
"""Up to which adding them up one by one takes less time than a product."""


def linear(weights: Tensor, bias: Tensor | None, activation: Reals | None = None) -> Kernel:
    """weights [O, I], bias [O]; returns x [..., I] -> y [..., O]: from the bias on, one term after the other."""
    outputs, inputs = weights.shape
    by = _prepared(weights.t(), bias, outputs)

    def apply(x: Tensor) -> Tensor:
        y = _product(x.reshape(-1, inputs), by)
        return _limited(y.view(*x.shape[:-1], outputs), activation)

    return apply


def batch_matmul() -> Kernel2:
    """f(a [..., M, K], b [..., K, N]) -> [..., M, N]; leading axes broadcast."""

    def apply(a: Tensor, b: Tensor) -> Tensor:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        left = a.expand(*lead, *a.shape[-2:]).reshape(-1, *a.shape[-2:])
        right = b.expand(*lead, *b.shape[-2:]).reshape(-1, *b.shape[-2:])
        found = chain.products(left, right)
        return (_one_by_one(left, right) if found is None else flushed(found)).reshape(*lead, a.shape[-2], b.shape[-1])

    return apply


def _one_by_one(left: Tensor, right: Tensor) -> Tensor:
    return torch.stack(
        [_product(rows, _factor(matrix, None)) for rows, matrix in zip(left, flushed(right), strict=True)]
    )


def conv2d(
    weights: Tensor,
    bias: Tensor | None,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    groups: int = 1,
    activation: Reals | None = None,
    half: bool = False,
) -> Kernel:
    """weights [O, KH, KW, I / groups]; returns x [N, H, W, I] -> y [N, OH, OW, O].

    Terms are added in the order kh, kw, channel; with one input and one output per group kw, kh. The kernels for
    float16 (`half`) hold weights and bias in float16 and add up in float32, but depthwise ones in float16.
    """
    outputs, kh, kw, each = weights.shape
    weights, bias = _held(weights, half), None if bias is None else _held(bias, half)
    if each == 1 and outputs == groups > 1:
        return _depthwise(weights, bias, stride, dilation, padding, activation, half)

    def gathered(x: Tensor) -> Tensor:
        return windows(pad_hw(x, padding), (kh, kw), stride, dilation)

    return _of_windows(gathered, weights, bias, groups, activation)


def _of_windows(
    gathered: Kernel, weights: Tensor, bias: Tensor | None, groups: int, activation: Reals | None
) -> Kernel:
    """Products of weights [O, KH, KW, I / groups] with what `gathered` makes of an image: [N, OH, OW, KH, KW, I]."""
    outputs, _, _, each = weights.shape
    parts = [
        _prepared(w.reshape(w.shape[0], -1).t(), b, w.shape[0])
        for w, b in zip(weights.chunk(groups), _chunks(bias, groups), strict=True)
    ]

    def apply(x: Tensor) -> Tensor:
        taps = gathered(x)
        pieces = [
            _product(taps[..., g * each :][..., :each].reshape(-1, len(by.matrix)), by) for g, by in enumerate(parts)
        ]
        return _limited(torch.cat(pieces, 1).view(*taps.shape[:3], outputs), activation)

    return apply


def _held(values: Tensor, half: bool) -> Tensor:
    return values.half().float() if half else values


def _depthwise(
    weights: Tensor,
    bias: Tensor | None,
    stride: Pair,
    dilation: Pair,
    padding: Padding,
    activation: Reals | None,
    half: bool,
) -> Kernel:
    """One input and one output channel per group, weights [O, KH, KW, 1]: terms in the order kw, kh."""
    weights, bias = flushed(weights.float()), None if bias is None else flushed(bias.float())
    kernel = (weights.shape[1], weights.shape[2])

    def by_terms(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        taps = windows(pad_hw(x, padding), kernel, stride, dilation).transpose(3, 4).flatten(3, 4).double()
        factors = weights.transpose(1, 2).flatten(1).t().double()
        start = torch.zeros(len(weights), dtype=torch.float64) if bias is None else bias.double()
        acc = start.expand(*taps.shape[:3], -1)
        for k in range(factors.shape[0]):
            acc = accumulate(acc, taps[..., k, :], factors[k])
            acc = acc.half().double() if half else acc
        return acc.float()

    in_one = chain.depthwise(weights, bias, stride, dilation, padding, by_terms)
    if kernel == (1, 1):
        in_one = _one_tap(weights, bias, stride, padding)

    def apply(x: Tensor) -> Tensor:
        x = flushed(x)
        found = None if half else in_one(x)
        return _limited(flushed(by_terms(x, weights, bias) if found is None else found), activation)

    return apply


def _one_tap(weights: Tensor, bias: Tensor | None, stride: Pair, padding: Padding) -> Kernel:
    """A multiply-add of each channel, as of a batch norm; a library's convolution takes many times as long."""
    factors, start = weights.flatten(), torch.zeros(len(weights)) if bias is None else bias
    return lambda x: fma(pad_hw(x, padding)[:, :: stride[0], :: stride[1]].contiguous(), factors, start)


def transpose_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
    groups: int = 1,
    activation: Reals | None = None,
    half: bool = False,
) -> Kernel:
    """weights [O, KH, KW, I / groups]; returns x [N, H, W, I] -> y [N, OH, OW, O]. half: as for `conv2d`.

    An output cell adds its terms in the order of the kernel's cells kh, kw that reach it, then of the channels.
    """
    kernel = (weights.shape[1], weights.shape[2])
    weights, bias = _held(weights, half), None if bias is None else _held(bias, half)
    around = reach(kernel, dilation, padding, output_padding)

    def gathered(x: Tensor) -> Tensor:
        return windows(spread(x, stride, around, 0.0), kernel, (1, 1), dilation).flip(3, 4)

    return _of_windows(gathered, weights, bias, groups, activation)


def mean() -> Kernel:
    """The mean over height and width of x [N, H, W, C] -> [N, 1, 1, C]: cells in row-major order, times f32(1 / n)."""

    def apply(x: Tensor) -> Tensor:
        images = flushed(x).flatten(1, 2).contiguous()
        sums = torch.stack([_total(cells) for cells in images])
        return flushed(sums * torch.tensor(1.0 / images.shape[1]))[:, None, None, :]

    return apply


def _total(cells: Tensor) -> Tensor:
    found = chain.total(cells) if len(cells) > _FEW_CELLS else None
    return total_by_terms(cells) if found is None else found


def total_by_terms(cells: Tensor) -> Tensor:
    """The definition of `_total`: one of the cells [K, C] after the other."""
    total = torch.zeros(cells.shape[1])
    for cell in cells:
        total += cell
    return total


def avg_pool2d(kernel: Pair, stride: Pair, padding: Padding = NO_PADDING, half: bool = False) -> Kernel:
    """The mean of the cells inside the image, x [N, H, W, C] -> [N, OH, OW, C]: sums of nine taps, kw before kh.

    The kernels for float16 (`half`) hold 1 / n, and what they carry over from nine taps, in float16.
    """

    def apply(x: Tensor) -> Tensor:
        taps = windows(pad_hw(flushed(x), padding), kernel, stride).transpose(3, 4).flatten(3, 4)
        total = _tree_sum(taps, half)
        ones = torch.ones((1, *x.shape[1:3], 1))
        count = windows(pad_hw(ones, padding), kernel, stride).sum((3, 4))
        return flushed(total * _held(torch.reciprocal(count), half))

    return apply


def _tree_sum(taps: Tensor, half: bool) -> Tensor:
    """taps [N, OH, OW, taps, C] -> [N, OH, OW, C]: nine in a tree, and the trees one after the other."""
    whole = F.pad(taps, (0, 0, 0, -taps.shape[3] % _CHUNK))
    e = whole.view(*taps.shape[:3], -1, _CHUNK, taps.shape[4]).unbind(4)
    parts = (((e[0] + e[1]) + e[8]) + (e[6] + e[7])) + ((e[2] + e[3]) + (e[4] + e[5]))
    total = parts[..., 0, :]
    for part in parts.unbind(3)[1:]:
        total = part + _held(total, half)
    return total


def resize_bilinear(size: Pair, align_corners: bool) -> Kernel:
    """x [N, H, W, C] -> [N, *size, C]: both rows along the width, then along the height, without fused adds."""

    def apply(x: Tensor) -> Tensor:
        top, bottom, down = _positions(x.shape[1], size[0], align_corners)
        left, right, across = _positions(x.shape[2], size[1], align_corners)
        x = flushed(x)
        rows = [_between(part[:, :, left], part[:, :, right], across[:, None]) for part in (x[:, top], x[:, bottom])]
        return flushed(_between(rows[0], rows[1], down[:, None, None]))

    return apply


def _between(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    return a + flushed(flushed(b - a) * weight)


def _positions(given: int, wanted: int, align_corners: bool) -> tuple[Tensor, Tensor, Tensor]:
    """For each output index: the two input indices and the weight of the second, in float32."""
    index = torch.arange(wanted, dtype=torch.float32)
    if align_corners and wanted > 1:
        place = index * (torch.tensor(float(given - 1)) / torch.tensor(float(wanted - 1)))
    else:
        scale = torch.tensor(float(given)) / torch.tensor(float(wanted))
        place = index * scale + (torch.tensor(0.0) if align_corners else scale * 0.5 - 0.5)
    place = place.clamp_min(0.0)  # behind the last index both neighbors are the last one, whatever the weight
    low = place.floor()
    return low.long(), (low.long() + 1).clamp_max(given - 1), place - low


@dataclass(frozen=True)
class _Factor:
    """Weights [K, O] and start [O] as float32, subnormal numbers flushed; the same for a library."""

    matrix: Tensor
    start: Tensor | None
    in_one: chain.Factor | None


def _prepared(matrix: Tensor, bias: Tensor | None, outputs: int) -> _Factor:
    return _factor(
        flushed(matrix.float()).contiguous(), torch.zeros(outputs) if bias is None else flushed(bias.float())
    )


def _factor(matrix: Tensor, start: Tensor | None) -> _Factor:
    return _Factor(matrix, start, chain.factor(matrix, start))


def _chunks(bias: Tensor | None, groups: int) -> Sequence[Tensor | None]:
    return [None] * groups if bias is None else bias.chunk(groups)


def _product(rows: Tensor, by: _Factor) -> Tensor:
    """start + rows [M, K] @ matrix [K, O], k ascending, one rounding to float32 per term. Rows need not be flushed.

    No subnormal number is in rows that a library takes.
    """
    found = None if by.in_one is None else chain.product(rows, by.in_one)
    return flushed(by_terms(flushed(rows), by.matrix, by.start) if found is None else found)


def by_terms(rows: Tensor, matrix: Tensor, start: Tensor | None) -> Tensor:
    """The definition of `_product`, not flushed: one term after the other."""
    wide = rows.t().double()
    acc = torch.zeros(matrix.shape[1], dtype=torch.float64) if start is None else start.double()
    acc = acc.expand(rows.shape[0], -1)
    for row, column in zip(wide.unbind(0), matrix.double().unbind(0), strict=True):
        acc = accumulate(acc, row[:, None], column)
    return acc.float()


def _limited(y: Tensor, activation: Reals | None) -> Tensor:
    return y if activation is None else y.clamp_(*activation)
