"""Copies: clone, alias, detach, and those with a dim order, which may convert numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside, placed, silent
from npu_assay.conformance.cases.families.layout.layout import Layout, in_place, layout, on, with_limits
from npu_assay.conformance.cases.families.logic import SHAPES, plain_numbers
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, X, activation, call, model, sizes_of
from npu_assay.conformance.cases.permitted import Shape, deepest
from npu_assay.conformance.cases.pieces.contexts import CAST
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import FULL_IMAGE, on_image
from npu_assay.conformance.cases.pieces.quantization import float_same_qparams
from npu_assay.conformance.cases.pieces.sizes import rank_limit
from npu_assay.conformance.cases.pieces.spelling import IMAGE, QUANTIZED, call_on, in_int8, is_static, real
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Config, Subject
from npu_assay.conformance.cases.pieces.values import float_layout_values
from npu_assay.conformance.programs.graph import Quant, Ref

# ------------------------------------------------------------------------------------ static int8


CLONE = "aten.clone.default"
DIM_ORDER = "dim_order_ops._clone_dim_order.default"


def static_clone_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.clone.default: the memory format is preserve_format or contiguous_format."""
    fits = ("contiguous_format", "preserve_format")
    u = call(CLONE, FULL_IMAGE, memory_format="contiguous_format")
    code = "memory_format"
    return [
        *(limit(code, name, call(CLONE, FULL_IMAGE, memory_format=name), behind_abs) for name in fits),
        outside(code, "channels_last", call(CLONE, FULL_IMAGE, memory_format="channels_last"), behind_abs),
        outside(code, "channels_last_rank_5", _channels_last_3d(), behind_abs),
        *_left_out(limits, u, call(CLONE, FULL_IMAGE)),
        *(
            accepted(f"shape_{sizes_of(s)}", _static_cloned(u, s), behind_abs)
            for s in COPIES
            if len(s) <= deepest(limits)
        ),
        placed("behind_conv", _static_cloned(u, (1, 8, 4, 6)), behind_conv),
        *in_place(u),
        *rank_limit(limits, lambda shape: _static_cloned(u, shape), prefix=behind_abs),
    ]


COPIES = ((7,), (3, 5), (2, 3, 7), (1, 1, 1, 1), (1, 3, 5, 7), (2, 3, 2, 3, 2))


def _left_out(limits: Limits, given: Call, without: Call) -> list[CaseDraft]:
    """A copy that names no format, of which a table may say something or nothing."""
    code = "memory_format_given"
    if code not in limits:
        return [silent("memory_format", "left_out", without, behind_abs)]
    return [limit(code, "given", given, behind_abs), outside(code, "left_out", without, behind_abs)]


def _channels_last_3d() -> Call:
    return call(CLONE, (1, 8, 2, 3, 4), memory_format="channels_last_3d")


def _static_cloned(u: Call, shape: Shape) -> Call:
    return u.with_x(shape=shape)


def _ordered(order: Shape | None, shape: Shape = FULL_IMAGE) -> Call:
    return call(DIM_ORDER, shape, dim_order=order)


def static_dim_order_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """dim_order_ops._clone_dim_order.default: the dim order is the contiguous one."""
    code = "memory_format"
    u = _ordered((0, 1, 2, 3))
    return [
        limit(code, "contiguous", u, behind_abs),
        outside(code, "channels_last", _ordered((0, 2, 3, 1)), behind_abs),
        outside(code, "channels_last_rank_5", _ordered((0, 2, 3, 4, 1), (1, 8, 2, 3, 4)), behind_abs),
        *_left_out(limits, u, _ordered(None)),
        *(
            accepted(f"shape_{sizes_of(s)}", _ordered(tuple(range(len(s))), s), behind_abs)
            for s in COPIES
            if len(s) <= deepest(limits)
        ),
        placed("behind_conv", _ordered((0, 1, 2, 3), (1, 8, 4, 6)), behind_conv),
        *in_place(u),
        *rank_limit(limits, lambda shape: _ordered(tuple(range(len(shape))), shape), prefix=behind_abs),
    ]


# ------------------------------------------------------------------------------------ floats


def float_to_copy_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """_to_dim_order_copy: another dim order, but no other type."""
    own, other = ("float16", "float32") if precision == "fp16" else ("float32", "float16")
    subject = Subject(_copy, config=Config("ToDimOrderCopyConfig", FLOAT_STATIC), whole=True)
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [
        *float_layout_values(_copy(precision, IMAGE, (0, 2, 3, 1))),
        accepted("channels_last", _copy(precision, IMAGE, (0, 2, 3, 1))),
        accepted("channels_last_one_channel", _copy(precision, (1, 1, 4, 5), (0, 2, 3, 1))),
        limit("no_conversion", "dtype_left_out", u),
        limit("no_conversion", own, replace(u, kwargs=(("dtype", own), *u.kwargs))),
        *(
            outside("no_conversion", dtype, _to(u, dtype))
            for dtype in ((other,) if is_static(precision) else (other, "float64"))
        ),
    ]
    return [*drafts, *float_same_qparams(u)] if is_static(precision) else drafts


