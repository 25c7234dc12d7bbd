"""A row's cases where its table defines limits: those that were written keep them, and more are generated."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.boundaries.combinations import together
from npu_assay.conformance.cases.boundaries.goals import Reach, deciding
from npu_assay.conformance.cases.boundaries.listed import beside
from npu_assay.conformance.cases.boundaries.neighbors import is_exposed
from npu_assay.conformance.cases.boundaries.pairs import COUPLED, Pair, asked_of
from npu_assay.conformance.cases.boundaries.search import FEWER, OF_TYPES, Limit, Look, Search, Turns, emptied, seen
from npu_assay.conformance.cases.boundaries.sides import Sides
from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, accepted, inside, limit, outside
from npu_assay.conformance.cases.limits import LimitError, Limits
from npu_assay.conformance.cases.ranks import lost_text
from npu_assay.conformance.predicates.evaluation import atom_truth, feature_value, says
from npu_assay.conformance.predicates.features import check_names
from npu_assay.conformance.predicates.grammar import Atom, PredicateError
from npu_assay.conformance.predicates.named import WHATEVER_SIZES
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.predicates.outside import outside_features
from npu_assay.conformance.programs.graph import Graph

_KNOWN: dict[str, tuple[CaseDraft, ...]] = {}  # what was generated in this process: a run asks more than once
TYPES = ("dtype", "is_per_channel", "is_quantized", "real", "value")  # features that dtypes decide
MOST_TYPES = 1024
BESIDE = 20_000  # programs that are looked at for what stands beside the members of lists
ADVICE = "give the reason in 'unchecked' beside 'holds', or leave it out"


def bounded(limits: Limits, drafts: Sequence[CaseDraft]) -> list[CaseDraft]:
    """The drafts with programs that keep the row's own limits, and programs on both sides of each.

    A program for which a limit is undefined shows nothing of it, and may be answered either way. Raises LimitError for
    a limit that the row's plain program cannot be made to keep, or that no two programs show.
    """
    known = ((code, defined.holds) for code, defined in limits.own)
    own = [Limit(code, holds, limits.own_values.get(code)) for code, holds in known if holds is not None]
    plain = _plain(limits, own, drafts)
    asked = repr((own, limits.common, drafts, sorted(outside_features())))
    if asked not in _KNOWN:
        try:
            _KNOWN[asked] = tuple(_bounded(limits, own, plain, drafts))
        except PredicateError as error:
            raise LimitError(f"{limits.where}: {error}") from error
    return list(_KNOWN[asked])


def turned(limits: Limits, own: Sequence[Limit], drafts: Sequence[CaseDraft]) -> list[CaseDraft]:
    """The drafts, each with the knobs turned with which the plain program keeps a row's limits; mostly none.

    Raises LimitError where no program near the plain one keeps them.
    """
    search = Search(_plain(limits, own, drafts).graph, own)
    if search.start is not None and search.start.right:
        return list(drafts)
    _check(limits, search)
    bases = search.bases() or _reached(search)
    if not bases:
        raise _unkept(limits, own, search)
    return [replace(draft, graph=_turned(search, bases[0], draft.graph)) for draft in drafts]


def _turned(search: Search, base: Look, graph: Graph) -> Graph:
    """A program with the knobs of the plain one turned as in a base."""
    for number, place in base.turns:
        graph = search.knobs[number].turn(graph, place) or graph
    return graph


def _plain(limits: Limits, own: Sequence[Limit], drafts: Sequence[CaseDraft]) -> CaseDraft:
    found = next((d for d in drafts if (d.constraint, d.side, d.variant) == (OPERATOR, "accept", "baseline")), None)
    if found is None:
        raise LimitError(f"{limits.where}: {_texts(own)}: the row has no plain program to begin with; {ADVICE}")
    return found


def _bounded(
    limits: Limits, own: Sequence[Limit], plain: CaseDraft, drafts: Sequence[CaseDraft]
) -> Iterator[CaseDraft]:
    search = Search(plain.graph, own)
    _check(limits, search)
    bases = search.bases() or _reached(search)
    if not bases:
        raise _unkept(limits, own, search)
    base = bases[0]
    fitted = _once(
        [each for draft in drafts for kept in _fitted(draft, search, base) for each in _full(draft, kept, search)]
    )
    lost = lost_text(limits, drafts, fitted)
    if lost:
        raise LimitError(f"{limits.where}: where {_texts(own)}, there are no cases for {lost}")
    yield from fitted
    rights, missing = list[Look](), list[str]()
    for index in range(len(own)):
        for draft, look in _generated(limits, search, bases, index, missing):
            yield draft
            rights += [look] * look.right
    if missing:
        raise LimitError(f"{limits.where}: {'; and '.join(missing)}; {ADVICE}")
    for number, look in enumerate(together(search, base, rights), 1):
        yield accepted(f"limits_together_{number}", look.graph)


def _once(drafts: Sequence[CaseDraft]) -> list[CaseDraft]:
    """Each case and each program of a constraint once: different ones may become the same where limits are narrow."""
    kept, names, programs = list[CaseDraft](), set[object](), set[object]()
    for draft in drafts:
        name, program = (draft.side, draft.variant), (draft.side, draft.options, repr(draft.graph))
        if (draft.constraint, name) not in names and (draft.constraint, program) not in programs:
            kept.append(draft)
        names.add((draft.constraint, name))
        programs.add((draft.constraint, program))
    return kept


def _check(limits: Limits, search: Search) -> None:
    """Every name is one of the operator's."""
    if search.start is None:  # then no program is found, and `_unkept` says so
        return
    for each in search.limits:
        try:
            check_names(each.predicate, search.start.application)
        except PredicateError as error:
            raise LimitError(f"{limits.where}: {each.code}: {each.predicate.text!r}: {error}") from error


