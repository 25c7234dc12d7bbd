"""Few programs that show what the cases of a row do not: chosen greedily, those that close most holes first."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from npu_assay.conformance.covering.atoms import Owed, owed, showing, side_of
from npu_assay.conformance.covering.domain import PREFIX, Domain, Tried
from npu_assay.conformance.covering.looks import Look
from npu_assay.conformance.covering.pairs import Factor, Pairing, classes, pairings

FEW = 50  # ways to show one hole that are weighed
ROUNDS = 4  # accepted programs may bring new classes, which owe new pairs
MENDED = 4  # programs for a hole, or for two classes, that are turned further, as they break one constraint
TRIES = 36  # pairs of programs that are put together for two classes
Key = tuple[tuple[Factor, str], tuple[Factor, str]]  # two classes of two atoms
Need = frozenset[str]  # the programs that a hole needs, by id


def filled(domain: Domain) -> list[Tried]:
    """The programs of the domain that close the holes of a row's cases: MC/DC first, then 2-way."""
    if not holes(domain, domain.looks) and not apart(domain, []):
        return []
    domain.singles()
    for hole in holes(domain, domain.every_look):
        domain.seconds(hole)
    for hole in holes(domain, domain.every_look):
        if hole.near:
            domain.between(hole)
    _mend(domain, holes(domain, domain.every_look))
    found = _deciding(domain)
    for _ in range(ROUNDS):
        more = _together(domain, found)
        if not more:
            break
        found += more
    return found


def on_missing_side(domain: Domain, hole: Owed) -> list[Tried]:
    """The programs in which the atom decides, with the truth that no case has which shows it."""
    index, defined = domain.atom(hole)

    def side(look: Look) -> bool | None:
        found = side_of(defined, index, look)
        return None if found is None or (hole.near and not found.fine) else found.truth

    sides = {side(look) for look in domain.looks if look.good or look.only(hole.code)}
    missing = {True, False} - sides or {True, False}
    return [each for each in domain.tried if side(each.look) in missing]


def _mend(domain: Domain, left: Sequence[Owed]) -> None:
    """Turn one more knob of programs on the side that is missing, where they break one other constraint alone."""
    for hole in left:
        near = [
            (each, [code for code in each.look.broken if code != hole.code]) for each in on_missing_side(domain, hole)
        ]
        alone = ((each, codes[0]) for each, codes in near if len(codes) == 1)
        for each, code in sorted(alone, key=lambda found: found[0].cost)[:MENDED]:
            domain.further(each, code)


def _deciding(domain: Domain) -> list[Tried]:
    """The programs chosen for MC/DC, all of which torch takes."""
    known = {each.look.case.id: each for each in domain.tried}
    ways = _ways(domain, holes(domain, domain.looks))
    while True:
        found = [known[name] for name in _chosen(ways)]
        refused = {each.look.case.id for each in found if not domain.confirmed(each)}
        if not refused:
            return found
        ways = {hole: [need for need in needs if not need & refused] for hole, needs in ways.items()}
        if not all(ways.values()):
            ways = _ways(domain, holes(domain, domain.looks))


def holes(domain: Domain, looks: Sequence[Look]) -> list[Owed]:
    """What no two of these programs show."""
    return [each for held in domain.held for each in owed(held, looks) if each.shown is None]


def _ways(domain: Domain, found: Iterable[Owed]) -> dict[Owed, list[Need]]:
    """For each hole the sets of new programs that show it, those with fewer knobs turned first."""
    looks, by_code = domain.every_look, {each.code: each for each in domain.held}
    cost = {each.look.case.id: each.cost for each in domain.tried}
    ways = dict[Owed, list[Need]]()
    for hole in found:
        needs = (
            frozenset(n for n in pair if n.startswith(PREFIX)) for pair in showing(by_code[hole.code], hole, looks)
        )
        ordered = sorted(dict.fromkeys(needs), key=lambda need: (len(need), sum(cost[n] for n in need)))
        if ordered:
            ways[hole] = ordered[:FEW]
    return ways


