"""aten._softmax.default."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.cases.baseline import PROBABILITY
from conformance.cases.make import (
    Draft,
    Use,
    accepted,
    behind_abs,
    behind_conv,
    label,
    limit,
    model,
    outside,
    placed,
    quant,
    requantised,
    sizes_of,
    use,
)
from conformance.cases.shared import all_codes, contexts, fills, fixed_output, lut_inputs, one_hots, rescale_limit
from conformance.graph import Quant

Shape = tuple[int, ...]


CUBE = (1, 8, 8, 8)
SHAPES = ((1, 8), (3, 5, 16), (2, 1, 3, 24), (2, 3, 2, 2, 8))


def softmax(shape: Shape, dim: int = -1, y: Quant = PROBABILITY) -> Use:
    """Softmax along `dim`; the input's range keeps several outputs of a row away from zero."""
    scale = 1 / 64 if shape[dim] <= 24 else 0.1
    return use("aten._softmax.default", shape, dim, False, x=quant(scale, 3), y=y)


def softmax_cases() -> list[Draft]:
    """Rank, dimension, four size limits, a fixed output quantisation."""
    u = softmax((5, 8))
    return [
        *_ranks(),
        *_dims(),
        *_sizes_limits(),
        *fixed_output(u, PROBABILITY),
        *_input_scales(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *(
            accepted(f"shape_{sizes_of(s)}", model(softmax(s)))
            for s in ((1, 8), (3, 5, 16), (2, 1, 3, 24), (2, 3, 2, 2, 8))
        ),
        *_numbers(u),
    ]


def _input_scales(u: Use) -> list[Draft]:
    """The input scale must exceed 2**-26, below which every difference of codes counts as none."""
    past, kept = (requantised(u, quant(2.0**-26 * factor), PROBABILITY) for factor in (1.0, 1 + 2.0**-20))
    return rescale_limit(("2_to_the_minus_26", past), ("above_2_to_the_minus_26", kept))


def _ranks() -> list[Draft]:
    return [
        limit("min_rank", "rank_2", model(softmax((5, 8)))),
        outside("min_rank", "rank_1", model(softmax((8,)))),
        outside("min_rank", "rank_1_dim_0", model(softmax((8,), 0))),
    ]


def _dims() -> list[Draft]:
    """The last dimension without a layout, dimension 1 behind a convolution."""
    code = "channel_dim"
    fits: Sequence[tuple[Shape, int]] = (((5, 8), -1), ((5, 8), 1), ((3, 5, 8), 2), ((1, 3, 5, 8), 3))
    past: Sequence[tuple[Shape, int]] = (
        ((8, 8), 0),
        ((8, 8), -2),
        ((3, 8, 8), 1),
        ((1, 8, 8, 8), 1),
        ((1, 8, 8, 8), 2),
    )
    image = (1, 8, 4, 16)
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{label(d)}", model(softmax(s, d))) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{label(d)}", model(softmax(s, d))) for s, d in past),
        *(limit(code, f"channels_first_dim_{label(d)}", model(softmax(image, d), behind_conv)) for d in (1, -3)),
        *(
            outside(code, f"channels_first_dim_{label(d)}", model(softmax(image, d), behind_conv))
            for d in (0, 2, 3, -1)
        ),
    ]


def _sizes_limits() -> list[Draft]:
    """Channels, positions (input size / channels), and the input's size."""
    channels = "channels_multiple_of"
    return [
        *(limit(channels, f"{c}", model(softmax((5, c)))) for c in (8, 16, 24)),
        *(outside(channels, f"{c}", model(softmax((5, c)))) for c in (1, 4, 7, 9)),
        outside(channels, "7_other_sizes_8", model(softmax((8, 8, 7)))),
        outside(channels, "channels_first_7", model(softmax((1, 7, 4, 8), 1), behind_conv)),
        limit(channels, "channels_first_8", model(softmax((1, 8, 3, 5), 1), behind_conv)),
        limit("max_channels", "2040", model(softmax((1, 2040)))),
        outside("max_channels", "2048", model(softmax((1, 2048)))),
        outside("max_channels", "2056", model(softmax((1, 2056)))),
        limit("positions", "4096", model(softmax((4096, 8)))),
        limit("positions", "64x64", model(softmax((64, 64, 8)))),
        outside("positions", "4097", model(softmax((4097, 8)))),
        outside("positions", "64x65", model(softmax((64, 65, 8)))),
        outside("positions", "17x241_of_4_dimensions", model(softmax((17, 1, 241, 8)))),
        limit("max_size", "512x1024", model(softmax((512, 1024)))),
        outside("max_size", "513x1024", model(softmax((513, 1024)))),
    ]


def _numbers(u: Use) -> list[Draft]:
    """Rows that are flat, steep, or decided by one element; every input scale; all codes in one row."""
    return [
        *all_codes(u, [(x, PROBABILITY) for x in lut_inputs((0.01, 0.02, 0.0625, 0.5))]),
        *fills(u),
        *one_hots(u),
    ]
