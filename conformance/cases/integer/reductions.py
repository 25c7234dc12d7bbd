"""Operators that make one number of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.integer.common import (
    Family,
    Subject,
    additional_checks,
    everywhere,
    moved_ratios,
    of_type,
    ratio_limits,
    rescaled,
)
from npu_assay.conformance.cases.integer.spelling import (
    IMAGE,
    INTEGERS,
    as_integers,
    codes_quant,
    integers,
    is_wide,
    spelled,
)
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Q,
    Use,
    X,
    accepted,
    inside,
    limit,
    model,
    outside,
    placed,
    quant,
    use,
    valued,
)
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step

CAST = "dim_order_ops._to_dim_order_copy.default"
LARGE = 65536
CODES = 255  # the largest distance from a zero point of -128
Arguments = tuple[tuple[str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Reduction:
    """A row; args: what stands behind `x`; scalar: those for a tensor without dimensions; more: other arguments."""

    op: str
    args: tuple[Any, ...]
    more: Arguments
    y: Quant = Q
    scalar: tuple[Any, ...] = ((),)

    def subject(self, precision: str) -> Subject:
        """What all rows are made from."""

        def at(shape: tuple[int, ...]) -> Use:
            u = use(self.op, shape, *self.args, y=self.y)
            return as_integers(u, "int8") if precision == INTEGERS else u

        return Subject(at, IMAGE, ((7,), (3, 5), (2, 3, 4)))


def cases(row: Reduction, precision: str, limits: Limits) -> list[Draft]:
    """What every reduction has."""
    subject = row.subject(precision)
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(name, model(replace(u, args=(X, *args)))) for name, args in row.more]
    if "min_rank" in limits:
        limits.fixed("min_rank", 1)
        drafts.append(limit("min_rank", "1", model(subject.use(precision, (7,)))))
        drafts.append(outside("min_rank", "scalar", model(replace(subject.use(precision, ()), args=(X, *row.scalar)))))
    return drafts if precision == INTEGERS else [*drafts, *rescaled(subject, precision)]


def extreme_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """amax and amin: codes are compared as they are."""
    more: Arguments = (
        ("channel", ((1,),)),
        ("image", ((2, 3), True)),
        ("negative", ((-2,), True)),
        ("all", ((0, 1, 2, 3),)),
    )
    row = Reduction(op, ((-1,),), more)
    drafts = cases(row, precision, limits)
    if precision != INTEGERS:
        return [*drafts, *moved_ratios(row.subject(precision), precision)]
    u = row.subject(precision).use(precision)
    types = limits.some_of("code_dtype", ("int8", "int16", "int32"))
    for dtype in ("int8", "int16", "int32"):
        graph = model(of_type(u, dtype))
        drafts.append(limit("code_dtype", dtype, graph) if dtype in types else outside("code_dtype", dtype, graph))
    return drafts


def total_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """sum and mean: one rounding."""
    more: Arguments = (
        ("channel", ((1,),)),
        ("image", ((2, 3), True)),
        ("negative", ((-2,), True)),
        ("all", ((0, 1, 2, 3), True)),
        ("order", ((3, 0),)),
    )
    row = Reduction(op, ((-1,),), more, Q if "mean" in op else quant(0.2, 2))
    subject, count = row.subject(precision), IMAGE[-1]
    u = subject.use(precision)
    drafts = cases(row, precision, limits)
    # Up to 5 numbers of 2**7 (2**15) codes: below 2**10 (2**18).
    divisor = count if "mean" in op else 1
    bits = 12 if is_wide(precision) else 20
    drafts += ratio_limits(lambda ratio: _scaled(u, precision, ratio * divisor), bits)
    for name in ("min", "max"):  # sums past 16 bits
        many = replace(row.subject(precision).use(precision, (2, 300)), args=(X, (-1,)))
        extreme = replace(many.values[0], fill=Fill(name))
        drafts.append(valued(f"many_{name}", model(replace(many, values=(extreme,)))))
    drafts.append(limit("dtype", "left_out", model(u)))
    drafts.append(outside("dtype", "float16", model(replace(u, y=None, kwargs=(("dtype", "float16"),)))))
    if "reduced_size" in limits:
        most = limits.number("reduced_size", LARGE, 1024, LARGE)
        for name, shape, dim in (("itself", (most, 2), 0), ("before", (most, 2), 1), ("behind", (2, most), 0)):
            longer = tuple(size + 1 if size == most else size for size in shape)
            kept = replace(subject.use(precision, shape), args=(X, (dim,)))
            past = replace(subject.use(precision, longer), args=(X, (dim,)))
            if name != "itself" or not is_wide(precision):  # sums of so many 16-bit codes do not fit 32 bits
                drafts.append(limit("reduced_size", f"{name}_{most}", model(kept)))
            drafts.append(outside("reduced_size", f"{name}_{most + 1}", model(past)))
    return drafts


def _scaled(u: Use, precision: str, ratio: float) -> Use:
    x = replace(u.values[0], quant=codes_quant(precision, quant(ratio)))
    return replace(u, values=(x,), y=codes_quant(precision, quant(1.0)))


def cumsum_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.cumsum.default: a convolution with weights of 1."""
    row = Reduction("aten.cumsum.default", (-1,), tuple((f"dim_{dim}", (dim,)) for dim in (0, 1, 2)), quant(0.2, 1))
    u = row.subject(precision).use(precision)
    drafts = cases(row, precision, limits)
    bits = 12 if is_wide(precision) else 20
    drafts += ratio_limits(lambda ratio: _scaled(u, precision, ratio), bits)
    drafts.append(limit("dtype", "left_out", model(u)))
    drafts.append(outside("dtype", "float16", model(replace(u, y=None, kwargs=(("dtype", "float16"),)))))
    if "summed_size" in limits:
        height, width = limits.pair("summed_size", (64, 4096), 2, LARGE)
        for shape, dim, size, side in (
            ((2, height, 3), 1, height, limit),
            ((2, height + 1, 3), 1, height + 1, outside),
            ((2, width), 1, width, limit),
            ((2, width + 1), 1, width + 1, outside),
        ):
            summed = replace(row.subject(precision).use(precision, shape), args=(X, dim))
            drafts.append(side("summed_size", str(size), model(summed)))
    return drafts


