"""Both sides of one limit: programs that keep it and programs that break it, at the limit, beside it and beyond."""

from __future__ import annotations

import ast
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from npu_assay.conformance.cases.boundaries.arguments import spelled
from npu_assay.conformance.cases.boundaries.pairs import FAR, STARTS, Pair, Pairs, asked_of
from npu_assay.conformance.cases.boundaries.search import HELPERS, Look, seen
from npu_assay.conformance.predicates.evaluation import atom_truth, distance, feature_value, members, side, truth
from npu_assay.conformance.predicates.grammar import QUANTIFIERS, Atom

FEW, MORE = 1, 3  # wrong programs beside the nearest: any, and with sizes that are powers of two
POWERS = frozenset(2**power for power in range(21))
ROOM = (16, 64)  # sizes beside a product that leave room for its factors


class Sides(Pairs):
    """Programs on both sides of a limit, beside those of its pairs."""

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
            best, least, nearest = start, self._distance(atom, start), self._nearest(atom, start)
            near = itertools.chain(self._multiplied(atom, pair, start), self._others_at_one(atom, pair.good))
            for look in near if least > nearest else ():
                far = self._distance(atom, look)
                if look.right == start.right and far < least:
                    best, least = look, far
                if least <= nearest:
                    break
            if best is not start:
                yield best

    def _multiplied(self, atom: Atom, pair: Pair, end: Look) -> Iterator[Look]:
        """Programs nearer to the limit than `end`, on its side of it, where it is one of a product.

        Two knobs are turned to factors of each number that is nearer: of windows the first beyond 25 is 2 x 13, which
        asks for an image that is as wide.
        """
        moving, other = self._numbers(atom, pair.good), pair.bad if end.right else pair.good
        pairs = [*itertools.combinations(moving, 2)]
        plain = next(each for each in (*self._bases, end) if self._compared(atom, each)[0] is not None)
        for base, knobs in ((base, knobs) for base in self._with_room(plain, moving) for knobs in pairs):
            least = self._all_at(1, base, [n for n in moving if n not in knobs])
            start = base if self._compared(atom, least)[0] is None else least  # a rank of 1 leaves no product
            for places in self._factors(atom, knobs, start, end):
                look = self.search.with_turns({**dict(start.turns), **dict(zip(knobs, places, strict=True))})
                if look is not None and look.right == end.right and self._differ(atom, look, other):
                    yield look

    def _with_room(self, base: Look, moving: Collection[int]) -> Iterator[Look]:
        """The program, and those with one or two sizes larger that are of an input alone."""
        knobs = self.search.knobs
        free = [n for n, knob in enumerate(knobs) if self.search.of_input(base, knob) and n not in moving]
        groups = [*itertools.combinations(free, 1), *itertools.combinations(free, 2)]
        larger = (self._all_at(size, base, group) for group in groups for size in ROOM)
        yield from itertools.chain((base,), (look for look in larger if look.turns != base.turns))

    def _factors(self, atom: Atom, knobs: tuple[int, int], start: Look, end: Look) -> Iterator[tuple[int, int]]:
        """Pairs of places whose product is a number between the limit and `end`: nearest first, then squarest.

        After any numbers come multiples of where the knobs stand, as other limits may ask for those.
        """
        numbers: list[Any] = [*self._compared(atom, end), self._compared(atom, start)[0]]
        numbers += [self.search.at(start, number) for number in knobs]
        if not all(type(number) is int and number > 0 for number in numbers):
            return
        far, limit, now, a, b = numbers
        sign = 1 if far > limit else -1
        for unit, (one, two) in {now // (a * b): (1, 1), now: (a, b)}.items() if not now % (a * b) else ():
            first = -(-(sign * limit + self._nearest(atom, end)) // unit)  # in units, upwards where the sign is turned
            for whole in range(sign * first, far // unit, sign)[:HELPERS]:
                for small in (n for n in range(math.isqrt(max(whole, 0)), 0, -1) if not whole % n):
                    yield from ((one * small, two * whole // small), (one * whole // small, two * small))

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

    def _compared(self, atom: Atom, look: Look) -> tuple[Any, Any]:
        """What the atom compares, and its limit; None where one is undefined."""
        assert isinstance(atom.tree, ast.Compare)
        find = self.limit.find(look.application)
        left, right = (feature_value(ast.unparse(each), find) for each in (atom.tree.left, *atom.tree.comparators))
        return left, right

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
