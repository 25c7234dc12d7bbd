"""The programs on both sides of a predicate's limits, found by turning knobs of a row's plain program.

Everything is tried in one fixed order, nearest first, so that the same table gives the same programs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from npu_assay.conformance.cases.boundaries.asked import asked
from npu_assay.conformance.cases.boundaries.broadcast import broadcast
from npu_assay.conformance.cases.boundaries.fills import fills
from npu_assay.conformance.cases.boundaries.knob import Knob
from npu_assay.conformance.cases.boundaries.knobs import knobs
from npu_assay.conformance.cases.boundaries.named_arguments import around, named_arguments
from npu_assay.conformance.cases.boundaries.neighbors import neighbors
from npu_assay.conformance.cases.boundaries.quantization import more_knobs, of_arguments
from npu_assay.conformance.cases.boundaries.sizes import opened
from npu_assay.conformance.cases.boundaries.types import TYPES
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.predicates.evaluation import holds, wanting
from npu_assay.conformance.predicates.features import DIMENSIONS, Application
from npu_assay.conformance.predicates.grammar import Predicate
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph

Find = Callable[[str], object]
Turns = tuple[tuple[int, object], ...]  # knobs by number, and where they are turned to
MOST, FEWER = 40_000, 4_000  # programs that are looked at: for a row, and for a case that was written
BASES = 3  # programs that keep all limits
HELPERS = 8  # places that a second knob is tried at
OF_SCALES = frozenset(
    [
        "given",
        "group",
        "is_per_channel",
        "is_quantized",
        "largest_scale",
        "scale",
        "scale_axis",
        "smallest_scale",
        "zero_point",
    ]
)
"""Features that knobs of scales, codes and arguments left out move."""
FOLLOWING: Mapping[str, str] = MappingProxyType({"padded": "pad", "reduced": "dim", "spans": "dim"})
"""Features that follow from one argument, whose knobs they need."""
OF_TYPES = frozenset({"dtype", "real"})
"""Features that dtypes decide, without which programs keep those of the row's precision."""


