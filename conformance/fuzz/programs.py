"""The random programs of a table: each follows from a seed and its number, the same in every process.

They are composed of the graphs of the table's cases, which have the operators, arguments, quantizations and contexts
that the table is about, both at a limit and past it. One in three is one such graph with other numbers or sizes; the
others are chains and forks of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import TypeVar

from npu_assay.conformance.cases import beside
from npu_assay.conformance.cases.variations import variation
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.fuzz.names import FIRST, Name, is_program, parse
from npu_assay.conformance.fuzz.reductions import reductions
from npu_assay.conformance.fuzz.sketch import (
    MOST,
    Kind,
    Shape,
    can_resize,
    count,
    free_outputs,
    further,
    kind_of,
    kinds,
    resized,
    with_refs,
    without_dead,
)
from npu_assay.conformance.programs.edge_form import returns_indices
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step, Value, references
from npu_assay.conformance.programs.seeds import reseeded
from npu_assay.conformance.programs.variation_names import is_variation
from npu_assay.conformance.table import Table

SINGLE = 1 / 3  # share of programs of one graph
PARTS = 6  # graphs in a program, at most
TRIES = 8  # draws until something fits
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33)
UNSUPPORTED = "unsupported"
"""The constraint of rows that the table rejects entirely, so that a backend has nothing to compute."""

Item = TypeVar("Item")


class Known:
    """A table's cases by id, with the random numbers of a seed, and its random programs by name."""

    def __init__(self, table: Table, cases: Sequence[Case], seed: int = 0) -> None:
        self._table, self._cases = table, tuple(cases)
        self.cases = {case.id: reseeded(case, seed) for case in (*cases, *beside(table))}

    @cached_property
    def programs(self) -> Programs:
        """The random programs."""
        return Programs(self._cases)

    def case(self, name: str) -> Case:
        """The case, variation or random program of this name. Raises KeyError for an unknown id."""
        if is_program(name):
            return self.programs.case(name)
        return variation(name, self.cases, self._table) if is_variation(name) else self.cases[name]


