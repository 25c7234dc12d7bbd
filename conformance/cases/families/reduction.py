"""Operators that make one number of many: mean, sum, amax, amin, argmax, cumsum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, valued
from npu_assay.conformance.cases.family import Family, Maker
from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import SUBJECT, Call, Q, X, bare, call, label, model, quant, sizes_of
from npu_assay.conformance.cases.pieces.contexts import CAST, contexts, surroundings, unquantized
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.options import checked
from npu_assay.conformance.cases.pieces.placed import FULL_IMAGE, Placed
from npu_assay.conformance.cases.pieces.quantization import (
    BELOW,
    moved_ratios,
    ratio_limits,
    rescale_limit,
    rescaled,
    same_qparams,
)
from npu_assay.conformance.cases.pieces.sizes import LARGE, Arguments, listed
from npu_assay.conformance.cases.pieces.spelling import (
    IMAGE,
    INTEGERS,
    QUANTIZED,
    call_on,
    codes_quant,
    integers,
    is_static,
    is_wide,
    or_integers,
    real,
)
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Config, Subject
from npu_assay.conformance.cases.pieces.values import SCATTERED, fills, float_layout_values, layout_values, named
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step

# ------------------------------------------------------------------------------------ static int8


def _plain_mean(limits: Limits) -> Placed:
    return call("aten.mean.dim", (1, limits.multiple("channels_multiple_of"), 4, 6), (-1, -2), True), bare


def mean(shape: tuple[int, ...], dims: object = (-1, -2), *rest: object) -> Call:
    """mean over dims, keeping them unless told otherwise."""
    return call("aten.mean.dim", shape, dims, *(rest if rest else (True,)))


def static_mean_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.mean.dim: height and width of four dimensions, kept. Behind a convolution these are -2 and -1."""
    limits.fixed("rank", 4)
    limits.fixed("dims", (-1, -2))
    limits.fixed("keepdim", True)
    limits.unreachable("rescale")
    m = limits.multiple("channels_multiple_of")
    shape = (1, m, 4, 6)
    u = mean(shape)
    return [
        limit("rank", "rank_4", u, behind_conv),
        outside("rank", "rank_3", mean((1, m, 8)), behind_conv),
        *_mean_dims(shape, m),
        limit("keepdim", "true", mean(shape, (-1, -2), True), behind_conv),
        limit("keepdim", "by_name", call("aten.mean.dim", shape, (-1, -2), keepdim=True), behind_conv),
        outside("keepdim", "false", mean(shape, (-1, -2), False), behind_conv),
        outside("keepdim", "default", call("aten.mean.dim", shape, (-1, -2)), behind_conv),
        *_mean_channels(m),
        *(accepted(f"size_{h}x{w}", mean((1, m, h, w)), behind_conv) for h, w in ((1, 1), (1, 7), (7, 1), (16, 16))),
        *same_qparams(u, behind_conv),
        *_surrounded(u),
        *layout_values(u),
        *fills(u, behind_conv, label="_behind_conv"),
    ]


def _mean_dims(shape: tuple[int, ...], m: int) -> list[CaseDraft]:
    allowed = ((-1, -2), (-2, -1), (2, 3), (3, 2), (2, -1), (-2, 3))
    refused = ((2,), (3,), (1,), (0,), (1, 2), (1, 3), (0, 1), (1, 2, 3), (-1, -3), (0, 1, 2, 3))
    return [
        *(limit("dims", listed(d), mean(shape, d), behind_conv) for d in allowed),
        *(outside("dims", listed(d), mean(shape, d), behind_conv) for d in refused),
        *(limit("dims", f"alone_{listed(d)}", mean(shape, d)) for d in allowed[:2]),
        *(outside("dims", f"alone_{listed(d)}", mean((1, m, 4, m), d)) for d in ((1, 2), (2, 1), (0,))),
    ]


