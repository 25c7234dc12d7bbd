"""Windows over height and width: average and maximum pools, 1-D and 2-D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.cases.baseline import IMAGE
from conformance.cases.make import (
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
from conformance.cases.shared import contexts, movement, reshaped, same_qparams
from conformance.graph import Graph, Ref

AVG2, AVG1 = "aten.avg_pool2d.default", "aten.avg_pool1d.default"
MAX2, MAX1 = "aten.max_pool2d.default", "aten.max_pool1d.default"
INDICES = "aten.max_pool2d_with_indices.default"
LINE = (1, 8, 16)  # 1-D pools: lengths that are multiples of 8 keep the reshapes around them delegable
BIG = (1, 8, 9, 10)


def name(value: object) -> str:
    """Arguments in a case id: `2`, `list_2_3`, `empty`."""
    if isinstance(value, tuple):
        return "list_" + "_".join(map(str, value)) if value else "empty"
    return str(value).replace("-", "minus_")


# ------------------------------------------------------------------------------------ 2-D average


def avg_pool2d_cases() -> list[Draft]:
    """aten.avg_pool2d.default."""
    u = use(AVG2, BIG, (2, 3), (2, 1))
    return [
        *rank2d(AVG2),
        *_ceil2d(AVG2),
        *_include_pad(AVG2, BIG),
        *_divisor_override(),
        *_windows(AVG2, _FREE_STRIDES),
        *(accepted(f"shape_{'x'.join(map(str, s))}", model(reshaped(u, s))) for s in FREE_SHAPES),
        *same_qparams(u),
        *_pool_contexts(u),
        *movement(use(AVG2, BIG, (3, 2), (2, 1), (1, 0)), label="_padded"),
        *movement(u),
    ]


FREE_SHAPES = ((2, 8, 4, 5), (1, 1, 4, 5), (1, 3, 5, 4), (3, 5, 2, 3))
_FREE_STRIDES: Sequence[tuple[str, tuple[object, ...]]] = (
    ("stride_3_2", ((2, 2), (3, 2))),
    ("stride_2_3", ((2, 2), (2, 3))),
    ("stride_beyond_kernel", ((2, 2), (4, 5))),
    ("whole_image", ((9, 10), (1, 1))),
)


def _windows(op: str, more: Sequence[tuple[str, tuple[object, ...]]]) -> list[Draft]:
    """Kernels, strides and paddings in all their spellings, and with height and width apart."""
    spelled = [(f"kernel_{name(k)}_stride_{name(s)}", (k, s)) for k in (2, (2,), (2, 2)) for s in (2, (2,), (2, 2), ())]
    default = [(f"kernel_{name(k)}_stride_default", (k,)) for k in (2, (2,), (2, 2), (1, 3), (2, 1))]
    kernels = [(f"kernel_{h}_{w}", ((h, w), (1, 1))) for h, w in ((1, 1), (1, 4), (4, 1), (3, 2), (2, 3))]
    strides = [(f"stride_{h}_{w}", ((2, 2), (h, w))) for h, w in ((1, 1), (1, 2), (2, 1), (1, 5), (2, 3))]
    paddings = [(f"padding_{name(p)}", ((3, 3), (2, 1), p)) for p in (0, 1, (1,), (1, 0), (0, 1), (1, 1))]
    variants = dict([*spelled, *default, *kernels, *strides, *paddings, *more])
    return [accepted(name, model(use(op, BIG, *rest))) for name, rest in variants.items()]


def rank2d(op: str, *rest: object) -> list[Draft]:
    arguments = rest if rest else ((2, 2), (2, 2))
    return [
        limit("rank", "rank_4", model(use(op, IMAGE, *arguments))),
        outside("rank", "rank_3", model(use(op, (8, 8, 8), *arguments))),
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


def _ceil2d(op: str) -> list[Draft]:
    head = ((2, 2), (2, 2), (0, 0))
    return _ceil_mode(op, use(op, IMAGE, *head), use(op, BIG, *head))


def _ceil1d(op: str) -> list[Draft]:
    """Lengths in and out are multiples of 8 either way."""
    shape = (1, 8, 24)
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


def _divisor_override() -> list[Draft]:
    head = ((2, 2), (2, 2), (0, 0), False, True)
    return [
        limit("divisor_override", "left_out", model(use(AVG2, BIG, *head))),
        limit("divisor_override", "none", model(use(AVG2, BIG, *head, None))),
        *(outside("divisor_override", f"{n}", model(use(AVG2, BIG, *head, n))) for n in (3, 4, 5, 1000)),
        outside("divisor_override", "by_name", model(use(AVG2, BIG, (2, 2), divisor_override=7))),
        outside("divisor_override", "as_1", model(use(AVG2, BIG, *head, 1, y=quant(0.2, 3), x=quant(0.2, 3)))),
    ]


def _pool_contexts(u: Use) -> list[Draft]:
    channels = (8,) if "max" in u.op else (8, 5, 1)
    return [
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *(placed(f"behind_conv_channels_{c}", model(reshaped(u, (1, c, 9, 10)), behind_conv)) for c in channels),
    ]


# ------------------------------------------------------------------------------------ 2-D maximum


def max_pool2d_cases(op: str) -> list[Draft]:
    """aten.max_pool2d.default and aten.max_pool2d_with_indices.default."""
    u = use(op, BIG, (2, 3), (2, 1))
    return [
        *rank2d(op),
        *_dilations(op),
        *_ceil2d(op),
        *_channels(op, ((2, 2), (2, 2)), (4, 5)),
        *_batches(op, ((2, 2), (2, 2)), (4, 5)),
        *_vertical_strides(op),
        *_windows(op, ()),
        *same_qparams(u),
        *_pool_contexts(u),
        *movement(use(op, BIG, (3, 2), (2, 1), (1, 0)), label="_padded"),
        *movement(u),
    ]


def max_pool2d_with_indices_cases() -> list[Draft]:
    """As max_pool2d, and nobody may use the indices."""
    u = use(INDICES, BIG, (2, 3), (2, 1), outputs=2)
    alone = replace(u, outputs=1)
    returned = model(u)
    only = Graph(u.values, model(u).steps, (Ref(SUBJECT, 1),))
    return [
        *max_pool2d_cases(INDICES),
        limit("indices_unused", "values_only", model(alone)),
        outside("indices_unused", "returned", returned),
        outside("indices_unused", "returned_behind_abs", model(u, behind_abs)),
        silent("indices_unused", "only_indices_returned", only),
    ]


def _dilations(op: str) -> list[Draft]:
    head = ((2, 2), (2, 2), (0, 0))
    return [
        *(limit("dilation", name(d), model(use(op, BIG, *head, d))) for d in (1, (1,), (1, 1))),
        *(
            outside("dilation", name(d), model(use(op, BIG, *head, d)))
            for d in (2, (2,), (2, 2), (2, 1), (1, 2), (1, 3))
        ),
        outside("dilation", "by_name", model(use(op, BIG, *head, dilation=2))),
        outside("dilation", "2_behind_conv", model(use(op, BIG, *head, 2), behind_conv)),
    ]


def _channels(op: str, rest: tuple[object, ...], size: tuple[int, ...]) -> list[Draft]:
    """Dimension 1: a pool's values are channels-first."""
    code = "channels_multiple_of"
    return [
        *(limit(code, f"{c}", model(use(op, (1, c, *size), *rest))) for c in (8, 16, 24)),
        *(outside(code, f"{c}", model(use(op, (1, c, *size), *rest))) for c in (1, 4, 7, 9, 12)),
        *(outside(code, f"{c}_behind_conv", model(use(op, (1, c, *size), *rest), behind_conv)) for c in (7, 9)),
        outside(code, "7_other_sizes_8", model(use(op, (1, 7, *(8 for _ in size)), *rest))),
    ]


