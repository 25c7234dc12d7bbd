"""Operators that select by index or by condition, and those that make numbers of nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, valued
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, Q, X, activation, call, constant, model, quant
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.options import checked
from npu_assay.conformance.cases.pieces.quantization import OTHER, moved_ratios, rescaled, scales_of, with_scales
from npu_assay.conformance.cases.pieces.sizes import Arguments
from npu_assay.conformance.cases.pieces.spelling import IMAGE, codes_quant, flags, in_int8, indices, numbers, spelled
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step

I = Ref("i")  # noqa: E741


@dataclass(frozen=True)
class Choice:
    """A row: a call, in int8, and others by name."""

    usual: Call
    more: tuple[tuple[str, Call], ...] = ()
    moved: bool = True

    @property
    def subject(self) -> Subject:
        """What all rows are made from; the shape is the call's."""
        return Subject(in_int8(lambda shape: self.usual), shape=self.usual.values[0].shape, open=(), deep=False)


def choice(row: Choice, precision: str, limits: Limits) -> list[CaseDraft]:
    """What all of them have; the sizes of indices stay, so only `x` has open ones."""
    subject = row.subject
    u = subject.call(precision)
    x = u.x
    drafts = everywhere(subject, precision, limits)
    if not x.constant:
        open_x = replace(x, shape=(max(2, x.shape[0]), *x.shape[1:]), dynamic=(0,))
        drafts.append(outside("static_shape", "open_axis_0", replace(u, values=(open_x, *u.values[1:]))))
    drafts += [accepted(name, spelled(other, precision)) for name, other in row.more]
    return [*drafts, *rescaled(subject, precision), *(moved_ratios(subject, precision) if row.moved else ())]


def index_types(u: Call, name: str, limits: Limits) -> list[CaseDraft]:
    """Indices of 32 bits."""
    limits.value("index_dtype", ())
    return [limit("index_dtype", "int32", u), outside("index_dtype", "int64", u.with_value(name, dtype="int64"))]


# ------------------------------------------------------------------------------------ by index


def integer_embedding_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.embedding.default: rows of a constant."""
    weights, at = constant("x", (6, 4), Q), indices("i", (2, 3), 6)
    u = Call("aten.embedding.default", (weights, at), (X, I), Q)
    vector = replace(u, values=(weights, indices("i", (5,), 6)))
    row = Choice(u, (("vector", vector), ("padding_index", replace(u, args=(X, I, 2)))))
    found = spelled(u, precision)
    computed = found.with_value("x", constant=False)
    drafts = [draft for draft in choice(row, precision, limits) if draft.variant not in ("behind_linear", "used_twice")]
    opened = replace(found, values=(found.values[0], replace(found.values[1], dynamic=(0,))))
    return [
        *drafts,
        accepted("computed_rows", computed),
        outside("per_tensor", "a_scale_for_each_index", with_scales(computed)),
        outside("static_shape", "open_indices", opened),
        *index_types(found, "i", limits),
    ]


def integer_gather_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.gather.default: along the dimension after the batch."""
    op = "aten.gather.default"
    u = call(op, (2, 5, 3), 1, I, more=(indices("i", (2, 4, 3), 5),))
    flat = call(op, (2, 5), 1, I, more=(indices("i", (2, 3), 5),))
    row = Choice(u, (("matrix", flat), ("negative", replace(u, args=(X, -2, I)))))
    limits.fixed("dims", 1)

    def other(shape: tuple[int, ...], at: tuple[int, ...], dim: int = 1) -> Graph:
        return model(spelled(call(op, shape, dim, I, more=(indices("i", at, 2),)), precision))

    return [
        *choice(row, precision, limits),
        *index_types(spelled(u, precision), "i", limits),
        limit("dims", "1", spelled(u, precision)),
        outside("dims", "0", other((2, 5, 3), (1, 5, 3), 0)),
        outside("dims", "2", other((2, 5, 3), (2, 5, 2), 2)),
        limit("index_shape", "same_batch_and_last", spelled(u, precision)),
        outside("index_shape", "smaller_batch", other((2, 5, 3), (1, 5, 3))),
        outside("index_shape", "smaller_last", other((2, 5, 3), (2, 5, 2))),
        outside("index_shape", "rank_4", other((2, 5, 3, 2), (2, 4, 3, 2))),
    ]


