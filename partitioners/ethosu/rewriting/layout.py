"""Shapes: operators that the edge dialect would decompose after observers are placed; their parts need them, too."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from npu_assay.partitioners.ethosu.rewriting.writer import Writer, shape, tensor

aten = torch.ops.aten


def _reshaped(w: Writer, input: fx.Node, sizes: Sequence[int]) -> fx.Node:
    """In another shape, copied first where memory has another order."""
    if not tensor(input).is_contiguous():
        input = w.call(aten.clone.default, input, memory_format=torch.contiguous_format)
    return w.call(aten.view.default, input, list(sizes))


def reshape(w: Writer, input: fx.Node, *sizes: object, **named: object) -> fx.Node | None:
    """A copy and a view, where one view does not do."""
    return None if tensor(input).is_contiguous() else _reshaped(w, input, shape(w.node))


def stack(w: Writer, tensors: list[fx.Node], dim: int = 0) -> fx.Node:
    """Each with a dimension more, joined along it."""
    dim %= len(shape(w.node))
    return w.call(aten.cat.default, [w.call(aten.unsqueeze.default, each, dim) for each in tensors], dim)


def pixel_shuffle(w: Writer, input: fx.Node, upscale_factor: int) -> fx.Node:
    """Channels become neighboring pixels."""
    *outer, channels, height, width = shape(input)
    r, n = upscale_factor, len(outer)
    parts = w.call(aten.reshape.default, input, [*outer, channels // r**2, r, r, height, width])
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return _reshaped(w, w.call(aten.permute.default, parts, order), shape(w.node))


def pixel_unshuffle(w: Writer, input: fx.Node, downscale_factor: int) -> fx.Node:
    """Neighboring pixels become channels."""
    *outer, channels, height, width = shape(input)
    r, n = downscale_factor, len(outer)
    parts = w.call(aten.reshape.default, input, [*outer, channels, height // r, r, width // r, r])
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return _reshaped(w, w.call(aten.permute.default, parts, order), shape(w.node))


def repeat_interleave(
    w: Writer, input: fx.Node, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> fx.Node | None:
    """Each slice so many times in a row."""
    if dim is None:
        return None
    dim %= len(shape(input))
    sizes = list(shape(input))
    wider = w.call(aten.unsqueeze.default, input, dim + 1)
    spread = w.call(aten.expand.default, wider, [*sizes[: dim + 1], repeats, *sizes[dim + 1 :]])
    return _reshaped(w, spread, shape(w.node))
