"""aten._softmax.default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt

from npu_assay.conformance.cases.baseline import PROBABILITY
from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import (
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
from npu_assay.conformance.cases.permitted import deep, divisor, fixed_quant, least_rank, most_positions
from npu_assay.conformance.cases.shared import (
    all_codes,
    contexts,
    fills,
    fixed_output,
    lut_inputs,
    one_hots,
    rank_limit,
    rescale_limit,
)
from npu_assay.conformance.programs.graph import Quant

Shape = tuple[int, ...]


CHANNELS = "channels_multiple_of"
Make = Callable[..., Use]


def softmax(shape: Shape, dim: int = -1, y: Quant = PROBABILITY, rank: int = 1) -> Use:
    """Softmax along `dim`; the input's range keeps several outputs of a row away from zero.

    A shape of a smaller rank gets dimensions of size 1 in front.
    """
    scale = 1 / 64 if shape[dim] <= 24 else 0.1
    along = dim + max(0, rank - len(shape)) if dim >= 0 else dim
    return use("aten._softmax.default", deep(shape, rank), along, False, x=quant(scale, 3), y=y)


def softmax_cases(limits: Limits) -> list[Draft]:
    """Rank, dimension, four size limits, a fixed output quantisation."""
    m, rank, y = limits.multiple(CHANNELS), least_rank(limits), fixed_quant(limits, PROBABILITY)

    def make(shape: Shape, dim: int = -1) -> Use:
        return softmax(shape, dim, y, rank)

    u = make((5, m))
    return [
        *_ranks(rank, m, y),
        *_dims(make, m),
        *_size_limits(make, limits, m),
        *fixed_output(u, y),
        *_input_scales(u, y),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *(
            accepted(f"shape_{sizes_of(s)}", model(make(s)))
            for s in ((1, m), (3, 5, 2 * m), (2, 1, 3, 3 * m), (2, 3, 2, 2, m))
        ),
        *_numbers(u, y, m),
        *rank_limit(limits, make, m),
    ]


def _input_scales(u: Use, y: Quant) -> list[Draft]:
    """The input scale must exceed 2**-26, below which every difference of codes counts as none."""
    beyond, kept = (requantised(u, quant(2.0**-26 * factor), y) for factor in (1.0, 1 + 2.0**-20))
    return rescale_limit(("2_to_the_minus_26", beyond), ("above_2_to_the_minus_26", kept))


def _ranks(rank: int, m: int, y: Quant) -> list[Draft]:
    """Shapes that end in 5 and the channels; of rank 1, the channels alone."""
    less = rank - 1
    shape = deep((5, m)[-less:], less)
    return [
        limit("min_rank", f"rank_{rank}", model(softmax((5, m), -1, y, rank))),
        outside("min_rank", f"rank_{less}", model(softmax(shape, -1, y))),
        outside("min_rank", f"rank_{less}_dim_{less - 1}", model(softmax(shape, less - 1, y))),
    ]


def _dims(make: Make, m: int) -> list[Draft]:
    """The last dimension without a layout, dimension 1 behind a convolution."""
    code = "channel_dim"
    fits: Sequence[tuple[Shape, int]] = (((5, m), -1), ((5, m), 1), ((3, 5, m), 2), ((1, 3, 5, m), 3))
    beyond: Sequence[tuple[Shape, int]] = (
        ((m, m), 0),
        ((m, m), -2),
        ((3, m, m), 1),
        ((1, m, m, m), 1),
        ((1, m, m, m), 2),
    )
    image = (1, m, 4, 2 * m)
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{label(d)}", model(make(s, d))) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{label(d)}", model(make(s, d))) for s, d in beyond),
        *(limit(code, f"channels_first_dim_{label(d)}", model(make(image, d), behind_conv)) for d in (1, -3)),
        *(outside(code, f"channels_first_dim_{label(d)}", model(make(image, d), behind_conv)) for d in (0, 2, 3, -1)),
    ]


def _size_limits(make: Make, limits: Limits, m: int) -> list[Draft]:
    """Channels, positions (input size / channels), and the input's size."""
    less = m - 1
    return [
        *(limit(CHANNELS, f"{c}", model(make((5, c)))) for c in (m, 2 * m, 3 * m)),
        *(outside(CHANNELS, f"{c}", model(make((5, c)))) for c in past(m, 1, m // 2, less, m + 1)),
        outside(CHANNELS, f"{less}_other_sizes_{m}", model(make((m, m, less)))),
        outside(CHANNELS, f"channels_first_{less}", model(make((1, less, 4, m), 1), behind_conv)),
        limit(CHANNELS, f"channels_first_{m}", model(make((1, m, 3, 5), 1), behind_conv)),
        *_channel_limit(make, limits, m),
        *_position_limit(make, limits, m),
        *_size_limit(make, limits, m),
    ]


def _below(limits: Limits, m: int) -> int:
    """What the channel count must be below; the other cases have up to three times `m`."""
    return limits.number("max_channels", 2048, 3 * m + 1, 2**15)


def _channel_limit(make: Make, limits: Limits, m: int) -> list[Draft]:
    """The last permitted count and the next two; multiples of `m` where those are asked for."""
    count = m if CHANNELS in limits else 1
    last = (_below(limits, m) - 1) // count * count
    return [
        limit("max_channels", f"{last}", model(make((1, last)))),
        *(outside("max_channels", f"{c}", model(make((1, c)))) for c in (last + count, last + 2 * count)),
    ]


def _position_limit(make: Make, limits: Limits, m: int) -> list[Draft]:
    """One dimension, two, and four; only the number of positions counts."""
    most = most_positions(limits, m)
    side = divisor(most, isqrt(most))
    first = divisor(most + 1, isqrt(most + 1))
    last = (most + 1) // first
    return [
        limit("positions", f"{most}", model(make((most, m)))),
        limit("positions", f"{side}x{most // side}", model(make((side, most // side, m)))),
        outside("positions", f"{most + 1}", model(make((most + 1, m)))),
        outside("positions", f"{side}x{most // side + 1}", model(make((side, most // side + 1, m)))),
        outside("positions", f"{first}x{last}_of_4_dimensions", model(make((first, 1, last, m)))),
    ]


def _size_limit(make: Make, limits: Limits, m: int) -> list[Draft]:
    """As many rows as fit, and one more; channels and positions stay within their limits."""
    positions, below = most_positions(limits, m), _below(limits, m)
    most = limits.number("max_size", 2**19, max(positions * m, below), 2**22)
    channels = _channels_for(most, positions, range(m, below, m))
    if channels is None:
        raise limits.error("max_size", most, f"less than {positions} positions times {below} channels")
    rows = most // channels
    return [
        limit("max_size", f"{rows}x{channels}", model(make((rows, channels)))),
        outside("max_size", f"{rows + 1}x{channels}", model(make((rows + 1, channels)))),
    ]


def _channels_for(size: int, positions: int, counts: range) -> int | None:
    """The largest count that divides the size, else the largest, with which one row more is still permitted."""
    fits = [count for count in counts if size // count < positions]
    return max((count for count in fits if size % count == 0), default=max(fits, default=None))


def _numbers(u: Use, y: Quant, m: int) -> list[Draft]:
    """Rows that are flat, steep, or decided by one element; every input scale; all codes in one row."""
    return [
        *all_codes(u, [(x, y) for x in lut_inputs((0.01, 0.02, 0.0625, 0.5))], multiple=m),
        *fills(u),
        *one_hots(u),
    ]
