"""Two programs of which one breaks a limit by one of its atoms, as near to each other as can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from npu_assay.conformance.cases.boundaries.goals import Reach
from npu_assay.conformance.cases.boundaries.search import Look, Search
from npu_assay.conformance.predicates.evaluation import atom_truth, feature_value
from npu_assay.conformance.predicates.grammar import Atom

COUPLED = 20_000  # programs that are looked at for an atom that others are coupled with
STARTS = 5  # programs that a second knob is turned from
NEAREST, FAR = 3, (8, 16, 32, 64, 128, 256)
UNITS = (8, 4, 2)  # in which two sizes are brought near, as multiples are often of one of them


@dataclass(frozen=True)
class Pair:
    """Two programs of which one breaks a limit."""

    good: Look
    bad: Look


class Pairs:
    """Pairs of programs that differ in one atom of the limit number `index` of a search.

    thorough: also where several things have to be turned before an atom decides.
    """

    def __init__(self, search: Search, index: int, thorough: bool = False) -> None:
        self.search, self.index, self.limit, self.thorough = search, index, search.limits[index], thorough
        self._movers: dict[str, tuple[int, ...]] = {}
        self._bases: tuple[Look, ...] = ()
        self._guarded = False  # whether other atoms may be undefined in one of two programs

    def pairs(self, bases: Sequence[Look]) -> dict[tuple[str, str], Pair]:
        """By atom and feature, the nearest two programs that differ in the atom, which decides.

        Atoms and features that no two programs were found for are missing.
        """
        found: dict[tuple[str, str], Pair] = {}
        self._bases, starts = tuple(bases), [*bases]
        asked = [(a, f) for a in self.limit.predicate.atoms for f in asked_of(a, bases[0])]
        # What takes one knob comes first: its programs are starts for the rest, and for items of pairs.
        for hard in (False, True, False) if self.limit.predicate.paired else (False, True):
            for _ in range(2):
                for atom, feature in asked:
                    if (atom.text, feature) not in found:
                        pair = self._pair(atom, feature, starts, hard)
                        if pair is not None:
                            found[atom.text, feature] = pair
                            starts += [pair.good, pair.bad]
        for atom, feature in asked:
            if not any(text == atom.text for text, _ in found):
                pair = self._guard(atom, feature, starts) or self._flip_both(atom, feature, starts)
                found |= {} if pair is None else {(atom.text, feature): pair}
        reached = {text for text, _ in found}
        for atom in self.limit.predicate.atoms:
            # Operands whose sizes torch ties move together: for them the first stands for all.
            first = asked_of(atom, bases[0])[:1] if atom.quantified and atom.text not in reached else ()
            pairs = (self._flip_along(atom, n, start) for f in first for start in bases for n in self._moving(f))
            found |= {(atom.text, f): pair for f in first if (pair := next(filter(None, pairs), None)) is not None}
        return found | self._left(found, bases)

    def _left(self, found: Collection[tuple[str, str]], bases: Sequence[Look]) -> dict[tuple[str, str], Pair]:
        """Pairs of atoms that have none."""
        reached = {text for text, _ in found}
        atoms = [a for a in self.limit.predicate.atoms if a.text not in reached] if self.thorough else []
        return {key: pair for atom in atoms for key, pair in self._coupled(atom, bases).items()}

    def _coupled(self, atom: Atom, bases: Sequence[Look]) -> dict[tuple[str, str], Pair]:
        """The first pair of programs in which what the limit couples with an atom is as the atom needs it."""
        with self.search.aside(COUPLED):
            for start in Reach(self.search, self.index, self.turning).starts(atom, bases):
                for feature in asked_of(atom, start):
                    self._guarded = True
                    pair = self._flip_from(atom, feature, start)
                    self._guarded = False
                    if pair is not None:
                        return {(atom.text, feature): pair}
            return self._square(atom, bases) or self._by_any(atom, bases)

    def _by_any(self, atom: Atom, bases: Sequence[Look]) -> dict[tuple[str, str], Pair]:
        """The first pair of two turned knobs, the second of which moves nothing in the plain program."""
        for start in itertools.chain.from_iterable(map(self._helped, bases)):
            for number, feature in itertools.product(range(len(self.search.knobs)), asked_of(atom, start)):
                if start.right or start.only(self.index):
                    pair = self._flip_along(atom, number, start, feature)
                    if pair is not None:
                        return {(atom.text, feature): pair}
        return {}

    def _square(self, atom: Atom, bases: Sequence[Look]) -> dict[tuple[str, str], Pair]:
        """The first pair of programs near the root of a limit that is on a product."""
        starts = Reach(self.search, self.index, self.turning).square(atom, bases) if atom.ordered else ()
        for start, places in starts:
            for feature in asked_of(atom, start):
                for number in self._moving(feature):
                    pair = self._flip_along(atom, number, start, feature, places)
                    if pair is not None:
                        return {(atom.text, feature): pair}
        return {}

    def _pair(self, atom: Atom, feature: str, starts: Sequence[Look], hard: bool) -> Pair | None:
        for start in (near for each in starts[:STARTS] for near in self._helped(each)) if hard else starts:
            if start.right or start.only(self.index):
                pair = self._flip_from(atom, feature, start)
                if pair is not None:
                    return pair
        return None

    def _guard(self, atom: Atom, feature: str, starts: Sequence[Look]) -> Pair | None:
        """For a part that guards others: `bounds[1] <= 6` is undefined where `max is not None` is false."""
        self._guarded = True
        try:
            return self._pair(atom, feature, starts, hard=False) or self._pair(atom, feature, starts, hard=True)
        finally:
            self._guarded = False

    def _flip_both(self, atom: Atom, feature: str, starts: Sequence[Look]) -> Pair | None:
        """Two knobs turned to one place: `b == 3` alone differs between 3, 3 and 4, 4, as `a == b` holds of both."""
        others = [f for each in self.limit.predicate.atoms for f in asked_of(each, starts[0]) if f != feature]
        seconds = dict.fromkeys(number for f in others for number in self._moving(f))
        for start in (each for each in starts[:STARTS] if each.right):
            for number, second in itertools.product(self._moving(feature), seconds):
                for place in self.search.places(start, number) if number != second else ():
                    near = self.search.turned(start, number, place)
                    end = None if near is None else self.search.turned(near, second, place)
                    if end is not None and self._differ(atom, start, end) and _moves_alone(atom, feature, start, end):
                        return Pair(start, end)
        return None

    def _helped(self, start: Look, without: Collection[int] = ()) -> Iterator[Look]:
        """Programs with one knob turned, those that torch refuses left out, in the order of the distance."""
        numbers = range(len(self.search.knobs))
        everywhere = [() if number in without else self._helping(start, number) for number in numbers]
        for rank in range(max(map(len, everywhere), default=0)):
            for number, places in enumerate(everywhere):
                if rank < len(places):
                    near = self.search.turned(start, number, places[rank])
                    if near is not None:
                        yield near

    def _helping(self, start: Look, number: int) -> tuple[object, ...]:
        """The nearest places of a knob, and those that are far apart."""
        places = self.search.places(start, number)
        far = (place for place in places[NEAREST:] if place in FAR)
        return (*places[:NEAREST], *far)

    def _flip_from(self, atom: Atom, feature: str, start: Look) -> Pair | None:
        for number in self._moving(feature):
            pair = self._flip_along(atom, number, start, feature)
            if pair is not None:
                return pair
        return None

    def _moved(self, atom: Atom, start: Look, number: int) -> tuple[int, int]:
        """How many features of an atom a knob moves, and of how many values."""
        features = sum(number in self._moving(feature) for feature in asked_of(atom, start))
        return features, len({name for name, _ in self.search.knobs[number].slots})

    def _flip_along(
        self, atom: Atom, number: int, start: Look, feature: str = "", places: Sequence[object] = ()
    ) -> Pair | None:
        for place in places or self.search.places(start, number):
            end = self.search.turned(start, number, place)
            if end is not None and self._differ(atom, start, end) and _moves_alone(atom, feature, start, end):
                return self._closest(atom, number, start, end)
        return self._flip_between(atom, number, start, feature) if self.limit.predicate.paired else None

    def _flip_between(self, atom: Atom, number: int, start: Look, feature: str) -> Pair | None:
        """Two places of a knob of which neither is the start's: `a == 1` alone differs from 1 to 2, not from 3 to 1."""
        turned = (self.search.turned(start, number, place) for place in self.search.places(start, number))
        ends = [end for end in turned if end is not None and (end.right or end.only(self.index))]
        for good in (end for end in ends if end.right):
            for bad in (end for end in ends if not end.right):
                if self._differ(atom, good, bad) and _moves_alone(atom, feature, good, bad):
                    return self._closest(atom, number, good, bad)
        return None

    def _moving(self, feature: str) -> tuple[int, ...]:
        """The knobs that move a feature of the plain program."""
        if feature not in self._movers:
            knobs = self.search.knobs
            found = tuple(n for n in range(len(knobs)) if self._moves(n, feature))
            # What torch lets nothing turn in the plain program may turn in another.
            self._movers[feature] = found or tuple(n for n, knob in enumerate(knobs) if knob.name == feature)
        return self._movers[feature]

    def turning(self, feature: str) -> tuple[int, ...]:
        """The knobs that move a feature of the plain program, or of another one: those that are called like it."""
        named = (n for n, knob in enumerate(self.search.knobs) if knob.name == feature)
        return tuple(dict.fromkeys((*self._moving(feature), *named)))

    def _moves(self, number: int, feature: str) -> bool:
        start = self.search.start
        assert start is not None
        looks = (self.search.turned(start, number, place) for place in self.search.places(start, number))
        near = next((look for look in looks if look is not None), None)
        was = feature_value(feature, start.application.find)
        return near is not None and feature_value(feature, near.application.find) != was

    def _differ(self, atom: Atom, a: Look, b: Look) -> bool:
        """Whether one breaks the limit, and no other, the other none, and of all its atoms only this one differs."""
        if not ((a.right and b.only(self.index)) or (b.right and a.only(self.index))):
            return False
        finds = [self.limit.find(look.application) for look in (a, b)]
        for other in self.limit.predicate.atoms:
            truths = {atom_truth(other, find) for find in finds}
            if self._guarded and other.text != atom.text:
                truths -= {None}
            if (len(truths) == 2) != (other.text == atom.text) or None in truths:
                return False
        return a.is_written and b.is_written

    def _closest(self, atom: Atom, number: int, start: Look, end: Look) -> Pair:
        """The two as near to each other as this knob brings them."""
        a, b = self.search.at(start, number), self.search.at(end, number)
        if self.search.knobs[number].number and type(a) is int and type(b) is int:
            for unit in (1, math.gcd(a, b), *UNITS):
                a, b, start, end = self._halved(atom, number, (a, b, start, end), unit)
        elif type(a) is float and type(b) is float:
            start, end = self._approached(atom, number, start, end)
        return Pair(start, end) if start.right else Pair(end, start)

    def _halved(
        self, atom: Atom, number: int, ends: tuple[int, int, Look, Look], unit: int
    ) -> tuple[int, int, Look, Look]:
        """The ends as near as steps of `unit` bring them, while what is in the middle is like one of them."""
        a, b, start, end = ends
        while unit and abs(a - b) >= 2 * unit:  # or there is nothing in the middle
            middle = a + (b - a) // unit // 2 * unit if b > a else a - (a - b) // unit // 2 * unit
            look = self.search.turned(start, number, middle)
            if look is not None and self._differ(atom, look, end):
                a, start = middle, look
            elif look is not None and self._differ(atom, start, look):
                b, end = middle, look
            else:
                break
        return a, b, start, end

    def _approached(self, atom: Atom, number: int, start: Look, end: Look) -> tuple[Look, Look]:
        """The two ends at neighboring places of a knob of real numbers, towards the start."""
        near, far = self.search.at(end, number), self.search.at(start, number)
        assert isinstance(near, float) and isinstance(far, float)
        places = (place for place in self.search.places(start, number) if type(place) is float)
        between = [place for place in places if min(near, far) < place < max(near, far)]
        for place in sorted(between, key=lambda each: abs(each - near)):
            look = self.search.turned(start, number, place)
            if look is not None and self._differ(atom, start, look):
                end = look
            elif look is not None and self._differ(atom, look, end):
                return look, end
        return start, end


def asked_of(atom: Atom, base: Look) -> tuple[str, ...]:
    """The features of an atom; of `all` and `any` each operand of the list by itself."""
    if not atom.quantified:
        return tuple(feature for feature in atom.features if feature != "value")
    listed = feature_value(atom.features[0], base.application.find)
    return tuple(f"{atom.features[0]}[{index}]" for index in range(len(listed)))


def _moves_alone(atom: Atom, feature: str, a: Look, b: Look) -> bool:
    """Whether of all operands in a list only this one differs."""
    finds = (a.application.find, b.application.find)
    others = (each for each in asked_of(atom, a) if each != feature) if atom.quantified and feature else ()
    return all(feature_value(each, finds[0]) == feature_value(each, finds[1]) for each in others)
