"""The programs on both sides of a predicate's limits, found by turning knobs of a row's plain program.

Everything is tried in one fixed order, nearest first, so that the same table gives the same programs.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from npu_assay.conformance.cases.boundaries.knobs import Knob, knobs, opened
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.graph import Graph
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.predicates.evaluation import atom_truth, distance, feature_value, holds, side
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.predicates.grammar import Atom, Predicate

Find = Callable[[str], object]
Turns = tuple[tuple[int, object], ...]  # knobs by number, and where they are turned to
MOST, FEWER = 40_000, 4_000  # programs that are looked at: for a row, and for a case that was written
BASES, STARTS = 3, 5  # programs that keep all limits, and those that a second knob is turned from
HELPERS = 8  # places that a second knob is tried at
FEW, MORE = 1, 3  # wrong programs beside the nearest: any, and with sizes that are powers of two
POWERS = frozenset(2**power for power in range(21))
NEAREST, FAR = 3, (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Limit:
    """A constraint of a row that its table defines: the predicate, and the number beside the code."""

    code: str
    predicate: Predicate
    value: object = None

    def find(self, application: Application) -> Find:
        """The features of an application, for this limit."""
        return application.with_value(self.value).find


@dataclass(frozen=True)
class Look:
    """A program that torch takes, and what the row's limits say of it: whether each holds, None where undefined."""

    graph: Graph
    turns: Turns
    application: Application
    truths: tuple[bool | None, ...]

    @property
    def right(self) -> bool:
        """Whether every limit holds."""
        return all(truth is True for truth in self.truths)

    def only(self, index: int) -> bool:
        """Whether this limit alone is broken; others may be undefined then."""
        return all((truth is False) == (i == index) for i, truth in enumerate(self.truths))


@dataclass(frozen=True)
class Pair:
    """Two programs of which one breaks a limit."""

    good: Look
    bad: Look


