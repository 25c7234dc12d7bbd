"""Upsampling, by factors or to a size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, valued
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import Call, X, bare, call, label, model
from npu_assay.conformance.cases.permitted import growth
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import moved_ratios, rescaled, same_qparams
from npu_assay.conformance.cases.pieces.sizes import Arguments, listed
from npu_assay.conformance.cases.pieces.spelling import IMAGE, call_on, in_int8, opened, real
from npu_assay.conformance.cases.pieces.subject import Config, Subject
from npu_assay.conformance.cases.pieces.values import float_layout_values, layout_values, one_hots
from npu_assay.conformance.programs.graph import Fill, Graph

# ------------------------------------------------------------------------------------ static int8


def _upsample(op: str, *rest: Any) -> Callable[[Limits], Placed]:
    def place(limits: Limits) -> Placed:
        factor = float(growth(limits)[0])
        return call(op, (1, limits.multiple("channels_multiple_of"), 3, 5), *rest, (factor, factor)), bare

    return place


def static_upsample_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """Twice or four times, the same for height and width, channels a multiple of 8."""
    corners = (False, True) if "bilinear" in op else (None,)
    factors, m = growth(limits), limits.multiple("channels_multiple_of")

    def grown(shape: tuple[int, ...], factors: object, size: object = None, corner: object = None) -> Call:
        middle = () if "nearest" in op else (bool(corner),)
        return call(op, shape, size, *middle, factors)

    def by(factor: int, shape: tuple[int, ...] = (1, m, 3, 5), corner: object = None) -> Call:
        return grown(shape, (float(factor), float(factor)), None, corner)

    small, (first, *_) = (1, m, 3, 5), factors
    each = limits.numbers("axis_scale", (1, 2, 4, 8), 1, 16)
    spelled = [(float(f), float(f)) for f in factors] + [(first, first)]
    channels = past(m, 1, m // 2, m - 1, m + 1)
    return [
        *(limit("scale", f"{listed(f)}_corners_{c}", grown(small, f, None, c)) for f in spelled for c in corners),
        *(limit("scale", f"to_{3 * f}x{5 * f}", grown(small, None, (3 * f, 5 * f))) for f in factors),
        *(outside("scale", listed(f), grown(small, f)) for f in _unequal_or_other(factors)),
        *(outside("scale", f"to_{h}x{w}", grown(small, None, (h, w))) for h, w in _other_sizes(factors)),
        *(limit("axis_scale", f"{h}x{w}", grown(small, (float(h), float(w)))) for h in each for w in each),
        *(
            limit("axis_scale", f"to_{3 * h}x{5 * w}", grown(small, None, (3 * h, 5 * w)))
            for h, w in zip(each, each[::-1], strict=True)
        ),
        *(outside("axis_scale", listed(f), grown(small, f)) for f in _by_none_of(each)),
        *(
            outside("axis_scale", f"to_{h}x{w}", grown(small, None, (h, w)))
            for h, w in ((6, 11), (7, 10), (9, 15), (2, 5), (3, 4))
        ),
        *(limit("channels_multiple_of", f"{c}", by(first, (1, c, 3, 5))) for c in (m, 2 * m)),
        *(outside("channels_multiple_of", f"{c}", by(first, (1, c, 3, 5))) for c in channels),
        outside("channels_multiple_of", f"{m - 1}_other_sizes_{m}", by(first, (1, m - 1, m, m))),
        *(accepted(f"shape_{'x'.join(map(str, s))}", by(first, s)) for s in ((2, m, 3, 2), (1, m, 1, 1), (1, m, 1, 5))),
        *same_qparams(by(first)),
        *contexts(by(first)),
        placed("behind_abs", by(first), behind_abs),
        placed("behind_conv", by(first), behind_conv),
        *(d for c in corners for d in layout_values(by(first, small, c), label=f"_x{first}_corners_{c}")),
        *(
            d
            for f in factors[1:]
            for c in corners
            for d in layout_values(by(f, small, c), label=f"_x{f}_corners_{c}")[:8]
        ),
        *(valued(f"from_{h}x{w}", by(first, (1, m, h, w))) for h, w in ((1, 7), (7, 1), (2, 2), (8, 8))),
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


def _by_none_of(factors: Sequence[int]) -> list[tuple[float, float]]:
    """Factors of which one is none of these, or both are."""
    others = [float(f) for f in (1, 2, 3, 5, 8, 16) if f not in factors]
    one = float(factors[-1])
    return [*((f, f) for f in others), *((f, one) for f in others), *((one, f) for f in others), (2.5, 2.5), (0.5, 1.0)]


def _other_sizes(factors: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes, from 3x5, of which one fits a factor and the other does not, or that fit another factor."""
    first, last = factors[0], factors[-1]
    sizes = [(3 * first, 5 * first + 1), (3 * first + 1, 5 * first)]
    sizes += [(3 * first, 5 * last), (3 * last, 5 * first)] if last != first else []
    sizes += [(3 * f, 5 * f) for f in (1, 3) if f not in factors]
    return [*sizes, (3 * last, 5 * last + 1)] if last != first else sizes


