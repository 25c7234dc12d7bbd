"""Biases: int32 codes in steps of input scale * weight scale."""

from __future__ import annotations

import math

import numpy as np
from torch import fx

from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.neutron.lowering.context import Context
from npu_assay.partitioners.neutron.lowering.quantisation import Quantisation, stored_scale
from npu_assay.partitioners.neutron.lowering.values import Value

TOLERANCE = 1e-5  # relative; products of float32 scales are rounded once more or less


def bias_tensor(
    ctx: Context, node: fx.Node, argument: object, x: Quantisation, weights: Quantisation, channels: int
) -> int:
    """The constant int32 bias of `channels` elements; zeros when the node has none (`argument` None).

    Raises CompileError when it is not an int32 constant, or its scale is not the product of the
    others, within `TOLERANCE`.
    """
    scales = tuple(stored_scale(node, x.scale * scale) for scale in weights.scales)
    quantisation = Quantisation(scales, (0,) * len(scales))
    if argument is None:
        return ctx.model.constant(f"{node.name}_bias", np.zeros(channels, np.int32), quantisation)
    bias = ctx.constant(argument, node, "bias")
    assert bias.data is not None
    require(bias.data.dtype == np.int32, node, "type of the bias", bias.data.dtype, "int32")
    require(bias.data.size == channels, node, "size of the bias", bias.data.size, channels)
    _require_scales(node, bias, scales)
    return ctx.model.constant(bias.name, bias.data.reshape(channels), quantisation)


def _require_scales(node: fx.Node, bias: Value, scales: tuple[float, ...]) -> None:
    """One scale stands for as many as the other side has."""
    found = bias.quantisation.scales
    count = max(len(found), len(scales))
    pairs = zip(_repeated(found, count), _repeated(scales, count), strict=False)
    fits = {len(found), len(scales)} <= {1, count} and all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in pairs)
    require(fits, node, "scale of the bias", found, scales)
    require(not any(bias.quantisation.zero_points), node, "zero point of the bias", bias.quantisation.zero_points, 0)


def _repeated(scales: tuple[float, ...], count: int) -> tuple[float, ...]:
    return scales * count if len(scales) == 1 else scales
