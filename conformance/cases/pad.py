"""aten.constant_pad_nd.default."""

from __future__ import annotations

from dataclasses import replace

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Use,
    accepted,
    activation,
    behind_abs,
    behind_conv,
    label,
    limit,
    model,
    outside,
    placed,
    quant,
    silent,
    use,
)
from npu_assay.conformance.cases.permitted import deep, deepest
from npu_assay.conformance.cases.shared import ZERO_POINTS, contexts, movement, same_qparams
from npu_assay.conformance.programs.graph import Quant

PAD = "aten.constant_pad_nd.default"
Shape = tuple[int, ...]


def pad(shape: Shape, sides: Shape, *rest: object) -> Use:
    """Sides as in torch: last dimension first, before and after."""
    return use(PAD, shape, sides, *rest)


def pad_cases(limits: Limits) -> list[Draft]:
    """aten.constant_pad_nd.default: height and width only, nothing negative."""
    image = (1, 5, 6, 8)
    u = pad(image, (0, 0, 1, 2))
    most = deepest(limits, 5, 4)
    return [
        *_pad_dims(image),
        *_pad_signs(image),
        *_pad_values(image),
        limit("max_rank", f"rank_{most}", model(pad(deep((2, 3, 5, 8), most), (0, 0, 1, 2)))),
        outside("max_rank", f"rank_{most + 1}", model(pad(deep((2, 3, 5, 8), most + 1), (0, 0, 1, 2)))),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        accepted("channels_1", model(pad((1, 5, 6, 1), (0, 0, 1, 2)))),
        accepted("batch_3", model(pad((3, 5, 6, 7), (0, 0, 1, 2, 2, 0)))),
        *movement(pad(image, (0, 0, 1, 2, 3, 0))),
        *movement(pad((1, 8, 3, 5), (1, 2, 3, 0)), behind_conv, label="_behind_conv")[:8],
    ]


def _pad_dims(image: Shape) -> list[Draft]:
    """Alone the dimensions are batch, height, width, channel; behind a convolution batch, channel, height, width."""
    code = "channel_and_batch_padding"
    fits = ((0, 0, 1, 1), (0, 0, 1, 0), (0, 0, 0, 2), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 3), (0, 0, 1, 2, 3, 4))
    batch = ((0, 0, 0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 0, 0, 1), (0, 0, 1, 1, 1, 1, 1, 1))
    past = ((1, 1), (1, 0), (0, 1), (0, 8), (1, 0, 1, 1), (0, 1, 1, 1, 1, 1), *batch)
    first_fits = ((1, 1), (0, 2), (1, 0, 0, 0), (1, 1, 2, 0), (0, 0, 0, 3), (2, 1, 1, 2, 0, 0))
    first_past = ((0, 0, 0, 0, 8, 0), (0, 0, 0, 0, 0, 1), (1, 1, 1, 1, 1, 1), *batch[:2])
    behind = (1, 8, 4, 6)
    return [
        *(limit(code, f"alone_{label(p)}", model(pad(image, p))) for p in fits),
        *(outside(code, f"alone_{label(p)}", model(pad(image, p))) for p in past),
        *(limit(code, f"behind_conv_{label(p)}", model(pad(behind, p), behind_conv)) for p in first_fits),
        *(outside(code, f"behind_conv_{label(p)}", model(pad(behind, p), behind_conv)) for p in first_past),
        outside(code, "rank_3_channels", model(pad((2, 5, 8), (1, 1)))),
        limit(code, "rank_3_width", model(pad((2, 5, 8), (0, 0, 1, 1)))),
        silent(code, "rank_3_first", model(pad((2, 5, 8), (0, 0, 0, 0, 1, 1)))),
        silent(code, "rank_2_first", model(pad((5, 8), (0, 0, 1, 1)))),
    ]


def _pad_signs(image: Shape) -> list[Draft]:
    code = "non_negative_padding"
    past = ((0, 0, -1, 0), (0, 0, 0, -1), (0, 0, 0, 0, -2, 0), (0, 0, 0, 0, 0, -1), (0, 0, -1, 2), (0, 0, 1, 1, 1, -1))
    return [
        limit(code, "0_on_one_side", model(pad(image, (0, 0, 0, 1)))),
        *(outside(code, label(p), model(pad(image, p))) for p in past),
        outside(code, "behind_conv_minus_1", model(pad((1, 8, 4, 6), (-1, 0)), behind_conv)),
    ]


def _pad_values(image: Shape) -> list[Draft]:
    """Any fill value; it is quantised like the input, and saturates."""
    values = (0, 0.0, 1.5, -2.0, 0.024, 0.025, 0.026, 100.0, -100.0, 3)
    sides = (0, 0, 1, 2, 2, 1)
    narrow = [replace(pad(image, sides, 1.0), values=(activation("x", image, q),), y=q) for q in _zeroed()]
    return [
        *(accepted(f"value_{label(v)}", model(pad(image, sides, v))) for v in values),
        accepted("value_by_name", model(use(PAD, image, sides, value=-1.0))),
        *(accepted(f"value_1_zero_point_{label(z)}", model(u)) for z, u in zip(ZERO_POINTS, narrow, strict=True)),
        accepted("value_behind_conv", model(pad((1, 8, 4, 6), (1, 2, 0, 1), 1.5), behind_conv)),
    ]


def _zeroed() -> list[Quant]:
    return [quant(0.05, zero) for zero in ZERO_POINTS]
