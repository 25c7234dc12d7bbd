"""Variations: what people get wrong, asked of every row by functions that know no operator and no vendor.

Each kind is a function from a plain accepted program to programs near it. No row says what becomes of them: tags are
unspecified, numbers are judged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType

from npu_assay.conformance.cases.drafts import OPERATOR
from npu_assay.conformance.cases.variations.arguments import arguments, left_out, list_items, pairs_of_items
from npu_assay.conformance.cases.variations.base import Base, Variation
from npu_assay.conformance.cases.variations.numbers import extremes, magnitudes, special_numbers
from npu_assay.conformance.cases.variations.operands import exchanged, quantizations, sizes, types
from npu_assay.conformance.cases.variations.readers import after_others, read_by_others, results_read
from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.programs.variation_names import ALL, NONE, SIDE
from npu_assay.reference.golden import GoldenError

Kind = Callable[[Base], Iterator[Variation]]
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "argument": arguments,
        "left_out": left_out,
        "list_item": list_items,
        "list_items": pairs_of_items,
        "sizes": sizes,
        "quantization": quantizations,
        "type": types,
        "exchanged": exchanged,
        "read": read_by_others,
        "after": after_others,
        "results": results_read,
        "extreme": extremes,
        "special": special_numbers,
        "magnitude": magnitudes,
    }
)


SMALL = 2**16  # numbers of a program that is tried
FIRST, FURTHER = 3, 2
"""Chosen of a row and precision: so many programs of each kind for its first plain one, and kinds for each other."""


def variations(cases: Sequence[Case], how: str) -> Iterator[Case]:
    """The variations of a table's plain accepted cases, as many as one of `HOW` says, and no program twice."""
    turns, seen = Counter[tuple[str, str | None]](), {case.graph for case in cases if how != NONE}
    for case in filter(_is_plain, cases) if how != NONE else ():
        turn = turns[case.row, case.precision]
        turns[case.row, case.precision] += 1
        for kind in KINDS if how == ALL or not turn else _in_turn(turn):
            most = None if how == ALL else 1 if turn else FIRST
            for label, graph in _chosen(list(_labelled(case, kind).items()), most, case, seen):
                yield _varied(case, kind, label, graph)


def _in_turn(turn: int) -> Iterator[str]:
    """So many kinds that all of them come in turn."""
    kinds = tuple(KINDS)
    return (kinds[(turn * FURTHER + each) % len(kinds)] for each in range(FURTHER))


def variation(name: str, case: Callable[[str], Case]) -> Case:
    """The variation of this id, from the table's cases by id. Raises KeyError for an unknown id."""
    place, _, variant = name.rpartition(f"/{SIDE}/")
    kind, *labels = variant.split(".")
    for count in range(1, len(labels)):
        with suppress(KeyError):
            varied = case(f"{place}/accept/{'.'.join(labels[count:])}")
            return _varied(varied, kind, ".".join(labels[:count]), _labelled(varied, kind)[".".join(labels[:count])])
    raise KeyError(name)


def _is_plain(case: Case) -> bool:
    return (case.constraint, case.side, case.expect, case.options) == (OPERATOR, "accept", "accept", ())


@lru_cache(maxsize=64)
def _labelled(case: Case, kind: str) -> Mapping[str, Graph]:
    """The programs that a kind makes of a case's, by label; none where torch has no sizes of it."""
    try:
        base = Base(case.graph, case.subject, application(case.graph, case.subject))
    except (NoProgram, GoldenError):
        return {}
    return {label: graph for label, graph in KINDS[kind](base) if graph != case.graph}


def _chosen(found: Sequence[Variation], most: int | None, case: Case, seen: set[Graph]) -> Iterator[Variation]:
    """All that torch takes, or so many from all over the list, each program once."""
    parts = len(found) if most is None else min(most, len(found))
    for turn in range(parts):
        part = found[turn * len(found) // parts : (turn + 1) * len(found) // parts]
        yield from islice(((label, graph) for label, graph in part if _is_new(graph, case, seen)), 1)


def _is_new(graph: Graph, case: Case, seen: set[Graph]) -> bool:
    """Whether a program is a new one, torch takes it, and there is a golden for it."""
    if graph in seen:
        return False
    seen.add(graph)
    if sum(math.prod(value.shape) for value in graph.values) > SMALL:
        return _form(graph) == _form(case.graph)
    try:
        application(graph, case.subject)
        golden(graph).walk(None, delegated=False)
        if any(value.quant is None and not value.dtype.startswith("float") for value in graph.values):
            module(graph)(*model_inputs(graph))
    except Exception:  # noqa: BLE001  (torch refuses arguments with whatever it likes)
        return False
    return True


def _form(graph: Graph) -> tuple[object, ...]:
    """All that torch may refuse: nothing else of a large program is varied, as trying it takes long."""
    sizes = tuple((value.name, value.shape, value.dtype, value.constant) for value in graph.values)
    return sizes, tuple((step.op, step.args, step.kwargs) for step in graph.steps)


def _varied(case: Case, kind: str, label: str, graph: Graph) -> Case:
    name = f"{case.id.rsplit('/', 2)[0]}/{SIDE}/{kind}.{label}.{case.id.rpartition('/')[2]}"
    return replace(case, id=name, side=SIDE, expect="unspecified", graph=graph, delegates=None)
