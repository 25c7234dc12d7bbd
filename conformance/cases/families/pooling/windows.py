"""Windows over height and width: what average and maximum pools are both asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, X, bare, call, model
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import moved_ratios, rescaled
from npu_assay.conformance.cases.pieces.sizes import LARGE, Arguments, listed
from npu_assay.conformance.cases.pieces.spelling import call_on, in_int8, real
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import one_hots
from npu_assay.conformance.programs.graph import Fill, Graph

# ------------------------------------------------------------------------------------ static int8


def plain_pool(op: str, *rest: Any) -> Callable[[Limits], Placed]:
    """A window over an image of 8 x 8, or a line of 16."""

    def place(limits: Limits) -> Placed:
        channels = limits.multiple("channels_multiple_of")
        return call(op, (1, channels, 8, 8) if len(rest[0]) == 2 else (1, channels, 16), *rest), bare

    return place


SIDE = 8192  # of the windows of TOSA's level 8K
ADAPTIVE = "aten._adaptive_avg_pool2d.default"


def big_image(channels: int) -> tuple[int, ...]:
    """An image whose sizes differ, and differ from the channels."""
    return (1, channels, 9, 10)


def line_shape(channels: int) -> tuple[int, ...]:
    """1-D pools: lengths that are multiples of 8 keep the reshapes around them delegable."""
    return (1, channels, 16)


def windows(
    op: str, shape: tuple[int, ...], more: Sequence[tuple[str, tuple[object, ...]]], strides: Sequence[int] = ()
) -> list[CaseDraft]:
    """Kernels, strides and paddings in all their spellings, and with height and width apart.

    Only those with one of the vertical `strides`, when there are any.
    """
    spelled = [
        (f"kernel_{listed(k)}_stride_{listed(s)}", (k, s)) for k in (2, (2,), (2, 2)) for s in (2, (2,), (2, 2), ())
    ]
    default = [(f"kernel_{listed(k)}_stride_default", (k,)) for k in (2, (2,), (2, 2), (1, 3), (2, 1))]
    kernels = [(f"kernel_{h}_{w}", ((h, w), (1, 1))) for h, w in ((1, 1), (1, 4), (4, 1), (3, 2), (2, 3))]
    steps = [(f"stride_{h}_{w}", ((2, 2), (h, w))) for h, w in ((1, 1), (1, 2), (2, 1), (1, 5), (2, 3))]
    paddings = [(f"padding_{listed(p)}", ((3, 3), (2, 1), p)) for p in (0, 1, (1,), (1, 0), (0, 1), (1, 1))]
    variants = dict([*spelled, *default, *kernels, *steps, *paddings, *more])
    permitted = {n: rest for n, rest in variants.items() if not strides or vertical_stride(*rest) in strides}
    return [accepted(n, call(op, shape, *rest)) for n, rest in permitted.items()]


def vertical_stride(kernel: object, stride: object = (), *rest: object) -> object:
    """The rows that a pool moves on: the stride's first number, or the window's without a stride."""
    given = kernel if stride == () else stride
    return given[0] if isinstance(given, tuple) else given


def rank2d(op: str, channels: int, *rest: object) -> list[CaseDraft]:
    arguments = rest if rest else ((2, 2), (2, 2))
    return [
        limit("rank", "rank_4", call(op, (1, channels, 8, 8), *arguments)),
        outside("rank", "rank_3", call(op, (channels, 8, 8), *arguments)),
    ]


def _ceil_mode(op: str, even: Call, ragged: Call) -> list[CaseDraft]:
    """Also where rounding up changes nothing: the argument counts, not its effect."""
    tail: tuple[object, ...] = (1,) if "max" in op else ()

    def spelled(u: Call, value: bool, name: bool = False) -> Graph:
        named = (("ceil_mode", value),)
        return model(replace(u, kwargs=named) if name else replace(u, args=(*u.args, *tail, value)))

    return [
        limit("ceil_mode", "false", spelled(even, False)),
        limit("ceil_mode", "by_name", spelled(even, False, name=True)),
        outside("ceil_mode", "true", spelled(ragged, True)),
        outside("ceil_mode", "true_by_name", spelled(ragged, True, name=True)),
        outside("ceil_mode", "true_without_effect", spelled(even, True)),
    ]


def ceil2d(op: str, channels: int, stride: int) -> list[CaseDraft]:
    head = ((2, 2), (stride, 2), (0, 0))
    return _ceil_mode(op, call(op, (1, channels, 8, 8), *head), call(op, big_image(channels), *head))


def ceil1d(op: str, channels: int) -> list[CaseDraft]:
    """Lengths in and out are multiples of 8 either way."""
    shape = (1, channels, 24)
    return _ceil_mode(op, call(op, shape, (3,), (3,), (0,)), call(op, shape, (4,), (3,), (0,)))


def pool_contexts(u: Call, channels: Sequence[int] = (8, 5, 1)) -> list[CaseDraft]:
    return [
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        *(placed(f"behind_conv_channels_{c}", u.with_x(shape=(1, c, 9, 10)), behind_conv) for c in channels),
    ]


def rank1d(op: str, channels: int) -> list[CaseDraft]:
    return [
        limit("rank", "rank_3", call(op, line_shape(channels), (2,), (2,))),
        outside("rank", "rank_2", call(op, line_shape(channels)[1:], (2,), (2,))),
    ]


def windows1d(op: str, channels: int) -> list[CaseDraft]:
    """Spellings, and strides of 1 to 5; every output length is a multiple of 8."""
    spelled = [(f"kernel_{listed(k)}_stride_{listed(s)}", 16, (k, s)) for k in (2, (2,)) for s in (2, (2,), ())]
    default = [(f"kernel_{listed(k)}_stride_default", 16, (k,)) for k in (2, (2,))]
    strides = [(f"stride_{s}", 8 * s, ((1,), (s,))) for s in (1, 2, 3, 4, 5)]
    paddings = [(f"padding_{listed(p)}", 16, ((3,), (1,), p)) for p in (1, (1,))]
    variants = [*spelled, *default, *strides, *paddings, ("kernel_8", 64, ((8,), (8,)))]
    return [accepted(name, call(op, (1, channels, length), *rest)) for name, length, rest in variants]


# ------------------------------------------------------------------------------------ floats


PICTURE = (1, 3, 6, 7)
OPEN_PICTURE = ((0,), (2, 3), (0, 2, 3))
EMPTY = (0, 3, 6, 7)


def float_pool(op: str, precision: str, *arguments: Any, shape: tuple[int, ...] = PICTURE) -> Call:
    return call_on(op, real("x", shape, precision), precision, *arguments)


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


def window_sizes(window: Window, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Images, windows and batches on Ethos-U55; ranks everywhere."""
    if "rank" in limits:
        limits.value("rank", (3, 4))
        yield limit("rank", "4", window.of(precision, WINDOWED, *window.args))
        yield limit("rank", "3", window.of(precision, WINDOWED[1:], *window.args))
    if "max_size" in limits:
        most = limits.number("max_size", LARGE, 1024, LARGE)
        long = (("width", (1, 1, 2, most)), ("height", (1, 1, most, 2)), ("channels", (1, most, 2, 2)))
        for name, shape in long[2:] if window.op == ADAPTIVE else long:  # the window of an adaptive pool is as long
            yield limit("max_size", f"{name}_{most}", window.of(precision, shape, *_small(window)))
            longer = tuple(size + 1 if size == most else size for size in shape)
            yield outside("max_size", f"{name}_{most + 1}", window.of(precision, longer, *_small(window)))
    if "max_channels" in limits:
        most = limits.number("max_channels", LARGE, 1024, LARGE)
        for channels, side in ((most, limit), (most + 1, outside)):
            yield side("max_channels", f"{channels}", window.of(precision, (1, channels, 2, 2), *_small(window)))
            flat = window.of(precision, (channels, 2, 2), *_small(window))
            yield side("max_channels", f"{channels}_of_rank_3", flat)
    if "max_size" in limits and "batch" not in limits:
        wide = math.isqrt(limits.number("max_size", LARGE, 1024, LARGE))
        for high, side in ((wide, limit), (wide + 1, outside)):
            two = window.of(precision, (2, 1, high, wide), *_small(window))
            yield side("max_size", f"two_of_{high}x{wide}", two)
    if "batch" in limits:
        limits.fixed("batch", 1)
        yield limit("batch", "1", window.of(precision, WINDOWED, *window.args))
        yield outside("batch", "2", window.of(precision, (2, *WINDOWED[1:]), *window.args))