def integer_index_select_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.index_select.default: a list of indices."""
    op = "aten.index_select.default"
    u = call(op, IMAGE, 1, I, more=(indices("i", (4,), 3),))
    more = tuple(
        (f"dim_{dim}".replace("-", "minus_"), call(op, IMAGE, dim, I, more=(indices("i", (4,), size),)))
        for dim, size in ((0, 1), (3, 5), (-2, 4))
    )
    found = spelled(u, precision)
    limits.value("rank", ())
    limits.value("min_rank", 1)
    scalar = spelled(call(op, (), 0, I, more=(indices("i", (1,), 1),)), precision)
    return [
        *choice(Choice(u, more), precision, limits),
        *index_types(found, "i", limits),
        limit("rank", "1", found),
        outside("rank", "0", found.with_value("i", shape=())),
        limit("min_rank", "1", spelled(call(op, (7,), 0, I, more=(indices("i", (4,), 3),)), precision)),
        outside("min_rank", "scalar", scalar),
    ]


def integer_index_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.index.Tensor: indices of the leading dimensions."""
    op, j = "aten.index.Tensor", Ref("j")
    at, rows = indices("i", (4,), 3), indices("j", (2, 1), 4)
    u = call(op, (3, 4, 5), (I, j), more=(at, rows))
    one = call(op, (3, 4), (I,), more=(at,))
    fixed = replace(u, values=(u.x, replace(at, constant=True), replace(rows, constant=True)))
    found = spelled(u, precision)
    limits.value("max_elements", 0)
    skipped = replace(spelled(call(op, (3, 4, 5), (None, I), more=(at,)), precision))
    return [
        *choice(Choice(u, (("one_index", one), ("constant_indices", fixed))), precision, limits),
        limit("explicit_indices", "all", found),
        outside("explicit_indices", "none_first", skipped),
        limit("max_elements", "few", found),
    ]


def integer_index_put_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.index_put.default: rows, each written once; or one value where a mask says so."""
    op, v, m = "aten.index_put.default", Ref("v"), Ref("m")
    at = numbers(indices("i", (2,), 3), 2.0, 0.0)
    u = call(op, (3, 5), (I,), v, more=(at, activation("v", (2, 5))))
    masked = call(op, (3, 4), (m,), v, more=(flags("m", (3, 4)), constant("v", (1,), Q)))
    both = call(
        op, (3, 5), (I, Ref("j")), v, more=(at, numbers(indices("j", (2,), 5), 4.0, 1.0), activation("v", (2,)))
    )
    found, mask = spelled(u, precision), spelled(masked, precision)
    limits.fixed("accumulate", False)
    skipped = spelled(call(op, (5, 3), (None, I), v, more=(at, activation("v", (5, 2)))), precision)
    several = mask.with_value("v", shape=(6,))
    return [
        *choice(Choice(u, (("mask", masked), ("two_indices", both))), precision, limits),
        limit("explicit_indices", "all", found),
        outside("explicit_indices", "none_first", skipped),
        limit("mask_alone", "one_value", mask),
        outside("mask_alone", "several_values", several),
        limit("value_dtype", "quantized", found.with_x(fill=Fill("ramp"))),
        outside("value_dtype", "quantized_into_integers", _of_integers(mask)),
        limit("accumulate", "false", replace(found, args=(*found.args, False))),
        outside("accumulate", "true", replace(found, args=(*found.args, True))),
    ]


def _of_integers(u: Call) -> Call:
    """The operand as integers of the codes' type that nothing dequantizes, and so is the result.

    Of a mask: at indices torch writes numbers of one type only.
    """
    assert u.x.quant is not None
    return replace(u.with_x(quant=None, dtype=u.x.quant.dtype), y=None)


# ------------------------------------------------------------------------------------ by condition


def integer_where_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.where.self: three different operands."""
    op, c, y = "aten.where.self", Ref("c"), Ref("y")
    x, other = activation("x", IMAGE), activation("y", IMAGE, OTHER)
    u = Call(op, (x, flags("c", IMAGE), other), (c, X, y), Q)
    per_channel = replace(u, values=(x, flags("c", (3, 1, 1)), replace(other, shape=(5,))))
    found = spelled(u, precision)
    limits.value("code_dtype", ())
    plain = found.with_value("y", quant=None, constant=True)
    return [
        *choice(Choice(u, (("broadcast", per_channel),)), precision, limits),
        limit("distinct_inputs", "three", found),
        outside("distinct_inputs", "the_same_twice", replace(found, values=found.values[:2], args=(c, X, X))),
        limit("condition_dtype", "bool", found),
        limit("code_dtype", "codes", found),
        outside("code_dtype", "a_real_constant", plain),
    ]