def _copy(precision: str, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Call:
    x = real("x", shape, precision)
    return call_on(CAST, x, precision, dim_order=tuple(range(len(shape))) if order is None else order)


def _to(u: Call, dtype: str) -> Call:
    """A conversion: its result stays a plain number."""
    return replace(u, kwargs=(("dtype", dtype), *u.kwargs), y=None)


# ------------------------------------------------------------------------------------ integers


def clone_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """A copy of the same type; there are no others."""
    yield limit("no_conversion", "the_same_type", subject.model(subject.call(precision)))


def _copied(shape: Shape) -> Call:
    source = activation("source", shape[-2:])
    return call("aten.copy.default", shape, Ref("source"), more=(source,))


def _integer_cloned(shape: Shape) -> Call:
    return call("dim_order_ops._clone_dim_order.default", shape, dim_order=tuple(range(len(shape))))


def integer_conversion_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """dim_order_ops._to_dim_order_copy.default: between the types of integers."""

    def at(shape: tuple[int, ...], dtype: str = "int16", before: str = "int8") -> Call:
        order = tuple(range(len(shape)))
        numbers = plain_numbers("x", shape, before, -WIDE[before], WIDE[before])
        return Call(CAST, (numbers,), (X,), None, (("dtype", dtype), ("dim_order", order)))

    subject = Subject(in_int8(at), shapes=SHAPES)
    drafts = everywhere(subject, precision, limits)
    drafts.append(limit("conversion", "int8_to_int16", at(IMAGE)))
    drafts.append(outside("conversion", "int8_to_int64", at(IMAGE, "int64")))
    drafts.append(outside("conversion", "int8_to_float16", at(IMAGE, "float16")))
    drafts.append(limit("conversion", "quantized_1_to_1", _quantized(at(IMAGE, "float32"), 1.0, 0)))
    drafts.append(inside("conversion", "int16_quantized_1_to_1", _quantized(at(IMAGE, "float32", "int16"), 1.0, 0)))
    drafts.append(outside("conversion", "quantized_1_to_2", _quantized(at(IMAGE, "float32"), 2.0, 0)))
    drafts.append(outside("conversion", "quantized_from_1", _quantized(at(IMAGE, "float32"), 1.0, 1)))
    small = ("int8", "int16", "int32")
    pairs = [(before, after) for before in small for after in small if before != after and (before, after) != small[:2]]
    narrow = "code_dtype" in limits
    limits.value("code_dtype", ())
    for before, after in pairs:
        graph = model(at(IMAGE, after, before))
        if narrow and before == "int32":
            drafts.append(outside("code_dtype", f"{before}_to_{after}", graph))
        else:
            drafts.append(inside("conversion", f"{before}_to_{after}", graph))
    if narrow:
        drafts.append(limit("code_dtype", "int8_to_int32", at(IMAGE, "int32")))
        drafts.append(limit("no_bool", "int8", at(IMAGE)))
        drafts.append(outside("no_bool", "from_bool", at(IMAGE, "int8", "bool")))
    else:
        drafts += [accepted(f"{dtype}_from_bool", at(IMAGE, dtype, "bool")) for dtype in small]
    return drafts


WIDE = {"bool": 1, "int8": 127, "int16": 30_000, "int32": 70_000, "int64": 70_000}
"""The largest numbers of each type in the cases: a narrower one drops their high bits, and codes saturate."""


def _quantized(u: Call, scale: float, zero_point: int) -> Call:
    """Its real numbers become int8 again."""
    return replace(u, y=Quant(scale, zero_point))


FAMILIES: Mapping[str, Family] = {
    "aten.alias_copy.default": Family(integers=partial(layout, Layout(on("aten.alias_copy.default"), idle=True))),
    CLONE: Family(
        plain=on_image(CLONE, prefix=behind_abs, memory_format="contiguous_format"), static=static_clone_cases
    ),
    "aten.copy.default": Family(integers=partial(layout, Layout(_copied, shapes=((3, 5), (2, 3, 4))))),
    "aten.detach_copy.default": Family(integers=partial(layout, Layout(on("aten.detach_copy.default"), idle=True))),
    f"aten.{DIM_ORDER}": Family(
        plain=on_image(DIM_ORDER, prefix=behind_abs, dim_order=(0, 1, 2, 3)), static=static_dim_order_cases
    ),
    DIM_ORDER: Family(integers=with_limits(Layout(_integer_cloned, idle=True), clone_limits)),
    CAST: Family(floats=float_to_copy_cases, integers=integer_conversion_cases, without=QUANTIZED),
}
