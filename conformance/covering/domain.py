"""Every program near those of a row: the row's cases, and what comes of turning their knobs. Holes are searched here.

The domain is finite and the same everywhere: `STARTS` accepted programs of the row, those of different constraints
first, each with one knob turned (`cases.boundaries`: a size with those that torch ties to it, an argument, a constant,
a rank, a dtype, a scale, what stands after) to every place that it has, and with the options of each other case;
then, for each hole that is left, a second knob that moves what the hole is about, from programs that differ in the
truths of the constraint's atoms; then steps in between towards the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import SymInt

from npu_assay.conformance.cases.boundaries.knob import Knob
from npu_assay.conformance.cases.boundaries.knobs import knobs
from npu_assay.conformance.cases.boundaries.quantization import more_knobs
from npu_assay.conformance.cases.make import f32
from npu_assay.conformance.covering.atoms import Owed, asked
from npu_assay.conformance.covering.looks import Look, looked, program_key
from npu_assay.conformance.covering.pairs import classes
from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.predicates.applications import runs
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.predicates.evaluation import feature_value
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.predicates.grammar import PredicateError
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case, Graph, Quant
from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.reference.golden import Bounded, Codes, GoldenError

STARTS = 8  # accepted programs whose knobs are turned
PATTERNS = 8  # programs that a second knob is turned from, for one hole
ASKED = 2**18  # numbers of a program that the golden is asked for
MOST = 5 * 2**20  # numbers of one tensor: devices that are simulated take no larger programs
FARTHEST = 1024  # of a size, unless a constraint's number is near, and of channels with scales

TYPES = ("dtype", "_type", "_code", "_quantized")  # knobs of dtypes
NARROW = 2.0**-18  # of real numbers towards a limit: nearer than that, single precision may see them on either side
PREFIX = "#"  # of the ids of programs that are no cases
Turns = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Tried:
    """A program of the domain: the case that it comes from, what was turned, and what the constraints say of it."""

    start: str
    turns: Turns
    look: Look

    @property
    def cost(self) -> int:
        """Fewer knobs are nearer."""
        return len(self.turns)


class Domain:
    """The programs near those of a row in one precision. `everything`: the row's cases, without a verdict, too."""

    def __init__(self, held: Sequence[Defined], looks: Sequence[Look], everything: Iterable[Case]) -> None:
        self.held, self.looks = tuple(held), tuple(looks)
        self.tried, self.unfit = list[Tried](), list[Tried]()
        self.count = self.refused = 0
        self.refusing = set[str]()  # the knobs that gave a program which torch refuses
        self._taken = {program_key(case): case for case in everything}
        self._seen = set[object]()
        self._placed = dict[tuple[str, Turns], Tried]()
        self._knobs = dict[str, tuple[Knob, ...]]()
        self._movers_of = dict[str, set[str]]()
        self._turned = set[str]()
        self._options = list(dict.fromkeys(case.options for case in self._taken.values() if _hashable(case.options)))
        self.starts = _starts(held, looks)
        self._start = {look.case.id: look for look in self.starts}
        told = {n for each in held for n in (*each.predicate.numbers, *_numbers(each.value))}
        self._told = sorted(told)

    @property
    def every_look(self) -> list[Look]:
        """What the constraints say of the row's cases, and of what was tried."""
        return [*self.looks, *(each.look for each in self.tried)]

    def knobs(self, start: Look) -> tuple[Knob, ...]:
        """The knobs of a start, once each, near places alone."""
        if start.case.id not in self._knobs:
            graph = start.case.graph
            found = (*knobs(graph, self._told), *more_knobs(graph))
            self._knobs[start.case.id] = tuple(self._nearby(knob) for knob in found)
        return self._knobs[start.case.id]

    def _nearby(self, knob: Knob) -> Knob:
        if not knob.slots:
            return knob
        most = max(FARTHEST, *(2 * n for n in self._told), 0) if self._told else FARTHEST
        return replace(knob, values=tuple(v for v in knob.values if v <= most))

    def singles(self) -> None:
        """Every start with one knob turned, or other options."""
        for start in self.starts:
            for knob in self.knobs(start):
                for place in knob.values:
                    self.turn(start, ((knob.name, place),))
            for options in self._options:
                self._add(start, (), replace(start.case, options=options))

    def turn(self, start: Look, turns: Turns) -> Tried | None:
        """The program with these knobs turned; None where torch refuses it, or it is not a new one."""
        named = {knob.name: knob for knob in self.knobs(start)}
        graph: Graph | None = start.case.graph
        for name, place in turns:
            try:
                graph = None if graph is None else named[name].turn(graph, place)
            except (PredicateError, IndexError, ValueError, TypeError, KeyError, ZeroDivisionError):
                graph = None  # a knob of what another one took away
        if graph is None or graph == start.case.graph or _scales(graph) > FARTHEST:
            return None
        return self._add(start, turns, replace(start.case, graph=graph))

    def _add(self, start: Look, turns: Turns, case: Case) -> Tried | None:
        key = program_key(case)
        if key in self._seen:
            return None
        self._seen.add(key)
        self.count += 1
        look = self._look(case) if _groups_fit(case.graph) and _is_small(case.graph) else None
        if look is None:
            self.refused += 1
            self.refusing |= {name for name, _ in turns[-1:]}
            return None
        if key in self._taken:  # a case has a verdict already, or the table is silent on it
            case = replace(case, expect="unspecified", reason=None)
        else:
            case = _judged(case, start, look, turns)
        case = replace(case, id=f"{PREFIX}{self.count}")  # not how many are left: some are taken out
        found = Tried(start.case.id, turns, replace(look, case=case))
        self.tried.append(found)
        self._placed[found.start, turns] = found
        return found

    def _look(self, case: Case) -> Look | None:
        try:
            return looked(case, self.held)
        except (PredicateError, RuntimeError, IndexError, ValueError, TypeError, AttributeError, KeyError):
            return None

    def confirmed(self, each: Tried) -> bool:
        """Whether the program can be written, run and judged; one that cannot is no program of the domain."""
        if _is_case(each.look):
            return True
        self.tried.remove(each)
        self.unfit.append(each)
        self.refused += 1
        return False

    # -------------------------------------------------------------------------------- two knobs

    def seconds(self, hole: Owed) -> None:
        """A second knob that moves what a hole is about, from programs that differ in the truths of its atoms."""
        index, _ = self.atom(hole)
        movers = self._movers(hole.code, [index], [hole.feature] if hole.feature else [])
        patterns = dict[object, Tried]()
        for each in self.tried:
            if each.cost == 1:
                wrong = frozenset(each.look.broken)
                if len(wrong - {hole.code}) <= 1:
                    patterns.setdefault((each.start, each.look.atoms[hole.code], wrong), each)
        for each in list(patterns.values())[:PATTERNS]:
            ((first, place),) = each.turns
            for knob in self.knobs(self._start[each.start]):
                if knob.name in movers and knob.name != first:
                    for other in knob.values:
                        self.turn(self._start[each.start], ((first, place), (knob.name, other)))

    def _movers(self, code: str, atoms: Sequence[int], features: Iterable[str]) -> set[str]:
        """The knobs that by themselves move one of these features, or turn one of these atoms, of a constraint."""
        defined = next(each for each in self.held if each.code == code)
        found = set[str]()
        for each in self.tried:
            if each.cost == 1 and each.turns[0][0] not in found:
                one, other = self._start[each.start], each.look
                turned = any(one.atoms[code][index] != other.atoms[code][index] for index in atoms)
                if turned or any(self._moved(defined, feature, one, other) for feature in features):
                    found.add(each.turns[0][0])
        return found

    def _moved(self, defined: Defined, feature: str, one: Look, other: Look) -> bool:
        """Whether a feature differs; of lists of operands, which any knob moves, only the atom counts."""
        before, after = (self.value(defined, feature, look) for look in (one, other))
        listed = isinstance(before, tuple) and any(isinstance(item, Operand) for item in before)
        return not listed and bool(before != after)

    def atom(self, hole: Owed) -> tuple[int, Defined]:
        """The place of a hole's atom in its constraint, and the constraint."""
        defined = next(each for each in self.held if each.code == hole.code)
        return next(i for i, atom in enumerate(defined.predicate.atoms) if atom.text == hole.atom), defined

    def value(self, defined: Defined, feature: str, look: Look) -> object:
        """A feature that a constraint asks for."""
        key = ("feature", defined.code, feature)
        return look.once(key, lambda: feature_value(feature, look.application.with_value(defined.value).find))

    # -------------------------------------------------------------------------------- steps in between

    def between(self, hole: Owed) -> None:
        """Steps towards the limit of an ordered atom, along each number that takes a program over it."""
        index, _ = self.atom(hole)
        done = set[object]()
        for each in list(self.tried):
            start, (*rest, (name, place)) = self._start[each.start], each.turns or (("", None),)
            if not name:
                continue
            knob = next((k for k in self.knobs(start) if k.name == name), None)
            if knob is None or type(knob.at) not in (int, float) or type(place) not in (int, float):
                continue
            key = (each.start, tuple(rest), name)
            if key in done or len(done) >= PATTERNS * 2:
                continue
            one = each.look.atoms[hole.code][index]
            before = self._placed.get((each.start, tuple(rest)))
            base = start if not rest else None if before is None else before.look
            if base is None or one is None or base.atoms[hole.code][index] in (None, one):
                continue
            done.add(key)
            self._halve(hole, index, (start, tuple(rest), name), (knob.at, place), one)

    def _halve(self, hole: Owed, index: int, along: tuple[Look, Turns, str], ends: tuple[Any, Any], far: bool) -> None:
        """The two ends as near to each other as numbers come; `far` is the atom's truth at the second."""
        start, rest, name = along
        a, b = ends
        for _ in range(64):
            whole = type(a) is int and type(b) is int
            middle = (a + b) // 2 if whole else f32(math.sqrt(a * b)) if a > 0 and b > 0 else (a + b) / 2
            if middle in (a, b) or (not whole and abs(a - b) <= abs(b) * NARROW):
                return
            found = self._at(start, (*rest, (name, middle)))
            if found is None or found.atoms[hole.code][index] is None:
                return
            if found.atoms[hole.code][index] == far:
                b = middle
            else:
                a = middle

    def _at(self, start: Look, turns: Turns) -> Look | None:
        known = self._placed.get((start.case.id, turns)) or self.turn(start, turns)
        return None if known is None else known.look

    # -------------------------------------------------------------------------------- together

    def merged(self, one: Tried, other: Tried) -> Tried | None:
        """The program with the knobs of two turned; None where they stand in each other's way."""
        if one.start != other.start:
            return None
        turns = dict(one.turns)
        if any(turns.get(name, place) != place for name, place in other.turns):
            return None
        return self.turn(self._start[one.start], tuple({**turns, **dict(other.turns)}.items()))

    def further(self, each: Tried, code: str) -> list[Tried]:
        """The new programs with one more knob turned, of those that move a constraint; none the second time."""
        if each.look.case.id in self._turned:
            return []
        self._turned.add(each.look.case.id)
        start, left = self._start[each.start], self._moving(code) - dict(each.turns).keys()
        turns = (
            (*each.turns, (knob.name, place))
            for knob in self.knobs(start)
            if knob.name in left
            for place in knob.values
        )
        return [found for found in (self.turn(start, one) for one in turns) if found is not None]

    def _moving(self, code: str) -> set[str]:
        """The knobs that move anything of a constraint by themselves, as they are found at first."""
        if code not in self._movers_of:
            atoms = next(each for each in self.held if each.code == code).predicate.atoms
            features = dict.fromkeys(feature for atom in atoms for feature in asked(atom))
            self._movers_of[code] = self._movers(code, range(len(atoms)), features)
        return self._movers_of[code]


