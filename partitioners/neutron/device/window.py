"""Window geometry of convolutions and pools: output sizes and the padding that SAME implies.

Source: TFLite kernels/padding.h. SAME pads as evenly as it can, the odd cell at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from npu_assay.partitioners.neutron.device.site import SIDE_LIMIT, WINDOW_LIMIT, Shape, Site

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]


@dataclass(frozen=True)
class Window:
    """A window over height and width: sizes in cells, `padding` ((top, bottom), (left, right))."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Padding
    out: Pair


def window(site: Site, size: Pair, kernel: Pair, dilation: Pair = (1, 1)) -> Window:
    """The window that the options put on an input of height and width `size`."""
    stride = (site.option("stride_h"), site.option("stride_w"))
    for what, pair in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        site.require(min(pair) >= 1, what, list(pair), "at least 1 each")
    site.require(max(kernel) <= SIDE_LIMIT, "kernel", list(kernel), f"at most {SIDE_LIMIT} each")
    same = site.option("padding") == "SAME"
    height, width = (_along(site, size[d], (kernel[d] - 1) * dilation[d] + 1, stride[d], same) for d in range(2))
    return Window(kernel, stride, dilation, (height[1], width[1]), (height[0], width[0]))


def _along(site: Site, size: int, extent: int, stride: int, same: bool) -> tuple[int, Pair]:
    """Output size and padding along one dimension; `extent` is the dilated kernel's."""
    if not same:
        site.require(extent <= size, "window extent", extent, f"at most the input's {size}")
        return (size - extent) // stride + 1, (0, 0)
    out = -(-size // stride)
    total = max((out - 1) * stride + extent - size, 0)
    return out, (total // 2, total - total // 2)


def fits_memory(site: Site, shape: Shape, geometry: Window, taps: int) -> None:
    """Refuse a window operator whose padded input [N, H, W, C] or gathered windows are too large."""
    batch, height, width, channels = shape
    (top, bottom), (left, right) = geometry.padding
    site.elements((batch, height + top + bottom, width + left + right, channels), what="padded elements")
    site.elements((batch, *geometry.out, taps), WINDOW_LIMIT, "gathered elements")