def _reached(search: Search) -> tuple[Look, ...]:
    """A program that keeps every limit, where several things have to be turned for one of them."""
    start = search.start
    if start is None:
        return ()
    for index in (i for i, truth in enumerate(start.truths) if truth is not True):
        with search.aside(COUPLED):
            kept = Reach(search, index, Sides(search, index).turning).kept((start,))
            found = next((look for look in kept if look.right), None)
        if found is not None:
            return (found,)
    return ()


def _unkept(limits: Limits, own: Sequence[Limit], search: Search) -> LimitError:
    start = search.start
    truths = start.truths if start is not None else (None,) * len(own)
    broken = [each for each, truth in zip(own, truths, strict=True) if truth is not True]
    return LimitError(
        f"{limits.where}: no program near the plain one was found for which {_texts(broken)}; {search.tried}; {ADVICE}"
    )


def _texts(own: Sequence[Limit]) -> str:
    return " and ".join(f"{each.code} ({each.predicate.text})" for each in own)


# ------------------------------------------------------------------------------------ cases that were written


def _fitted(draft: CaseDraft, search: Search, base: Look) -> Iterator[CaseDraft]:
    """The draft, with knobs turned as for the plain program where it breaks a limit; nothing where that is no use."""
    found = seen(draft.graph, (), search.limits)
    broken = (
        [] if found is None else [own.code for own, t in zip(search.limits, found.truths, strict=True) if t is False]
    )
    if found is None or found.right or (draft.expect == "reject" and broken in ([], [draft.constraint])):
        yield draft  # what is rejected for something else, too, where a limit is undefined
    elif None in found.truths and False not in found.truths:
        yield replace(draft, constraint=OPERATOR, side="context", expect="unspecified", reason=None, delegates=None)
    elif _empty(draft.graph) or _open(draft.graph):
        named = search.unknown(base, _empty(draft.graph))
        if named is not None:
            yield replace(draft, variant=named[0], graph=named[1])
    elif draft.constraint == OPERATOR or draft.constraint in WHATEVER_SIZES:
        graph = _turned(search, base, draft.graph)
        turned_too = seen(graph, (), search.limits)
        right = turned_too is not None and turned_too.right
        look = turned_too if right else Search(graph, search.limits, FEWER).repaired(thorough=False)
        if look is not None:
            yield replace(draft, graph=look.graph)
        elif draft.expect == "reject" and turned_too is not None and _of_types(turned_too, search):
            # Floats where codes are asked for break both: what the case is about, and the table's limit on types.
            yield replace(draft, graph=turned_too.graph)


def _full(draft: CaseDraft, kept: CaseDraft, search: Search) -> Iterator[CaseDraft]:
    """The kept draft; where its turned knobs left a tensor empty, the draft with other knobs turned."""
    if kept.graph is draft.graph or not emptied(draft.graph, kept.graph):
        yield kept
        return
    look = Search(draft.graph, search.limits, FEWER).repaired(thorough=False)
    if look is not None:
        yield replace(kept, graph=look.graph)


def _of_types(look: Look, search: Search) -> bool:
    """Whether the limits that a program breaks would hold but for its dtypes."""
    broken = (own for own, truth in zip(search.limits, look.truths, strict=True) if truth is not True)
    return all(_but_for_types(own, look) for own in broken)


def _but_for_types(own: Limit, look: Look) -> bool:
    """Whether some values of the parts that are about dtypes alone make a limit hold."""
    find = own.find(look.application)
    free = [all(feature.rpartition(".")[2] in TYPES for feature in atom.features) for atom in own.predicate.atoms]
    places = [
        (True, False) if typed else (atom_truth(a, find),) for typed, a in zip(free, own.predicate.atoms, strict=True)
    ]
    return any(
        says(own.predicate, truths) is True for truths in itertools.islice(itertools.product(*places), MOST_TYPES)
    )


def _empty(graph: Graph) -> bool:
    return any(0 in value.shape for value in graph.values)


def _open(graph: Graph) -> bool:
    return any(value.dynamic for value in graph.values)


# ------------------------------------------------------------------------------------ cases that are generated


