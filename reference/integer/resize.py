"""Resizes: channels-last arithmetic on channels-first images."""

from __future__ import annotations

from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.integer.operand import (
    Given,
    Pair,
    on_images,
    operand,
    pair,
    requantised,
)


def _size(given: Given, x: Tensor) -> Pair:
    """The output's height and width, given or by factors."""
    if given["output_size"] is not None:
        return pair(given["output_size"])
    height, width = (int(n * f) for n, f in zip(x.shape[-2:], given["scale_factors"], strict=True))
    return height, width


def bilinear(given: Given, y: Affine) -> Tensor:
    x, align = operand(given, "input"), bool(given["align_corners"])
    size = _size(given, x.codes)
    resized = on_images(lambda codes: tflite.resize_bilinear(codes, size, align, half_pixel=not align), x.codes)
    return requantised(resized, x.affine, y)


def nearest(given: Given, y: Affine) -> Tensor:
    x = operand(given, "input")
    size = _size(given, x.codes)
    return requantised(on_images(lambda codes: tflite.resize_nearest(codes, size), x.codes), x.affine, y)
