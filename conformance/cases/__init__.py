"""The cases of a table: every row, every constraint, both sides of every limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from npu_assay.conformance.cases import (
    arithmetic,
    cat,
    conv,
    elementwise,
    homes,
    image,
    integer,
    matrix,
    pad,
    permute,
    pool,
    shape,
    slices,
    softmax,
    transposed,
    typed,
)
from npu_assay.conformance.cases.baseline import plain
from npu_assay.conformance.cases.batch_norm import batch_norms
from npu_assay.conformance.cases.borrowed import FROM, borrowed
from npu_assay.conformance.cases.kernels import within_kernel
from npu_assay.conformance.cases.limits import LimitError, Limits
from npu_assay.conformance.cases.make import OPERATOR, SUBJECT, Draft, model, outside, placed
from npu_assay.conformance.cases.ranks import within_rank
from npu_assay.conformance.cases.shared import VIEWED, in_the_other_layout, sizes
from npu_assay.conformance.cases.special_values import special_values
from npu_assay.conformance.cases.thresholds import past_thresholds, with_new_ranks
from npu_assay.conformance.cases.tied import tied_constants
from npu_assay.conformance.constraints import Constraint
from npu_assay.conformance.graph import Case, references
from npu_assay.conformance.memory import many_records
from npu_assay.conformance.predicates.named import WHATEVER_SIZES, named_definition
from npu_assay.conformance.predicates.own import Definition
from npu_assay.conformance.table import INTEGER_PRECISIONS, Row, Table
from npu_assay.reference.operators import HOMES, VIEWS
from npu_assay.reference.operators.lookup import outside_operators

Family = Callable[[Limits], list[Draft]]
IN_EITHER_LAYOUT = ("", "fp32", "int8")
"""The number types that are tried on images whose channels lie next to each other; others share their layouts."""


def _convolutions(limits: Limits) -> list[Draft]:
    return [*conv.convolution_cases(limits), *transposed.transposed_cases(limits)]


def _int8(row: str, family: Family) -> Family:
    """A row's plain case, its sizes, and what its family adds."""

    def drafts(limits: Limits) -> list[Draft]:
        u, front = plain(row, limits)
        return [Draft(OPERATOR, "accept", "baseline", model(u, front)), *sizes(u, front), *family(limits)]

    return drafts


# What a row's cases come from, beside its baseline: operators between dequantize and quantize nodes, in int8.
_FAMILIES: Mapping[str, Family] = {
    "aten.abs.default": elementwise.abs_cases,
    "aten._adaptive_avg_pool2d.default": image.adaptive_cases,
    "aten.addmm.default": matrix.addmm_cases,
    "aten.add.Tensor": arithmetic.add_cases,
    "aten.avg_pool1d.default": pool.avg_pool1d_cases,
    "aten.avg_pool2d.default": pool.avg_pool2d_cases,
    "aten.bmm.default": matrix.bmm_cases,
    "aten.cat.default": cat.cat_cases,
    "aten.clamp.default": elementwise.clamp_cases,
    "aten.clone.default": shape.clone_cases,
    "aten.constant_pad_nd.default": pad.pad_cases,
    "aten.convolution.default": _convolutions,
    "aten.dim_order_ops._clone_dim_order.default": shape.dim_order_cases,
    "aten.div.Tensor": arithmetic.div_cases,
    "aten.hardtanh.default": elementwise.hardtanh_cases,
    "aten.leaky_relu.default": elementwise.leaky_relu_cases,
    "aten.max_pool1d.default": pool.max_pool1d_cases,
    "aten.max_pool2d.default": partial(pool.max_pool2d_cases, pool.MAX2),
    "aten.max_pool2d_with_indices.default": pool.max_pool2d_with_indices_cases,
    "aten.mean.dim": image.mean_cases,
    "aten.mul.Tensor": arithmetic.mul_cases,
    "aten.mm.default": matrix.mm_cases,
    "aten.neg.default": elementwise.neg_cases,
    "aten.permute_copy.default": permute.permute_cases,
    "aten.prelu.default": elementwise.prelu_cases,
    "aten.relu.default": elementwise.relu_cases,
    "aten.sigmoid.default": elementwise.sigmoid_cases,
    "aten.slice_copy.Tensor": slices.slice_cases,
    "aten._softmax.default": softmax.softmax_cases,
    "aten.split.default": partial(slices.split_cases, "aten.split.default"),
    "aten.split.Tensor": partial(slices.split_cases, "aten.split.Tensor"),
    "aten.split_with_sizes.default": partial(slices.split_cases, "aten.split_with_sizes.default"),
    "aten.squeeze.default": partial(shape.squeeze_cases, "aten.squeeze.default"),
    "aten.squeeze.dim": partial(shape.squeeze_cases, "aten.squeeze.dim"),
    "aten.squeeze.dims": partial(shape.squeeze_cases, "aten.squeeze.dims"),
    "aten.tanh.default": elementwise.tanh_cases,
    "aten.unsqueeze.default": shape.unsqueeze_cases,
    "aten.upsample_bilinear2d.vec": partial(image.upsample_cases, "aten.upsample_bilinear2d.vec"),
    "aten.upsample_nearest2d.vec": partial(image.upsample_cases, "aten.upsample_nearest2d.vec"),
    "aten.view_copy.default": shape.view_cases,
}