def _mean_channels(m: int) -> list[CaseDraft]:
    code, less = "channels_multiple_of", m - 1
    beyond = past(m, less, m + 1, m // 2, 1)
    return [
        *(limit(code, f"{c}", mean((1, c, 4, 6)), behind_conv) for c in (m, 2 * m)),
        *(outside(code, f"{c}", mean((1, c, 4, 6)), behind_conv) for c in beyond),
        outside(code, f"{less}_other_sizes_{m}", mean((1, less, m, m)), behind_conv),
        outside(code, f"alone_{less}", mean((1, less, 4, m))),
    ]


def _surrounded(u: Call) -> list[CaseDraft]:
    return [*surroundings(u, behind_conv), *(d for d in unquantized(u) if d.side == "outside"), _quantized(u)]


def _quantized(u: Call) -> CaseDraft:
    return limit("quantized", "quantised_on_both_sides", u, behind_conv)


TOTAL = quant(0.2, 2)


def _static(op: str, y: Quant) -> tuple[Callable[[Limits], Placed], Maker]:
    """The plain application of a reduction to one row of an image, and its cases."""
    return lambda limits: (call(op, FULL_IMAGE, (-1,), y=y), bare), partial(static_reduction_cases, op, y)


SPELLED: Arguments = (
    *(("channel", ((1,),)), ("first", ((0,),)), ("image", ((2, 3), True)), ("image_gone", ((2, 3),))),
    *(("negative", ((-2,), True)), ("order", ((3, 0),)), ("all", ((0, 1, 2, 3),)), ("all_kept", ((0, 1, 2, 3), True))),
)
"""Dimensions, and whether they stay."""
DEEP = (1, 2, 1, 3, 1, 2, 1, 2, 4, 2)


def static_reduction_cases(op: str, y: Quant, precision: str, limits: Limits) -> list[CaseDraft]:
    """amax, amin and sum: any dimensions, kept or not."""
    u = call(op, FULL_IMAGE, (-1,), y=y)
    most = limits.number("max_input_rank", 8, 4, 8)
    moved = "sum" not in op
    zeros = ((quant(0.05, zero), quant(0.05, zero) if moved else quant(0.2, zero)) for zero in (-128, 127))
    ratios = () if moved else ((quant(0.05, 3), quant(0.05, 3)), (quant(0.0625, 0), quant(0.125, 4)), (Q, quant(4.0)))
    small = replace(u.with_x(shape=(2, 3, 1, 8)), args=(X, (1,)))
    return [
        *(accepted(name, replace(u, args=(X, *args))) for name, args in SPELLED),
        *(
            accepted(f"shape_{sizes_of(s)}", replace(u.with_x(shape=s), args=(X, (0,))))
            for s in ((7,), (3, 5), (2, 3, 4))
        ),
        *(accepted(f"{name}_behind_conv", replace(u, args=(X, *args)), behind_conv) for name, args in SPELLED[:4]),
        limit("max_input_rank", f"rank_{most}", u.with_x(shape=DEEP[:most])),
        limit("max_input_rank", f"rank_{most}_kept", replace(u.with_x(shape=DEEP[:most]), args=(X, (-1,), True))),
        *(outside("max_input_rank", f"rank_{n}", u.with_x(shape=DEEP[:n])) for n in (most + 1, most + 2)),
        *(same_qparams(u) if moved else _sum_rescale(small)),
        placed("behind_abs", u, behind_abs),
        *contexts(u),
        *layout_values(u),
        *(valued(f"codes_{named(x)}_to_{named(z)}", u.requantized(x, z)) for x, z in (*zeros, *ratios)),
    ]


def _sum_rescale(u: Call) -> list[CaseDraft]:
    """Sums of 3 codes, up to 384 less 3 zero points of 0, shifted left by 23 bits, leave 32 bits; by 22 they do not."""
    past, kept = (u.requantized(quant(scale), quant(2.0**-22)) for scale in (1.0, BELOW))
    return rescale_limit(("ratio_2_to_the_22", past), ("ratio_below_2_to_the_22", kept))


# ------------------------------------------------------------------------------------ floats


MEAN, SUM = "aten.mean.dim", "aten.sum.dim_IntList"


def float_mean_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.mean.dim: over height and width, which stay."""
    limits.fixed("rank", 4)
    limits.fixed("dims", (-2, -1))
    limits.fixed("keepdim", True)
    subject = Subject(
        _float_mean,
        deep=False,
        config=Config("MeanDimConfig", FLOAT_STATIC),
        shape=IMAGE,
        open=((0,), (2, 3), (0, 1, 2, 3)),
    )
    drafts = everywhere(subject, precision, limits)

    def mean(*arguments: Any, shape: tuple[int, ...] = IMAGE, **kwargs: Any) -> Any:
        return model(call_on(MEAN, real("x", shape, precision), precision, *arguments, **kwargs))

    kept: tuple[tuple[int, ...], ...] = ((-2, -1), (-1, -2), (2, 3), (3, 2), (2, -1))
    past: tuple[tuple[int, ...], ...] = ((-1,), (-2,), (1, 2), (1, 3), (1, 2, 3), (0,), ())
    for dims in kept:
        drafts.append(limit("dims", label(dims), mean(dims, True)))
    for dims in past:
        drafts.append(outside("dims", label(dims) or "all", mean(dims, True)))
    own = "float16" if precision == "fp16" else "float32"
    drafts += [
        limit("rank", "4", mean((-2, -1), True, shape=(2, 2, 3, 3))),
        outside("rank", "3", mean((-2, -1), True, shape=(3, 4, 5))),
        outside("rank", "5", mean((-2, -1), True, shape=(1, 2, 3, 4, 5))),
        limit("keepdim", "true", mean((-1, -2), True)),
        outside("keepdim", "false", mean((-1, -2), False)),
        outside("keepdim", "left_out", mean((-1, -2))),
        limit("output_dtype", "left_out", mean((-1, -2), True)),
        outside("output_dtype", own, mean((-1, -2), True, dtype=own)),
        accepted("one_pixel", mean((-1, -2), True, shape=(2, 3, 1, 1))),
        accepted("one_row", mean((-1, -2), True, shape=(1, 3, 1, 9))),
        accepted("one_column", mean((-1, -2), True, shape=(1, 3, 9, 1))),
        accepted("large", mean((-1, -2), True, shape=(1, 2, 15, 17))),
        *float_layout_values(subject.call(precision)),
    ]
    if is_static(precision):
        for x, y in (
            (quant(0.05, -128), quant(0.05, -128)),
            (quant(0.05, 127), quant(0.02, -9)),
            (quant(0.1, 5), quant(0.001)),
        ):
            wide = _float_mean(precision, (1, 8, 4, 8)).with_x(quant=x, fill=SCATTERED)
            drafts.append(valued(f"codes_{named(x)}_to_{named(y)}", replace(wide, y=y)))
        drafts += [valued(name, subject.call(precision).with_x(fill=Fill(name))) for name in ("min", "max")]
    return drafts


def _float_mean(precision: str, shape: tuple[int, ...]) -> Call:
    return call_on(MEAN, real("x", shape, precision), precision, (-1, -2), True)


# ------------------------------------------------------------------------------------ integers


CODES = 255  # the largest distance from a zero point of -128


@dataclass(frozen=True)
class Reduction:
    """A row; args: what stands after `x`; scalar: those for a tensor without dimensions; more: other arguments."""

    op: str
    args: tuple[Any, ...]
    more: Arguments
    y: Quant = Q
    scalar: tuple[Any, ...] = ((),)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        at = or_integers(lambda shape: call(self.op, shape, *self.args, y=self.y), "int8")
        return Subject(at, shape=IMAGE, shapes=((7,), (3, 5), (2, 3, 4)))


def reduction(row: Reduction, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every reduction has."""
    subject = row.subject
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(name, replace(u, args=(X, *args))) for name, args in row.more]
    if "min_rank" in limits:
        limits.fixed("min_rank", 1)
        drafts.append(limit("min_rank", "1", subject.call(precision, (7,))))
        drafts.append(outside("min_rank", "scalar", replace(subject.call(precision, ()), args=(X, *row.scalar))))
    return drafts if precision == INTEGERS else [*drafts, *rescaled(subject, precision)]