# ------------------------------------------------------------------------------------ floats


def float_upsample_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.upsample_bilinear2d.vec: to a known size."""

    def up(size: Any, align: bool, scales: Any, shape: tuple[int, ...] = IMAGE) -> Any:
        return model(call_on(BILINEAR, real("x", shape, precision), precision, size, align, scales))

    subject = Subject(_doubled, deep=False, config=Config("UpsampleBilinear2dConfig"), shape=IMAGE, open=())
    drafts = everywhere(subject, precision, limits)
    u = subject.call(precision)
    sized = call_on(BILINEAR, real("x", IMAGE, precision), precision, (6, 9), False, None)
    for name, size in (("up", (8, 10)), ("down", (2, 3)), ("same", (4, 5)), ("one_pixel", (1, 1)), ("odd", (7, 13))):
        for align in (False, True):
            drafts.append(accepted(f"size_{name}{'_align_corners' if align else ''}", up(size, align, None)))
    drafts += [
        limit("static_output_size", "known", u),
        limit("static_output_size", "open_input_to_a_known_size", opened(sized, (2, 3))),
        *(
            outside("static_output_size", f"open_axis_{label(axes)}", opened(u, axes))
            for axes in ((0,), (2,), (3,), (0, 2, 3))
        ),
        outside("static_output_size", "open_batch_to_a_known_size", opened(sized, (0,))),
        limit("exact_scale", "2_of_4_by_5", up(None, False, (2.0, 2.0))),
        limit("exact_scale", "1.5_of_4", up(None, False, (1.5, 2.0))),
        limit("exact_scale", "half_of_4", up(None, False, (0.5, 1.0))),
        limit("exact_scale", "1.5_of_5_align_corners", up(None, True, (2.0, 1.5))),
        outside("exact_scale", "1.5_of_5_horizontally", up(None, False, (2.0, 1.5))),
        outside("exact_scale", "1.5_of_5_vertically", up(None, False, (1.5, 2.0), (1, 3, 5, 4))),
        outside("exact_scale", "0.6_of_4", up(None, False, (0.6, 1.0))),
        *float_layout_values(u),
    ]
    return drafts


def _doubled(precision: str, shape: tuple[int, ...]) -> Call:
    return call_on(BILINEAR, real("x", shape, precision), precision, None, False, (2.0, 2.0))


# ------------------------------------------------------------------------------------ integers

WINDOWED = (1, 3, 6, 8)


@dataclass(frozen=True)
class Window:
    """A row; args: what stands after `x`; more: names and arguments of other uses."""

    op: str
    args: tuple[Any, ...]
    more: Arguments = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    open: tuple[tuple[int, ...], ...] = ((0,),)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(
            in_int8(lambda shape: call(self.op, shape, *self.args)),
            shape=WINDOWED,
            shapes=self.shapes,
            open=self.open,
            deep=False,
        )

    def of(self, precision: str, shape: tuple[int, ...], *args: Any) -> Graph:
        """The model of other arguments."""
        return model(replace(self.subject.call(precision, shape), args=(X, *args)))


def integer_window(window: Window, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every one of them has."""
    subject = window.subject
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(name, replace(u, args=(X, *args)).with_x(fill=Fill(seed=3))) for name, args in window.more]
    drafts += one_hots(u, spots=3)
    if "batch" not in limits:
        drafts.append(accepted("several_images", subject.call(precision, (2, *WINDOWED[1:]))))
    return [*drafts, *rescaled(subject, precision), *moved_ratios(subject, precision)]


