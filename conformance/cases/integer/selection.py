"""Operators that select by index or by condition, and those that make numbers of nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.integer.common import (
    Family,
    Subject,
    additional_checks,
    everywhere,
    fills,
    moved_ratios,
    rescaled,
    scales_of,
    with_scales,
)
from npu_assay.conformance.cases.integer.spelling import IMAGE, codes_quant, flags, indices, numbers, spelled
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    constant,
    limit,
    model,
    outside,
    placed,
    quant,
    use,
    valued,
)
from npu_assay.conformance.graph import Graph, Ref, Step, Value

I = Ref("i")  # noqa: E741
OTHER = quant(0.03125, -7)


@dataclass(frozen=True)
class Choice:
    """A row: a use, in int8, and others by name."""

    usual: Use
    more: tuple[tuple[str, Use], ...] = ()
    moved: bool = True

    @property
    def subject(self) -> Subject:
        """What all rows are made from; the shape is the use's."""
        return Subject(lambda shape: self.usual, self.usual.values[0].shape, open=None, deep=False)


def cases(row: Choice, precision: str, limits: Limits) -> list[Draft]:
    """What all of them have; the sizes of indices stay, so only `x` has open ones."""
    subject = row.subject
    u = subject.use(precision)
    x = u.values[0]
    drafts = everywhere(subject, precision, limits)
    if not x.constant:
        open_x = replace(x, shape=(max(2, x.shape[0]), *x.shape[1:]), dynamic=(0,))
        drafts.append(outside("static_shape", "open_axis_0", model(replace(u, values=(open_x, *u.values[1:])))))
    drafts += [accepted(name, model(spelled(other, precision))) for name, other in row.more]
    return [*drafts, *rescaled(subject, precision), *(moved_ratios(subject, precision) if row.moved else ())]


def with_values(u: Use, name: str, **changes: Any) -> Use:
    """The use with changes in one value."""
    return replace(u, values=tuple(replace(v, **changes) if v.name == name else v for v in u.values))


def index_types(u: Use, name: str, limits: Limits) -> list[Draft]:
    """Indices of 32 bits."""
    limits.value("index_dtype", ())
    return [
        limit("index_dtype", "int32", model(u)),
        outside("index_dtype", "int64", model(with_values(u, name, dtype="int64"))),
    ]


# ------------------------------------------------------------------------------------ by index


def embedding_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.embedding.default: rows of a constant."""
    weights, at = constant("x", (6, 4), Q), indices("i", (2, 3), 6)
    u = Use("aten.embedding.default", (weights, at), (X, I), Q)
    vector = replace(u, values=(weights, indices("i", (5,), 6)))
    row = Choice(u, (("vector", vector), ("padding_index", replace(u, args=(X, I, 2)))))
    found = spelled(u, precision)
    computed = with_values(found, "x", constant=False)
    drafts = [draft for draft in cases(row, precision, limits) if draft.variant not in ("behind_linear", "used_twice")]
    opened = replace(found, values=(found.values[0], replace(found.values[1], dynamic=(0,))))
    return [
        *drafts,
        accepted("computed_rows", model(computed)),
        outside("per_tensor", "a_scale_for_each_index", model(with_scales(computed))),
        outside("static_shape", "open_indices", model(opened)),
        *index_types(found, "i", limits),
    ]


def gather_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.gather.default: along the dimension behind the batch."""
    op = "aten.gather.default"
    u = use(op, (2, 5, 3), 1, I, more=(indices("i", (2, 4, 3), 5),))
    flat = use(op, (2, 5), 1, I, more=(indices("i", (2, 3), 5),))
    row = Choice(u, (("matrix", flat), ("negative", replace(u, args=(X, -2, I)))))
    limits.fixed("dims", 1)

    def other(shape: tuple[int, ...], at: tuple[int, ...], dim: int = 1) -> Graph:
        return model(spelled(use(op, shape, dim, I, more=(indices("i", at, 2),)), precision))

    return [
        *cases(row, precision, limits),
        *index_types(spelled(u, precision), "i", limits),
        limit("dims", "1", model(spelled(u, precision))),
        outside("dims", "0", other((2, 5, 3), (1, 5, 3), 0)),
        outside("dims", "2", other((2, 5, 3), (2, 5, 2), 2)),
        limit("index_shape", "same_batch_and_last", model(spelled(u, precision))),
        outside("index_shape", "smaller_batch", other((2, 5, 3), (1, 5, 3))),
        outside("index_shape", "smaller_last", other((2, 5, 3), (2, 5, 2))),
        outside("index_shape", "rank_4", other((2, 5, 3, 2), (2, 4, 3, 2))),
    ]