def _chosen(ways: dict[Owed, list[Need]]) -> list[str]:
    """Programs that close every hole which can be closed: the set that closes most holes for each program first."""
    taken, open_holes = dict[str, None](), dict(ways)
    while open_holes:
        best, most = None, 0.0
        for need in dict.fromkeys(need for needs in open_holes.values() for need in needs):
            new = need - taken.keys()
            closed = sum(any(other <= new | taken.keys() for other in needs) for needs in open_holes.values())
            worth = closed / max(1, len(new))
            if worth > most:
                best, most = new, worth
        assert best is not None
        taken |= dict.fromkeys(sorted(best, key=lambda name: int(name[1:])))
        open_holes = {h: needs for h, needs in open_holes.items() if not any(n <= taken.keys() for n in needs)}
    return list(taken)


# ------------------------------------------------------------------------------------ two by two


def apart(domain: Domain, found: Sequence[Tried]) -> list[Pairing]:
    """The classes that neither a case nor one of these has together."""
    looks = [*domain.looks, *(each.look for each in found)]
    return [each for each in pairings(domain.held, looks) if each.shown is None]


class _Classed:
    """Programs of a domain that break no constraint, or one, and their classes; more are put together."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.goods = list[Tried]()
        self._having = defaultdict[tuple[Factor, str], dict[str, Tried]](dict)
        self._almost = defaultdict[tuple[Factor, str], dict[str, Tried]](dict)
        for each in domain.tried:
            self._add(each)

    def _add(self, each: Tried) -> None:
        if each.look.good:
            self.goods.append(each)
        elif len(each.look.broken) != 1:
            return
        having = self._having if each.look.good else self._almost
        for found in classes(self.domain.held, each.look).items():
            having[found][each.look.case.id] = each

    def both(self, pair: Key) -> set[str]:
        """The programs that have both classes, by id."""
        one, other = (self._having[found] for found in pair)
        return one.keys() & other.keys()

    def put_together(self, pair: Key) -> None:
        """Turn the knobs of a program that has the first class, and of one that has the second, until one has both."""
        if self.both(pair):
            return
        ones, others = (tuple(self._having[found].values()) for found in pair)
        same = ((one, other) for one, other in itertools.product(ones, others) if one.start == other.start)
        for one, other in itertools.islice(same, TRIES):
            both = self.domain.merged(one, other)
            if both is not None:
                self._add(both)
                if self.both(pair):
                    return

    def mended(self, pair: Key) -> None:
        """Turn one more knob of programs that have both classes and break one constraint, until one breaks none."""
        one, other = (self._almost[found] for found in pair)
        near = sorted((each for name, each in one.items() if name in other), key=lambda each: each.cost)
        for each in [] if self.both(pair) else near[:MENDED]:
            for found in self.domain.further(each, *each.look.broken):
                if found.look.good:  # those that are not would be turned again, and again
                    self._add(found)
            if self.both(pair):
                return


def _together(domain: Domain, found: Sequence[Tried]) -> list[Tried]:
    """Programs that have classes together which the cases and `found` have not."""
    missing = dict.fromkeys(_key(each) for each in apart(domain, found))
    classed = _Classed(domain)
    for pair in missing:
        classed.put_together(pair)
        classed.mended(pair)
    chosen, left = list[Tried](), set(missing)
    closing = {each.look.case.id: set[Key]() for each in classed.goods}
    for pair in missing:
        for name in classed.both(pair):
            closing[name].add(pair)
    while left:
        best = max(classed.goods, key=lambda e: len(closing[e.look.case.id] & left) - e.cost / 1000, default=None)
        if best is None or not closing[best.look.case.id] & left:
            break
        if not domain.confirmed(best):
            classed.goods.remove(best)
            continue
        chosen.append(best)
        left -= closing[best.look.case.id]
    return chosen


def _key(pairing: Pairing) -> Key:
    (a, b), (x, y) = pairing.factors, pairing.classes
    return (a, x), (b, y)