INT8: Mapping[str, Family] = MappingProxyType({row: _int8(row, family) for row, family in _FAMILIES.items()})


@many_records()
def cases_for(table: Table) -> tuple[Case, ...]:
    """Every case of a table, row by row. Boundaries stand where the row's constraints put them.

    Raises KeyError for a row without cases, LimitError for a constraint or a value of one that there are no
    cases for, ValueError for two cases of one id.
    """
    made = _offered if table.offers else _cases
    promised = [case for row in table.rows for case in made(table, row)]
    cases = (*promised, *(case for row in table.refused for case in _refusals(table, row)))
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ValueError(f"two cases are called {case.id!r}")
        seen.add(case.id)
    return cases


def operators(row: Row) -> Iterable[str]:
    """The operators that there are cases for in the number types of this row."""
    own = (*HOMES, *outside_operators(), *VIEWS)
    if not row.precisions:
        return (*INT8, *own)
    return (*(integer.FAMILIES if set(INTEGER_PRECISIONS) & set(row.precisions) else typed.FAMILIES), *own)


def every_operator() -> frozenset[str]:
    """The operators that there are cases for in some number type."""
    return frozenset((*INT8, *integer.FAMILIES, *typed.FAMILIES, *HOMES, *outside_operators(), *VIEWS))


def has_cases(operator: str, precision: str) -> bool:
    """Whether there are cases for an operator in a number type; "" is static int8, of which a row says nothing."""
    try:
        return bool(drafts_of(operator, precision))
    except KeyError:
        return False


def drafts_of(operator: str, precision: str) -> list[Draft]:
    """The drafts of an operator without limits, in a number type as in `has_cases`. Raises KeyError without any."""
    return _drafts(Row(operator, "", operator, None, (), (precision,) if precision else ()), precision, Limits())


def limits_of(table: Table, row: Row, precision: str | None = None) -> Limits:
    """What case functions may know of a row, in one of its precisions."""
    where = f"{table.name}@{table.version}: {row.name}{f' ({precision})' if precision else ''}"
    held = [c for c in (*table.common, *row.constraints) if c.holds_for(precision)]
    own = _definitions(where, table, held)
    values = {c.code: c.value for c in held if c.value is not None}
    return Limits(
        where,
        tuple(c.code for c in held if c.code not in own),
        {code: value for code, value in values.items() if code not in own},
        dict(table.parameters),
        tuple(own.items()),
        {code: value for code, value in values.items() if code in own},
        tuple(c.code for c in table.common),
    )


def _definitions(where: str, table: Table, held: Sequence[Constraint]) -> dict[str, Definition]:
    """The definitions that a row's cases are generated from: its table's own, and of named constraints beside them.

    Raises LimitError for a constraint beside it that no predicate says.
    """
    own = {c.code: defined for c in held if (defined := table.own.definition(c.code)) is not None}
    if all(defined.holds is None for defined in own.values()):
        return own
    for constraint in held:
        code, defined = constraint.code, named_definition(constraint.code)
        if code in own or code in WHATEVER_SIZES:
            continue
        if defined is None:
            others = ", ".join(code for code in own if own[code].holds is not None)
            raise LimitError(
                f"{where}: {code} has a meaning that no predicate says, and stands beside {others}: define it, too, "
                f"as {code} = {{ says = ..., holds = ... }} in [constraints]"
            )
        own[code] = defined
    return own


def _cases(table: Table, row: Row) -> Iterator[Case]:
    """The row's cases, in each precision that it lists."""
    for precision in row.precisions:
        limits = limits_of(table, row, precision)
        first = precision == row.precisions[0]
        drafts = with_new_ranks(first, _known(limits, within(limits, _drafts(row, precision, limits))))
        further = (*past_thresholds(precision, first, limits, drafts), *_everywhere(precision, drafts))
        for draft in _bounded(limits, [*drafts, *further]):
            yield typed.typed_case(row, precision, draft)
    if not row.precisions:
        limits = limits_of(table, row)
        drafts = with_new_ranks(True, _known(limits, within(limits, _drafts(row, "", limits))))
        further = (*past_thresholds("", True, limits, drafts), *_everywhere("", drafts))
        for draft in _bounded(limits, [*drafts, *further]):
            yield _case(row, draft)


