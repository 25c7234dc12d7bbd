"""Explicit padding, as the device's convolutions and pools do not pad themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_assay.partitioners.neutron.lowering.model import ModelBuilder

LOWEST = -np.inf


def pad(model: ModelBuilder, tensor: int, pairs: Sequence[tuple[int, int]], name: str, value: float = 0.0) -> int:
    """`tensor` with (before, after) elements of the real number `value` added along each device axis.

    PAD adds zero points; any other number needs PADV2 and its code, which is
    clip(round_half_even(value / scale) + zero point), `LOWEST` being -128. Nothing is written when
    there is nothing to add.
    """
    if not any(amount for pair in pairs for amount in pair):
        return tensor
    quantisation = model.quantisation(tensor)
    shape = [size + before + after for size, (before, after) in zip(model.shape(tensor), pairs, strict=True)]
    inputs = [tensor, model.integers(f"{name}_paddings", pairs)]
    if value == 0:
        return model.emit("PAD", inputs, name, shape, quantisation)
    code = np.clip(np.round(value / quantisation.scale) + quantisation.zero_point, -128, 127)
    constant = np.full((), code, np.int8)
    inputs.append(model.constant(f"{name}_value", constant, quantisation))
    return model.emit("PADV2", inputs, name, shape, quantisation)


def pad_spatial(model: ModelBuilder, tensor: int, padding: tuple[int, int], name: str, value: float = 0.0) -> int:
    """An NHWC tensor with `padding` (vertical, horizontal) on both ends."""
    (vertical, horizontal) = padding
    return pad(model, tensor, [(0, 0), (vertical,) * 2, (horizontal,) * 2, (0, 0)], f"{name}_padded", value)
