"""Biases: int32 codes in steps of input scale * weight scale."""

from __future__ import annotations

import numpy as np
from torch import fx

from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.neutron.lowering.context import Context
from npu_assay.partitioners.neutron.lowering.quantization import Quantisation, stored_scale
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
    row = (channels,)
    require(bias.data.shape[-1:] == (bias.data.size,) == row, node, "shape of the bias", bias.data.shape, row)
    _require_scales(node, bias, scales)
    return ctx.model.constant(bias.name, bias.data.reshape(channels), quantisation)


def _require_scales(node: fx.Node, bias: Value, scales: tuple[float, ...]) -> None:
    """One scale stands for as many as the other side has."""
    found = bias.quantisation.scales
    require(np.allclose(found, scales, TOLERANCE, 0), node, "scale of the bias", found, scales)
    require(not any(bias.quantisation.zero_points), node, "zero point of the bias", bias.quantisation.zero_points, 0)