@dataclass(frozen=True)
class Limit:
    """A constraint of a row that its table defines: the predicate, and the number beside the code."""

    code: str
    predicate: Predicate
    value: object = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The whole numbers in it and beside it."""
        return (*self.predicate.numbers, *_numbers(self.value))

    @property
    def reals(self) -> tuple[float, ...]:
        """The numbers in it and beside it that are not whole."""
        return (*self.predicate.reals, *(n for n in _listed(self.value) if type(n) is float))

    @property
    def on_ranks(self) -> bool:
        """Whether it is about how many dimensions something has."""
        return any(f.endswith(".rank") for atom in self.predicate.atoms for f in atom.features)

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
    wanting: int = 0  # atoms that have to change for all limits to hold

    @cached_property
    def is_written(self) -> bool:
        """Whether the suite can write the program: torch computes some that no edge program says."""
        try:
            build(self.graph)
        except Exception:  # noqa: BLE001  (then it is no program, whatever the reason)
            return False
        return True

    @property
    def right(self) -> bool:
        """Whether every limit holds."""
        return all(truth is True for truth in self.truths)

    def is_near(self, index: int) -> bool:
        """Whether it keeps every limit, or breaks this one alone."""
        return self.right or self.only(index)

    def only(self, index: int) -> bool:
        """Whether this limit alone is broken; others may be undefined then."""
        return all((truth is False) == (i == index) for i, truth in enumerate(self.truths))


Broken = Callable[[Look], int]


class Search:
    """Programs around one graph, `most` of which are looked at."""

    def __init__(self, graph: Graph, limits: Sequence[Limit], most: int = MOST) -> None:
        self.graph, self.limits, self.most = graph, tuple(limits), most
        self._seen: dict[Turns, Look | None] = {}
        self.start: Look | None = None
        self.start = self.look(())

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs of the graph."""
        told = {n for limit in self.limits for n in limit.numbers}
        deep = {n for limit in self.limits if limit.on_ranks for n in limit.numbers}
        plain = knobs(self.graph, sorted(told), sorted(deep), self.listed)
        names = frozenset(part for name in self._named for part in name.split("."))
        left_out = of_arguments(self.graph) if self._asks_presence else ()
        reals = sorted(told | {n for each in self.limits for n in each.reals})
        more = more_knobs(self.graph, around(reals)) if names & OF_SCALES else left_out
        names |= {argument for feature, argument in FOLLOWING.items() if feature in names}
        named = named_arguments(self.graph, names, reals)
        if not names & OF_TYPES:  # codes of another type are those of another precision, with limits of its own
            plain = tuple(knob for knob in plain if knob.name not in TYPES)
        return (
            *(*named, *plain, *asked(self.graph, names, sorted(told)), *more, *broadcast(self.graph, names)),
            *fills(self.graph, names, reals),
            *neighbors(self.graph, names, self._texts, sorted(told)),
        )

    @property
    def _texts(self) -> tuple[str, ...]:
        """The texts in the limits."""
        trees = (tree for limit in self.limits for tree in ast.walk(limit.predicate.tree))
        return tuple(tree.value for tree in trees if isinstance(tree, ast.Constant) and isinstance(tree.value, str))

    @property
    def looks(self) -> Iterator[Look]:
        """The programs that were looked at and that torch takes."""
        return (look for look in self._seen.values() if look is not None)

    @property
    def tried(self) -> str:
        """How many programs were looked at, in words."""
        none = sum(look is None for look in self._seen.values())
        return f"tried {len(self._seen)} programs, {none} of which torch or the suite's sizes refuse"

    @contextmanager
    def aside(self, most: int) -> Iterator[None]:
        """So many more programs may be looked at, which do not count among those of the row."""
        kept, before = self.most, len(self._seen)
        self.most = before + most
        yield
        self.most = kept + len(self._seen) - before

    @property
    def _named(self) -> Iterator[str]:
        """The features of the limits."""
        return (name for limit in self.limits for atom in limit.predicate.atoms for name in atom.features)

    @property
    def _asks_presence(self) -> bool:
        """Whether a limit is on an argument that may be left out."""
        return any(atom.asks_presence for limit in self.limits for atom in limit.predicate.atoms)

    @property
    def listed(self) -> bool:
        """Whether a limit is on every tensor of several."""
        return any(atom.quantified for limit in self.limits for atom in limit.predicate.atoms)

    def look(self, turns: Turns) -> Look | None:
        """The program with the knobs turned so; None where torch refuses it."""
        if turns not in self._seen:
            self._seen[turns] = self._look(turns) if len(self._seen) < self.most else None
        return self._seen[turns]

    def _look(self, turns: Turns) -> Look | None:
        graph: Graph | None = self.graph
        for number, found in sorted(turns, key=lambda turn: not self.knobs[turn[0]].joint):
            graph = None if graph is None else self.knobs[number].turned(graph, found)
        found = None if graph is None else seen(graph, turns, self.limits)
        return None if found is None or self._is_degenerate(found) else found

    def _is_degenerate(self, look: Look) -> bool:
        """Whether a tensor is empty that is not in the plain program, or an axis is named of a scalar."""
        if self.start is None:
            return False
        scalar = bool(DIMENSIONS & {*look.application.arguments}) and not look.application.counted_rank
        return scalar or (_filled(self.start) and not _filled(look))

    def turned(self, look: Look, number: int, found: object) -> Look | None:
        """The program with one more knob turned, or the same one to another place."""
        return self.with_turns({**dict(look.turns), number: found})

    def with_turns(self, turns: Mapping[int, object]) -> Look | None:
        """The program with these knobs turned."""
        moved = ((number, place) for number, place in sorted(turns.items()) if place != self.knobs[number].at)
        return self.look(tuple(moved))

    def differences(self, a: Look, b: Look) -> dict[int, object]:
        """The knobs that stand elsewhere in the second program, and where, by their numbers."""
        numbers = sorted({number for turns in (a.turns, b.turns) for number, _ in turns})
        return {n: self.at(b, n) for n in numbers if self.at(a, n) != self.at(b, n)}

    def places(self, look: Look, number: int) -> tuple[object, ...]:
        """Where a knob may be turned to from here, the plain place among them."""
        knob, now = self.knobs[number], self.at(look, number)
        return tuple(place for place in (knob.at, *knob.values) if place != now)

    def at(self, look: Look, number: int) -> object:
        return dict(look.turns).get(number, self.knobs[number].at)

    # -------------------------------------------------------------------------------- the plain program

    def repaired(self, thorough: bool = True, without: Collection[int] = ()) -> Look | None:
        """The nearest program for which every limit holds, with up to four knobs turned; None where none is found.

        thorough: also by turning two at once. without: knobs that are left alone.
        """
        for broken in (_broken, _wanting) if thorough else (_broken,):  # a limit at a time, or a part of one
            look = self.start
            for _ in range(4):
                if look is None or look.right:
                    break
                look = self._better(look, thorough, without, broken)
            if look is not None and look.right:
                return look
        return None

    def bases(self) -> tuple[Look, ...]:
        """Programs for which every limit holds, each without the knobs that those before it needed."""
        found = list[Look]()
        used = set[int]()
        for _ in range(BASES if self.listed else 1):
            look = self.repaired(without=used)
            if look is None or look in found:
                break
            found.append(look)
            used |= {number for number, _ in look.turns}
        return tuple(found)

    def unknown(self, look: Look, empty: bool) -> tuple[str, Graph] | None:
        """The first program without elements, or with one size left open, for which every limit holds; and its name."""
        for knob in self.knobs:
            near = self._without_elements(look, knob) if empty else look
            if not knob.slots or near is None or not near.right:
                continue
            if empty:
                return f"empty_{knob.name}", near.graph
            if self._size(look, knob) > 1 and not self._constant(look, knob):
                return f"open_{knob.name}", opened(near.graph, knob.slots)
        return None

    def _without_elements(self, look: Look, knob: Knob) -> Look | None:
        graph = knob.turn(look.graph, 0) if knob.slots else None
        return None if graph is None else seen(graph, look.turns, self.limits)

    def _size(self, look: Look, knob: Knob) -> int:
        """The size that a knob is of; torch leaves no size of 1 open."""
        name, axis = knob.slots[0]
        return next(value.shape[axis] for value in look.graph.values if value.name == name)

    def of_input(self, look: Look, knob: Knob) -> bool:
        """Whether it is the size of one tensor, which is no constant."""
        return len({name for name, _ in knob.slots}) == 1 and not self._constant(look, knob)

    def _constant(self, look: Look, knob: Knob) -> bool:
        """Whether only constants have it."""
        names = {name for name, _ in knob.slots}
        return all(value.constant for value in look.graph.values if value.name in names)

    def _better(self, look: Look, thorough: bool, without: Collection[int], broken: Broken) -> Look | None:
        """One more knob turned, or two, so that fewer limits are broken."""
        wrong = broken(look)
        found = _best(self._neighbors(look, without), wrong, thorough, broken)
        if found is not None or not thorough:
            return found
        first = [near for near in self._neighbors(look, without, HELPERS) if broken(near) <= wrong]
        pairs = (other for near in first for other in self._neighbors(near, without, HELPERS))
        return _best(pairs, wrong, True, broken)

    def _neighbors(self, look: Look, without: Collection[int], most: int | None = None) -> Iterator[Look]:
        for number in range(len(self.knobs)):
            for place in () if number in without else self.places(look, number)[:most]:
                near = self.turned(look, number, place)
                if near is not None:
                    yield near


