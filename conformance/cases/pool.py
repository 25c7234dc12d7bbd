"""Windows over height and width: average and maximum pools, 1-D and 2-D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu_assay.conformance.cases.limits import Limits, around, past
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Use,
    accepted,
    behind_abs,
    behind_conv,
    inside,
    limit,
    model,
    outside,
    placed,
    quant,
    silent,
    use,
)
from npu_assay.conformance.cases.permitted import vertical_strides
from npu_assay.conformance.cases.shared import contexts, movement, reshaped, same_qparams
from npu_assay.conformance.programs.graph import Graph, Ref

AVG2, AVG1 = "aten.avg_pool2d.default", "aten.avg_pool1d.default"
MAX2, MAX1 = "aten.max_pool2d.default", "aten.max_pool1d.default"
INDICES = "aten.max_pool2d_with_indices.default"
CHANNELS = "channels_multiple_of"


def name(value: object) -> str:
    """Arguments in a case id: `2`, `list_2_3`, `empty`."""
    if isinstance(value, tuple):
        return "list_" + "_".join(map(str, value)) if value else "empty"
    return str(value).replace("-", "minus_")


# ------------------------------------------------------------------------------------ 2-D average


def _big(channels: int) -> tuple[int, ...]:
    """An image whose sizes differ, and differ from the channels."""
    return (1, channels, 9, 10)


def _line(channels: int) -> tuple[int, ...]:
    """1-D pools: lengths that are multiples of 8 keep the reshapes around them delegable."""
    return (1, channels, 16)


def avg_pool2d_cases(limits: Limits) -> list[Draft]:
    """aten.avg_pool2d.default."""
    limits.fixed("rank", 4)
    limits.fixed("ceil_mode", False)
    m = limits.multiple(CHANNELS)
    big = _big(m)
    u = use(AVG2, big, (2, 3), (2, 1))
    return [
        *rank2d(AVG2, m),
        *_ceil2d(AVG2, m, 2),
        *_include_pad(AVG2, big),
        *_divisor_override(big),
        *_windows(AVG2, big, _FREE_STRIDES),
        *(accepted(f"shape_{'x'.join(map(str, s))}", model(reshaped(u, s))) for s in FREE_SHAPES),
        *same_qparams(u),
        *_pool_contexts(u),
        *movement(use(AVG2, big, (3, 2), (2, 1), (1, 0)), label="_padded"),
        *movement(u),
    ]


FREE_SHAPES = ((2, 8, 4, 5), (1, 1, 4, 5), (1, 3, 5, 4), (3, 5, 2, 3))
_FREE_STRIDES: Sequence[tuple[str, tuple[object, ...]]] = (
    ("stride_3_2", ((2, 2), (3, 2))),
    ("stride_2_3", ((2, 2), (2, 3))),
    ("stride_beyond_kernel", ((2, 2), (4, 5))),
    ("whole_image", ((9, 10), (1, 1))),
)


def _windows(
    op: str, shape: tuple[int, ...], more: Sequence[tuple[str, tuple[object, ...]]], strides: Sequence[int] = ()
) -> list[Draft]:
    """Kernels, strides and paddings in all their spellings, and with height and width apart.

    Only those with one of the vertical `strides`, when there are any.
    """
    spelled = [(f"kernel_{name(k)}_stride_{name(s)}", (k, s)) for k in (2, (2,), (2, 2)) for s in (2, (2,), (2, 2), ())]
    default = [(f"kernel_{name(k)}_stride_default", (k,)) for k in (2, (2,), (2, 2), (1, 3), (2, 1))]
    kernels = [(f"kernel_{h}_{w}", ((h, w), (1, 1))) for h, w in ((1, 1), (1, 4), (4, 1), (3, 2), (2, 3))]
    steps = [(f"stride_{h}_{w}", ((2, 2), (h, w))) for h, w in ((1, 1), (1, 2), (2, 1), (1, 5), (2, 3))]
    paddings = [(f"padding_{name(p)}", ((3, 3), (2, 1), p)) for p in (0, 1, (1,), (1, 0), (0, 1), (1, 1))]
    variants = dict([*spelled, *default, *kernels, *steps, *paddings, *more])
    permitted = {n: rest for n, rest in variants.items() if not strides or vertical_stride(*rest) in strides}
    return [accepted(n, model(use(op, shape, *rest))) for n, rest in permitted.items()]


def vertical_stride(kernel: object, stride: object = (), *rest: object) -> object:
    """The rows that a pool moves on: the stride's first number, or the window's without a stride."""
    given = kernel if stride == () else stride
    return given[0] if isinstance(given, tuple) else given


def rank2d(op: str, channels: int, *rest: object) -> list[Draft]:
    arguments = rest if rest else ((2, 2), (2, 2))
    return [
        limit("rank", "rank_4", model(use(op, (1, channels, 8, 8), *arguments))),
        outside("rank", "rank_3", model(use(op, (channels, 8, 8), *arguments))),
    ]


def _ceil_mode(op: str, even: Use, ragged: Use) -> list[Draft]:
    """Also where rounding up changes nothing: the argument counts, not its effect."""
    tail: tuple[object, ...] = (1,) if "max" in op else ()

    def spelled(u: Use, value: bool, name: bool = False) -> Graph:
        named = (("ceil_mode", value),)
        return model(replace(u, kwargs=named) if name else replace(u, args=(*u.args, *tail, value)))

    return [
        limit("ceil_mode", "false", spelled(even, False)),
        limit("ceil_mode", "by_name", spelled(even, False, name=True)),
        outside("ceil_mode", "true", spelled(ragged, True)),
        outside("ceil_mode", "true_by_name", spelled(ragged, True, name=True)),
        outside("ceil_mode", "true_without_effect", spelled(even, True)),
    ]


def _ceil2d(op: str, channels: int, stride: int) -> list[Draft]:
    head = ((2, 2), (stride, 2), (0, 0))
    return _ceil_mode(op, use(op, (1, channels, 8, 8), *head), use(op, _big(channels), *head))


def _ceil1d(op: str, channels: int) -> list[Draft]:
    """Lengths in and out are multiples of 8 either way."""
    shape = (1, channels, 24)
    return _ceil_mode(op, use(op, shape, (3,), (3,), (0,)), use(op, shape, (4,), (3,), (0,)))


def _include_pad(op: str, shape: tuple[int, ...]) -> list[Draft]:
    """count_include_pad = False counts only where something is padded; either axis suffices."""
    code, one = "count_include_pad", len(shape) == 3
    sides = ((1,),) if one else ((1, 1), (1, 0), (0, 1))
    kernel, stride, none = ((3,), (1,), (0,)) if one else ((3, 3), (1, 1), (0, 0))
    return [
        limit(code, "false_without_padding", model(use(op, shape, *_fit(one), none, False, False))),
        limit(code, "false_by_name", model(use(op, shape, *_fit(one), count_include_pad=False))),
        *(limit(code, f"true_{name(p)}", model(use(op, shape, kernel, stride, p, False, True))) for p in sides),
        *(inside(code, f"default_{name(p)}", model(use(op, shape, kernel, stride, p))) for p in sides),
        *(outside(code, f"false_{name(p)}", model(use(op, shape, kernel, stride, p, False, False))) for p in sides),
        outside(code, "false_padding_1", model(use(op, shape, kernel, stride, 1, count_include_pad=False))),
    ]


def _fit(one: bool) -> tuple[object, ...]:
    return ((2,), (2,)) if one else ((2, 2), (2, 2))


def _divisor_override(big: tuple[int, ...]) -> list[Draft]:
    head = ((2, 2), (2, 2), (0, 0), False, True)
    return [
        limit("divisor_override", "left_out", model(use(AVG2, big, *head))),
        limit("divisor_override", "none", model(use(AVG2, big, *head, None))),
        *(outside("divisor_override", f"{n}", model(use(AVG2, big, *head, n))) for n in (3, 4, 5, 1000)),
        outside("divisor_override", "by_name", model(use(AVG2, big, (2, 2), divisor_override=7))),
        outside("divisor_override", "as_1", model(use(AVG2, big, *head, 1, y=quant(0.2, 3), x=quant(0.2, 3)))),
    ]


def _pool_contexts(u: Use, channels: Sequence[int] = (8, 5, 1)) -> list[Draft]:
    return [
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *(placed(f"behind_conv_channels_{c}", model(reshaped(u, (1, c, 9, 10)), behind_conv)) for c in channels),
    ]


# ------------------------------------------------------------------------------------ 2-D maximum


def max_pool2d_cases(op: str, limits: Limits) -> list[Draft]:
    """aten.max_pool2d.default and aten.max_pool2d_with_indices.default."""
    _fixed(limits, rank=4)
    m, strides = limits.multiple(CHANNELS), vertical_strides(limits)
    most, big = max(strides), _big(m)
    u = use(op, big, (2, 3), (most, 1))
    window = ((2, 2), (most, 2))
    return [
        *rank2d(op, m, *window),
        *_dilations(op, big, window),
        *_ceil2d(op, m, most),
        *_channels(op, window, (4, 5), m),
        *_batches(op, window, (4, 5), m),
        *_vertical_strides(op, big, strides),
        *_windows(op, big, (), strides),
        *same_qparams(u),
        *_pool_contexts(u, (m,)),
        *movement(use(op, big, (3, 2), (most, 1), (1, 0)), label="_padded"),
        *movement(u),
    ]


def _fixed(limits: Limits, rank: int) -> None:
    """What maximum pools are written for."""
    limits.fixed("rank", rank)
    limits.fixed("dilation", 1)
    limits.fixed("ceil_mode", False)
    limits.fixed("batch", 1)


def max_pool2d_with_indices_cases(limits: Limits) -> list[Draft]:
    """As max_pool2d, and nobody may use the indices."""
    u = use(INDICES, _big(limits.multiple(CHANNELS)), (2, 3), (max(vertical_strides(limits)), 1), outputs=2)
    alone = replace(u, outputs=1)
    returned = model(u)
    only = Graph(u.values, model(u).steps, (Ref(SUBJECT, 1),))
    return [
        *max_pool2d_cases(INDICES, limits),
        limit("indices_unused", "values_only", model(alone)),
        outside("indices_unused", "returned", returned),
        outside("indices_unused", "returned_behind_abs", model(u, behind_abs)),
        silent("indices_unused", "only_indices_returned", only),
    ]


def _dilations(op: str, big: tuple[int, ...], window: tuple[object, ...]) -> list[Draft]:
    head = (*window, (0, 0))
    return [
        *(limit("dilation", name(d), model(use(op, big, *head, d))) for d in (1, (1,), (1, 1))),
        *(
            outside("dilation", name(d), model(use(op, big, *head, d)))
            for d in (2, (2,), (2, 2), (2, 1), (1, 2), (1, 3))
        ),
        outside("dilation", "by_name", model(use(op, big, *head, dilation=2))),
        outside("dilation", "2_behind_conv", model(use(op, big, *head, 2), behind_conv)),
    ]


def _channels(op: str, rest: tuple[object, ...], size: tuple[int, ...], m: int) -> list[Draft]:
    """Dimension 1: a pool's values are channels-first."""
    code, less = CHANNELS, m - 1
    beside = past(m, less, m + 1)
    return [
        *(limit(code, f"{c}", model(use(op, (1, c, *size), *rest))) for c in (m, 2 * m, 3 * m)),
        *(outside(code, f"{c}", model(use(op, (1, c, *size), *rest))) for c in around(m)),
        *(outside(code, f"{c}_behind_conv", model(use(op, (1, c, *size), *rest), behind_conv)) for c in beside),
        outside(code, f"{less}_other_sizes_{m}", model(use(op, (1, less, *(m for _ in size)), *rest))),
    ]


