"""Both sides of one limit: programs that keep it and programs that break it, as near to each other as can be."""

from __future__ import annotations

import ast
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from npu_assay.conformance.cases.boundaries.arguments import spelled
from npu_assay.conformance.cases.boundaries.search import HELPERS, Look, Search, seen
from npu_assay.conformance.predicates.evaluation import atom_truth, distance, feature_value, members, side, truth, value
from npu_assay.conformance.predicates.grammar import QUANTIFIERS, Atom

STARTS = 5  # programs that a second knob is turned from
FEW, MORE = 1, 3  # wrong programs beside the nearest: any, and with sizes that are powers of two
POWERS = frozenset(2**power for power in range(21))
NEAREST, FAR = 3, (8, 16, 32, 64, 128, 256)
UNITS = (8, 4, 2)  # in which two sizes are brought near, as multiples are often of one of them


@dataclass(frozen=True)
class Pair:
    """Two programs of which one breaks a limit."""

    good: Look
    bad: Look


class Sides:
    """Programs on both sides of the limit number `index` of a search."""

    def __init__(self, search: Search, index: int) -> None:
        self.search, self.index, self.limit = search, index, search.limits[index]
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
        return found

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

    def _flip_along(self, atom: Atom, number: int, start: Look, feature: str = "") -> Pair | None:
        for place in self.search.places(start, number):
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
        return True

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

    def others(self, atom: Atom, pair: Pair) -> Iterator[Look]:
        """Programs beside a pair: a right one for each member of a list, wrong ones below, between and above them."""
        sides = {self._side(atom, look) for look in (pair.good, pair.bad)}
        wrong = Counter[str]()
        for number in self.search.differences(pair.good, pair.bad):
            for place in self._near(pair.good, number):
                look = self.search.turned(pair.good, number, place)
                if look is None or not (look.right or self._breaks(atom, pair.good, look)):
                    continue
                found, power = self._side(atom, look), isinstance(place, int) and place in POWERS
                part = self._part(atom, look, found)
                many = wrong.total() >= MORE if power else wrong[part] >= FEW
                if found in sides or (not look.right and many):
                    continue
                sides.add(found)
                wrong[part] += not look.right
                yield look
        yield from self._missing(atom, pair.good, sides, bool(wrong["above"]))
        yield from self._mixed(atom, pair)
        yield from self._odd(atom, pair)

    def _odd(self, atom: Atom, pair: Pair) -> Iterator[Look]:
        """A right program with a divisor one time more, where the pair's has it an even number of times."""
        times = self._times(atom, pair.good)
        for number in self.search.differences(pair.good, pair.bad) if times and not times % 2 else ():
            place = self.search.at(pair.good, number)
            if type(place) is int and not place % times:
                look = self.search.turned(pair.good, number, place + place // times)
                if look is not None and look.right and self._times(atom, look) % 2 and self._side(atom, look) == 0:
                    yield look

    def _times(self, atom: Atom, look: Look) -> int:
        """How many times a dividend has its divisor; 1 where an atom has none, or the features of it."""
        match atom.tree:
            case ast.Compare(left=ast.BinOp(op=ast.Mod(), left=dividend, right=divisor)):
                found = [
                    feature_value(ast.unparse(part), self.limit.find(look.application)) for part in (dividend, divisor)
                ]
                return int(found[0] // found[1]) if all(type(each) is int and each for each in found) else 1
        return 1

    def _breaks(self, atom: Atom, good: Look, look: Look) -> bool:
        """Whether it breaks the limit by this atom; what the atom guards may be undefined then."""
        self._guarded = True
        try:
            return self._differ(atom, good, look)
        finally:
            self._guarded = False

    def _part(self, atom: Atom, look: Look, found: object) -> str:
        """Where a number stands to the members of a list: below, between or above them."""
        listed = members(atom, self.limit.find(look.application)) if isinstance(atom.tree, ast.Compare) else ()
        numbers = [each for each in listed if type(each) in (int, float)]
        if not numbers or type(found) not in (int, float):
            return ""
        return "below" if found < min(numbers) else "above" if found > max(numbers) else "between"

    def _missing(self, atom: Atom, good: Look, sides: Collection[object], above: bool) -> Iterator[Look]:
        """Programs that two turned knobs reach: a right one for each number of a list, a wrong one above them all.

        A factor of 3 needs 9 channels where 2 has 8. above: whether there is a wrong one.
        """
        compared = isinstance(atom.tree, ast.Compare) and isinstance(atom.tree.ops[0], ast.In | ast.Eq)
        listed = members(atom, self.limit.find(good.application)) if compared else ()
        numbers = [each for each in listed if type(each) is int]
        if not numbers or len(numbers) < len(listed):
            return
        left = [each for each in numbers if each not in sides] + [max(numbers) + 1] * (not above)
        moving = self._numbers(atom, good)
        for look in self._with_two(good, moving, left) if left else ():
            found = self._side(atom, look)
            if found in left and (look.right if found in numbers else self._breaks(atom, good, look)):
                left.remove(found)
                yield look
            if not left:
                return

    def _numbers(self, atom: Atom, good: Look) -> list[int]:
        """The knobs that move an atom and stand at a number; a dtype, which moves bytes, does not."""
        moving = dict.fromkeys(number for feature in asked_of(atom, good) for number in self._moving(feature))
        return [n for n in moving if self.search.knobs[n].number or self.search.knobs[n].joint]

    def _with_two(self, good: Look, moving: Sequence[int], wanted: Collection[int]) -> Iterator[Look]:
        """Programs with one of the knobs `moving` turned to a wanted number, and another one near."""
        for second, knob in enumerate(self.search.knobs):
            far = [place for place in knob.values[HELPERS:] if place in FAR]
            for place in (*knob.values[:HELPERS], *far) if second not in moving else ():
                for first, number in itertools.product(moving, wanted):
                    look = self.search.with_turns({**dict(good.turns), second: place, first: number})
                    if look is not None:
                        yield look

    def _mixed(self, atom: Atom, pair: Pair) -> Iterator[Look]:
        """A program with a list of which one item is as `all` or `any` asks, and another is not."""
        if not atom.quantified or any(self._is_mixed(atom, look) for look in (pair.good, pair.bad)):
            return
        found = (
            look
            for look in self._helped(pair.good)
            if self._is_mixed(atom, look) and (look.right or self._breaks(atom, pair.good, look))
        )
        yield from itertools.islice(found, 1)

    def _is_mixed(self, atom: Atom, look: Look) -> bool:
        assert isinstance(atom.tree, ast.Call)
        find = self.limit.find(look.application)
        return {truth(ast.Call(ast.Name(name), atom.tree.args, []), find) for name in QUANTIFIERS} == {True, False}

    def joint(self, atom: Atom, pair: Pair) -> Iterator[Look]:
        """The wrong program of another knob that moves every feature of an atom at once: both sides of a padding.

        Of what is true or false by itself it is any other one: scales per channel go with the constant, or alone.
        """
        features = asked_of(atom, pair.good)
        if (len(features) < 2 and isinstance(atom.tree, ast.Compare)) or atom.quantified:
            return
        everywhere = set(self._moving(features[0])).intersection(*map(self._moving, features[1:]))
        turned = self.search.differences(pair.good, pair.bad)
        found = (self._flip_along(atom, number, pair.good) for number in sorted(everywhere - {*turned}))
        yield from (pair.bad for pair in itertools.islice(filter(None, found), 1))

    def alone(self, atom: Atom, feature: str, pair: Pair) -> Iterator[Look]:
        """Both programs of a knob that moves less than the pair's: of two operands that are as large, only one."""
        turned = [self._moved(atom, pair.good, number) for number in self.search.differences(pair.good, pair.bad)]
        if len(turned) != 1 or turned[0] <= (1, 1) or atom.quantified:
            return
        less = [n for n in self._moving(feature) if self._moved(atom, pair.good, n) < turned[0]]
        starts = (look for look in (pair.good, *self._bases) if look.right)
        pairs = (self._flip_along(atom, n, start) for start, n in itertools.product(starts, less))
        for each in itertools.islice(filter(None, pairs), 1):
            yield from (each.good, each.bad)

    def spelled(self, look: Look) -> Look | None:
        """The same program with its dimensions counted from the other end, where it has some."""
        other = spelled(look.graph, look.application.counted_rank)
        return seen(other, look.turns, self.search.limits) if other != look.graph else None

    def _near(self, look: Look, number: int) -> tuple[object, ...]:
        """Where a knob may be turned to, from where it stands on."""
        places, now = self.search.places(look, number), self.search.at(look, number)
        if not isinstance(now, int):
            return places
        return tuple(sorted(places, key=lambda place: abs(place - now) if isinstance(place, int) else 0))

    def _side(self, atom: Atom, look: Look) -> object:
        return side(atom, self.limit.find(look.application))

    def farther(self, atom: Atom, pair: Pair) -> Iterator[Look]:
        """A wrong program beyond the nearest, and a right one within it: at the limit alone, `<` is as `!=`."""
        moving = self._numbers(atom, pair.good)
        for number in [*self.search.differences(pair.good, pair.bad)][:1]:
            for end, other in ((pair.bad, pair.good), (pair.good, pair.bad)):
                looks = self._beyond(atom, end, other, self._turned_alone(pair.good, number))
                yield from looks or self._beyond(atom, end, other, self._turned_alike(pair.good, moving))

    def _turned_alone(self, look: Look, number: int) -> Iterator[Look | None]:
        return (self.search.turned(look, number, place) for place in self.search.places(look, number))

    def _turned_alike(self, look: Look, numbers: Sequence[int]) -> Iterator[Look | None]:
        """With two knobs at one place: `min(dim0, dim1)` is 3 where both are."""
        for first, second in itertools.islice(itertools.combinations(numbers, 2), HELPERS):
            for place in self.search.places(look, first)[:HELPERS]:
                yield self.search.with_turns({**dict(look.turns), first: place, second: place})

    def _beyond(self, atom: Atom, end: Look, other: Look, looks: Iterator[Look | None]) -> list[Look]:
        """The nearest of the programs that are farther from the limit than `end`, on its side of it."""
        least = self._distance(atom, end)
        found = (look for look in looks if look is not None and look.turns and look.right == end.right)
        beyond = [each for each in found if self._distance(atom, each) > least and self._differ(atom, each, other)]
        return sorted(beyond, key=partial(self._distance, atom))[:1]

    def exact(self, atom: Atom, pair: Pair) -> Iterator[Look]:
        """A right and a wrong program nearer to the limit of an ordered atom than a pair's, where there are some.

        Sizes that are one leave the whole limit to the knob that is turned.
        """
        for start in (pair.good, pair.bad):
            best, least = start, self._distance(atom, start)
            for look in self._others_at_one(atom, pair.good) if least > self._nearest(atom, start) else ():
                far = self._distance(atom, look)
                if look.right == start.right and far < least:
                    best, least = look, far
                if least <= self._nearest(atom, start):
                    break
            if best is not start:
                yield best

    def _others_at_one(self, atom: Atom, good: Look) -> Iterator[Look]:
        """Both programs at the limit, for each knob that moves the atom, with the others at one."""
        moving = self._numbers(atom, good)
        for main in moving:
            starts = itertools.chain((good,), self._helped(good, (main,)))
            for near in itertools.islice((each for each in starts if each.right), STARTS * HELPERS):
                others = [n for n in moving if n not in (main, *self.search.differences(good, near))]
                for start in dict.fromkeys((near.turns, *(self._all_at(n, near, others).turns for n in (1, 2)))):
                    look = self.search.look(start)
                    pair = None if look is None else self._flip_along(atom, main, look)
                    yield from () if pair is None else (pair.good, pair.bad)
        for base, place in itertools.product(self._bases, self._roots(atom, good)):  # 49 is 7 x 7
            for main in moving:
                pair = self._flip_along(atom, main, self._all_at(place, base, [n for n in moving if n != main]))
                yield from () if pair is None else (pair.good, pair.bad)

    def _roots(self, atom: Atom, look: Look) -> tuple[int, ...]:
        """The whole numbers around the square root of the limit."""
        assert isinstance(atom.tree, ast.Compare)
        limit = value(atom.tree.comparators[0], self.limit.find(look.application))
        return tuple(math.isqrt(limit) + n for n in (0, 1, -1)) if type(limit) is int and limit > 0 else ()

    def _all_at(self, place: int, look: Look, numbers: Sequence[int]) -> Look:
        """The program with these knobs at one place, as far as every limit holds then."""
        for number in numbers:
            least = self.search.turned(look, number, place)
            look = least if least is not None and least.right else look
        return look

    def _nearest(self, atom: Atom, look: Look) -> int:
        """The distance of whole numbers from the limit that none is below, on this side of it."""
        assert isinstance(atom.tree, ast.Compare)
        within = isinstance(atom.tree.ops[0], ast.LtE | ast.GtE)
        return int(within != bool(atom_truth(atom, self.limit.find(look.application))))

    def _distance(self, atom: Atom, look: Look) -> float:
        found = distance(atom, self.limit.find(look.application))
        return math.inf if found is None else found


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