def _judged(case: Case, start: Look, look: Look, turns: Turns) -> Case:
    """The program with the verdict that the constraints give it: none where two are broken, or one newly undefined.

    What breaks one alone is rejected for it, whether or not others are defined: they are not broken. A row in one
    precision says nothing of programs in another that break no constraint.
    """
    wrong = look.broken
    coded = wrong == ["dtype"] and any(name.endswith("_code") for name, _ in turns)  # weights have rules of their own
    if len(wrong) == 1 and not coded:
        return replace(case, expect="reject", reason=wrong[0], delegates=None)
    unknown = any(said is None and start.truths[code] is not None for code, said in look.truths.items())
    typed = any(name.endswith(TYPES) for name, _ in turns)
    expect = "unspecified" if wrong or unknown or typed else "accept"
    return replace(case, expect=expect, reason=None, delegates=None)


def _is_case(look: Look) -> bool:
    """Whether torch takes a program with numbers and writes it as it is, and the golden has finite numbers of it.

    Of very many numbers the golden is not asked: some of them are finite.
    """
    graph, application = look.case.graph, look.application
    if _depends_on_the_processor(application) or not runs(graph):
        return False
    asked = sum(each.elements for each in (*application.operands, *application.results)) <= ASKED
    try:
        if not _stays_open(graph):
            return False
        if not asked:
            return True
        found = golden(graph).walk(None, delegated=False)
    except (EdgeError, GoldenError, RuntimeError, TypeError, ValueError):  # no program; torch resizes no symbolic sizes
        return False
    return all(map(_has_numbers, found.bounded, found.codes, found.quants))


