"""Why no two cases show what an atom owes: every program near an accepted one is tried.

The domain is finite: the accepted programs of the row, and of each all that come of turning one of its knobs (a size
with those that torch ties to it, an argument, a constant, a rank, a number type) to every place that it has. A program
that would show the hole is a witness: the hole is then one of the cases, not of the operator. Where there is none, what
was tried is the proof, and anybody can try it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npu_assay.conformance.cases.boundaries.search import Limit, Search
from npu_assay.conformance.cases.boundaries.search import Look as Program
from npu_assay.conformance.covering.atoms import Owed
from npu_assay.conformance.covering.looks import Look
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.predicates.evaluation import atom_truth, feature_value
from npu_assay.conformance.predicates.features import IMAGE, WINDOW
from npu_assay.conformance.predicates.grammar import Atom, PredicateError

SPANNED = ("rank", "shape", "elements", "bytes", "channels", "is_constant", "dtype")
"""What knobs turn of an operand; of everything else that a program has, its arguments."""
STARTS = 12  # accepted programs, the first of each kind of case before others


@dataclass(frozen=True)
class Proof:
    """What became of every program of the domain, for one hole.

    tried: programs; refused: by torch; same: in which the atom does not turn; others: that break other constraints, by
    code. witness: the knob and the place that show the hole; None where nothing does, which is the proof. spanned:
    whether knobs turn what the hole is about; where they do not, nothing is proved.
    """

    tried: int
    refused: int
    same: int
    others: tuple[tuple[str, int], ...]
    witness: tuple[str, str] | None
    spanned: bool

    @property
    def kind(self) -> str:
        """`witness` and `open` are no proofs; `torch`: no program that torch takes turns the atom; else `others`."""
        if self.witness is not None:
            return "witness"
        if not self.spanned:
            return "open"
        return "others" if self.others else "torch"

    def __str__(self) -> str:
        if self.witness is not None:
            return f"a program would show it: {self.witness[0]} = {self.witness[1]}"
        if not self.spanned:
            return "not proved: no knob turns what it is about"
        broken = ", ".join(f"{code} {count} times" for code, count in self.others)
        besides = f"those that turn it break others: {broken}" if broken else "none that torch takes turns it"
        return f"proof: of {self.tried} programs torch refuses {self.refused}; {besides}"


def prove(held: Sequence[Defined], looks: Sequence[Look], hole: Owed) -> Proof:
    """What becomes of every program near the accepted ones of a row, for one of its holes.

    looks: the cases of the row in one number type. Raises ValueError for a hole of no constraint of the row.
    """
    index = next((i for i, each in enumerate(held) if each.code == hole.code), None)
    if index is None:
        raise ValueError(f"{hole.code}: no constraint of the row, expected one of {[each.code for each in held]}")
    atom = next(each for each in held[index].predicate.atoms if each.text == hole.atom)
    limits = [Limit(each.code, each.predicate, each.value) for each in held]
    counts, others = Counter[str](), Counter[str]()
    spanned = _spanned(hole.feature, looks)
    for search in (Search(look.case.graph, limits) for look in _starts(looks)):
        for name, place, program in _programs(search):
            said = _said(search, program, index, atom, hole.feature)
            counts[said] += 1
            if said == "witness":
                return Proof(counts.total(), counts["refused"], counts["same"], (), (name, place), spanned)
            if said == "others" and program is not None:
                others.update(each.code for i, each in enumerate(held) if program.truths[i] is False and i != index)
    return Proof(counts.total(), counts["refused"], counts["same"], tuple(others.most_common()), None, spanned)


def _spanned(feature: str, looks: Sequence[Look]) -> bool:
    """Whether knobs turn a feature: sizes, ranks, types and constants of operands, numbers among the arguments."""
    base, _, attribute = feature.partition(".")
    if attribute:
        return attribute.partition("[")[0] in SPANNED
    application = looks[0].application
    return base.partition("[")[0] in application.arguments or base.partition("_")[0] in WINDOW or base in IMAGE


def _starts(looks: Sequence[Look]) -> list[Look]:
    """Different accepted programs, those of different constraints first."""
    good = [look for look in looks if look.good and not look.case.options]
    first = {look.case.constraint: look for look in reversed(good)}
    found = {repr(look.case.graph): look for look in (*reversed(first.values()), *good)}
    return list(found.values())[:STARTS]


def _programs(search: Search) -> Iterator[tuple[str, str, Program | None]]:
    """Every program with one knob turned, and None for one that torch refuses."""
    if search.start is None:
        return
    for number, knob in enumerate(search.knobs):
        for place in search.places(search.start, number):
            try:
                yield knob.name, str(place), search.turned(search.start, number, place)
            except PredicateError:  # of an argument that has another type there
                yield knob.name, str(place), None


def _said(search: Search, program: Program | None, index: int, atom: Atom, feature: str) -> str:
    """What a program is for the hole: refused, same, others or a witness."""
    assert search.start is not None
    if program is None:
        return "refused"
    limit = search.limits[index]
    before, after = (limit.find(each.application) for each in (search.start, program))
    turned = {atom_truth(atom, before), atom_truth(atom, after)} == {True, False}
    moved = not feature or feature_value(feature, before) != feature_value(feature, after)
    if not turned or not moved or program.truths[index] is not False:
        return "same"
    return "witness" if program.only(index) else "others"
