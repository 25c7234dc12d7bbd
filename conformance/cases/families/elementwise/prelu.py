"""aten.prelu.default: one slope for each channel, or one for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isqrt

from npu_assay.conformance.cases.around import behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, inside, limit, outside, valued
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import Call, activation, bare, call, constant, model, quant, weight_quant
from npu_assay.conformance.cases.permitted import divisor, image, most_positions, wide
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.quantization import BELOW, rescale_limit, unary_rescale
from npu_assay.conformance.cases.pieces.sizes import rank_limit
from npu_assay.conformance.cases.pieces.values import all_codes, fills, rescaling_pairs
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Value


def prelu(shape: tuple[int, ...]) -> Call:
    """prelu with one slope per channel (dimension 1)."""
    return call("aten.prelu.default", shape, Ref("alpha"), more=(constant("alpha", (shape[1],), weight_quant(0.004)),))


def static_prelu_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.prelu.default: rank 4, channels a multiple of 8, at most 4096 positions, constant slopes."""
    limits.fixed("rank", 4)
    m = limits.multiple("channels_multiple_of")
    shape, every = image(m), prelu(wide(m))
    u = prelu(shape)
    one_slope = constant("alpha", (1,), weight_quant(0.004))
    ranks = [outside("rank", f"rank_{len(s)}", prelu(s)) for s in ((m, m), (1, m, 8), (1, m, 2, 2, 8))]
    return [
        *ranks,
        outside("rank", "rank_1", call("aten.prelu.default", (m,), Ref("alpha"), more=(one_slope,))),
        limit("rank", "rank_4", u),
        *_prelu_channels(m),
        *_prelu_positions(limits, m),
        *_prelu_slopes(shape),
        *rank_limit(limits, prelu),
        *unary_rescale(u),
        *_steep_rescale(u),
        *contexts(u),
        *all_codes(_wide(every, 0.004), rescaling_pairs(), multiple=m),
        *all_codes(_wide(every, 0.02), rescaling_pairs(2.5)[:4], label="_steep", multiple=m),
        *fills(u),
        *(valued(f"slopes_{name}", _slopes(u, Fill(name))) for name in ("min", "max", "zero", "ramp")),
    ]


def _steep_rescale(u: Call) -> list[CaseDraft]:
    """Code times slope, up to 2**14, shifted left by 17 bits, leaves 32 bits."""
    x, y = quant(1.0), quant(2.0**-16)
    beyond, kept = (_wide(u.requantized(x, y), scale) for scale in (1.0, BELOW))
    return rescale_limit(("slope_ratio_2_to_the_16", beyond), ("slope_ratio_below_2_to_the_16", kept))


def _wide(u: Call, scale: float) -> Call:
    return replace(u, values=(u.x, replace(u.values[1], quant=weight_quant(scale))))


def _slopes(u: Call, fill: Fill) -> Call:
    return replace(u, values=(u.x, replace(u.values[1], fill=fill)))


def _prelu_channels(m: int) -> list[CaseDraft]:
    """The channel is dimension 1, where torch's slopes go, with or without a convolution in front."""
    code, less = "channels_multiple_of", m - 1
    behind, alone = past(m, less, m + 1, m // 2, 1), past(m, less, m + 1, 1)
    return [
        *(limit(code, f"behind_conv_{c}", prelu((1, c, 4, 7)), behind_conv) for c in (m, 2 * m)),
        *(outside(code, f"behind_conv_{c}", prelu((1, c, 4, 7)), behind_conv) for c in behind),
        limit(code, f"alone_{m}", prelu((1, m, 3, m))),
        *(outside(code, f"alone_{c}", prelu((1, c, 3, c))) for c in alone),
        limit(code, f"alone_last_dimension_{less}", prelu((1, m, 3, less))),
        outside(code, f"alone_second_dimension_{less}", prelu((1, less, 3, m))),
    ]


def _prelu_positions(limits: Limits, m: int) -> list[CaseDraft]:
    """Input size / channels: 4096 in, one more row or column out, batch included."""
    most = most_positions(limits, m)
    side = divisor(most, isqrt(most))
    other, column = most // side, divisor(most, 8)
    half = divisor(most // 2, 8)
    rows, pairs, code = most // column, most // 2 // half, "positions"

    def behind(height: int, width: int) -> Graph:
        return model(prelu((1, m, height, width)), behind_conv)

    def alone(batch: int, height: int, width: int) -> Graph:
        return model(prelu((batch, m, height, width)))

    fits = dict.fromkeys(((side, other), (1, most), (most, 1)))
    beyond = dict.fromkeys(((side, other + 1), (other + 1, side), (1, most + 1), (most + 1, 1)))
    return [
        *(limit(code, f"behind_conv_{h}x{w}", behind(h, w)) for h, w in fits),
        *(outside(code, f"behind_conv_{h}x{w}", behind(h, w)) for h, w in beyond),
        limit(code, f"alone_{m}x{rows}x{column}", alone(1, rows, column)),
        outside(code, f"alone_{m}x{rows + 1}x{column}", alone(1, rows + 1, column)),
        limit(code, "alone_batch_2", alone(2, pairs, half)),
        outside(code, "alone_batch_2_one_more", alone(2, pairs + 1, half)),
    ]


def _prelu_slopes(shape: tuple[int, ...]) -> list[CaseDraft]:
    code, m = "static_weights", shape[1]

    def with_slopes(slopes: Value) -> Call:
        return call("aten.prelu.default", shape, Ref("alpha"), more=(slopes,))

    single = with_slopes(constant("alpha", (1,), weight_quant(0.004)))
    return [
        limit(code, "one_slope_per_channel", prelu(shape)),
        inside(code, "one_slope_for_all", single),
        inside(code, "one_slope_for_all_behind_conv", single, behind_conv),
        outside(code, "computed_slopes", with_slopes(activation("alpha", (m,), quant(0.004, 0)))),
        outside(code, "slopes_zero_point_1", with_slopes(constant("alpha", (m,), quant(0.004, 1)))),
    ]


FAMILIES: Mapping[str, Family] = {
    "aten.prelu.default": Family(
        plain=lambda limits: (prelu(image(limits.multiple("channels_multiple_of"))), bare), static=static_prelu_cases
    )
}