def _batches(op: str, rest: tuple[object, ...], size: tuple[int, ...], m: int) -> list[Draft]:
    return [
        limit("batch", "1", model(use(op, (1, m, *size), *rest))),
        *(outside("batch", f"{n}", model(use(op, (n, m, *size), *rest))) for n in (2, 8)),
    ]


def _vertical_strides(op: str, big: tuple[int, ...], strides: Sequence[int]) -> list[Draft]:
    """So many rows at a time; columns are free. Left out or empty, the stride is the kernel's size."""
    code, most = "stride_h", max(strides)
    beyond = [h for h in dict.fromkeys((*range(1, most), most + 1, most + 2, 9)) if h not in strides]
    spelled: Sequence[tuple[str, tuple[object, ...]]] = (
        ("3", ((3, 3), 3)),
        ("list_3", ((3, 3), (3,))),
        ("kernel_3_default", ((3, 3),)),
        ("kernel_3_empty", ((3, 3), ())),
        ("kernel_list_3_default", ((3,),)),
        ("kernel_int_3_default", (3,)),
        ("kernel_3_2_default", ((3, 2),)),
    )

    def judged(variant: str, *rest: object) -> Draft:
        side = limit if vertical_stride(*rest) in strides else outside
        return side(code, variant, model(use(op, big, *rest)))

    return [
        *(limit(code, f"{h}_{w}", model(use(op, big, (2, 2), (h, w)))) for h in strides for w in (1, 2, 3, 5, 9)),
        judged("kernel_2_3_default", (2, 3)),
        *(outside(code, f"{h}_{w}", model(use(op, big, (2, 2), (h, w)))) for h in beyond for w in (1, 2, 3)),
        *(judged(variant, *rest) for variant, rest in spelled),
        outside(code, f"{most + 1}_behind_conv", model(use(op, big, (2, 2), (most + 1, 1)), behind_conv)),
    ]