def index_select_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.index_select.default: a list of indices."""
    op = "aten.index_select.default"
    u = use(op, IMAGE, 1, I, more=(indices("i", (4,), 3),))
    more = tuple(
        (f"dim_{dim}".replace("-", "minus_"), use(op, IMAGE, dim, I, more=(indices("i", (4,), size),)))
        for dim, size in ((0, 1), (3, 5), (-2, 4))
    )
    found = spelled(u, precision)
    limits.value("rank", ())
    limits.value("min_rank", 1)
    scalar = spelled(use(op, (), 0, I, more=(indices("i", (1,), 1),)), precision)
    return [
        *cases(Choice(u, more), precision, limits),
        *index_types(found, "i", limits),
        limit("rank", "1", model(found)),
        outside("rank", "0", model(with_values(found, "i", shape=()))),
        limit("min_rank", "1", model(spelled(use(op, (7,), 0, I, more=(indices("i", (4,), 3),)), precision))),
        outside("min_rank", "scalar", model(scalar)),
    ]


def index_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.index.Tensor: indices of the leading dimensions."""
    op, j = "aten.index.Tensor", Ref("j")
    at, rows = indices("i", (4,), 3), indices("j", (2, 1), 4)
    u = use(op, (3, 4, 5), (I, j), more=(at, rows))
    one = use(op, (3, 4), (I,), more=(at,))
    fixed = replace(u, values=(u.values[0], replace(at, constant=True), replace(rows, constant=True)))
    found = spelled(u, precision)
    limits.value("max_elements", 0)
    skipped = replace(spelled(use(op, (3, 4, 5), (None, I), more=(at,)), precision))
    return [
        *cases(Choice(u, (("one_index", one), ("constant_indices", fixed))), precision, limits),
        limit("explicit_indices", "all", model(found)),
        outside("explicit_indices", "none_first", model(skipped)),
        limit("max_elements", "few", model(found)),
    ]


def index_put_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.index_put.default: rows, each written once; or one value where a mask says so."""
    op, v, m = "aten.index_put.default", Ref("v"), Ref("m")
    at = numbers(indices("i", (2,), 3), 2.0, 0.0)
    u = use(op, (3, 5), (I,), v, more=(at, activation("v", (2, 5))))
    masked = use(op, (3, 4), (m,), v, more=(flags("m", (3, 4)), constant("v", (1,), Q)))
    both = use(op, (3, 5), (I, Ref("j")), v, more=(at, numbers(indices("j", (2,), 5), 4.0, 1.0), activation("v", (2,))))
    found, mask = spelled(u, precision), spelled(masked, precision)
    limits.fixed("accumulate", False)
    skipped = spelled(use(op, (5, 3), (None, I), v, more=(at, activation("v", (5, 2)))), precision)
    several = with_values(mask, "v", shape=(6,))
    return [
        *cases(Choice(u, (("mask", masked), ("two_indices", both))), precision, limits),
        limit("explicit_indices", "all", model(found)),
        outside("explicit_indices", "none_first", model(skipped)),
        limit("mask_alone", "one_value", model(mask)),
        outside("mask_alone", "several_values", model(several)),
        limit("accumulate", "false", model(replace(found, args=(*found.args, False)))),
        outside("accumulate", "true", model(replace(found, args=(*found.args, True)))),
    ]


# ------------------------------------------------------------------------------------ by condition


def where_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.where.self: three different operands."""
    op, c, y = "aten.where.self", Ref("c"), Ref("y")
    x, other = activation("x", IMAGE), activation("y", IMAGE, OTHER)
    u = Use(op, (x, flags("c", IMAGE), other), (c, X, y), Q)
    per_channel = replace(u, values=(x, flags("c", (3, 1, 1)), replace(other, shape=(5,))))
    found = spelled(u, precision)
    limits.value("code_dtype", ())
    plain = with_values(found, "y", quant=None, constant=True)
    return [
        *cases(Choice(u, (("broadcast", per_channel),)), precision, limits),
        limit("distinct_inputs", "three", model(found)),
        outside("distinct_inputs", "the_same_twice", model(replace(found, values=found.values[:2], args=(c, X, X)))),
        limit("condition_dtype", "bool", model(found)),
        limit("code_dtype", "codes", model(found)),
        outside("code_dtype", "a_real_constant", model(plain)),
    ]


