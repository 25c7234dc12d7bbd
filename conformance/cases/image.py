"""Adaptive average pool, mean over the image, and upsampling."""

from __future__ import annotations

from conformance.cases.make import (
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
from conformance.cases.pool import name, rank2d
from conformance.cases.shared import contexts, fills, movement, reshaped, same_qparams, surroundings, unquantised

ADAPTIVE = "aten._adaptive_avg_pool2d.default"


# ------------------------------------------------------------------------------------ adaptive


def adaptive_cases() -> list[Draft]:
    """aten._adaptive_avg_pool2d.default: output sizes that divide the input's."""
    code = "output_divides_input"
    fits = (((8, 8), (4, 4)), ((8, 8), (8, 8)), ((8, 6), (4, 3)), ((9, 10), (3, 5)), ((7, 5), (1, 1)), ((7, 5), (7, 1)))
    past = (((9, 8), (4, 4)), ((8, 9), (4, 4)), ((7, 8), (4, 2)), ((8, 7), (2, 4)), ((9, 10), (4, 3)), ((5, 4), (4, 4)))
    more = (((4, 4), (8, 8)), ((4, 4), (5, 4)), ((4, 4), (4, 5)))
    u = use(ADAPTIVE, (1, 8, 8, 6), (4, 3))
    return [
        *rank2d(ADAPTIVE, (4, 4)),
        *(limit(code, _sizes(i, o), model(use(ADAPTIVE, (1, 8, *i), o))) for i, o in fits),
        *(outside(code, _sizes(i, o), model(use(ADAPTIVE, (1, 8, *i), o))) for i, o in (*past, *more)),
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


def mean_cases() -> list[Draft]:
    """aten.mean.dim: height and width of four dimensions, kept. Behind a convolution these are -2 and -1."""
    shape = (1, 8, 4, 6)
    u = mean(shape)
    allowed = ((-1, -2), (-2, -1), (2, 3), (3, 2), (2, -1), (-2, 3))
    refused = ((2,), (3,), (1,), (0,), (1, 2), (1, 3), (0, 1), (1, 2, 3), (-1, -3), (0, 1, 2, 3))
    return [
        limit("rank", "rank_4", model(u, behind_conv)),
        outside("rank", "rank_3", model(mean((1, 8, 8)), behind_conv)),
        *(limit("dims", name(d), model(mean(shape, d), behind_conv)) for d in allowed),
        *(outside("dims", name(d), model(mean(shape, d), behind_conv)) for d in refused),
        *(limit("dims", f"alone_{name(d)}", model(mean(shape, d))) for d in allowed[:2]),
        *(outside("dims", f"alone_{name(d)}", model(mean((1, 8, 4, 8), d))) for d in ((1, 2), (2, 1), (0,))),
        limit("keepdim", "true", model(mean(shape, (-1, -2), True), behind_conv)),
        limit("keepdim", "by_name", model(use("aten.mean.dim", shape, (-1, -2), keepdim=True), behind_conv)),
        outside("keepdim", "false", model(mean(shape, (-1, -2), False), behind_conv)),
        outside("keepdim", "default", model(use("aten.mean.dim", shape, (-1, -2)), behind_conv)),
        *(limit("channels_multiple_of", f"{c}", model(mean((1, c, 4, 6)), behind_conv)) for c in (8, 16)),
        *(outside("channels_multiple_of", f"{c}", model(mean((1, c, 4, 6)), behind_conv)) for c in (7, 9, 4, 1)),
        outside("channels_multiple_of", "7_other_sizes_8", model(mean((1, 7, 8, 8)), behind_conv)),
        outside("channels_multiple_of", "alone_7", model(mean((1, 7, 4, 8)))),
        *(
            accepted(f"size_{h}x{w}", model(mean((1, 8, h, w)), behind_conv))
            for h, w in ((1, 1), (1, 7), (7, 1), (16, 16))
        ),
        *same_qparams(u, behind_conv),
        *_surrounded(u),
        *movement(u),
        *fills(u, behind_conv, label="_behind_conv"),
    ]


MEANS = ((1, 1), (1, 7), (7, 1), (16, 16))


def _surrounded(u: Use) -> list[Draft]:
    return [*surroundings(u, behind_conv), *(d for d in unquantised(u) if d.side == "outside"), _quantised(u)]


def _quantised(u: Use) -> Draft:
    return limit("quantized", "quantised_on_both_sides", model(u, behind_conv))


# ------------------------------------------------------------------------------------ upsampling


def upsample_cases(op: str) -> list[Draft]:
    """Twice or four times, the same for height and width, channels a multiple of 8."""
    corners = (False, True) if "bilinear" in op else (None,)

    def grown(shape: tuple[int, ...], factors: object = (2.0, 2.0), size: object = None, corner: object = None) -> Use:
        middle = () if "nearest" in op else (bool(corner),)
        return use(op, shape, size, *middle, factors)

    small = (1, 8, 3, 5)
    refused = (
        (1.0, 1.0),
        (3.0, 3.0),
        (8.0, 8.0),
        (2.0, 4.0),
        (4.0, 2.0),
        (1.0, 2.0),
        (2.0, 1.0),
        (2.0, 3.0),
        (2.5, 2.5),
    )
    sizes = ((6, 11), (7, 10), (6, 20), (12, 10), (3, 5), (9, 15), (12, 21))
    return [
        *(
            limit("scale", f"{name(f)}_corners_{c}", model(grown(small, f, None, c)))
            for f in ((2.0, 2.0), (4.0, 4.0), (2, 2))
            for c in corners
        ),
        *(limit("scale", f"to_{h}x{w}", model(grown(small, None, (h, w)))) for h, w in ((6, 10), (12, 20))),
        *(outside("scale", name(f), model(grown(small, f))) for f in refused),
        *(outside("scale", f"to_{h}x{w}", model(grown(small, None, (h, w)))) for h, w in sizes),
        *(limit("channels_multiple_of", f"{c}", model(grown((1, c, 3, 5)))) for c in (8, 16)),
        *(outside("channels_multiple_of", f"{c}", model(grown((1, c, 3, 5)))) for c in (1, 4, 7, 9)),
        outside("channels_multiple_of", "7_other_sizes_8", model(grown((1, 7, 8, 8)))),
        *(
            accepted(f"shape_{'x'.join(map(str, s))}", model(grown(s)))
            for s in ((2, 8, 3, 2), (1, 8, 1, 1), (1, 8, 1, 5))
        ),
        *same_qparams(grown(small)),
        *contexts(grown(small)),
        placed("behind_abs", model(grown(small), behind_abs)),
        placed("behind_conv", model(grown(small), behind_conv)),
        *(d for c in corners for d in movement(grown(small, (2.0, 2.0), None, c), label=f"_x2_corners_{c}")),
        *(d for c in corners for d in movement(grown(small, (4.0, 4.0), None, c), label=f"_x4_corners_{c}")[:8]),
        *(valued(f"from_{h}x{w}", model(grown((1, 8, h, w)))) for h, w in ((1, 7), (7, 1), (2, 2), (8, 8))),
    ]
