"""Verdicts of a row's predicates on the programs of its operator's domain: nobody writes what is right beside them.

A home says how its operator is called (`npu_assay.reference.operators`), along axes: another value of an argument,
another shape. What breaks one constraint is outside of it; what breaks none on the same axis stands at its limit. Of
what breaks two nothing can be learned, and it is left out. For rows of shipped tables the verdicts are kept in
`found/`, so that their cases are made without torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.drafts import FAR, OPERATOR, CaseDraft
from npu_assay.conformance.cases.limits import LimitError, Limits
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.programs.graph import Graph

SAID = "said"
"""The key of `found/` under which verdicts stand."""
KEEPS, LEFT_OUT, FIRST = ".", "-", "a"
"""How a verdict is kept: a program that breaks nothing, one that says nothing, one that breaks the first constraint."""


def judged(
    limits: Limits, held: Sequence[Defined], drafts: Sequence[CaseDraft], known: str = ""
) -> tuple[list[CaseDraft], str]:
    """The drafts with their verdicts, and these as they are kept; known: those that are.

    For each constraint the plain program is added where nothing stands at its limit. Where the plain program breaks a
    limit, all are turned first as it has to be. Raises LimitError.
    """
    if len(known) != sum(map(_is_open, drafts)):
        from npu_assay.conformance.cases.boundaries import Limit, turned  # late: these need torch, which knows shapes
        from npu_assay.conformance.predicates.grammar import PredicateError

        try:
            drafts = turned(limits, [Limit(each.code, each.predicate, each.value) for each in held], drafts)
            known = "".join(_verdict(held, draft.graph) for draft in drafts if _is_open(draft))
        except PredicateError as error:
            raise LimitError(f"{limits.where}: {error}") from error
    codes = {chr(ord(FIRST) + place): each.code for place, each in enumerate(held)}
    verdicts = iter(known)
    told = [(draft, next(verdicts) if _is_open(draft) else "") for draft in drafts]
    alone = defaultdict[str, dict[str, None]](dict)
    for draft, verdict in told:
        if draft.axis and verdict in codes:
            alone[draft.axis][codes[verdict]] = None
    good = {draft.axis for draft, verdict in told if verdict == KEEPS}
    # A size that is far from a limit, on both sides of its own number or on none, shows nothing.
    shown = [each for each in told if not each[0].axis.startswith(FAR) or each[0].axis in good & alone.keys()]
    made = [each for draft, verdict in shown for each in _told(draft, verdict, codes, [*alone[draft.axis]])]
    return [*made, *_at_limits(held, made)], known


def _is_open(draft: CaseDraft) -> bool:
    """Whether predicates have to say what is right: of what is about no constraint, and has a verdict."""
    return draft.constraint == OPERATOR and draft.expect == "accept"


def _told(draft: CaseDraft, verdict: str, codes: Mapping[str, str], near: Sequence[str]) -> Iterator[CaseDraft]:
    """The draft with its verdict; near: the constraints that others of its axis break alone."""
    if not verdict:
        yield draft
    elif verdict in codes:
        if draft.side != "value":
            yield replace(draft, constraint=codes[verdict], side="outside", expect="reject", delegates=None)
    elif verdict == KEEPS:
        yield replace(draft, constraint=near[0], side="at_limit") if len(near) == 1 else draft


def _at_limits(held: Sequence[Defined], made: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """The plain program for each constraint that no other one stands at the limit of."""
    plain = next((d for d in made if (d.constraint, d.variant) == (OPERATOR, "baseline")), None)
    there = {draft.constraint for draft in made if draft.side == "at_limit"}
    for each in held:
        if plain is not None and each.code not in there:
            yield replace(plain, constraint=each.code, side="at_limit")


def _verdict(held: Sequence[Defined], graph: Graph) -> str:
    """Raises PredicateError for a value that a predicate cannot compare."""
    # Late: these need torch.
    from npu_assay.conformance.predicates.applications import NoProgram, application
    from npu_assay.conformance.predicates.evaluation import holds

    try:
        found = application(graph, SUBJECT)
    except NoProgram:
        return LEFT_OUT
    said = [holds(each.predicate, found.with_value(each.value).find, each.code) for each in held]
    if said.count(False) == 1:
        return chr(ord(FIRST) + said.index(False))
    return LEFT_OUT if False in said or None in said else KEEPS
