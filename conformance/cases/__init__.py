"""The cases of a table: every row, every constraint, both sides of every limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases import homes
from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, outside, placed
from npu_assay.conformance.cases.families import FAMILIES
from npu_assay.conformance.cases.family import STATIC_INT8
from npu_assay.conformance.cases.judged import SAID, judged
from npu_assay.conformance.cases.kernels import within_kernel
from npu_assay.conformance.cases.limits import LimitError, Limits
from npu_assay.conformance.cases.loosened import loosened
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.cases.pieces.contexts import VIEWED, in_the_other_layout
from npu_assay.conformance.cases.ranks import within_rank
from npu_assay.conformance.cases.rows import drafts as row_drafts
from npu_assay.conformance.cases.rows import thinned
from npu_assay.conformance.cases.variants.batch_norm import batch_norms
from npu_assay.conformance.cases.variants.ratios import ratios
from npu_assay.conformance.cases.variants.returned import operand_returned
from npu_assay.conformance.cases.variants.special_values import special_values
from npu_assay.conformance.cases.variants.thresholds import past_thresholds, with_new_ranks
from npu_assay.conformance.cases.variants.tied import tied_constants
from npu_assay.conformance.cases.variants.windows import windows
from npu_assay.conformance.cases.witnesses import content_key, shipped, witnesses
from npu_assay.conformance.common.memory import many_records
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.predicates.definitions import defined as defined_in
from npu_assay.conformance.predicates.named import WHATEVER_SIZES, named_definition
from npu_assay.conformance.predicates.outside import outside_contexts
from npu_assay.conformance.predicates.own import Definition
from npu_assay.conformance.programs.graph import Case, references
from npu_assay.conformance.table import INTEGER_PRECISIONS, Row, Table
from npu_assay.conformance.table.constraints import Constraint
from npu_assay.reference.operators import VIEWS, WITH_CASES
from npu_assay.reference.operators.lookup import outside_operators
from npu_assay.reference.outside import CONSTRAINTS, OutsideError

IN_EITHER_LAYOUT = (STATIC_INT8, "fp32", "int8")
"""The precisions that are tried on images whose channels lie next to each other; others share their layouts."""


class NoCasesError(KeyError):
    """A row that the suite has no cases for; other errors of this kind are the suite's own."""


@many_records()
def cases_for(table: Table) -> tuple[Case, ...]:
    """Every case of a table, row by row. Boundaries stand where the row's constraints put them.

    Raises NoCasesError for a row without cases, LimitError for a constraint or a value of one that there are no
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
    """The operators that there are cases for in the precisions of this row."""
    kinds = row.precisions or (STATIC_INT8,)
    known = (name for name, family in FAMILIES.items() if any(family.maker(precision) for precision in kinds))
    return (*known, *WITH_CASES, *outside_operators(), *VIEWS)


def every_operator() -> frozenset[str]:
    """The operators that there are cases for in some precision."""
    return frozenset((*FAMILIES, *WITH_CASES, *outside_operators(), *VIEWS))


def has_cases(operator: str, precision: str) -> bool:
    """Whether there are cases for an operator in a precision; "" is static int8, of which a row says nothing."""
    return bool(drafts_of(operator, precision))


def drafts_of(operator: str, precision: str) -> list[CaseDraft]:
    """The drafts of an operator without limits, in a precision as in `has_cases`; empty where there are none."""
    row = Row(operator, "", operator, None, (), (precision,) if precision else ())
    return row_drafts(row, precision, Limits()) or []


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
    precisions = row.precisions or (STATIC_INT8,)
    for precision in precisions:
        limits, first = limits_of(table, row, precision or None), precision == precisions[0]
        made, held = _drafts(row, precision, limits), of_domain(table, row, precision)
        if held:
            known = shipped().get(content_key(table, row, precision or None), {}).get(SAID, "")
            made = thinned(row, precision, judged(limits, held, made, known)[0])
        else:
            made = within(limits, made)
        drafts = [*with_new_ranks(first, _known(limits, made, held)), *loosened(table, row, precision, made)]
        written = [*drafts, *_further(row.name, precision, first, limits, drafts)]
        found = witnesses(_found(table, row, precision, bool(held) and not limits.own, written), written)
        for draft in _bounded(limits, [*written, *found]):
            yield _case(row, precision, draft)


def of_domain(table: Table, row: Row, precision: str) -> tuple[Defined, ...]:
    """The constraints that say what is right for a row's programs; none where its cases have verdicts written."""
    return defined_in(table, row, precision or None) if homes.has_domain(row.name, precision) else ()


def _found(table: Table, row: Row, precision: str, judged: bool, drafts: Sequence[CaseDraft]) -> Mapping[str, Any]:
    """What a search found for a row; judged: whether there is one at once where nothing is kept of its content."""
    key = content_key(table, row, precision or None)
    if not judged or key in shipped():
        return shipped().get(key, {})
    from npu_assay.conformance.covering.witnessed import at_start  # late: it needs torch, and imports this package

    return at_start(key, table, row, precision or None, [_case(row, precision, draft) for draft in drafts])


