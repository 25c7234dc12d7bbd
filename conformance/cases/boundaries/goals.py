"""Programs in which one part of a predicate decides: what it couples together is turned one after another.

`stride_h != 4 or (kernel_h, kernel_w) == (11, 11)` asks for three arguments at once before any of them decides. The
goal is what the other parts must be for that; each step turns one knob that brings the program nearer to it.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from npu_assay.conformance.cases.boundaries.search import Look, Search
from npu_assay.conformance.predicates.evaluation import atom_truth
from npu_assay.conformance.predicates.grammar import Atom

Goal = Mapping[str, bool]
"""What atoms, by their texts, must be."""
MOST_GOALS, STEPS, DEEPEST, WIDE, FEW = 24, 1500, 5, 24, 4
"""Most goals of one atom, programs for a goal, knobs turned for it, places of each knob, and of two at once."""
ROOM = 4096  # the largest size that is given to have room


def deciding(tree: ast.expr, text: str) -> Iterator[Goal]:
    """What the other atoms can be for the atom of this text to decide, the fewest first."""
    found = sorted(_deciding(tree, text), key=len)
    yield from itertools.islice(_distinct(found), MOST_GOALS)


def being(tree: ast.expr, wanted: bool) -> Iterator[Goal]:
    """What atoms can be for a part to be true, or false."""
    match tree:
        case ast.BoolOp(op=op, values=parts):
            if isinstance(op, ast.And) == wanted:
                yield from _together([list(itertools.islice(being(part, wanted), MOST_GOALS)) for part in parts])
            else:
                yield from itertools.chain.from_iterable(being(part, wanted) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from being(operand, not wanted)
        case _:
            yield {ast.unparse(tree): wanted}


def _deciding(tree: ast.expr, text: str) -> Iterator[Goal]:
    match tree:
        case ast.BoolOp(op=op, values=parts):
            for place, part in enumerate(parts):
                for inner in _deciding(part, text):
                    others = [p for other, p in enumerate(parts) if other != place]
                    around = [list(itertools.islice(being(p, isinstance(op, ast.And)), MOST_GOALS)) for p in others]
                    yield from (goal for goal in _together([[inner], *around]) if text not in goal)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _deciding(operand, text)
        case _ if ast.unparse(tree) == text:
            yield {}


def _together(parts: Sequence[Sequence[Goal]]) -> Iterator[Goal]:
    """One goal of each part, those that contradict each other left out."""
    for chosen in itertools.islice(itertools.product(*parts), MOST_GOALS * MOST_GOALS):
        items = [item for goal in chosen for item in goal.items()]
        if all(dict(items)[text] == wanted for text, wanted in items):
            yield dict(items)


def _distinct(goals: Sequence[Goal]) -> Iterator[Goal]:
    seen = list[Goal]()
    for goal in goals:
        if goal not in seen:
            seen.append(goal)
            yield goal


@dataclass
class Reach:
    """Turns knobs of a search towards goals of the limit number `index`. moving: the knobs of a feature."""

    search: Search
    index: int
    moving: Callable[[str], Sequence[int]]
    _left: int = field(default=STEPS, init=False)

    def starts(self, atom: Atom, bases: Sequence[Look]) -> Iterator[Look]:
        """Programs in which an atom decides."""
        for goal in deciding(self.search.limits[self.index].predicate.tree, atom.text):
            yield from self.reached(goal, bases)

    def kept(self, bases: Sequence[Look]) -> Iterator[Look]:
        """Programs that keep the limit."""
        goals = being(self.search.limits[self.index].predicate.tree, True)
        for goal in itertools.islice(goals, MOST_GOALS):
            yield from self.reached(goal, bases)

    def square(self, atom: Atom, bases: Sequence[Look]) -> Iterator[tuple[Look, tuple[int, ...]]]:
        """Programs with all that moves an atom at the root of a number, and the places around it."""
        numbers = dict.fromkeys(n for feature in atom.features for n in self.moving(feature))
        along = [n for n in numbers if self.search.knobs[n].number]
        for base, root in itertools.product(itertools.chain.from_iterable(map(self._with_room, bases)), self._roots):
            yield self._all_at(base, along, root), (root - 1, root, root + 1, root + 2)

    @property
    def _roots(self) -> list[int]:
        """The square roots of numbers in the limit that no single size or argument reaches."""
        return [math.isqrt(n) for n in self.search.limits[self.index].numbers if n > ROOM]

    def reached(self, goal: Goal, bases: Sequence[Look]) -> Iterator[Look]:
        """The first program of each base that is as a goal says and breaks no other limit."""
        plain = () if self.search.start is None or self.search.start in bases else (self.search.start,)
        for base in itertools.chain.from_iterable(map(self._with_room, (*bases, *plain))):
            self._left = STEPS
            found = self._toward(goal, base, DEEPEST)
            if found is not None:
                yield found

    def _with_room(self, base: Look) -> Iterator[Look]:
        """The program; with larger sizes of inputs, so that windows have room; and with the least of everything."""
        yield base
        told = [n for limit in self.search.limits for n in limit.numbers if n > 1]
        wide = max((n for n in (*told, *(root + 2 for root in self._roots)) if n <= ROOM), default=0)
        free = [n for n, knob in enumerate(self.search.knobs) if knob.slots and self.search.of_input(base, knob)]
        for size in dict.fromkeys((2 * min(wide, 64) + 1, wide + 1)):
            yield self._all_at(base, [n for n in free if self.search.knobs[n].slots[0][1] > 1], size)
        yield self._all_at(base, [n for n, knob in enumerate(self.search.knobs) if knob.slots], 1)

    def _all_at(self, look: Look, numbers: Sequence[int], place: int) -> Look:
        for number in numbers:
            near = self.search.turned(look, number, place)
            look = look if near is None else near
        return look

    def _toward(self, goal: Goal, look: Look, deepest: int) -> Look | None:
        """Depth first; every step has to be nearer than the one before."""
        wrong = self._wrong(goal, look)
        if not wrong:
            return look
        for near in self._steps(wrong, look) if deepest else ():
            if len(self._wrong(goal, near)) < len(wrong):
                found = self._toward(goal, near, deepest - 1)
                if found is not None:
                    return found
        return None

    def _steps(self, wrong: Sequence[Atom], look: Look) -> Iterator[Look]:
        """Programs with one more knob turned that moves an atom which is not as it must be."""
        features = dict.fromkeys(feature for atom in wrong for feature in atom.features if feature != "value")
        for number in dict.fromkeys(n for feature in features for n in self.moving(feature)):
            places = self.search.places(look, number)[:WIDE]
            looks = [near for place in places if (near := self._turned(look, ((number, place),))) is not None]
            yield from looks or self._with_second(look, number, places)

    def _with_second(self, look: Look, number: int, places: Sequence[object]) -> Iterator[Look]:
        """What torch refuses alone: a transposed convolution needs other channels as well."""
        for second in (n for n in range(len(self.search.knobs)) if n != number):
            for pair in itertools.product(places[:FEW], self.search.places(look, second)[:FEW]):
                near = self._turned(look, ((number, pair[0]), (second, pair[1])))
                if near is not None:
                    yield near

    def _turned(self, look: Look, more: Sequence[tuple[int, object]]) -> Look | None:
        self._left -= 1
        return self.search.with_turns({**dict(look.turns), **dict(more)}) if self._left > 0 else None

    def _wrong(self, goal: Goal, look: Look) -> list[Atom]:
        """The atoms that are not as the goal says, and those of other limits that are broken."""
        limits, find = self.search.limits, self.search.limits[self.index].find(look.application)
        mine = [a for a in limits[self.index].predicate.atoms if a.text in goal and atom_truth(a, find) != goal[a.text]]
        others = (limit for i, limit in enumerate(limits) if i != self.index and look.truths[i] is not True)
        return [*mine, *(limit.predicate.atoms[0] for limit in others)]
