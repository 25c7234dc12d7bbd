"""Adaptive average pool, mean over the image, and upsampling."""

from __future__ import annotations

from collections.abc import Sequence

from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import (
    Draft,
    Use,
    accepted,
    behind_abs,
    behind_conv,
    limit,
    model,
    outside,
    placed,
    use,
    valued,
)
from npu_assay.conformance.cases.permitted import growth
from npu_assay.conformance.cases.pool import name, rank2d
from npu_assay.conformance.cases.shared import (
    contexts,
    fills,
    movement,
    reshaped,
    same_qparams,
    surroundings,
    unquantised,
)

ADAPTIVE = "aten._adaptive_avg_pool2d.default"


# ------------------------------------------------------------------------------------ adaptive


def adaptive_cases(limits: Limits) -> list[Draft]:
    """aten._adaptive_avg_pool2d.default: output sizes that divide the input's."""
    limits.fixed("rank", 4)
    code = "output_divides_input"
    fits = (((8, 8), (4, 4)), ((8, 8), (8, 8)), ((8, 6), (4, 3)), ((9, 10), (3, 5)), ((7, 5), (1, 1)), ((7, 5), (7, 1)))
    beyond = (
        ((9, 8), (4, 4)),
        ((8, 9), (4, 4)),
        ((7, 8), (4, 2)),
        ((8, 7), (2, 4)),
        ((9, 10), (4, 3)),
        ((5, 4), (4, 4)),
    )
    more = (((4, 4), (8, 8)), ((4, 4), (5, 4)), ((4, 4), (4, 5)))
    u = use(ADAPTIVE, (1, 8, 8, 6), (4, 3))
    return [
        *rank2d(ADAPTIVE, 8, (4, 4)),
        *(limit(code, _sizes(i, o), model(use(ADAPTIVE, (1, 8, *i), o))) for i, o in fits),
        *(outside(code, _sizes(i, o), model(use(ADAPTIVE, (1, 8, *i), o))) for i, o in (*beyond, *more)),
        *(accepted(f"shape_{'x'.join(map(str, s))}", model(use(ADAPTIVE, s, (2, 1)))) for s in ADAPTIVE_SHAPES),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *(placed(f"behind_conv_channels_{c}", model(reshaped(u, (1, c, 8, 6)), behind_conv)) for c in (8, 5, 1)),
        *movement(u),
    ]


ADAPTIVE_SHAPES = ((2, 8, 4, 5), (1, 1, 4, 5), (1, 3, 6, 4), (3, 5, 2, 3))


def _sizes(size: tuple[int, ...], out: tuple[int, ...]) -> str:
    return f"{size[0]}x{size[1]}_to_{out[0]}x{out[1]}"


# ------------------------------------------------------------------------------------ mean


def mean(shape: tuple[int, ...], dims: object = (-1, -2), *rest: object) -> Use:
    """mean over dims, keeping them unless told otherwise."""
    return use("aten.mean.dim", shape, dims, *(rest if rest else (True,)))


def mean_cases(limits: Limits) -> list[Draft]:
    """aten.mean.dim: height and width of four dimensions, kept. Behind a convolution these are -2 and -1."""
    limits.fixed("rank", 4)
    limits.fixed("dims", (-1, -2))
    limits.fixed("keepdim", True)
    limits.unreachable("rescale")
    m = limits.multiple("channels_multiple_of")
    shape = (1, m, 4, 6)
    u = mean(shape)
    return [
        limit("rank", "rank_4", model(u, behind_conv)),
        outside("rank", "rank_3", model(mean((1, m, 8)), behind_conv)),
        *_mean_dims(shape, m),
        limit("keepdim", "true", model(mean(shape, (-1, -2), True), behind_conv)),
        limit("keepdim", "by_name", model(use("aten.mean.dim", shape, (-1, -2), keepdim=True), behind_conv)),
        outside("keepdim", "false", model(mean(shape, (-1, -2), False), behind_conv)),
        outside("keepdim", "default", model(use("aten.mean.dim", shape, (-1, -2)), behind_conv)),
        *_mean_channels(m),
        *(
            accepted(f"size_{h}x{w}", model(mean((1, m, h, w)), behind_conv))
            for h, w in ((1, 1), (1, 7), (7, 1), (16, 16))
        ),
        *same_qparams(u, behind_conv),
        *_surrounded(u),
        *movement(u),
        *fills(u, behind_conv, label="_behind_conv"),
    ]


def _mean_dims(shape: tuple[int, ...], m: int) -> list[Draft]:
    allowed = ((-1, -2), (-2, -1), (2, 3), (3, 2), (2, -1), (-2, 3))
    refused = ((2,), (3,), (1,), (0,), (1, 2), (1, 3), (0, 1), (1, 2, 3), (-1, -3), (0, 1, 2, 3))
    return [
        *(limit("dims", name(d), model(mean(shape, d), behind_conv)) for d in allowed),
        *(outside("dims", name(d), model(mean(shape, d), behind_conv)) for d in refused),
        *(limit("dims", f"alone_{name(d)}", model(mean(shape, d))) for d in allowed[:2]),
        *(outside("dims", f"alone_{name(d)}", model(mean((1, m, 4, m), d))) for d in ((1, 2), (2, 1), (0,))),
    ]