def _small(window: Window) -> tuple[Any, ...]:
    return ((1, 1),) if window.op == ADAPTIVE else ((1, 1), (1, 1))


def kernels(window: Window, precision: str, limits: Limits, stride: tuple[int, ...] = (1, 1)) -> Iterator[CaseDraft]:
    """Sides of windows on Ethos-U, heights and areas on Ethos-U55."""
    if "window_side" in limits:
        yield from _sides(window, precision, limits, limits.number("window_side", SIDE, 2, SIDE))
    if "kernel_height" not in limits and "kernel_area" not in limits:
        return
    area = limits.number("kernel_area", LARGE, 1, LARGE)
    height = limits.number("kernel_height", min(256, area), 1, 1024)
    if area < height:
        raise limits.error("kernel_area", area, f"at least {height}, the largest height of a kernel")
    for rows, side in ((height, limit), (height + 1, outside)):
        yield side(
            "kernel_height", f"{rows}_rows", window.of(precision, (1, 1, rows, 2), *_kernel(window, (rows, 1), stride))
        )
    width = area // height
    yield limit(
        "kernel_area",
        f"{height}x{width}",
        window.of(precision, (1, 1, height, width), *_kernel(window, (height, width), stride)),
    )
    wide = (height, width + 1)
    yield outside(
        "kernel_area", f"{height}x{width + 1}", window.of(precision, (1, 1, *wide), *_kernel(window, wide, stride))
    )


def _sides(window: Window, precision: str, limits: Limits, most: int) -> Iterator[CaseDraft]:
    """Kernels as long as can be and one longer, and strides where nothing else limits them."""
    tall = "kernel_height" not in limits and "kernel_area" not in limits
    free = window.op != ADAPTIVE and "stride" not in limits and "stride_or_window" not in limits
    for size, side in ((most, limit), (most + 1, outside)):
        for kernel in ((1, size), (size, 1))[: 2 if tall else 1]:
            args = ((1, 1),) if window.op == ADAPTIVE else (kernel, (1, 1))
            yield side("window_side", f"{kernel[0]}x{kernel[1]}", window.of(precision, (1, 1, *kernel), *args))
        for stride in ((1, size), (size, 1)) if free else ():
            name = f"stride_{stride[0]}x{stride[1]}"
            yield side("window_side", name, window.of(precision, (1, 1, 2, 3), (2, 2), stride))


def _kernel(window: Window, kernel: tuple[int, int], stride: tuple[int, ...]) -> tuple[Any, ...]:
    return ((1, 2 if kernel[1] == 1 else 1),) if window.op == ADAPTIVE else (kernel, stride)
