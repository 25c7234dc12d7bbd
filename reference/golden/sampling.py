"""Images read between their pixels."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded

BILINEAR, NEAREST = 0, 1


def sampled(x: Bounded, grid: Bounded, interpolation: int, padding: int, corners: bool) -> Bounded:
    """aten.grid_sampler_2d.default: x [N, C, H, W], grid [N, H', W', 2] with (x, y) from -1 to 1.

    A point that is off moves by as many pixels as half the image has, times that. Between pixels that changes the
    result by as much as they differ, at most; the nearest pixel is another one only next to the middle of two.
    """

    def read(image: Tensor) -> Tensor:
        return torch.grid_sampler_2d(image, grid.value, interpolation, padding, corners)

    value = read(x.value)
    if x.exact and grid.exact:
        return Bounded(value)
    error = torch.zeros_like(value) if x.exact else x.spread().amax((-2, -1), keepdim=True).expand_as(value)
    if grid.exact:
        return Bounded(value, read(x.spread().contiguous()))
    moved = _pixels(x, grid).unsqueeze(1)
    high, low = (x.value + x.error).amax((-2, -1)).clamp_min(0), (x.value - x.error).amin((-2, -1)).clamp_max(0)
    apart = (high - low)[..., None, None]
    if interpolation == BILINEAR:
        return Bounded(value, error + moved.sum(-1) * apart)
    return Bounded(value, error + torch.where(_near_a_middle(x, grid, corners).unsqueeze(1), apart, 0.0))


def _sizes(x: Bounded) -> Tensor:
    """Width and height, in the order of a grid's coordinates."""
    return torch.tensor(x.value.shape[:-3:-1], dtype=torch.float64)


def _pixels(x: Bounded, grid: Bounded) -> Tensor:
    """How many pixels each point may be off, along each axis."""
    return grid.spread() * _sizes(x) / 2


def _near_a_middle(x: Bounded, grid: Bounded, corners: bool) -> Tensor:
    """Whether a point's error reaches another pixel."""
    sizes = _sizes(x)
    places = (grid.value + 1) / 2 * (sizes - 1) if corners else ((grid.value + 1) * sizes - 1) / 2
    reach = _pixels(x, grid)
    return ((places - reach).round() != (places + reach).round()).any(-1)
