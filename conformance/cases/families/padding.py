"""aten.constant_pad_nd.default, and aten.pad.default with its borders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, silent
from npu_assay.conformance.cases.families.layout.layout import Layout, layout, on, with_limits
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, X, activation, call, label, quant
from npu_assay.conformance.cases.permitted import Shape, deep, deepest
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import on_image
from npu_assay.conformance.cases.pieces.quantization import same_qparams
from npu_assay.conformance.cases.pieces.spelling import IMAGE, call_on, real
from npu_assay.conformance.cases.pieces.subject import Config, Subject
from npu_assay.conformance.cases.pieces.values import ZERO_POINTS, float_layout_values, layout_values
from npu_assay.conformance.programs.graph import Quant

# ------------------------------------------------------------------------------------ static int8


PAD = "aten.constant_pad_nd.default"


def pad(shape: Shape, sides: Shape, *rest: object) -> Call:
    """Sides as in torch: last dimension first, before and after."""
    return call(PAD, shape, sides, *rest)


def static_pad_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.constant_pad_nd.default: height and width only, nothing negative."""
    image = (1, 5, 6, 8)
    u = pad(image, (0, 0, 1, 2))
    most = deepest(limits, 5, 4)
    return [
        *_pad_dims(image),
        *_pad_signs(image),
        *_pad_values(image),
        limit("max_rank", f"rank_{most}", pad(deep((2, 3, 5, 8), most), (0, 0, 1, 2))),
        outside("max_rank", f"rank_{most + 1}", pad(deep((2, 3, 5, 8), most + 1), (0, 0, 1, 2))),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        accepted("channels_1", pad((1, 5, 6, 1), (0, 0, 1, 2))),
        accepted("batch_3", pad((3, 5, 6, 7), (0, 0, 1, 2, 2, 0))),
        *layout_values(pad(image, (0, 0, 1, 2, 3, 0))),
        *layout_values(pad((1, 8, 3, 5), (1, 2, 3, 0)), behind_conv, label="_behind_conv")[:8],
    ]


def _pad_dims(image: Shape) -> list[CaseDraft]:
    """Alone the dimensions are batch, height, width, channel; after a convolution batch, channel, height, width."""
    code = "channel_and_batch_padding"
    fits = ((0, 0, 1, 1), (0, 0, 1, 0), (0, 0, 0, 2), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 3), (0, 0, 1, 2, 3, 4))
    batch = ((0, 0, 0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 0, 0, 1), (0, 0, 1, 1, 1, 1, 1, 1))
    past = ((1, 1), (1, 0), (0, 1), (0, 8), (1, 0, 1, 1), (0, 1, 1, 1, 1, 1), *batch)
    first_fits = ((1, 1), (0, 2), (1, 0, 0, 0), (1, 1, 2, 0), (0, 0, 0, 3), (2, 1, 1, 2, 0, 0))
    first_past = ((0, 0, 0, 0, 8, 0), (0, 0, 0, 0, 0, 1), (1, 1, 1, 1, 1, 1), *batch[:2])
    behind = (1, 8, 4, 6)
    return [
        *(limit(code, f"alone_{label(p)}", pad(image, p)) for p in fits),
        *(outside(code, f"alone_{label(p)}", pad(image, p)) for p in past),
        *(limit(code, f"behind_conv_{label(p)}", pad(behind, p), behind_conv) for p in first_fits),
        *(outside(code, f"behind_conv_{label(p)}", pad(behind, p), behind_conv) for p in first_past),
        outside(code, "rank_3_channels", pad((2, 5, 8), (1, 1))),
        limit(code, "rank_3_width", pad((2, 5, 8), (0, 0, 1, 1))),
        silent(code, "rank_3_first", pad((2, 5, 8), (0, 0, 0, 0, 1, 1))),
        silent(code, "rank_2_first", pad((5, 8), (0, 0, 1, 1))),
    ]


def _pad_signs(image: Shape) -> list[CaseDraft]:
    code = "non_negative_padding"
    past = ((0, 0, -1, 0), (0, 0, 0, -1), (0, 0, 0, 0, -2, 0), (0, 0, 0, 0, 0, -1), (0, 0, -1, 2), (0, 0, 1, 1, 1, -1))
    return [
        limit(code, "0_on_one_side", pad(image, (0, 0, 0, 1))),
        *(outside(code, label(p), pad(image, p)) for p in past),
        outside(code, "behind_conv_minus_1", pad((1, 8, 4, 6), (-1, 0)), behind_conv),
    ]


