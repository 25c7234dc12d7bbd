"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.integer.operand import (
    Given,
    QTensor,
    bias_codes,
    on_images,
    operand,
    pair,
    require,
    symmetric,
    window,
)


def convolution(given: Given, y: Affine) -> Tensor:
    """1-D and 2-D, grouped (as many groups as the channels say) and transposed; weights must be symmetric."""
    x, weight = operand(given, "input"), operand(given, "weight")
    require(weight.zero_point == 0, "convolution", f"weight zero point {weight.zero_point}", "0")
    kernel = weight.codes if weight.codes.dim() == 4 else weight.codes.unsqueeze(-2)
    rank = weight.codes.dim() - 2
    require(kernel.dim() == 4, "convolution", f"rank {kernel.dim()} weights", "rank 3 or 4")
    if given.get("transposed"):
        return _transposed(given, x, kernel, weight.scales, rank, y)
    constants = (kernel.permute(0, 2, 3, 1), bias_codes(given), x.affine, weight.scales, y)
    places = window(given, rank)
    return on_images(lambda codes: tflite.conv2d(codes, *constants, *places), x.codes)


def _transposed(given: Given, x: QTensor, kernel: Tensor, scales: Sequence[float], rank: int, y: Affine) -> Tensor:
    """Weights [I, O, KH, KW]. Padding crops the result; output_padding adds to its end."""
    require(given["groups"] == 1, "transposed convolution", f"{given['groups']} groups", "1")
    dilation = pair(given["dilation"], rank)
    require(dilation == (1, 1), "transposed convolution", f"dilation {dilation}", "(1, 1)")
    stride, crop = pair(given["stride"], rank), symmetric(given["padding"], rank)
    more = symmetric(given["output_padding"], rank)
    sizes = (x.codes.shape[2] if rank == 2 else 1, x.codes.shape[-1])
    extents = zip(sizes, stride, crop, kernel.shape[2:], more, strict=True)
    height, width = ((n - 1) * s - 2 * c[0] + k + m[0] for n, s, c, k, m in extents)
    shape = (x.codes.shape[0], height, width, kernel.shape[1])
    constants = (kernel.permute(1, 2, 3, 0), bias_codes(given), shape, x.affine, scales, y)
    cropped = (crop[0][0], crop[1][0])
    return on_images(lambda codes: tflite.transpose_conv(codes, *constants, stride, cropped), x.codes)


def matmul(given: Given, y: Affine) -> Tensor:
    """mm: the second operand is the transpose of FULLY_CONNECTED's weights."""
    a, b = operand(given, "self"), operand(given, "mat2")
    return _fully_connected(a, b.codes.t(), b, None, y)


def addmm(given: Given, y: Affine) -> Tensor:
    factors = (given["alpha"], given["beta"])
    require(factors == (1, 1), "aten.addmm.default", f"(alpha, beta) = {factors}", "(1, 1)")
    a, b = operand(given, "mat1"), operand(given, "mat2")
    return _fully_connected(a, b.codes.t(), b, bias_codes(given, "self"), y)


def linear(given: Given, y: Affine) -> Tensor:
    weight = operand(given, "weight")
    return _fully_connected(operand(given, "input"), weight.codes, weight, bias_codes(given), y)


def _fully_connected(x: QTensor, codes: Tensor, weight: QTensor, bias: Tensor | None, y: Affine) -> Tensor:
    """codes: the weights [O, I]. bias: [O], or a row of it."""
    flat = None if bias is None else bias.reshape(-1)
    return tflite.fully_connected(x.codes, codes, flat, x.affine, weight.scales, y, weight.zero_point, keep_dims=True)


def bmm(given: Given, y: Affine) -> Tensor:
    a, b = operand(given, "self"), operand(given, "mat2")
    return tflite.batch_matmul(a.codes, b.codes, a.affine, b.affine, y)