def integer_extreme_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """amax and amin: codes are compared as they are."""
    more: Arguments = (
        ("channel", ((1,),)),
        ("image", ((2, 3), True)),
        ("negative", ((-2,), True)),
        ("all", ((0, 1, 2, 3),)),
    )
    row = Reduction(op, ((-1,),), more)
    drafts = reduction(row, precision, limits)
    if precision != INTEGERS:
        return [*drafts, *moved_ratios(row.subject, precision)]
    u = row.subject.call(precision)
    types = limits.some_of("code_dtype", ("int8", "int16", "int32"))
    for dtype in ("int8", "int16", "int32"):
        graph = model(u.with_each(dtype=dtype))
        drafts.append(limit("code_dtype", dtype, graph) if dtype in types else outside("code_dtype", dtype, graph))
    return drafts


def integer_total_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """sum and mean: one rounding."""
    more: Arguments = (
        ("channel", ((1,),)),
        ("image", ((2, 3), True)),
        ("negative", ((-2,), True)),
        ("all", ((0, 1, 2, 3), True)),
        ("order", ((3, 0),)),
    )
    row = Reduction(op, ((-1,),), more, Q if "mean" in op else quant(0.2, 2))
    subject, count = row.subject, IMAGE[-1]
    u = subject.call(precision)
    drafts = reduction(row, precision, limits)
    # Up to 5 numbers of 2**7 (2**15) codes: below 2**10 (2**18).
    divisor = count if "mean" in op else 1
    bits = 12 if is_wide(precision) else 20
    drafts += ratio_limits(lambda ratio: _scaled(u, precision, ratio * divisor), bits)
    for name in ("min", "max"):  # sums past 16 bits
        many = replace(row.subject.call(precision, (2, 300)), args=(X, (-1,)))
        extreme = replace(many.values[0], fill=Fill(name))
        drafts.append(valued(f"many_{name}", replace(many, values=(extreme,))))
    drafts.append(limit("dtype", "left_out", u))
    drafts.append(outside("dtype", "float16", replace(u, y=None, kwargs=(("dtype", "float16"),))))
    if "reduced_size" in limits:
        most = limits.number("reduced_size", LARGE, 1024, LARGE)
        for name, shape, dim in (("itself", (most, 2), 0), ("before", (most, 2), 1), ("behind", (2, most), 0)):
            longer = tuple(size + 1 if size == most else size for size in shape)
            kept = replace(subject.call(precision, shape), args=(X, (dim,)))
            past = replace(subject.call(precision, longer), args=(X, (dim,)))
            if name != "itself" or not is_wide(precision):  # sums of so many 16-bit codes do not fit 32 bits
                drafts.append(limit("reduced_size", f"{name}_{most}", kept))
            drafts.append(outside("reduced_size", f"{name}_{most + 1}", past))
    return drafts