def _pad_values(image: Shape) -> list[CaseDraft]:
    """Any fill value; it is quantized like the input, and saturates."""
    values = (0, 0.0, 1.5, -2.0, 0.024, 0.025, 0.026, 100.0, -100.0, 3)
    sides = (0, 0, 1, 2, 2, 1)
    narrow = [replace(pad(image, sides, 1.0), values=(activation("x", image, q),), y=q) for q in _zeroed()]
    return [
        *(accepted(f"value_{label(v)}", pad(image, sides, v)) for v in values),
        accepted("value_by_name", call(PAD, image, sides, value=-1.0)),
        *(accepted(f"value_1_zero_point_{label(z)}", u) for z, u in zip(ZERO_POINTS, narrow, strict=True)),
        accepted("value_behind_conv", pad((1, 8, 4, 6), (1, 2, 0, 1), 1.5), behind_conv),
    ]


def _zeroed() -> list[Quant]:
    return [quant(0.05, zero) for zero in ZERO_POINTS]


# ------------------------------------------------------------------------------------ floats


def float_pad_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.constant_pad_nd.default: any axis, any number, but nothing cut off."""
    subject = Subject(_padded, config=Config("ConstantPadConfig"))
    drafts = everywhere(subject, precision, limits)
    kept = ((0, 0), (1, 0), (0, 2), (1, 1, 2, 0), (0, 0, 3, 1), (0, 0, 0, 0, 1, 2), (1, 2, 0, 1, 1, 0, 2, 1))
    for pads in kept:
        drafts.append(limit("non_negative_padding", label(pads), _float_pad(precision, pads)))
    for pads in ((-1, 0), (0, -1), (2, -1), (0, 0, -1, 0), (1, 1, 0, -2), (0, 0, 0, 0, 0, -1)):
        drafts.append(outside("non_negative_padding", label(pads), _float_pad(precision, pads)))
    for name, value in (("left_out", ()), ("0", (0,)), ("minus_2.5", (-2.5,)), ("1", (1,)), ("1000", (1e3,))):
        drafts.append(accepted(f"value_{name}", _float_pad(precision, (1, 2, 2, 1), *value)))
    return [*drafts, *float_layout_values(_float_pad(precision, (1, 2, 2, 1)))]


def _padded(precision: str, shape: tuple[int, ...]) -> Call:
    return call_on(PAD, real("x", shape, precision), precision, (1, 2), 0.5)


def _float_pad(precision: str, pads: tuple[int, ...], *value: float) -> Call:
    return call_on(PAD, real("x", IMAGE, precision), precision, pads, *value)


# ------------------------------------------------------------------------------------ integers


PADS = (
    ("one_axis", ((1, 2),)),
    ("all_axes", ((1, 2, 3, 0, 0, 1, 1, 0), 0.0)),
    ("number", ((0, 1, 2, 0), 1.5)),
    ("far_number", ((0, 1, 2, 0), -1000.0)),
    ("cut_off", ((-1, 2, 0, -1),)),
)
BORDERS = (
    ("reflect", ((2, 1, 1, 0), "reflect")),
    ("replicate", ((2, 1, 1, 0), "replicate")),
    ("circular", ((2, 1, 1, 0), "circular")),
    ("constant", ((2, 1, 1, 0),)),
    ("number", ((2, 1, 1, 0), "constant", 1.5)),
)


def pad_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Borders that repeat the tensor are not larger than the tensor."""
    u = subject.call(precision)
    limits_of = (("reflect", 4), ("circular", 5))
    for mode, most in limits_of:
        yield limit("borders", f"{mode}_{most}", replace(u, args=(X, (most, 0, 0, 1), mode)))
    yield accepted("replicate_7", replace(u, args=(X, (7, 0, 0, 6), "replicate")))
    for mode, pads in (("reflect", (-1, 1, 0, 0)), ("replicate", (0, 0, 2, -1)), ("circular", (1, -1, 1, 1))):
        yield outside("borders", f"{mode}_negative", replace(u, args=(X, pads, mode)))


FAMILIES: Mapping[str, Family] = {
    PAD: Family(
        plain=on_image(PAD, (0, 0, 1, 2)),
        static=static_pad_cases,
        floats=float_pad_cases,
        integers=partial(layout, Layout(on(PAD, (1, 2)), PADS)),
    ),
    "aten.pad.default": Family(
        integers=with_limits(
            Layout(on("aten.pad.default", (2, 1, 1, 0), "reflect"), BORDERS, shapes=(), deep=False), pad_limits
        )
    ),
}