def integer_masked_fill_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.masked_fill.Scalar: a number where the mask says so."""
    u = call("aten.masked_fill.Scalar", IMAGE, Ref("m"), 0.75, more=(flags("m", IMAGE),))
    more = (
        ("row", replace(u, values=(u.x, flags("m", (5,))))),
        ("far_number", replace(u, args=(X, Ref("m"), -1000.0))),
        ("off_the_grid", replace(u, args=(X, Ref("m"), 0.513))),
    )
    return choice(Choice(u, more), precision, limits)


# ------------------------------------------------------------------------------------ numbers of nothing


TOTAL = "aten.add.Tensor"


def integer_made_cases(
    op: str, args: tuple[Any, ...], more: tuple[tuple[str, tuple[Any, ...]], ...], precision: str, limits: Limits
) -> list[CaseDraft]:
    """Operators without operands: their numbers are added to an input."""
    shape = (1, 3, 5, 5)
    refs = (X,) if op == "aten.full_like.default" else ()
    q, total = codes_quant(precision), codes_quant(precision, quant(0.1))
    x = replace(activation("x", shape), quant=q)

    def graph(arguments: tuple[Any, ...], quantized: bool = True, summed: bool = True, **changes: Any) -> Graph:
        made = Step(SUBJECT, op, (*refs, *arguments), (), q if quantized else None)
        y = Step("total", TOTAL, (X, Ref(SUBJECT)), (), total if summed else None)
        return Graph((replace(x, **changes),), (made, y), (Ref("total"),))

    usual = graph(args)
    twice = Step("again", "aten.mul.Tensor", (X, Ref(SUBJECT)), (), total)
    drafts = [
        accepted("baseline", usual),
        *(accepted(name, graph(arguments)) for name, arguments in more),
        *(limit(code, "quantised", usual) for code in COMMON),
        outside("quantized", "real_numbers", graph(args, False, False)),
        outside("quantized_outputs", "real_numbers", graph(args, False)),
        *checked(usual, limits),
        outside("scalar_qparams", "tiny_scale", _with_result(usual, replace(q, scale=2.0**-130))),
        outside(
            "io_dtype",
            "uint8",
            _with_result(usual, replace(q, scale=0.05, zero_point=131, qmin=0, qmax=255, dtype="uint8")),
        ),
        placed("two_consumers", Graph(usual.values, (*usual.steps, twice), (Ref("total"), Ref("again")))),
        placed("returned", Graph(usual.values, usual.steps, (Ref("total"), Ref(SUBJECT)))),
        valued("all_min", graph(args, fill=replace(x.fill, kind="min"))),
        valued("all_max", graph(args, fill=replace(x.fill, kind="max"))),
    ]
    if refs:
        drafts.append(outside("quantized_inputs", "float_input", graph(args, quant=None)))
        drafts.append(outside("per_tensor", "a_scale_for_each_index", graph(args, quant=scales_of(q, 3, shape[3]))))
        drafts.append(outside("static_shape", "open_axis_0", graph(args, shape=(2, *shape[1:]), dynamic=(0,))))
    return drafts


COMMON = (
    "quantized",
    "quantized_inputs",
    "quantized_outputs",
    "dtype",
    "io_dtype",
    "scalar_qparams",
    "per_tensor",
    "static_shape",
)


def _with_result(graph: Graph, q: Any) -> Graph:
    made, *rest = graph.steps
    return replace(graph, steps=(replace(made, quant=q), *rest))


FULL = (
    ("zero", ((1, 3, 1, 1), 0.0)),
    ("negative", ((5,), -0.75)),
    ("far", ((5, 1), 1000.0)),
    ("off_the_grid", ((5,), 0.513)),
)


def _made(op: str, *args: Any, more: Arguments = ()) -> tuple[str, Family]:
    """An operator that makes numbers of nothing, on these arguments and, by name, on others."""
    return op, Family(integers=partial(integer_made_cases, op, args, more))


FAMILIES: Mapping[str, Family] = {
    "aten.embedding.default": Family(integers=integer_embedding_cases),
    "aten.gather.default": Family(integers=integer_gather_cases),
    "aten.index_select.default": Family(integers=integer_index_select_cases),
    "aten.index.Tensor": Family(integers=integer_index_cases),
    "aten.index_put.default": Family(integers=integer_index_put_cases),
    "aten.where.self": Family(integers=integer_where_cases),
    "aten.masked_fill.Scalar": Family(integers=integer_masked_fill_cases),
    **dict(
        (
            _made(
                *("aten.arange.start_step", 0.0, 2.5, 0.5), more=(("down", (2.0, -3.0, -1.0)), ("whole", (0.0, 5.0)))
            ),
            _made("aten.eye.default", 5),
            _made("aten.full.default", (1, 3, 1, 1), 1.5, more=FULL),
            _made("aten.full_like.default", -0.75, more=(("zero", (0.0,)), ("far", (1e3,)))),
            _made(*("aten.linspace.default", -1.0, 1.0, 5), more=(("down", (2.0, -3.0, 5)), ("single", (0.5, 1.0, 1)))),
            _made("aten.scalar_tensor.default", 0.5, more=(("zero", (0.0,)), ("negative", (-1.25,)), ("far", (1e3,)))),
        )
    ),
}