def _batches(op: str, rest: tuple[object, ...], size: tuple[int, ...]) -> list[Draft]:
    return [
        limit("batch", "1", model(use(op, (1, 8, *size), *rest))),
        *(outside("batch", f"{n}", model(use(op, (n, 8, *size), *rest))) for n in (2, 8)),
    ]


def _vertical_strides(op: str) -> list[Draft]:
    """1 or 2 rows at a time; columns are free. Left out or empty, the stride is the kernel's size."""
    code = "stride_h"
    kernels: Sequence[tuple[str, tuple[object, ...]]] = (
        ("kernel_3_default", ((3, 3),)),
        ("kernel_3_empty", ((3, 3), ())),
        ("kernel_list_3_default", ((3,),)),
        ("kernel_int_3_default", (3,)),
        ("kernel_3_2_default", ((3, 2),)),
    )
    return [
        *(limit(code, f"{h}_{w}", model(use(op, BIG, (2, 2), (h, w)))) for h in (1, 2) for w in (1, 2, 3, 5, 9)),
        limit(code, "kernel_2_3_default", model(use(op, BIG, (2, 3)))),
        *(outside(code, f"{h}_{w}", model(use(op, BIG, (2, 2), (h, w)))) for h in (3, 4, 9) for w in (1, 2, 3)),
        *(outside(code, f"{name(s)}", model(use(op, BIG, (3, 3), s))) for s in (3, (3,))),
        *(outside(code, name, model(use(op, BIG, *rest))) for name, rest in kernels),
        outside(code, "3_behind_conv", model(use(op, BIG, (2, 2), (3, 1)), behind_conv)),
    ]