class Programs:
    """The random programs of a table's cases.

    Each begins with a case of another pair of operator and precision, in an order that follows from the seed, so as
    many programs as there are pairs cover them all.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        small = [case for case in cases if case.constraint != UNSUPPORTED and _small(case.graph)]
        self._cases = _by_kind(small)
        self._joined = _by_kind(case for case in small if not _special(case))
        self._alike: dict[Kind, list[tuple[Graph, Value]]] = {}
        self._other: dict[tuple[Shape, str], list[tuple[Graph, Value]]] = {}
        for part in (case.graph for kind in self._joined.values() for case in kind):
            for value in part.inputs:
                kind = kind_of(value)
                self._alike.setdefault(kind, []).append((part, value))
                if not _has_bias(part):
                    self._other.setdefault(_form(kind), []).append((part, value))
        self._last = keep(64)(self._made)

    def case(self, name: str) -> Case:
        """The program of this name. Raises ValueError when there is none."""
        return self._last(parse(name))

    def _made(self, name: Name) -> Case:
        if not name.trail:
            return self._drawn(name)
        whole = self._last(replace(name, trail=name.trail[:-1]))
        for choice, graph in enumerate(reductions(whole.graph)):
            if choice == name.trail[-1]:
                return _unpromised(str(name), whole, graph)
        raise ValueError(f"{name}: found no such reduction")

    @property
    def round(self) -> int:
        """How many programs in a row cover every operator in every precision."""
        return len(self._cases)

    # -------------------------------------------------------------------------------- drawing

    def _drawn(self, name: Name) -> Case:
        draw = Random(f"{name.seed}/{name.number}")
        kind = self._kind(name)
        first = _choice(draw, self._cases[kind])
        if draw.random() < SINGLE or kind not in self._joined:
            return self._single(draw, str(name), first)
        graph = self._several(draw, self._joined[kind])
        return Case(str(name), first.row, FIRST, "random", "unspecified", None, graph, "", precision=first.precision)

    def _single(self, draw: Random, name: str, case: Case) -> Case:
        graph = _refilled(draw, case.graph)
        if draw.random() < 0.5:
            other = _other_sizes(draw, graph)
            if other is not None:
                return _unpromised(name, case, other)
        return replace(case, id=name, constraint=FIRST, side="random", graph=graph)

    def _kind(self, name: Name) -> tuple[str, str | None]:
        kinds = list(self._cases)
        Random(name.seed).shuffle(kinds)
        return kinds[name.number % len(kinds)]

    def _several(self, draw: Random, about: Sequence[Case]) -> Graph:
        for _ in range(TRIES):
            program = _Growing(draw)
            if not program.add(_choice(draw, about).graph, {}, None):
                continue
            for _ in range(draw.randrange(1, PARTS)):
                self._grow(draw, program)
            return without_dead(program.graph())
        return _refilled(draw, _choice(draw, about).graph)

    def _grow(self, draw: Random, program: _Growing) -> None:
        """Add one more part, one of whose inputs is a value of the program."""
        for _ in range(TRIES):
            known = program.known
            refs = [ref for ref in known if ref.name not in program.constants and ref not in program.indices]
            ref = refs[-1 - int(len(refs) * draw.random() ** 2)]  # late ones preferred
            kind = known[ref]
            found = self._alike.get(kind, ())
            if not found or draw.random() < 0.3:
                per_channel = kind.quant is not None and kind.quant.axis is not None  # only constants can be
                found = found if per_channel else self._other.get(_form(kind), ())
            if not found:
                continue
            part, value = _choice(draw, found)
            taken = {Ref(value.name): ref}
            for other in part.inputs:
                same = [r for r in refs if known[r] == kind_of(other)]
                if other is not value and same and draw.random() < 0.5:
                    taken[Ref(other.name)] = _choice(draw, same)
            if program.add(part, taken, None if value.quant == kind.quant else (value.quant, kind.quant)):
                return


class _Growing:
    """A program being composed. known: the kind of each value in it. constants: their names.

    indices: results that a graph can return but no step can take.
    """

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._parts = 0
        self._values: list[Value] = []
        self._steps: list[Step] = []
        self._outputs: list[Ref] = []
        self.known: dict[Ref, Kind] = {}
        self.constants: set[str] = set()
        self.indices: set[Ref] = set()

    def add(self, part: Graph, taken: dict[Ref, Ref], requant: tuple[Quant | None, Quant | None] | None) -> bool:
        """Append a part, if torch accepts it. taken: replaces its inputs; requant: a quantization and the new one."""
        graph = _refilled(self._draw, part)
        prefix = f"p{self._parts}_"
        refs = dict(taken)
        values, steps = list[Value](), list[Step]()
        for value in graph.values:
            if Ref(value.name) not in taken:
                new = replace(value, name=prefix + value.name)
                if requant and not value.constant and value.quant == requant[0]:
                    new = replace(new, quant=requant[1])
                values.append(new)
                refs[Ref(value.name)] = Ref(new.name)
        for step in graph.steps:
            quant = requant[1] if requant and step.quant == requant[0] else step.quant
            steps.append(replace(with_refs(step, refs), name=prefix + step.name, quant=quant))
            for index in range(step.outputs):
                refs[Ref(step.name, index)] = Ref(prefix + step.name, index)
        known = further(values, steps, self.known)
        if known is None:
            return False
        read = {refs[ref] for ref in (*graph.outputs, *(r for step in graph.steps for r in references(step.args)))}
        # Further results that the case does not read, as the statistics of a batch norm, have no golden.
        made = {step.name for step in steps}
        self.known = {ref: known[ref] for ref in known if not ref.index or ref.name not in made or ref in read}
        self.constants |= {value.name for value in values if value.constant}
        self.indices |= {Ref(step.name, 1) for step in steps if returns_indices(step.op, 1)}
        self._values += values
        self._steps += steps
        self._outputs += [refs.get(ref, ref) for ref in graph.outputs]
        self._parts += 1
        return True

    def graph(self) -> Graph:
        """The program; it returns all unused results and some of the used ones."""
        free = set(free_outputs(self._steps, self._outputs))
        kept = [ref for ref in dict.fromkeys(self._outputs) if ref in free or self._draw.random() < 0.15]
        return Graph(tuple(self._values), tuple(self._steps), tuple(kept))


def _choice(draw: Random, items: Sequence[Item]) -> Item:
    return items[int(draw.random() * len(items))]


def _by_kind(cases: Iterable[Case]) -> dict[tuple[str, str | None], list[Case]]:
    return grouped_by(cases, lambda case: (case.row, case.precision))


def _small(graph: Graph) -> bool:
    return all(count(value.shape) <= MOST for value in graph.values)


def _has_bias(graph: Graph) -> bool:
    """Whether there is a bias, whose scale depends on the input's scale, so that the input cannot be replaced."""
    return any(value.constant and value.quant is not None and value.quant.dtype == "int32" for value in graph.values)


def _special(case: Case) -> bool:
    """Whether a case's graph cannot be composed with others: it has options or dynamic shapes."""
    return bool(case.options) or any(value.dynamic for value in case.graph.values)


def _form(kind: Kind) -> tuple[Shape, str]:
    """What must be equal for one value to replace another, apart from the quantization."""
    return kind.shape, kind.dtype if kind.quant is None else kind.quant.dtype


def _refilled(draw: Random, graph: Graph) -> Graph:
    """The graph with other random numbers, mostly in the inputs."""
    values = tuple(
        replace(value, fill=Fill(seed=draw.randrange(2**30)))
        if value.fill.kind == "random" and (not value.constant or draw.random() < 0.2)
        else value
        for value in graph.values
    )
    return replace(graph, values=values)


def _other_sizes(draw: Random, graph: Graph) -> Graph | None:
    """The graph with one or two other sizes; None if torch refuses them."""
    changed = None
    for _ in range(TRIES):
        now = changed or graph
        shape = _choice(draw, [value.shape for value in now.values])
        if not shape or not can_resize(now, shape):
            continue
        other = resized(now, shape, draw.randrange(len(shape)), _choice(draw, SIZES))
        if kinds(other) is not None:
            if changed is not None or draw.random() < 0.5:
                return other
            changed = other
    return changed


def _unpromised(name: str, case: Case, graph: Graph) -> Case:
    """A case of a program on which the table is silent."""
    return replace(
        case,
        id=name,
        constraint=FIRST,
        side="random",
        expect="unspecified",
        reason=None,
        graph=graph,
        subject="",
        delegates=None,
    )
