"""The programs nearest to a limit on several features together: what a product of sizes may be, and one past it.

That each feature takes a program over the limit by one step (`atoms`) leaves room for other limits: with 24 x 2 taken
and 25 x 2 rejected, `kernel_h * kernel_w <= 48` and `<= 49` are one. So each number of an ordered atom is set to a few
sizes, and steps between those of another number (`Domain.between`) end as near to the limit as whole numbers come.
Limits that are further than a size of the domain goes are left to each feature's own steps.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from npu_assay.conformance.cases.boundaries.knob import Knob
from npu_assay.conformance.covering.atoms import Owed, asked, side_of
from npu_assay.conformance.covering.domain import FARTHEST, Domain, Tried
from npu_assay.conformance.covering.looks import Look
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.predicates.evaluation import Undefined, value
from npu_assay.conformance.predicates.grammar import Atom

SMALL = range(1, 17)  # what one number is set to, besides its near places, while another is moved to the limit


def nearest(domain: Domain, chosen: Sequence[Tried]) -> list[Tried]:
    """Programs on either side of such limits, nearer than the row's cases and the chosen ones are."""
    found = list(chosen)
    for held in domain.held:
        for index, atom in enumerate(held.predicate.atoms):
            if atom.ordered and len(asked(atom)) > 1:
                found += _nearer(domain, held, index, [*domain.looks, *(each.look for each in found)])
    return found[len(chosen) :]


def _nearer(domain: Domain, held: Defined, index: int, looks: Sequence[Look]) -> Iterator[Tried]:
    if not _within_reach(domain, held, index):
        return
    before = {good: _far(held, index, looks, good) for good in (True, False)}
    if any(far is None for far in before.values()) or not any(before.values()):
        return
    if not domain.tried:
        domain.singles()
    for _ in _steps(domain, held, held.predicate.atoms[index]):
        if all(_far(held, index, domain.every_look, good) == 0 for good in before):
            break
    for good, far in before.items():
        known = [(_distance(held, index, each.look, good), each) for each in domain.tried]
        nearer = sorted((d, each.cost, n) for n, (d, each) in enumerate(known) if d is not None and far and d < far)
        yield from itertools.islice(filter(domain.confirmed, (known[n][1] for *_, n in nearer)), 1)


def _within_reach(domain: Domain, held: Defined, index: int) -> bool:
    """Whether the limit of an atom is a number that one size can have."""
    tree = held.predicate.atoms[index].tree
    assert isinstance(tree, ast.Compare)
    for start in domain.starts:
        try:
            limit = value(tree.comparators[0], start.application.with_value(held.value).find)
        except Undefined:
            continue
        return type(limit) is int and limit <= FARTHEST
    return False


def _steps(domain: Domain, held: Defined, atom: Atom) -> Iterator[None]:
    """Two numbers of each start: one at each place, and the other where it takes the program over the limit."""
    holes = [Owed(held.code, atom.text, feature, True, None) for feature in asked(atom)]
    movers = set[str]().union(*(domain.movers(hole) for hole in holes))
    for start in domain.starts:
        numbers = [knob for knob in domain.knobs(start) if knob.name in movers and type(knob.at) is int]
        for one, other in itertools.permutations(numbers, 2):
            for place in dict.fromkeys((*SMALL, *one.values)):
                if place != one.at and domain.at(start, ((one.name, place),)) is not None:
                    _ends(domain, start, (one.name, place), other)
            domain.between(holes[0], (one.name, other.name))
            yield


def _ends(domain: Domain, start: Look, first: tuple[str, int], other: Knob) -> None:
    """The least and the largest place of the other number that torch takes."""
    for places in (sorted(other.values), sorted(other.values, reverse=True)):
        next((at for at in places if domain.at(start, (first, (other.name, at))) is not None), None)


def _far(held: Defined, index: int, looks: Sequence[Look], good: bool) -> float | None:
    """How far from its limit the nearest accepted (or rejected) program is that shows the atom."""
    found = (_distance(held, index, look, good) for look in looks)
    return min((each for each in found if each is not None), default=None)


def _distance(held: Defined, index: int, look: Look, good: bool) -> float | None:
    """0 for as near as whole numbers come."""
    side = side_of(held, index, look) if (look.good if good else look.only(held.code)) else None
    return None if side is None or side.distance is None else 0.0 if side.fine else side.distance