def masked_fill_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.masked_fill.Scalar: a number where the mask says so."""
    u = use("aten.masked_fill.Scalar", IMAGE, Ref("m"), 0.75, more=(flags("m", IMAGE),))
    more = (
        ("row", replace(u, values=(u.values[0], flags("m", (5,))))),
        ("far_number", replace(u, args=(X, Ref("m"), -1000.0))),
        ("off_the_grid", replace(u, args=(X, Ref("m"), 0.513))),
    )
    return cases(Choice(u, more), precision, limits)


# ------------------------------------------------------------------------------------ numbers of nothing

SUM = "aten.add.Tensor"


def made_cases(
    op: str, args: tuple[Any, ...], more: tuple[tuple[str, tuple[Any, ...]], ...], precision: str, limits: Limits
) -> list[Draft]:
    """Operators without operands: their numbers are added to an input."""
    shape = (1, 3, 5, 5)
    refs = (X,) if op == "aten.full_like.default" else ()
    q, total = codes_quant(precision), codes_quant(precision, quant(0.1))
    x = replace(activation("x", shape), quant=q)

    def graph(arguments: tuple[Any, ...], quantised: bool = True, summed: bool = True, **changes: Any) -> Graph:
        made = Step(SUBJECT, op, (*refs, *arguments), (), q if quantised else None)
        y = Step("total", SUM, (X, Ref(SUBJECT)), (), total if summed else None)
        return Graph((replace(x, **changes),), (made, y), (Ref("total"),))

    usual = graph(args)
    twice = Step("again", "aten.mul.Tensor", (X, Ref(SUBJECT)), (), total)
    drafts = [
        accepted("baseline", usual),
        *(accepted(name, graph(arguments)) for name, arguments in more),
        *(limit(code, "quantised", usual) for code in COMMON),
        outside("quantized", "real_numbers", graph(args, False, False)),
        outside("quantized_outputs", "real_numbers", graph(args, False)),
        *(additional_checks(usual) if "additional_check" in limits else ()),
        outside("scalar_qparams", "tiny_scale", _requantised(usual, replace(q, scale=2.0**-130))),
        outside(
            "io_dtype",
            "uint8",
            _requantised(usual, replace(q, scale=0.05, zero_point=131, qmin=0, qmax=255, dtype="uint8")),
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


def _requantised(graph: Graph, q: Any) -> Graph:
    made, *rest = graph.steps
    return replace(graph, steps=(replace(made, quant=q), *rest))


FULL = (
    ("zero", ((1, 3, 1, 1), 0.0)),
    ("negative", ((5,), -0.75)),
    ("far", ((5, 1), 1000.0)),
    ("off_the_grid", ((5,), 0.513)),
)
FAMILIES: Mapping[str, Family] = {
    "aten.embedding.default": embedding_cases,
    "aten.gather.default": gather_cases,
    "aten.index_select.default": index_select_cases,
    "aten.index.Tensor": index_cases,
    "aten.index_put.default": index_put_cases,
    "aten.where.self": where_cases,
    "aten.masked_fill.Scalar": masked_fill_cases,
    "aten.arange.start_step": partial(
        made_cases, "aten.arange.start_step", (0.0, 2.5, 0.5), (("down", (2.0, -3.0, -1.0)), ("whole", (0.0, 5.0)))
    ),
    "aten.eye.default": partial(made_cases, "aten.eye.default", (5,), ()),
    "aten.full.default": partial(made_cases, "aten.full.default", ((1, 3, 1, 1), 1.5), FULL),
    "aten.full_like.default": partial(
        made_cases, "aten.full_like.default", (-0.75,), (("zero", (0.0,)), ("far", (1e3,)))
    ),
    "aten.linspace.default": partial(
        made_cases, "aten.linspace.default", (-1.0, 1.0, 5), (("down", (2.0, -3.0, 5)), ("single", (0.5, 1.0, 1)))
    ),
    "aten.scalar_tensor.default": partial(
        made_cases, "aten.scalar_tensor.default", (0.5,), (("zero", (0.0,)), ("negative", (-1.25,)), ("far", (1e3,)))
    ),
}
__all__ = ["FAMILIES", "Value", "fills", "valued"]