# ------------------------------------------------------------------------------------ argmax


def _argmax(
    shape: tuple[int, ...], *args: Any, dtype: str = "int8", cast: str | None = "int32", low: int = -100
) -> Graph:
    x = integers("x", shape, dtype, low, 100)
    best = Step(SUBJECT, "aten.argmax.default", (X, *args))
    if cast is None:
        return Graph((x,), (best,), (Ref(SUBJECT),))
    rank = max(len(shape) - 1, 0)
    order = tuple(range(rank if args[:1] != () and args[1:2] != (True,) else len(shape)))
    turned = Step("turned", CAST, (Ref(SUBJECT),), (("dtype", cast), ("dim_order", order)))
    return Graph((x,), (best, turned), (Ref("turned"),))


def argmax_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.argmax.default of raw codes whose indices everybody turns into int32. Raises KeyError for other numbers."""
    if precision != INTEGERS:
        raise KeyError(precision)
    usual = _argmax(IMAGE, 1)
    constraints = ("int32_indices", "one_dim", "keepdim", "code_dtype", "static_shape", "min_rank")
    drafts = [accepted("baseline", usual), *(limit(code, "usual", usual) for code in constraints)]
    limits.fixed("keepdim", False)
    types = limits.some_of("code_dtype", ("int8", "int16"))
    wide = limit if "int16" in types else outside
    limits.value("min_rank", 1)
    drafts += [
        *(accepted(f"dim_{dim}".replace("-", "minus_"), _argmax(IMAGE, dim)) for dim in (2, 3, -1)),
        accepted("matrix", _argmax((3, 5), 1)),
        accepted("vector", _argmax((7,), 0)),
        wide("code_dtype", "int16", _argmax(IMAGE, 1, dtype="int16")),
        outside("code_dtype", "int32", _argmax(IMAGE, 1, dtype="int32")),
        outside("int32_indices", "int16", _argmax(IMAGE, 1, cast="int16")),
        *(additional_checks(usual) if "additional_check" in limits else ()),
        outside("one_dim", "left_out", _argmax_of_all(IMAGE)),
        outside("min_rank", "scalar", _argmax((), 0)),
        outside("keepdim", "true", _argmax(IMAGE, 1, True)),
        outside("static_shape", "open_axis_0", _opened(_argmax((2, *IMAGE[1:]), 1))),
        limit("no_int64", "int8", usual),
        outside("no_int64", "int64", _argmax(IMAGE, 1, dtype="int64")),
        placed("behind_clamp", _behind_relu(usual)),
        valued(
            "equal_numbers",
            Graph((replace(usual.values[0], fill=Fill("list", values=(3.0,))),), usual.steps, usual.outputs),
        ),
        valued(
            "two_numbers",
            Graph((replace(usual.values[0], fill=Fill("list", values=(3.0, 3.0, -4.0))),), usual.steps, usual.outputs),
        ),
    ]
    return [*drafts, *argmax_limits(limits)]


def _argmax_of_all(shape: tuple[int, ...]) -> Graph:
    best = Step(SUBJECT, "aten.argmax.default", (X,))
    turned = Step("turned", CAST, (Ref(SUBJECT),), (("dtype", "int32"), ("dim_order", ())))
    return Graph((integers("x", shape, "int8", -100, 100),), (best, turned), (Ref("turned"),))


def _opened(graph: Graph) -> Graph:
    return replace(graph, values=(replace(graph.values[0], dynamic=(0,)),))


def _behind_relu(graph: Graph) -> Graph:
    before = Step("before", "aten.view_copy.default", (X, graph.values[0].shape))
    best = replace(graph.steps[0], args=(Ref("before"), *graph.steps[0].args[1:]))
    return replace(graph, steps=(before, best, *graph.steps[1:]))


def argmax_limits(limits: Limits) -> Iterator[Draft]:
    """Sizes on Ethos-U55."""
    if "max_channels" not in limits:
        return
    most = limits.number("max_channels", 127, 8, 1024)
    yield limit("max_channels", str(most), _argmax((1, most, 2, 3), 1))
    yield outside("max_channels", str(most + 1), _argmax((1, most + 1, 2, 3), 1))
    rank = limits.number("max_input_rank", 4, 2, 5)
    yield limit("max_input_rank", str(rank), _argmax((1, 2, 3, 4, 5, 6)[:rank], 1))
    yield outside("max_input_rank", str(rank + 1), _argmax((1, 2, 3, 4, 5, 6)[: rank + 1], 1))
    limits.fixed("batch", 1)
    yield limit("batch", "1", _argmax(IMAGE, 1))
    yield outside("batch", "2", _argmax((2, *IMAGE[1:]), 1))
    places = limits.number("max_elements", LARGE, 1024, LARGE)
    yield limit("max_elements", str(places), _argmax((1, 3, 256, places // 256), 1))
    yield outside("max_elements", str(places + 256), _argmax((1, 3, 256, places // 256 + 1), 1))


FAMILIES: Mapping[str, Family] = {
    "aten.amax.default": partial(extreme_cases, "aten.amax.default"),
    "aten.amin.default": partial(extreme_cases, "aten.amin.default"),
    "aten.sum.dim_IntList": partial(total_cases, "aten.sum.dim_IntList"),
    "aten.mean.dim": partial(total_cases, "aten.mean.dim"),
    "aten.cumsum.default": cumsum_cases,
    "aten.argmax.default": argmax_cases,
}
__all__ = ["FAMILIES", "INTEGERS", "inside", "spelled"]