def _depends_on_the_processor(application: Application) -> bool:
    """Whether torch takes a program on some processors alone: a convolution of float16 and of other numbers."""
    types = {operand.real for operand in application.operands}
    return "conv" in application.op and len(types) > 1 and application.operands[0].real == "float16"


def _has_numbers(result: Bounded, codes: Codes | None, quant: Quant | None) -> bool:
    """Whether the golden says something of a result: of one without elements, or of one of its numbers or codes."""
    known = result.value.isfinite()
    if codes is not None and quant is not None:
        known = known & ((codes.low > quant.qmin) | (codes.high < quant.qmax))
    return not known.numel() or bool(known.any())


def _stays_open(graph: Graph) -> bool:
    """Whether torch, when it writes the program, leaves open every size that is; channels of weights close some."""
    program = build(graph)
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    sizes = (nodes[v.name].meta["val"].shape[axis] for v in graph.values for axis in v.dynamic)
    return all(isinstance(size, SymInt) and size.node.maybe_as_int() is None for size in sizes)


def _hashable(options: object) -> bool:
    try:
        hash(options)
    except TypeError:
        return False
    return True


def _starts(held: Sequence[Defined], looks: Sequence[Look]) -> tuple[Look, ...]:
    """Different accepted programs: the plain one, those with the first of each class, those of each constraint."""
    # What stands at the limit of a rescale leaves it with every size that is summed.
    good = [look for look in looks if look.good and not look.case.options and look.case.constraint != "rescale"]
    classed, first = dict[object, Look](), dict[object, Look]()
    for look in good:
        for found in classes(held, look).items():
            classed.setdefault(found, look)
        first.setdefault((look.case.constraint, look.case.side == "context"), look)
    different = dict[object, Look]()
    for look in (*good[:1], *classed.values(), *first.values()):
        different.setdefault(program_key(look.case), look)
    return tuple(different.values())[:STARTS]


def _scales(graph: Graph) -> int:
    """The most scales that a value has."""
    quants = (value.quant for value in graph.values if value.quant is not None)
    return max((len(quant.scale) for quant in quants if isinstance(quant.scale, tuple)), default=0)


def _is_small(graph: Graph) -> bool:
    return all(math.prod(value.shape) <= MOST for value in graph.values)


def _groups_fit(graph: Graph) -> bool:
    """Whether scales of groups divide their rows, as torch asks when it reads the codes."""
    grouped = ((value.shape, value.quant.group) for value in graph.values if value.quant is not None)
    return all(group is None or (shape != () and shape[-1] % group == 0) for shape, group in grouped)


def _numbers(value: object) -> Iterator[int]:
    if type(value) is int:
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