def _ranks_and_batches(window: Window, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    if "rank" in limits:
        limits.value("rank", (3, 4))
        yield limit("rank", "4", window.of(precision, WINDOWED, *window.args))
        yield limit("rank", "3", window.of(precision, WINDOWED[1:], *window.args))
    if "batch" in limits:
        limits.fixed("batch", 1)
        yield limit("batch", "1", window.of(precision, WINDOWED, *window.args))
        yield outside("batch", "2", window.of(precision, (2, *WINDOWED[1:]), *window.args))


def integer_upsample_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """Upsampling by sizes or by factors."""
    nearest = op == NEAREST
    rest = (lambda size, factors: (size, factors)) if nearest else (lambda size, factors: (size, False, factors))
    is_open = () if nearest else ((0,),)
    window = Window(op, rest(None, (2.0, 2.0)), (("by_size", rest((12, 16), None)),), ((1, 1, 3, 2),), is_open)
    drafts = [*integer_window(window, precision, limits), *_ranks_and_batches(window, precision, limits)]
    more = (("three", (3.0, 3.0)), ("factors_differ", (2.0, 3.0)), ("fraction", (1.5, 2.5)))
    if "resize_scale" in limits:
        listed = limits.some_of("resize_scale", (2, 4, 8))
        for scale in listed:
            drafts.append(
                limit(
                    "resize_scale",
                    str(scale),
                    window.of(precision, (1, 2, 3, 5), *rest(None, (float(scale), float(scale)))),
                )
            )
        drafts.append(limit("resize_scale", "size", window.of(precision, WINDOWED, *rest((12, 16), None))))
        for name, factors in (*more, ("once", (1.0, 1.0)), ("sixteen", (16.0, 16.0))):
            drafts.append(outside("resize_scale", name, window.of(precision, WINDOWED, *rest(None, factors))))
        drafts.append(outside("resize_scale", "size", window.of(precision, WINDOWED, *rest((12, 24), None))))
    else:
        drafts += [accepted(name, window.of(precision, WINDOWED, *rest(None, factors))) for name, factors in more]
        drafts.append(accepted("smaller", window.of(precision, WINDOWED, *rest((4, 5), None))))
    if not nearest:
        corners = (("corners", ((11, 15), True, None)), ("corners_smaller", ((3, 5), True, None)))
        drafts += [accepted(name, window.of(precision, WINDOWED, *args)) for name, args in corners]
        drafts.append(accepted("sixteenth", window.of(precision, (1, 2, 16, 32), (1, 2), False, None)))
    if "resize_scale" in limits:
        drafts.append(limit("resize", "8", window.of(precision, (1, 1, 2, 2), *rest(None, (8.0, 8.0)))))
    else:
        drafts.append(limit("resize", "256", window.of(precision, (1, 1, 2, 2), *rest(None, (256.0, 256.0)))))
        drafts.append(outside("resize", "257", window.of(precision, (1, 1, 2, 2), *rest(None, (257.0, 257.0)))))
    drafts.append(outside("resize", "512", window.of(precision, (1, 1, 2, 2), *rest(None, (512.0, 512.0)))))
    drafts.append(outside("resize", "output_of_16384", window.of(precision, (1, 1, 2, 8192), *rest(None, (2.0, 2.0)))))
    return drafts


NEAREST = "aten.upsample_nearest2d.vec"
BILINEAR = "aten.upsample_bilinear2d.vec"
FAMILIES: Mapping[str, Family] = {
    BILINEAR: Family(
        plain=_upsample(BILINEAR, None, False),
        static=partial(static_upsample_cases, BILINEAR),
        floats=float_upsample_cases,
        integers=partial(integer_upsample_cases, BILINEAR),
    ),
    NEAREST: Family(
        plain=_upsample(NEAREST, None),
        static=partial(static_upsample_cases, NEAREST),
        integers=partial(integer_upsample_cases, NEAREST),
    ),
}