def seen(graph: Graph, turns: Turns, limits: Sequence[Limit]) -> Look | None:
    """What the limits say of a program; None where torch refuses it."""
    try:
        known = application(graph, SUBJECT)
    except NoProgram:
        return None
    finds = [limit.find(known) for limit in limits]
    truths = tuple(holds(each.predicate, find, each.code) for each, find in zip(limits, finds, strict=True))
    missing = sum(wanting(limit.predicate.tree, find) for limit, find in zip(limits, finds, strict=True))
    return Look(graph, turns, known, truths, missing)


def emptied(before: Graph, after: Graph) -> bool:
    """Whether the change left a tensor empty that had elements."""
    looks = [seen(graph, (), ()) for graph in (before, after)]
    return all(look is not None for look in looks) and [_filled(look) for look in looks if look] == [True, False]


def _filled(look: Look) -> bool:
    return all(tensor.elements for tensor in (*look.application.operands, *look.application.results))


def _broken(look: Look) -> int:
    return sum(truth is not True for truth in look.truths)


def _wanting(look: Look) -> int:
    return look.wanting


def _best(looks: Iterable[Look], less: int, thorough: bool, broken: Broken) -> Look | None:
    """The first of the fewest broken limits, if they are fewer than `less`; unless thorough the first with fewer."""
    found = None
    for look in looks:
        if broken(look) < less:
            found, less = look, broken(look)
            if not less or not thorough:
                return found
    return found


def _numbers(value: object) -> Iterator[int]:
    return (each for each in _listed(value) if type(each) is int)


def _listed(value: object) -> Iterator[object]:
    if not isinstance(value, tuple):
        yield value
        return
    for item in value:
        yield from _listed(item)