# ------------------------------------------------------------------------------------ 1-D


def avg_pool1d_cases() -> list[Draft]:
    """aten.avg_pool1d.default: a 2-D pool of height 1 between two reshapes."""
    u = use(AVG1, LINE, (2,), (2,))
    return [
        *_rank1d(AVG1),
        *_ceil1d(AVG1),
        *_include_pad(AVG1, (1, 8, 16)),
        *_windows1d(AVG1),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        silent("operator", "lengths_not_multiples_of_8", model(use(AVG1, (1, 3, 7), (2,), (2,)))),
        silent("operator", "batch_2", model(use(AVG1, (2, 8, 16), (2,), (2,)))),
        accepted("channels_1", model(use(AVG1, (1, 1, 7), (2,), (2,)))),
        accepted("channels_16", model(use(AVG1, (1, 16, 16), (2,), (2,)))),
        *movement(use(AVG1, LINE, (3,), (1,), (1,)), label="_padded"),
        *movement(u),
    ]


def max_pool1d_cases() -> list[Draft]:
    """aten.max_pool1d.default: a 2-D pool of height 1, so that any stride is a horizontal one."""
    u = use(MAX1, LINE, (2,), (2,))
    head = ((2,), (2,), (0,))
    return [
        *_rank1d(MAX1),
        *(limit("dilation", name(d), model(use(MAX1, LINE, *head, d))) for d in (1, (1,))),
        *(outside("dilation", name(d), model(use(MAX1, (1, 8, 24), (9,), (1,), (0,), d))) for d in (2, (2,))),
        outside("dilation", "3", model(use(MAX1, (1, 8, 32), (9,), (1,), (0,), 3))),
        *_ceil1d(MAX1),
        *_channels(MAX1, ((2,), (2,)), (16,)),
        *_batches(MAX1, ((2,), (2,)), (16,)),
        *_windows1d(MAX1),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        silent("operator", "lengths_not_multiples_of_8", model(use(MAX1, (1, 8, 7), (2,), (2,)))),
        *movement(use(MAX1, LINE, (3,), (1,), (1,)), label="_padded"),
        *movement(u),
    ]


def _rank1d(op: str) -> list[Draft]:
    return [
        limit("rank", "rank_3", model(use(op, LINE, (2,), (2,)))),
        outside("rank", "rank_2", model(use(op, (8, 16), (2,), (2,)))),
    ]


def _windows1d(op: str) -> list[Draft]:
    """Spellings, and strides of 1 to 5; every output length is a multiple of 8."""
    spelled = [(f"kernel_{name(k)}_stride_{name(s)}", 16, (k, s)) for k in (2, (2,)) for s in (2, (2,), ())]
    default = [(f"kernel_{name(k)}_stride_default", 16, (k,)) for k in (2, (2,))]
    strides = [(f"stride_{s}", 8 * s, ((1,), (s,))) for s in (1, 2, 3, 4, 5)]
    paddings = [(f"padding_{name(p)}", 16, ((3,), (1,), p)) for p in (1, (1,))]
    variants = [*spelled, *default, *strides, *paddings, ("kernel_8", 64, ((8,), (8,)))]
    return [accepted(name, model(use(op, (1, 8, length), *rest))) for name, length, rest in variants]