def _scaled(u: Call, precision: str, ratio: float) -> Call:
    x = replace(u.x, quant=codes_quant(precision, quant(ratio)))
    return replace(u, values=(x,), y=codes_quant(precision, quant(1.0)))


def integer_cumsum_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.cumsum.default: a convolution with weights of 1."""
    row = Reduction("aten.cumsum.default", (-1,), tuple((f"dim_{dim}", (dim,)) for dim in (0, 1, 2)), quant(0.2, 1))
    u = row.subject.call(precision)
    drafts = reduction(row, precision, limits)
    bits = 12 if is_wide(precision) else 20
    drafts += ratio_limits(lambda ratio: _scaled(u, precision, ratio), bits)
    drafts.append(limit("dtype", "left_out", u))
    drafts.append(outside("dtype", "float16", replace(u, y=None, kwargs=(("dtype", "float16"),))))
    if "summed_size" in limits:
        height, width = limits.pair("summed_size", (64, 4096), 2, LARGE)
        for shape, dim, size, side in (
            ((2, height, 3), 1, height, limit),
            ((2, height + 1, 3), 1, height + 1, outside),
            ((2, width), 1, width, limit),
            ((2, width + 1), 1, width + 1, outside),
        ):
            summed = replace(row.subject.call(precision, shape), args=(X, dim))
            drafts.append(side("summed_size", str(size), summed))
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


def integer_argmax_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.argmax.default of raw codes whose indices everybody turns into int32."""
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
        *checked(usual, limits),
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


def argmax_limits(limits: Limits) -> Iterator[CaseDraft]:
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
    **{
        name: Family(*_static(name, Q)[1:], None, partial(integer_extreme_cases, name), _static(name, Q)[0])
        for name in ("aten.amax.default", "aten.amin.default")
    },
    "aten.argmax.default": Family(integers=integer_argmax_cases, without=QUANTIZED),
    "aten.cumsum.default": Family(integers=integer_cumsum_cases),
    MEAN: Family(
        plain=_plain_mean,
        static=static_mean_cases,
        floats=float_mean_cases,
        integers=partial(integer_total_cases, MEAN),
        without=(INTEGERS,),
    ),
    SUM: Family(_static(SUM, TOTAL)[1], None, partial(integer_total_cases, SUM), _static(SUM, TOTAL)[0]),
}