# ------------------------------------------------------------------------------------ 1-D


def avg_pool1d_cases(limits: Limits) -> list[Draft]:
    """aten.avg_pool1d.default: a 2-D pool of height 1 between two reshapes."""
    limits.fixed("rank", 3)
    limits.fixed("ceil_mode", False)
    m = limits.multiple(CHANNELS)
    line = _line(m)
    u = use(AVG1, line, (2,), (2,))
    return [
        *_rank1d(AVG1, m),
        *_ceil1d(AVG1, m),
        *_include_pad(AVG1, line),
        *_windows1d(AVG1, m),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        silent("operator", "lengths_not_multiples_of_8", model(use(AVG1, (1, 3, 7), (2,), (2,)))),
        silent("operator", "batch_2", model(use(AVG1, (2, 8, 16), (2,), (2,)))),
        accepted("channels_1", model(use(AVG1, (1, 1, 7), (2,), (2,)))),
        accepted("channels_16", model(use(AVG1, (1, 16, 16), (2,), (2,)))),
        *movement(use(AVG1, line, (3,), (1,), (1,)), label="_padded"),
        *movement(u),
    ]


def max_pool1d_cases(limits: Limits) -> list[Draft]:
    """aten.max_pool1d.default: a 2-D pool of height 1, so that any stride is a horizontal one."""
    _fixed(limits, rank=3)
    m = limits.multiple(CHANNELS)
    line = _line(m)
    u = use(MAX1, line, (2,), (2,))
    head = ((2,), (2,), (0,))
    return [
        *_rank1d(MAX1, m),
        *(limit("dilation", name(d), model(use(MAX1, line, *head, d))) for d in (1, (1,))),
        *(outside("dilation", name(d), model(use(MAX1, (1, m, 24), (9,), (1,), (0,), d))) for d in (2, (2,))),
        outside("dilation", "3", model(use(MAX1, (1, m, 32), (9,), (1,), (0,), 3))),
        *_ceil1d(MAX1, m),
        *_channels(MAX1, ((2,), (2,)), (16,), m),
        *_batches(MAX1, ((2,), (2,)), (16,), m),
        *_windows1d(MAX1, m),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        silent("operator", "lengths_not_multiples_of_8", model(use(MAX1, (1, m, 7), (2,), (2,)))),
        *movement(use(MAX1, line, (3,), (1,), (1,)), label="_padded"),
        *movement(u),
    ]


def _rank1d(op: str, channels: int) -> list[Draft]:
    return [
        limit("rank", "rank_3", model(use(op, _line(channels), (2,), (2,)))),
        outside("rank", "rank_2", model(use(op, _line(channels)[1:], (2,), (2,)))),
    ]


def _windows1d(op: str, channels: int) -> list[Draft]:
    """Spellings, and strides of 1 to 5; every output length is a multiple of 8."""
    spelled = [(f"kernel_{name(k)}_stride_{name(s)}", 16, (k, s)) for k in (2, (2,)) for s in (2, (2,), ())]
    default = [(f"kernel_{name(k)}_stride_default", 16, (k,)) for k in (2, (2,))]
    strides = [(f"stride_{s}", 8 * s, ((1,), (s,))) for s in (1, 2, 3, 4, 5)]
    paddings = [(f"padding_{name(p)}", 16, ((3,), (1,), p)) for p in (1, (1,))]
    variants = [*spelled, *default, *strides, *paddings, ("kernel_8", 64, ((8,), (8,)))]
    return [accepted(name, model(use(op, (1, channels, length), *rest))) for name, length, rest in variants]