def _mean_channels(m: int) -> list[Draft]:
    code, less = "channels_multiple_of", m - 1
    beyond = past(m, less, m + 1, m // 2, 1)
    return [
        *(limit(code, f"{c}", model(mean((1, c, 4, 6)), behind_conv)) for c in (m, 2 * m)),
        *(outside(code, f"{c}", model(mean((1, c, 4, 6)), behind_conv)) for c in beyond),
        outside(code, f"{less}_other_sizes_{m}", model(mean((1, less, m, m)), behind_conv)),
        outside(code, f"alone_{less}", model(mean((1, less, 4, m)))),
    ]


def _surrounded(u: Use) -> list[Draft]:
    return [*surroundings(u, behind_conv), *(d for d in unquantised(u) if d.side == "outside"), _quantised(u)]


def _quantised(u: Use) -> Draft:
    return limit("quantized", "quantised_on_both_sides", model(u, behind_conv))


# ------------------------------------------------------------------------------------ upsampling


def upsample_cases(op: str, limits: Limits) -> list[Draft]:
    """Twice or four times, the same for height and width, channels a multiple of 8."""
    corners = (False, True) if "bilinear" in op else (None,)
    factors, m = growth(limits), limits.multiple("channels_multiple_of")

    def grown(shape: tuple[int, ...], factors: object, size: object = None, corner: object = None) -> Use:
        middle = () if "nearest" in op else (bool(corner),)
        return use(op, shape, size, *middle, factors)

    def by(factor: int, shape: tuple[int, ...] = (1, m, 3, 5), corner: object = None) -> Use:
        return grown(shape, (float(factor), float(factor)), None, corner)

    small, (first, *_) = (1, m, 3, 5), factors
    spelled = [(float(f), float(f)) for f in factors] + [(first, first)]
    channels = past(m, 1, m // 2, m - 1, m + 1)
    return [
        *(limit("scale", f"{name(f)}_corners_{c}", model(grown(small, f, None, c))) for f in spelled for c in corners),
        *(limit("scale", f"to_{3 * f}x{5 * f}", model(grown(small, None, (3 * f, 5 * f)))) for f in factors),
        *(outside("scale", name(f), model(grown(small, f))) for f in _unequal_or_other(factors)),
        *(outside("scale", f"to_{h}x{w}", model(grown(small, None, (h, w)))) for h, w in _other_sizes(factors)),
        *(limit("channels_multiple_of", f"{c}", model(by(first, (1, c, 3, 5)))) for c in (m, 2 * m)),
        *(outside("channels_multiple_of", f"{c}", model(by(first, (1, c, 3, 5)))) for c in channels),
        outside("channels_multiple_of", f"{m - 1}_other_sizes_{m}", model(by(first, (1, m - 1, m, m)))),
        *(
            accepted(f"shape_{'x'.join(map(str, s))}", model(by(first, s)))
            for s in ((2, m, 3, 2), (1, m, 1, 1), (1, m, 1, 5))
        ),
        *same_qparams(by(first)),
        *contexts(by(first)),
        placed("behind_abs", model(by(first), behind_abs)),
        placed("behind_conv", model(by(first), behind_conv)),
        *(d for c in corners for d in movement(by(first, small, c), label=f"_x{first}_corners_{c}")),
        *(d for f in factors[1:] for c in corners for d in movement(by(f, small, c), label=f"_x{f}_corners_{c}")[:8]),
        *(valued(f"from_{h}x{w}", model(by(first, (1, m, h, w)))) for h, w in ((1, 7), (7, 1), (2, 2), (8, 8))),
    ]


def _unequal_or_other(factors: Sequence[int]) -> list[tuple[float, float]]:
    """Factors that nobody permits, or not for both height and width."""
    equal = [(f, f) for f in (1.0, 3.0, 8.0, 2.0, 4.0) if f not in factors]
    first, last = float(factors[0]), float(factors[-1])
    other = next(f for f in (2.0, 3.0, 4.0) if f != first)
    pairs = [(first, last if last != first else other)]
    pairs += [(high, low) for low, high in pairs]
    pairs += [pair for pair in ((1.0, 2.0), (2.0, 1.0), (2.0, 3.0)) if pair not in pairs]
    return [*equal, *pairs, (2.5, 2.5)]


def _other_sizes(factors: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes, from 3x5, of which one fits a factor and the other does not, or that fit another factor."""
    first, last = factors[0], factors[-1]
    sizes = [(3 * first, 5 * first + 1), (3 * first + 1, 5 * first)]
    sizes += [(3 * first, 5 * last), (3 * last, 5 * first)] if last != first else []
    sizes += [(3 * f, 5 * f) for f in (1, 3) if f not in factors]
    return [*sizes, (3 * last, 5 * last + 1)] if last != first else sizes