def _further(
    operator: str, precision: str, first: bool, limits: Limits, drafts: Sequence[CaseDraft]
) -> Iterator[CaseDraft]:
    """What every row is asked beside what its family knows; `first`: in the first of its precisions."""
    yield from past_thresholds(precision, first, limits, drafts)
    yield from special_values(precision, drafts)
    yield from batch_norms(drafts)
    yield from tied_constants(precision, drafts)
    yield from _channels_last(precision, drafts)
    yield from _from_outside(drafts)
    if precision in INTEGER_PRECISIONS:
        return
    if precision != STATIC_INT8:
        yield from windows(operator, precision, limits)
    yield from operand_returned(precision, first, drafts)
    yield from ratios(drafts)


def _channels_last(precision: str, drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """A row's plain program on images in the other layout, where its family has no such context of its own."""
    plain = next((d.graph for d in drafts if (d.side, d.variant, d.expect) == ("accept", "baseline", "accept")), None)
    if precision not in IN_EITHER_LAYOUT or plain is None or any(d.variant == "channels_last" for d in drafts):
        return
    subject = next(step for step in plain.steps if step.name == SUBJECT)
    if subject.op in VIEWED or not references(subject.args):
        return
    if (graph := in_the_other_layout(plain, plain.values[0])) is not None:
        yield placed("channels_last", graph)


def _from_outside(drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """A row's plain program in the contexts that installed packages bring. Raises OutsideError."""
    if not (contexts := outside_contexts()):
        return
    from npu_assay.conformance.predicates.applications import NoProgram, application

    plain = next((d.graph for d in drafts if (d.side, d.variant, d.expect) == ("accept", "baseline", "accept")), None)
    if plain is None:
        return
    for context in contexts:
        if (graph := context.program(plain, SUBJECT)) is None:
            continue
        where = f"context {context.name!r} of {CONSTRAINTS}"
        if any(draft.variant == context.name for draft in drafts):
            raise OutsideError(f"{where}: the suite has one of this name already, expected another")
        try:
            application(graph, SUBJECT)
        except NoProgram as error:
            raise OutsideError(f"{where}: torch refuses its program: {error}") from error
        yield placed(context.name, graph)


def _offered(table: Table, row: Row) -> Iterator[Case]:
    """The row's plain programs, of which nothing is promised."""
    for case in _cases(table, row):
        if case.constraint == OPERATOR and case.side in ("accept", "value") and case.expect == "accept":
            yield replace(case, expect="unspecified", delegates=None)


def beside(table: Table) -> tuple[Case, ...]:
    """The first plain case, in each precision, of operators beside a table: they are asked with variations."""
    without = replace(table, common=())
    return tuple(case for row in table.beside for case in _first(_offered(without, row)))


def _first(cases: Iterable[Case]) -> Iterable[Case]:
    """The first case of each precision."""
    return {case.precision: case for case in reversed([*cases])}.values()


def _bounded(limits: Limits, drafts: list[CaseDraft]) -> list[CaseDraft]:
    """With programs on both sides of the limits that the table defines. Only these need torch, which knows shapes."""
    if all(defined.holds is None for _, defined in limits.own):
        return drafts
    from npu_assay.conformance.cases.boundaries import bounded

    return bounded(limits, drafts)


def within(limits: Limits, drafts: list[CaseDraft]) -> list[CaseDraft]:
    """The drafts with no more dimensions and no larger kernels than the row permits."""
    return within_rank(limits, within_kernel(limits, drafts))


def _refusals(table: Table, row: Row) -> Iterator[Case]:
    """The plainest case of a refused row in each precision that it lists: the row's only constraint excludes it."""
    (reason,) = row.constraints
    for precision in row.precisions:
        drafts = _drafts(row, precision, Limits(f"{table.name}@{table.version}: {row.name} ({precision})"))
        plainest = next(draft for draft in drafts if draft.constraint == OPERATOR and draft.expect == "accept")
        yield _case(row, precision, outside(reason.code, plainest.variant, plainest.graph))


def _drafts(row: Row, precision: str, limits: Limits) -> list[CaseDraft]:
    """A row's drafts in one of its precisions. Raises NoCasesError for a row that there are none for."""
    found = row_drafts(row, precision, limits)
    if found is None:
        raise NoCasesError(row.name)
    return found


def _known(limits: Limits, drafts: list[CaseDraft], held: Sequence[Defined]) -> list[CaseDraft]:
    """The drafts without those about constraints that the row does not have. held: those that predicates say."""
    said = {each.code for each in held}
    known = {draft.constraint for draft in drafts} | said
    for code in limits.codes:
        if code not in known | limits.read:
            own = ", ".join(sorted(known - {OPERATOR}))
            raise LimitError(
                f"{limits.where}: the suite has no cases of this row for {code!r}; it has some for {own} "
                f"(docs/constraints.md says what each of them means); "
                f"one of your own needs a predicate (docs/predicates.md)"
            )
    for code in limits.unread() - said:
        raise LimitError(f"{limits.where}: {code}: the suite makes its cases of this row without regard to the value")
    return [draft for draft in drafts if draft.constraint in (OPERATOR, *limits.codes, *said)]


def _case(row: Row, precision: str, draft: CaseDraft) -> Case:
    """A draft as a case of a row in a precision, which is in its id unless it is the only one there is."""
    reason = draft.constraint if draft.reason is None else draft.reason
    parts = (row.name, *((precision,) if precision else ()), draft.constraint, draft.side, draft.variant)
    return Case(
        "/".join(parts),
        row.name,
        draft.constraint,
        draft.side,
        draft.expect,
        reason if draft.expect == "reject" else None,
        draft.graph,
        SUBJECT,
        precision or None,
        draft.options,
        draft.delegates,
    )
