"""Linear layers and convolutions on codes by `npu_assay.reference.arithmetic.tosa`; layouts are torch's."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.arithmetic import tosa
from npu_assay.reference.integer.operand import Given, QTensor, added, on_images, operand, require, window
from npu_assay.reference.integer.xnnpack import output_major


def linear(given: Given, y: Affine) -> Tensor:
    x, weight = given["input"], given["weight"]
    return tosa.linear(x.codes, weight.codes, _bias(given), x.affine, weight.scales, y, weight.zero_point)


def _bias(given: Given) -> Tensor | None:
    """The bias in steps of input scale * weight scale, or the nearest to one of other steps, ties to even."""
    if given["bias"] is None:
        return None
    bias, x, weight = operand(given, "bias", torch.int32), given["input"], given["weight"]
    codes, own, wanted = bias.codes.double() - bias.zero_point, _stored(bias), x.affine.scale * _stored(weight)
    is_same = bool(((own - wanted).abs() <= wanted * 2.0**-23).all())
    return (codes if is_same else codes * own / wanted).round().long()


def _stored(x: QTensor) -> Tensor:
    """Its scales as a program keeps them: several in float32."""
    found = x.scales if len(x.scales) == 1 else map(float32, x.scales)
    return torch.tensor(list(found), dtype=torch.float64)


def convolution(given: Given, y: Affine) -> Tensor:
    """Convolutions of one, two or three dimensions, in groups, transposed."""
    x, weight = given["input"], given["weight"]
    shape, rank = weight.codes.shape, weight.codes.dim() - 2
    if given["transposed"]:
        return _transposed(given, rank, y)
    kernel = weight.codes.reshape(*shape[:2], *[1] * (3 - rank), *shape[2:]).permute(0, 2, 3, 4, 1)
    images = x.codes.reshape(*x.codes.shape[:2], *[1] * (3 - rank), *x.codes.shape[2:]).permute(0, 2, 3, 4, 1)
    stride, dilation, (front, top, left) = (_triple(given[name], rank, rest) for name, rest in _WINDOW)
    padding = ((front, front), (top, top), (left, left))
    constants = (kernel, _bias(given), x.affine, weight.scales, y)
    found = tosa.conv(images, *constants, stride, dilation, padding, weight.zero_point).permute(0, 4, 1, 2, 3)
    return found.reshape(*found.shape[:2], *found.shape[5 - rank :])


_WINDOW = (("stride", 1), ("dilation", 1), ("padding", 0))
"""Arguments of a convolution, and what they are along an axis that is not there."""


def _triple(numbers: int | list[int], rank: int, rest: int) -> tuple[int, int, int]:
    """For depth, height and width; one number is for all axes."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    depth, height, width = [rest] * (3 - rank) + (listed * rank if len(listed) == 1 else listed)
    return depth, height, width


def _transposed(given: Given, rank: int, y: Affine) -> Tensor:
    x, weight = given["input"], given["weight"]
    require(rank in (1, 2), "transposed convolution", f"rank {rank + 2} weights", "rank 3 or 4")
    kernel = output_major(weight.codes if rank == 2 else weight.codes.unsqueeze(-2), int(given["groups"]))
    places = (*window(given, rank), added(given["output_padding"], rank))
    constants = (kernel, _bias(given), x.affine, weight.scales, y)

    def transposed(codes: Tensor) -> Tensor:
        return tosa.transpose_conv2d(codes, *constants, *places, weight.zero_point)

    return on_images(transposed, x.codes)