class Search:
    """Programs around one graph, `most` of which are looked at."""

    def __init__(self, graph: Graph, limits: Sequence[Limit], most: int = MOST) -> None:
        self.graph, self.limits, self.most = graph, tuple(limits), most
        self._seen: dict[Turns, Look | None] = {}
        self._movers: dict[str, tuple[int, ...]] = {}
        self.start = self.look(())

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs of the graph."""
        told = {n for limit in self.limits for n in (*limit.predicate.numbers, *_numbers(limit.value))}
        return knobs(self.graph, sorted(told))

    def look(self, turns: Turns) -> Look | None:
        """The program with the knobs turned so; None where torch refuses it."""
        if turns not in self._seen:
            self._seen[turns] = self._look(turns) if len(self._seen) < self.most else None
        return self._seen[turns]

    def _look(self, turns: Turns) -> Look | None:
        graph: Graph | None = self.graph
        for number, found in turns:
            graph = None if graph is None else self.knobs[number].turn(graph, found)
        return None if graph is None else seen(graph, turns, self.limits)

    def turned(self, look: Look, number: int, found: object) -> Look | None:
        """The program with one more knob turned, or the same one to another place."""
        turns = [turn for turn in look.turns if turn[0] != number]
        if found != self.knobs[number].at:
            turns.append((number, found))
        return self.look(tuple(sorted(turns, key=lambda turn: turn[0])))

    def _places(self, look: Look, number: int) -> tuple[object, ...]:
        """Where a knob may be turned to from here, the plain place among them."""
        knob, now = self.knobs[number], self._at(look, number)
        return tuple(place for place in (knob.at, *knob.values) if place != now)

    def _at(self, look: Look, number: int) -> object:
        return dict(look.turns).get(number, self.knobs[number].at)

    # -------------------------------------------------------------------------------- the plain program

    def repaired(self, thorough: bool = True, without: Collection[int] = ()) -> Look | None:
        """The nearest program for which every limit holds, with up to four knobs turned; None where none is found.

        thorough: also by turning two at once. without: knobs that are left alone.
        """
        look = self.start
        for _ in range(4):
            if look is None or look.right:
                return look
            look = self._better(look, thorough, without)
        return look if look is not None and look.right else None

    def bases(self) -> tuple[Look, ...]:
        """Programs for which every limit holds, each without the knobs that those before it needed."""
        found = list[Look]()
        used = set[int]()
        listed = any(atom.quantified for limit in self.limits for atom in limit.predicate.atoms)
        for _ in range(BASES if listed else 1):
            look = self.repaired(without=used)
            if look is None or look in found:
                break
            found.append(look)
            used |= {number for number, _ in look.turns}
        return tuple(found)

    def unknown(self, look: Look, empty: bool) -> tuple[str, Graph] | None:
        """The first program without elements, or with one size left open, for which every limit holds; and its name."""
        for number, knob in enumerate(self.knobs):
            near = self.turned(look, number, 0) if empty else look
            if not knob.slots or near is None or not near.right:
                continue
            if empty:
                return f"empty_{knob.name}", near.graph
            if self._size(look, knob) > 1 and not self._constant(look, knob):
                return f"open_{knob.name}", opened(near.graph, knob.slots)
        return None

    def _size(self, look: Look, knob: Knob) -> int:
        """The size that a knob is of; torch leaves no size of 1 open."""
        name, axis = knob.slots[0]
        return next(value.shape[axis] for value in look.graph.values if value.name == name)

    def _constant(self, look: Look, knob: Knob) -> bool:
        """Whether only constants have it."""
        names = {name for name, _ in knob.slots}
        return all(value.constant for value in look.graph.values if value.name in names)

    def _better(self, look: Look, thorough: bool, without: Collection[int]) -> Look | None:
        """One more knob turned, or two, so that fewer limits are broken."""
        wrong = _broken(look)
        found = _best(self._neighbours(look, without), wrong, thorough)
        if found is not None or not thorough:
            return found
        first = [near for near in self._neighbours(look, without, HELPERS) if _broken(near) <= wrong]
        return _best((other for near in first for other in self._neighbours(near, without, HELPERS)), wrong, True)

    def _neighbours(self, look: Look, without: Collection[int], most: int | None = None) -> Iterator[Look]:
        for number in range(len(self.knobs)):
            for place in () if number in without else self._places(look, number)[:most]:
                near = self.turned(look, number, place)
                if near is not None:
                    yield near

    # -------------------------------------------------------------------------------- pairs

    def pairs(self, index: int, bases: Sequence[Look]) -> dict[tuple[str, str], Pair]:
        """By atom and feature of limit `index`, the nearest two programs that differ in the atom, which decides.

        Atoms and features that no two programs were found for are missing.
        """
        found: dict[tuple[str, str], Pair] = {}
        starts = [*bases]
        asked = [(a, f) for a in self.limits[index].predicate.atoms for f in asked_of(a, bases[0])]
        for hard in (False, True):  # what takes one knob first: its programs are starts for the rest
            for _ in range(2):
                for atom, feature in asked:
                    if (atom.text, feature) not in found:
                        pair = self._pair(index, atom, feature, starts, hard)
                        if pair is not None:
                            found[atom.text, feature] = pair
                            starts += [pair.good, pair.bad]
        return found

    def _pair(self, index: int, atom: Atom, feature: str, starts: Sequence[Look], hard: bool) -> Pair | None:
        for start in (near for each in starts[:STARTS] for near in self._helped(each)) if hard else starts:
            if start.right or start.only(index):
                pair = self._flip_from(index, atom, feature, start)
                if pair is not None:
                    return pair
        return None

    def _helped(self, start: Look, without: Collection[int] = ()) -> Iterator[Look]:
        """Programs with one knob turned, those that torch refuses left out, in the order of the distance."""
        numbers = range(len(self.knobs))
        everywhere = [() if number in without else self._helping(start, number) for number in numbers]
        for rank in range(max(map(len, everywhere), default=0)):
            for number, places in enumerate(everywhere):
                if rank < len(places):
                    near = self.turned(start, number, places[rank])
                    if near is not None:
                        yield near

    def _helping(self, start: Look, number: int) -> tuple[object, ...]:
        """The nearest places of a knob, and those that are far apart."""
        places = self._places(start, number)
        far = (place for place in places[NEAREST:] if place in FAR)
        return (*places[:NEAREST], *far)

    def _flip_from(self, index: int, atom: Atom, feature: str, start: Look) -> Pair | None:
        for number in self._moving(feature):
            pair = self._flip_along(index, atom, number, start, feature)
            if pair is not None:
                return pair
        return None

    def _flip_along(self, index: int, atom: Atom, number: int, start: Look, feature: str = "") -> Pair | None:
        for place in self._places(start, number):
            end = self.turned(start, number, place)
            if end is not None and self._differ(index, atom, start, end) and _alone(atom, feature, start, end):
                return self._closest(index, atom, number, start, end)
        return None

    def _moving(self, feature: str) -> tuple[int, ...]:
        """The knobs that move a feature of the plain program."""
        if feature not in self._movers:
            self._movers[feature] = tuple(n for n in range(len(self.knobs)) if self._moves(n, feature))
        return self._movers[feature]

    def _moves(self, number: int, feature: str) -> bool:
        assert self.start is not None
        was = feature_value(feature, self.start.application.find)
        looks = (self.turned(self.start, number, place) for place in self._places(self.start, number))
        near = next((look for look in looks if look is not None), None)
        return near is not None and feature_value(feature, near.application.find) != was

    def _differ(self, index: int, atom: Atom, a: Look, b: Look) -> bool:
        """Whether one breaks the limit, and no other, the other none, and of all its atoms only this one differs."""
        if not ((a.right and b.only(index)) or (b.right and a.only(index))):
            return False
        finds = [self.limits[index].find(look.application) for look in (a, b)]
        for other in self.limits[index].predicate.atoms:
            truths = {atom_truth(other, find) for find in finds}
            if (len(truths) == 2) != (other.text == atom.text) or None in truths:
                return False
        return True

    def _closest(self, index: int, atom: Atom, number: int, start: Look, end: Look) -> Pair:
        """The two as near to each other as this knob brings them."""
        a, b = self._at(start, number), self._at(end, number)
        if self.knobs[number].number and type(a) is int and type(b) is int:
            for unit in (1, math.gcd(a, b)):
                a, b, start, end = self._halved(index, atom, number, (a, b, start, end), unit)
        return Pair(start, end) if start.right else Pair(end, start)

    def _halved(
        self, index: int, atom: Atom, number: int, ends: tuple[int, int, Look, Look], unit: int
    ) -> tuple[int, int, Look, Look]:
        """The ends as near as steps of `unit` bring them, while what is in the middle is like one of them."""
        a, b, start, end = ends
        while unit and abs(a - b) > unit:
            middle = a + (b - a) // unit // 2 * unit if b > a else a - (a - b) // unit // 2 * unit
            look = self.turned(start, number, middle)
            if look is not None and self._differ(index, atom, look, end):
                a, start = middle, look
            elif look is not None and self._differ(index, atom, start, look):
                b, end = middle, look
            else:
                break
        return a, b, start, end

    # -------------------------------------------------------------------------------- more of the same

    def others(self, index: int, atom: Atom, pair: Pair) -> Iterator[Look]:
        """Programs beside a pair: a right one for each member of a list, wrong ones between members and beyond."""
        sides = {self._side(index, atom, look) for look in (pair.good, pair.bad)}
        wrong = 0
        for number in self._told(pair):
            for place in self._near(pair.good, number):
                look = self.turned(pair.good, number, place)
                if look is None or not (look.right or self._differ(index, atom, pair.good, look)):
                    continue
                found, power = self._side(index, atom, look), isinstance(place, int) and place in POWERS
                if found in sides or (not look.right and wrong >= (MORE if power else FEW)):
                    continue
                sides.add(found)
                wrong += not look.right
                yield look

    def _near(self, look: Look, number: int) -> tuple[object, ...]:
        """Where a knob may be turned to, from where it stands on."""
        places, now = self._places(look, number), self._at(look, number)
        if not isinstance(now, int):
            return places
        return tuple(sorted(places, key=lambda place: abs(place - now) if isinstance(place, int) else 0))

    def _told(self, pair: Pair) -> Iterator[int]:
        good, bad = dict(pair.good.turns), dict(pair.bad.turns)
        for number in sorted({*good, *bad}):
            if good.get(number, self.knobs[number].at) != bad.get(number, self.knobs[number].at):
                yield number

    def _side(self, index: int, atom: Atom, look: Look) -> object:
        return side(atom, self.limits[index].find(look.application))

    def exact(self, index: int, atom: Atom, pair: Pair) -> Iterator[Look]:
        """A right and a wrong program nearer to the limit of an ordered atom than a pair's, where there are some.

        Sizes that are one leave the whole limit to the knob that is turned.
        """
        for start in (pair.good, pair.bad):
            best, least = start, self._distance(index, atom, start)
            for look in self._alone(index, atom, pair.good) if least > self._nearest(index, atom, start) else ():
                far = self._distance(index, atom, look)
                if look.right == start.right and far < least:
                    best, least = look, far
                if least <= self._nearest(index, atom, start):
                    break
            if best is not start:
                yield best

    def _alone(self, index: int, atom: Atom, good: Look) -> Iterator[Look]:
        """Both programs at the limit, for each knob that moves the atom, with the others at one."""
        moving = list(dict.fromkeys(n for f in asked_of(atom, good) for n in self._moving(f)))
        for main in moving:
            plain = good
            for other in moving:
                least = self.turned(plain, other, 1) if other != main else None
                plain = least if least is not None and least.right else plain
            for start in itertools.islice(itertools.chain((plain,), self._helped(plain, moving)), STARTS * HELPERS):
                pair = self._flip_along(index, atom, main, start) if start.right else None
                if pair is not None:
                    yield from (pair.good, pair.bad)
                    break

    def _nearest(self, index: int, atom: Atom, look: Look) -> int:
        """The distance of whole numbers from the limit that none is below, on this side of it."""
        assert isinstance(atom.tree, ast.Compare)
        within = isinstance(atom.tree.ops[0], ast.LtE | ast.GtE)
        return int(within != bool(atom_truth(atom, self.limits[index].find(look.application))))

    def _distance(self, index: int, atom: Atom, look: Look) -> float:
        found = distance(atom, self.limits[index].find(look.application))
        return math.inf if found is None else found


def seen(graph: Graph, turns: Turns, limits: Sequence[Limit]) -> Look | None:
    """What the limits say of a program; None where torch refuses it."""
    try:
        known = application(graph, SUBJECT)
    except NoProgram:
        return None
    truths = tuple(holds(limit.predicate, limit.find(known)) for limit in limits)
    return Look(graph, turns, known, truths)


def asked_of(atom: Atom, base: Look) -> tuple[str, ...]:
    """The features of an atom; of `all` and `any` each operand of the list by itself."""
    if not atom.quantified:
        return tuple(feature for feature in atom.features if feature != "value")
    listed = feature_value(atom.features[0], base.application.find)
    return tuple(f"{atom.features[0]}[{index}]" for index in range(len(listed)))


def _alone(atom: Atom, feature: str, a: Look, b: Look) -> bool:
    """Whether of all operands in a list only this one differs."""
    finds = (a.application.find, b.application.find)
    others = (each for each in asked_of(atom, a) if each != feature) if atom.quantified and feature else ()
    return all(feature_value(each, finds[0]) == feature_value(each, finds[1]) for each in others)


def _broken(look: Look) -> int:
    return sum(truth is not True for truth in look.truths)


def _best(looks: Iterable[Look], less: int, thorough: bool) -> Look | None:
    """The first of the fewest broken limits, if they are fewer than `less`; unless thorough the first with fewer."""
    found = None
    for look in looks:
        if _broken(look) < less:
            found, less = look, _broken(look)
            if not less or not thorough:
                return found
    return found


def _numbers(value: object) -> Iterator[int]:
    if type(value) is int:
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
