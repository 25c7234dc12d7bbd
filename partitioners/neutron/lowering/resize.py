"""Resizes: channels-last operators over positions."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.lowering import static_shape
from npu_assay.partitioners.exir.compiling import bind
from npu_assay.partitioners.neutron.lowering.context import Context
from npu_assay.partitioners.neutron.lowering.pooling import NHWC, input_tensor


def resize_bilinear(ctx: Context, node: fx.Node) -> None:
    """aten.upsample_bilinear2d -> RESIZE_BILINEAR; torch samples at half-pixel centres unless corners align."""
    aligned = bool(bind(node)["align_corners"])
    _resize(ctx, node, "RESIZE_BILINEAR", {"align_corners": aligned, "half_pixel_centers": not aligned})


def resize_nearest(ctx: Context, node: fx.Node) -> None:
    """aten.upsample_nearest2d -> RESIZE_NEAREST_NEIGHBOR; both round the source position down."""
    _resize(ctx, node, "RESIZE_NEAREST_NEIGHBOR", {"align_corners": False, "half_pixel_centers": False})


def _resize(ctx: Context, node: fx.Node, code: str, options: dict[str, bool]) -> None:
    size = ctx.model.integers(f"{node.name}_size", static_shape(node)[2:])
    ctx.emit(node, code, [input_tensor(ctx, node), size], options, layout=NHWC)