def _everywhere(precision: str, drafts: Sequence[Draft]) -> Iterator[Draft]:
    """Values and contexts of every row that can have them, from its plain program."""
    yield from special_values(precision, drafts)
    yield from batch_norms(drafts)
    yield from tied_constants(precision, drafts)
    yield from _channels_last(precision, drafts)


def _channels_last(precision: str, drafts: Sequence[Draft]) -> Iterator[Draft]:
    """A row's plain program on images in the other layout, where its family has no such context of its own."""
    plain = next((d.graph for d in drafts if (d.side, d.variant, d.expect) == ("accept", "baseline", "accept")), None)
    if precision not in IN_EITHER_LAYOUT or plain is None or any(d.variant == "channels_last" for d in drafts):
        return
    subject = next(step for step in plain.steps if step.name == SUBJECT)
    if subject.op in VIEWED or not references(subject.args):
        return
    if (graph := in_the_other_layout(plain, plain.values[0])) is not None:
        yield placed("channels_last", graph)


def _offered(table: Table, row: Row) -> Iterator[Case]:
    """The row's plain programs, of which nothing is promised."""
    for case in _cases(table, row):
        if case.constraint == OPERATOR and case.side in ("accept", "value") and case.expect == "accept":
            yield replace(case, expect="unspecified", delegates=None)


def _bounded(limits: Limits, drafts: list[Draft]) -> list[Draft]:
    """With programs on both sides of the limits that the table defines. Only these need torch, which knows shapes."""
    if all(defined.holds is None for _, defined in limits.own):
        return drafts
    from npu_assay.conformance.cases.boundaries import bounded

    return bounded(limits, drafts)


def within(limits: Limits, drafts: list[Draft]) -> list[Draft]:
    """The drafts with no more dimensions and no larger kernels than the row permits."""
    return within_rank(limits, within_kernel(limits, drafts))


def _refusals(table: Table, row: Row) -> Iterator[Case]:
    """The plainest case of a refused row in each precision that it lists: the row's only constraint excludes it."""
    (reason,) = row.constraints
    for precision in row.precisions:
        drafts = _drafts(row, precision, Limits(f"{table.name}@{table.version}: {row.name} ({precision})"))
        plainest = next(draft for draft in drafts if draft.constraint == OPERATOR and draft.expect == "accept")
        yield typed.typed_case(row, precision, outside(reason.code, plainest.variant, plainest.graph))


def _drafts(row: Row, precision: str, limits: Limits) -> list[Draft]:
    """A row's drafts in one of its number types; "" is static int8, for a row that names none.

    Raises KeyError for a row that there are none for.
    """
    named = replace(row, name=VIEWS.get(row.name, row.name))
    with suppress(KeyError):
        return _family(named, precision, limits)
    if homes.has_home(named.name, precision):
        return homes.drafts(named.name, precision, limits)
    return borrowed(precision, limits, _elsewhere(named, precision))


def _family(row: Row, precision: str, limits: Limits) -> list[Draft]:
    """The drafts of the row's family. Raises KeyError where it knows nothing of the number type."""
    if not precision:
        return INT8[row.name](limits)
    suite = integer.drafts if precision in INTEGER_PRECISIONS else typed.drafts
    return suite(row, precision, limits)


def _elsewhere(row: Row, precision: str) -> list[Draft]:
    """The drafts of the row's family in another number type. Raises KeyError for a row without any."""
    for other in FROM.get(precision, ()):
        with suppress(KeyError):
            return _family(replace(row, precisions=(other,)), other, Limits())
    raise KeyError(row.name)


def _known(limits: Limits, drafts: list[Draft]) -> list[Draft]:
    """The drafts without those about constraints that the row does not have."""
    known = {draft.constraint for draft in drafts}
    for code in limits.codes:
        if code not in known | limits.read:
            own = ", ".join(sorted(known - {OPERATOR}))
            raise LimitError(
                f"{limits.where}: the suite has no cases of this row for {code!r}; it has some for {own} "
                f"(docs/constraints.md says what each of them means)"
            )
    for code in limits.unread():
        raise LimitError(f"{limits.where}: {code}: the suite makes its cases of this row without regard to the value")
    return [draft for draft in drafts if draft.constraint in (OPERATOR, *limits.codes)]


def _case(row: Row, draft: Draft) -> Case:
    reason = draft.constraint if draft.expect == "reject" else None
    name = f"{row.name}/{draft.constraint}/{draft.side}/{draft.variant}"
    return Case(name, row.name, draft.constraint, draft.side, draft.expect, reason, draft.graph, SUBJECT)
