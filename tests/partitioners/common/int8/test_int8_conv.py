"""Convolutions and matrix products against loops over Python integers, and their refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from npu_assay.partitioners.common.int8 import sums
from npu_assay.partitioners.common.int8.accumulate import exact_dtype, folded
from npu_assay.partitioners.common.int8.conv import conv2d, depthwise_conv2d, transpose_conv
from npu_assay.partitioners.common.int8.matmul import batch_matmul, fully_connected, fully_connected_dynamic
from npu_assay.partitioners.common.rescale import quantize_multiplier, tflite_double_round, tflite_float64
from npu_assay.reference.affine import Affine

Pair = tuple[int, int]
X = Affine(0.5, -3)
Y = Affine(8.0, 4)


def codes(seed: int, *shape: int, low: int = -128) -> Tensor:
    return torch.randint(low, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


def int32(seed: int, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-5000, 5000, (count,), dtype=torch.int32, generator=generator)


def code(acc: int, ratio: float, y: Affine = Y) -> int:
    rescaled = int(tflite_double_round(torch.tensor(acc), *quantize_multiplier(ratio)))
    return max(y.qmin, min(y.qmax, rescaled + y.zero_point))


def looped(
    x: Tensor,
    taps: Callable[[int, int], Sequence[tuple[int, Tensor]]],
    kernel: Pair,
    stride: Pair,
    dilation: Pair,
    out: int,
) -> Tensor:
    """Accumulators of a padded input [N, H, W, C]: taps(o, c) gives (input channel, weights [KH, KW])."""
    n, h, w, _ = x.shape
    oh, ow = ((s - (k - 1) * d - 1) // t + 1 for s, k, d, t in zip((h, w), kernel, dilation, stride, strict=True))
    acc = torch.zeros((n, oh, ow, out), dtype=torch.int64)
    for b, i, j, o in itertools.product(range(n), range(oh), range(ow), range(out)):
        for channel, weight in taps(o, 0):
            for p, q in itertools.product(range(kernel[0]), range(kernel[1])):
                pixel = int(x[b, i * stride[0] + p * dilation[0], j * stride[1] + q * dilation[1], channel])
                acc[b, i, j, o] += pixel * int(weight[p, q])
    return acc


def finished(acc: Tensor, bias: Tensor, scales: Sequence[float]) -> Tensor:
    flat = (acc + bias).reshape(-1, acc.shape[-1]).tolist()
    ratios = [X.scale * s / Y.scale for s in scales]
    return torch.tensor([[code(v, r) for v, r in zip(row, ratios, strict=True)] for row in flat]).view(acc.shape)


def padded(x: Tensor, pads: tuple[Pair, Pair]) -> Tensor:
    (top, bottom), (left, right) = pads
    return torch.nn.functional.pad(x.to(torch.int64) - X.zero_point, (0, 0, left, right, top, bottom))


CASES = [
    ((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    ((3, 2), (1, 1), (1, 1), ((0, 0), (0, 0))),
    ((2, 3), (2, 1), (1, 1), ((1, 0), (0, 2))),
    ((2, 2), (1, 2), (2, 3), ((1, 1), (1, 1))),
    ((1, 1), (2, 2), (1, 1), ((0, 0), (0, 0))),
]


@pytest.mark.parametrize(("kernel", "stride", "dilation", "pads"), CASES)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d(kernel: Pair, stride: Pair, dilation: Pair, pads: tuple[Pair, Pair], groups: int) -> None:
    weights, bias, x = codes(1, 4, *kernel, 3, low=-127), int32(2, 4), codes(3, 2, 5, 6, 3 * groups)
    scales = [0.01, 0.5, 0.003, 2.0]
    each = 4 // groups

    def taps(o: int, _: int) -> list[tuple[int, Tensor]]:
        return [(o // each * 3 + c, weights[o, :, :, c]) for c in range(3)]

    expected = finished(looped(padded(x, pads), taps, kernel, stride, dilation, 4), bias, scales)
    assert torch.equal(conv2d(weights, bias, X, scales, Y, stride, dilation, pads)(x), expected.to(torch.int8))


@pytest.mark.parametrize(("kernel", "stride", "dilation", "pads"), CASES)
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_conv2d(kernel: Pair, stride: Pair, dilation: Pair, pads: tuple[Pair, Pair], multiplier: int) -> None:
    out = 3 * multiplier
    weights, bias, x = codes(4, 1, *kernel, out, low=-127), int32(5, out), codes(6, 2, 5, 6, 3)
    scales = [0.02 * (i + 1) for i in range(out)]

    def taps(o: int, _: int) -> list[tuple[int, Tensor]]:
        return [(o // multiplier, weights[0, :, :, o])]

    expected = finished(looped(padded(x, pads), taps, kernel, stride, dilation, out), bias, scales)
    kernel_ = depthwise_conv2d(weights, bias, X, scales, Y, stride, dilation, pads)
    assert torch.equal(kernel_(x), expected.to(torch.int8))
    assert torch.equal(kernel_(x.permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)), expected.to(torch.int8))


@pytest.mark.parametrize("crop", [(0, 0), (1, 2), (2, 0)])
@pytest.mark.parametrize("size", [(5, 7), (8, 9), (4, 5)])
def test_transpose_conv(size: Pair, crop: Pair) -> None:
    """Strides 2 and 3: some cells get several products, some none, and a small output or a crop drops some."""
    weights, bias, x = codes(7, 2, 3, 2, 4, low=-127), int32(8, 2), codes(9, 1, 2, 3, 4)
    scales = [0.05, 0.3]
    acc = torch.zeros((1, *size, 2), dtype=torch.int64)
    for i, j, p, q, o in itertools.product(range(2), range(3), range(3), range(2), range(2)):
        row, column = i * 2 + p - crop[0], j * 3 + q - crop[1]
        if 0 <= row < size[0] and 0 <= column < size[1]:
            products = (x[0, i, j].to(torch.int64) - X.zero_point) * weights[o, p, q].to(torch.int64)
            acc[0, row, column, o] += products.sum()
    kernel = transpose_conv(weights, bias, (1, *size, 2), X, scales, Y, (2, 3), crop)
    assert torch.equal(kernel(x), finished(acc, bias, scales).to(torch.int8))


def test_a_pixel_by_hand() -> None:
    """(10 + 3) * 4 + (-5 + 3) * 6 + 100 = 140; times 0.5 * 0.25 / 8 = 1/64 is 2.1875, so 2 + 4."""
    weights = torch.tensor([4, 6], dtype=torch.int8).view(1, 1, 1, 2)
    bias = torch.tensor([100], dtype=torch.int32)
    x = torch.tensor([10, -5], dtype=torch.int8).view(1, 1, 1, 2)
    assert conv2d(weights, bias, X, [0.25], Y)(x).tolist() == [[[[6]]]]
    assert conv2d(weights, bias, X, [0.25], Y, activation=(7, 9))(x).tolist() == [[[[7]]]]


@pytest.mark.parametrize(("less", "expected"), [(0, 1), (1, 0)])
def test_the_accumulator_goes_past_24_bits(less: int, expected: int) -> None:
    """2**25 / 2**26 is a half, and rounds to 1; 2**25 - 1, which float32 cannot hold, gives 0."""
    x, y = Affine(1.0, -128), Affine(2.0**26, 0)
    weights = torch.full((1, 1200), 127, dtype=torch.int8)
    bias = torch.tensor([2**25 - 1200 * 255 * 127 - less], dtype=torch.int32)
    kernel = fully_connected(weights, bias, x, [1.0], y)
    assert kernel(torch.full((1, 1200), 127, dtype=torch.int8)).tolist() == [[expected]]
    assert folded(weights, bias, x)[0].dtype == torch.float64
    assert folded(weights[:, :100], None, x)[0].dtype == torch.float32


def test_exact_dtype_at_its_limits() -> None:
    assert exact_dtype(2**24 - 1) == torch.float32
    assert exact_dtype(2**24) == torch.float64
    assert exact_dtype(2**31 - 1) == torch.float64
    with pytest.raises(ValueError, match=r"accumulator: found magnitudes up to 2147483648, expected less than 2\*\*31"):
        exact_dtype(2**31)


def test_folded_is_the_accumulator() -> None:
    weights, bias = codes(10, 3, 7), int32(11, 3)
    x = codes(12, 5, 7)
    matrix, offset = folded(weights, bias, X)
    direct = (x.to(torch.int64) - X.zero_point) @ weights.to(torch.int64).t() + bias
    assert torch.equal((x.to(matrix.dtype) @ matrix.t() + offset).to(torch.int64), direct)


@pytest.mark.parametrize("scales", [[0.1], [0.1, 0.02, 0.5]])
@pytest.mark.parametrize("zero_point", [0, 9])
def test_fully_connected(scales: list[float], zero_point: int) -> None:
    weights, bias, x = codes(13, 3, 7), int32(14, 3), codes(15, 2, 2, 7)
    acc = (x.to(torch.int64) + 3) @ (weights.to(torch.int64) - zero_point).t() + bias
    y = Affine(20.0, 4)
    ratio = torch.tensor([X.scale * Affine(s, 0).scale32 / y.scale for s in scales], dtype=torch.float64)
    expected = (tflite_float64(acc, ratio) + 4).clamp(-128, 127).to(torch.int8)
    kernel = fully_connected(weights, bias, X, scales, y, zero_point, keep_dims=True)
    assert torch.equal(kernel(x), expected)
    assert torch.equal(fully_connected(weights, bias, X, scales, y, zero_point)(x), expected.view(4, 3))
    if len(scales) == 1:
        dynamic = fully_connected_dynamic(X, Affine(scales[0], zero_point), y, bias, keep_dims=True)
        assert torch.equal(dynamic(x, weights), expected)


@pytest.mark.parametrize(("adj_x", "adj_y"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("terms", [5, 300])
def test_batch_matmul(adj_x: bool, adj_y: bool, terms: int) -> None:
    """300 terms may pass 24 bits, 5 may not."""
    left, right, b = codes(16, 2, 3, terms), codes(17, 2, terms, 4), Affine(0.25, 7)
    acc = (left.to(torch.int64) + 3) @ (right.to(torch.int64) - 7)
    y = Affine(float(terms), 4)
    flat = [code(v, X.scale * b.scale / y.scale, y) for v in acc.flatten().tolist()]
    kernel = batch_matmul(X, b, y, adj_x, adj_y)
    found = kernel(left.mT if adj_x else left, right.mT if adj_y else right)
    assert torch.equal(found, torch.tensor(flat, dtype=torch.int8).view(2, 3, 4))


@pytest.mark.skipif(not sums.has_int8_product(), reason="this processor has no exact int8 product")
@pytest.mark.parametrize(("stride", "dilation"), [((2, 1), (1, 2)), ((1, 3), (2, 1))])
def test_sums_of_codes_of_padded_images_that_are_no_squares(stride: Pair, dilation: Pair) -> None:
    """All sums are integers below 2**53. Padded cells hold the zero point."""
    x, weights = codes(1, 2, 5, 8, 3), codes(2, 4, 2, 3, 3)
    found = sums.conv2d(weights, X, stride, dilation, ((1, 0), (0, 2)))(x)
    image = F.pad(x.double().permute(0, 3, 1, 2), (0, 2, 1, 0), value=X.zero_point)
    expected = F.conv2d(image, weights.double().permute(0, 3, 1, 2), stride=stride, dilation=dilation)
    assert found.dtype == torch.int32 and torch.equal(found.double(), expected.permute(0, 2, 3, 1))


def test_inputs_stay_as_they_are() -> None:
    x = codes(18, 1, 4, 4, 3)
    before = x.clone()
    weights = codes(19, 3, 1, 1, 3)
    conv2d(weights, None, X, [0.1], Y)(x)
    depthwise_conv2d(weights[:1], None, X, [0.1], Y)(x)
    transpose_conv(weights, None, (1, 4, 4, 3), X, [0.1], Y)(x)
    fully_connected(weights.view(3, 3), None, X, [0.1], Y)(x)
    batch_matmul(X, X, Y, adj_y=True)(x[0], x[0])
    assert torch.equal(x, before)


def test_shapes_and_scales_that_do_not_fit_are_refused() -> None:
    weights, x = codes(20, 4, 3, 3, 2), codes(21, 1, 5, 5, 3)
    with pytest.raises(ValueError, match="weight scales: found 2, expected 1 or 4"):
        conv2d(weights, None, X, [0.1, 0.2], Y)
    with pytest.raises(ValueError, match=r"weight scale: found 0\.0, expected a positive finite float32"):
        conv2d(weights, None, X, [0.0], Y)
    with pytest.raises(ValueError, match="CONV_2D: found 3 input channels, expected a multiple of the weights' 2"):
        conv2d(weights, None, X, [0.1], Y)(x)
    with pytest.raises(ValueError, match="in groups that divide the 4 output channels"):
        conv2d(weights, None, X, [0.1], Y)(codes(21, 1, 5, 5, 6))
    with pytest.raises(ValueError, match=r"window \(3, 3\)"):
        conv2d(weights, None, X, [0.1], Y)(x[:, :2, :, :2])
    with pytest.raises(ValueError, match="DEPTHWISE_CONV_2D: found 4 output channels, expected a multiple of 3"):
        depthwise_conv2d(codes(22, 1, 3, 3, 4), None, X, [0.1], Y)(x)
    with pytest.raises(ValueError, match="weight scales: found 3, expected 1 or 2"):
        fully_connected(codes(23, 2, 5), None, X, [0.1] * 3, Y)