def _generated(
    limits: Limits, search: Search, bases: Sequence[Look], index: int, missing: list[str]
) -> Iterator[tuple[CaseDraft, Look]]:
    """Both sides of one limit, for each atom and each feature in it; each case with its program.

    missing: where those are told that no two programs show.
    """
    own = search.limits[index]
    shared, known = own.code in limits.common, dict(limits.own).get(own.code)
    sides = Sides(search, index, thorough=not shared)
    pairs = sides.pairs(bases)
    names = _Names(own.code)
    for atom in own.predicate.atoms:
        found = {
            feature: pairs[atom.text, feature] for feature in asked_of(atom, bases[0]) if (atom.text, feature) in pairs
        }
        if not found and not (shared or (known and known.unchecked) or _of_other_types(search, index, atom)):
            missing.append(_unasked(search, index, atom))
        for feature, pair in found.items():
            yield from names.drafts(feature, _looks(sides, atom, pair))
            looks = sides.alone(atom, feature, pair)
            yield from names.drafts(feature, (("accept" if each.right else "outside", each) for each in looks))
        for feature, pair in [*found.items()][:1] if atom.ordered else ():
            looks = sides.farther(atom, pair)
            yield from names.drafts(feature, (("accept" if each.right else "outside", each) for each in looks))
    with search.aside(BESIDE):
        for side, feature, look in beside(sides, bases):
            yield from names.drafts(feature, ((side, look),))


def _of_other_types(search: Search, index: int, atom: Atom) -> bool:
    """Whether an atom decides only for dtypes that no program of this precision has: another one asks about it."""
    limit = search.limits[index]
    typed = [a for a in limit.predicate.atoms if all(f.rpartition(".")[2] in OF_TYPES for f in a.features)]
    truths = {a.text: {atom_truth(a, limit.find(look.application)) for look in search.looks} for a in typed}
    fixed = {text: found for text, found in truths.items() if len(found) == 1}
    goals = deciding(limit.predicate.tree, atom.text)
    return atom.text in fixed or all(any({goal.get(text)} - {None} - fixed[text] for text in fixed) for goal in goals)


def _unasked(search: Search, index: int, atom: Atom) -> str:
    """An atom that no two programs show, and which side of it is missing among those that were tried."""
    code, limit = search.limits[index].code, search.limits[index]
    looks = [look for look in search.looks if look.is_near(index)]
    truths = {
        side: {atom_truth(atom, limit.find(x.application)) for x in looks if x.right is side} for side in (True, False)
    }
    sides = [f"none that {'keeps' if side else 'breaks'} it alone" for side in truths if not truths[side]]
    said = f" ({' and '.join(sides)})" if sides else ""
    return (
        f"{code}: no two programs were found of which {atom.text!r} accepts one and rejects the other: "
        f"{search.tried}{said}"
    )


def _looks(sides: Sides, atom: Atom, pair: Pair) -> Iterator[tuple[str, Look]]:
    for side, look in (("at_limit", pair.good), ("outside", pair.bad)):
        yield side, look
        other = sides.spelled(look)
        if other is not None and other.truths == look.truths:
            yield side, other
    others = sides.exact(atom, pair) if atom.ordered else sides.others(atom, pair)
    right = "at_limit" if atom.ordered else "accept"
    yield from (((right if look.right else "outside"), look) for look in others)
    yield from (("outside", look) for look in sides.joint(atom, pair))


class _Names:
    """Drafts about one code, each program once, under names that tell them apart."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._graphs = list[tuple[str, Graph]]()
        self._names = set[tuple[str, str]]()
        self._turns = set[tuple[str, Turns]]()

    def drafts(self, feature: str, looks: Iterable[tuple[str, Look]]) -> Iterator[tuple[CaseDraft, Look]]:
        for side, look in looks:
            kept = look.is_written and (side == "outside" or not is_exposed(look.graph))
            if (side, look.graph) in self._graphs or not kept:
                continue
            self._graphs.append((side, look.graph))
            make = {"at_limit": limit, "outside": outside, "accept": inside}[side]
            yield make(self.code, self._name(side, feature, look), look.graph), look

    def _name(self, side: str, feature: str, look: Look) -> str:
        value = feature_value(feature, look.application.find)
        again = (side, look.turns) in self._turns  # the same program in another spelling
        self._turns.add((side, look.turns))
        plain = _label(f"{feature} {_said(value)}") + ("_from_the_other_end" if again else "")
        number, name = 1, plain
        while (side, name) in self._names:
            number += 1
            name = f"{plain}_again_{number}"
        self._names.add((side, name))
        return name


def _said(value: object) -> str:
    if isinstance(value, Operand):
        return f"shape {value.shape}"
    if isinstance(value, tuple) and any(isinstance(each, Operand) for each in value):
        return str(len(value))  # of a list of tensors how many there are: all that is known of them fills a screen
    return str(value)


def _label(text: str) -> str:
    """A text as a part of a case id: letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("-", "minus_")).strip("_")
