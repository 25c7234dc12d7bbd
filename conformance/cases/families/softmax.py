"""aten._softmax.default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isqrt

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, valued
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import Call, bare, call, label, quant, sizes_of
from npu_assay.conformance.cases.permitted import Shape, deep, divisor, fixed_quant, least_rank, most_positions
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import PROBABILITY, fixed_output, rescale_limit
from npu_assay.conformance.cases.pieces.sizes import CHANNELS, rank_limit
from npu_assay.conformance.cases.pieces.spelling import IMAGE, call_on, real
from npu_assay.conformance.cases.pieces.subject import Config, Subject
from npu_assay.conformance.cases.pieces.values import all_codes, fills, float_layout_values, lut_inputs, one_hots
from npu_assay.conformance.programs.graph import Fill, Quant

# ------------------------------------------------------------------------------------ static int8


def _plain_softmax(limits: Limits) -> Placed:
    shape = deep((5, limits.multiple("channels_multiple_of")), least_rank(limits))
    return call("aten._softmax.default", shape, -1, False, y=fixed_quant(limits, PROBABILITY)), bare


Make = Callable[..., Call]


def softmax(shape: Shape, dim: int = -1, y: Quant = PROBABILITY, rank: int = 1) -> Call:
    """Softmax along `dim`; the input's range keeps several outputs of a row away from zero.

    A shape of a smaller rank gets dimensions of size 1 in front.
    """
    scale = 1 / 64 if shape[dim] <= 24 else 0.1
    along = dim + max(0, rank - len(shape)) if dim >= 0 else dim
    return call("aten._softmax.default", deep(shape, rank), along, False, x=quant(scale, 3), y=y)


def static_softmax_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """Rank, dimension, four size limits, a fixed output quantization."""
    m, rank, y = limits.multiple(CHANNELS), least_rank(limits), fixed_quant(limits, PROBABILITY)

    def make(shape: Shape, dim: int = -1) -> Call:
        return softmax(shape, dim, y, rank)

    u = make((5, m))
    return [
        *_ranks(rank, m, y),
        *_dims(make, m),
        *_size_limits(make, limits, m),
        *fixed_output(u, y),
        *_input_scales(u, y),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        *(
            accepted(f"shape_{sizes_of(s)}", make(s))
            for s in ((1, m), (3, 5, 2 * m), (2, 1, 3, 3 * m), (2, 3, 2, 2, m))
        ),
        *_numbers(u, y, m),
        *rank_limit(limits, make, m),
    ]


def _input_scales(u: Call, y: Quant) -> list[CaseDraft]:
    """The input scale must exceed 2**-26, below which every difference of codes counts as none."""
    beyond, kept = (u.requantized(quant(2.0**-26 * factor), y) for factor in (1.0, 1 + 2.0**-20))
    return rescale_limit(("2_to_the_minus_26", beyond), ("above_2_to_the_minus_26", kept))


def _ranks(rank: int, m: int, y: Quant) -> list[CaseDraft]:
    """Shapes that end in 5 and the channels; of rank 1, the channels alone."""
    less = rank - 1
    shape = deep((5, m)[-less:], less)
    return [
        limit("min_rank", f"rank_{rank}", softmax((5, m), -1, y, rank)),
        outside("min_rank", f"rank_{less}", softmax(shape, -1, y)),
        outside("min_rank", f"rank_{less}_dim_{less - 1}", softmax(shape, less - 1, y)),
    ]


def _dims(make: Make, m: int) -> list[CaseDraft]:
    """The last dimension without a layout, dimension 1 after a convolution."""
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
        *(limit(code, f"{sizes_of(s)}_dim_{label(d)}", make(s, d)) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{label(d)}", make(s, d)) for s, d in beyond),
        *(limit(code, f"channels_first_dim_{label(d)}", make(image, d), behind_conv) for d in (1, -3)),
        *(outside(code, f"channels_first_dim_{label(d)}", make(image, d), behind_conv) for d in (0, 2, 3, -1)),
    ]


def _size_limits(make: Make, limits: Limits, m: int) -> list[CaseDraft]:
    """Channels, positions (input size / channels), and the input's size."""
    less = m - 1
    return [
        *(limit(CHANNELS, f"{c}", make((5, c))) for c in (m, 2 * m, 3 * m)),
        *(outside(CHANNELS, f"{c}", make((5, c))) for c in past(m, 1, m // 2, less, m + 1)),
        outside(CHANNELS, f"{less}_other_sizes_{m}", make((m, m, less))),
        outside(CHANNELS, f"channels_first_{less}", make((1, less, 4, m), 1), behind_conv),
        limit(CHANNELS, f"channels_first_{m}", make((1, m, 3, 5), 1), behind_conv),
        *_channel_limit(make, limits, m),
        *_position_limit(make, limits, m),
        *_size_limit(make, limits, m),
    ]


def _below(limits: Limits, m: int) -> int:
    """What the channel count must be below; the other cases have up to three times `m`."""
    return limits.number("max_channels", 2048, 3 * m + 1, 2**15)


def _channel_limit(make: Make, limits: Limits, m: int) -> list[CaseDraft]:
    """The last permitted count and the next two; multiples of `m` where those are asked for."""
    count = m if CHANNELS in limits else 1
    last = (_below(limits, m) - 1) // count * count
    return [
        limit("max_channels", f"{last}", make((1, last))),
        *(outside("max_channels", f"{c}", make((1, c))) for c in (last + count, last + 2 * count)),
    ]


def _position_limit(make: Make, limits: Limits, m: int) -> list[CaseDraft]:
    """One dimension, two, and four; only the number of positions counts."""
    most = most_positions(limits, m)
    side = divisor(most, isqrt(most))
    first = divisor(most + 1, isqrt(most + 1))
    last = (most + 1) // first
    return [
        limit("positions", f"{most}", make((most, m))),
        limit("positions", f"{side}x{most // side}", make((side, most // side, m))),
        outside("positions", f"{most + 1}", make((most + 1, m))),
        outside("positions", f"{side}x{most // side + 1}", make((side, most // side + 1, m))),
        outside("positions", f"{first}x{last}_of_4_dimensions", make((first, 1, last, m))),
    ]


def _size_limit(make: Make, limits: Limits, m: int) -> list[CaseDraft]:
    """As many rows as fit, and one more; channels and positions stay within their limits."""
    positions, below = most_positions(limits, m), _below(limits, m)
    most = limits.number("max_size", 2**19, max(positions * m, below), 2**22)
    channels = _channels_for(most, positions, range(m, below, m))
    if channels is None:
        raise limits.error("max_size", most, f"less than {positions} positions times {below} channels")
    rows = most // channels
    return [
        limit("max_size", f"{rows}x{channels}", make((rows, channels))),
        outside("max_size", f"{rows + 1}x{channels}", make((rows + 1, channels))),
    ]


def _channels_for(size: int, positions: int, counts: range) -> int | None:
    """The largest count that divides the size, else the largest, with which one row more is still permitted."""
    fits = [count for count in counts if size // count < positions]
    return max((count for count in fits if size % count == 0), default=max(fits, default=None))


def _numbers(u: Call, y: Quant, m: int) -> list[CaseDraft]:
    """Rows that are flat, steep, or decided by one element; every input scale; all codes in one row."""
    return [*all_codes(u, [(x, y) for x in lut_inputs((0.01, 0.02, 0.0625, 0.5))], multiple=m), *fills(u), *one_hots(u)]


# ------------------------------------------------------------------------------------ floats


SOFTMAX = "aten._softmax.default"


def float_softmax_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten._softmax.default: along the last axis."""
    subject = Subject(_float_softmax, config=Config("SoftmaxConfig"))
    drafts = everywhere(subject, precision, limits)

    def soft(shape: tuple[int, ...], dim: int) -> Call:
        return call_on(SOFTMAX, real("x", shape, precision), precision, dim, False)

    for shape, dim in ((IMAGE, -1), (IMAGE, 3), ((3, 7), 1), ((7,), 0), ((7,), -1), ((2, 3, 4), 2)):
        drafts.append(limit("last_dim", f"shape_{sizes_of(shape)}_dim_{label(dim)}", soft(shape, dim)))
    for shape, dim in ((IMAGE, 0), (IMAGE, 1), (IMAGE, 2), (IMAGE, -2), (IMAGE, -4), ((3, 7), 0), ((3, 7), -2)):
        drafts.append(outside("last_dim", f"shape_{sizes_of(shape)}_dim_{label(dim)}", soft(shape, dim)))
    for length in (1, 2, 16, 63, 65, 200):
        drafts.append(accepted(f"length_{length}", soft((2, length), -1)))
    far = Fill("list", values=(100.0, -100.0, 0.0, 99.0, 30.0, -3.5, 100.0))
    drafts += [
        valued("far_apart", soft((2, 7), -1).with_x(fill=far)),
        valued("all_equal", soft((2, 7), -1).with_x(fill=Fill("list", values=(3.0,)))),
        *float_layout_values(subject.call(precision)),
    ]
    return drafts


def _float_softmax(precision: str, shape: tuple[int, ...]) -> Call:
    return call_on(SOFTMAX, real("x", shape, precision), precision, len(shape) - 1, False)


FAMILIES: Mapping[str, Family] = {
    SOFTMAX: Family(plain=_plain_softmax, static=static_softmax_cases, floats=float_softmax_cases)
}
