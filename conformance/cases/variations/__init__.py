"""Variations: what people get wrong, asked of every row by functions that know no operator and no vendor.

Each kind is a function from a plain accepted program to programs near it. A row's predicates say which are taken,
where they decide; numbers are judged in any case.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType

from npu_assay.conformance.cases.boundaries.arguments import spelled
from npu_assay.conformance.cases.drafts import OPERATOR
from npu_assay.conformance.cases.variations.arguments import arguments, left_out, list_items, ranks
from npu_assay.conformance.cases.variations.base import Base, Kind, Variation
from npu_assay.conformance.cases.variations.decomposed import decomposed
from npu_assay.conformance.cases.variations.numbers import extremes, special_numbers
from npu_assay.conformance.cases.variations.operands import exchanged, open_sizes, quantizations, sizes, types
from npu_assay.conformance.cases.variations.readers import after_others, images, read_by_others, results_read
from npu_assay.conformance.cases.variations.twins import products, twins
from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.predicates.applications import NoProgram, application, one_thread
from npu_assay.conformance.predicates.decisions import decided
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.programs.build import build, model_inputs, module
from npu_assay.conformance.programs.graph import Case, Graph, Value
from npu_assay.conformance.programs.variation_names import ALL, FLOW, LIMITS, NONE, OPENED, SIDE, parts
from npu_assay.conformance.table import Table
from npu_assay.reference.golden import GoldenError

SPELLED = "spelled"
"""The same program, its dimensions counted from the other end: the verdict is what it was, a rejection's, too."""
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "argument": arguments,
        "left_out": left_out,
        "list_item": list_items,
        "rank": ranks,
        "sizes": sizes,
        "quantization": quantizations,
        "type": types,
        "exchanged": exchanged,
        "read": read_by_others,
        "after": after_others,
        "results": results_read,
        "image": images,
        "twin": twins,
        "product": products,
        "parts": decomposed,
        OPENED: open_sizes,
        FLOW: lambda base: iter([("without_passes", base.graph)]),
        SPELLED: lambda base: iter([("other_end", spelled(base.graph, base.use.counted_rank))]),
        "extreme": extremes,
        "special": special_numbers,
    }
)
OPEN_TO_ALL = frozenset({FLOW, "image", "parts", "twin"})
"""Kinds of which nothing is promised: without passes, or with other operators of which other rows decide."""
DEAR = frozenset({OPENED, "parts"})
"""Kinds that are chosen for a row's first plain program alone, and half as many: torch takes long to make them."""
SMALL = 2**16  # numbers of a program that is tried
FIRST, LOOKED_AT = 4, 64
"""Chosen: programs of each kind for a row's first plain one, and of how many of a kind they are."""


def variations(cases: Sequence[Case], how: str, table: Table) -> Iterator[Case]:
    """The variations of a table's plain cases, as many as one of `HOW` says, and no program twice.

    What the table's predicates decide of a program, it promises; of kinds `OPEN_TO_ALL` it promises nothing.
    """
    seen = {(case.graph, False) for case in cases if how != NONE}
    for case in _limits(cases, how) if how != NONE else ():
        yield from (_varied(table, case, SPELLED, *each) for each in _from(0, case, SPELLED, seen, whole=True))
    for case, turn in _turns(cases, table) if how != NONE else ():
        for kind, places in dict.fromkeys(KINDS, ((0, None),)).items() if how == ALL else _chosen(*turn):
            with _quiet(), one_thread():
                found = [v for at, most in places for v in islice(_from(at, case, kind, seen, whole=how == ALL), most)]
            yield from (_varied(table, case, kind, *each) for each in found)
            if turn[2] and how != ALL and found:
                break


def _limits(cases: Iterable[Case], how: str) -> Iterable[Case]:
    """Programs on both sides of limits: all, or the first on each of each row's with each list of arguments."""
    found = [case for case in cases if case.side in LIMITS and case.expect != "unspecified"]
    first = dict[object, Case]()
    for case in found:
        args = [step.args[1:] for step in case.graph.steps if step.name == case.subject]
        first.setdefault((case.row, case.constraint, case.side, *args), case)
    return found if how == ALL else first.values()


def _turns(cases: Iterable[Case], table: Table) -> Iterator[tuple[Case, tuple[int, int, int]]]:
    """Each plain case with the number of its row, of its precision there, and its own among these.

    What stands beside the table counts as a further precision of what is in it.
    """
    counts = defaultdict[str, Counter[str | None]](Counter)
    rows = {row.name: number for number, row in enumerate(table.asked_rows)}
    for case in filter(_is_plain, cases):
        found = counts[case.row]
        found[case.precision] += 1
        precision = [*found].index(case.precision) + (case.expect != "accept")
        yield case, (rows[case.row], precision, found[case.precision] - 1)


def _chosen(row: int, precision: int, number: int) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """The kinds that are asked of a program; of each from which places on, and how many.

    Of a row's first program the first ones, and others in turn; of the rest the first kind that has any, and another
    one of it each time.
    """
    kinds, half = tuple(kind for kind in KINDS if kind != SPELLED), FIRST // 2
    if not number:
        for kind in kinds if not precision else (kind for kind in kinds if kind not in DEAR):
            later, most = half * (row + 1) + precision, half // 2 if kind in DEAR else half
            yield kind, ((later, 1),) if precision else ((0, most), (later, most))
        return
    for each in range(len(kinds)):
        if (kind := kinds[(number + precision + row + each) % len(kinds)]) not in DEAR:
            yield kind, ((half + row + number // len(kinds), 1),)


def _from(start: int, case: Case, kind: str, seen: set[tuple[Graph, bool]], *, whole: bool) -> Iterator[Variation]:
    """The new programs of a kind from a place on, then those before it; unless all are asked, of the first ones."""
    found = [*islice(_labelled(case, kind), None if whole else LOOKED_AT)]
    start, flows = start % len(found) if found else 0, kind == FLOW
    for label, graph in (*found[start:], *found[:start]):
        if (graph, flows) not in seen:
            seen.add((graph, flows))
            if kind in (FLOW, SPELLED) or _is_taken(graph, case):  # these are the same program
                yield label, graph


def variation(name: str, cases: Mapping[str, Case], table: Table) -> Case:
    """The variation of this id, from the table's cases by id. Raises KeyError for an unknown id."""
    kind, label, plain = parts(name, cases)
    for each, graph in _labelled(cases[plain], kind) if kind in KINDS else ():
        if each == label:
            return _varied(table, cases[plain], kind, label, graph)
    raise KeyError(name)


def chosen_kinds(cases: Iterable[Case], table: Table) -> dict[str, tuple[int, int]]:
    """By kind, of how many plain programs of a table it is chosen, and of how many it is not."""
    turns = [turn for _, turn in _turns(cases, table)]
    counts = Counter(kind for turn in turns for kind, _ in islice(_chosen(*turn), 1 if turn[2] else None))
    return {kind: (counts[kind], len(turns) - counts[kind]) for kind in KINDS}


def _is_plain(case: Case) -> bool:
    """Whether a case has nothing out of the ordinary; of operators beside the table nothing is promised."""
    return (case.constraint, case.side, case.options) == (OPERATOR, "accept", ()) and case.expect != "reject"


def _labelled(case: Case, kind: str) -> Iterator[Variation]:
    """The programs that a kind makes of a case's, with their labels; none where torch has no sizes of it."""
    try:
        base = Base(case.graph, case.subject, _applied(case))
    except (NoProgram, GoldenError):
        return
    made = KINDS[kind](base)
    yield from ((label, graph) for label, graph in made if kind == FLOW or graph != case.graph)


@lru_cache(maxsize=64)
def _applied(case: Case) -> Application:
    return application(case.graph, case.subject)


def _is_taken(graph: Graph, case: Case) -> bool:
    """Whether torch takes a program, and there is a golden for it."""
    if sum(math.prod(value.shape) for value in graph.values) > SMALL:
        return _form(graph) == _form(case.graph)
    try:
        application(graph, case.subject)
        golden(graph).walk(None, delegated=False)
        if any(_is_odd(value) for value in graph.values) or any("dim_order" in step.op for step in graph.steps):
            module(graph)(*model_inputs(graph))
            build(graph)
    except Exception:  # noqa: BLE001  (torch refuses arguments with whatever it likes)
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing of what torch tells of the programs that it refuses."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _is_odd(value: Value) -> bool:
    """Whether torch's kernels, or what writes edge programs, may refuse a value that its sizes allow."""
    return bool(value.dynamic) or 0 in value.shape or (value.quant is None and not value.dtype.startswith("float"))


def _form(graph: Graph) -> tuple[object, ...]:
    """All that torch may refuse: nothing else of a large program is varied, as trying it takes long."""
    sizes = tuple((value.name, value.shape, value.dtype, value.constant) for value in graph.values)
    return sizes, tuple((step.op, step.args, step.kwargs) for step in graph.steps)


def _varied(table: Table, case: Case, kind: str, label: str, graph: Graph) -> Case:
    name = f"{case.id.rsplit('/', 2)[0]}/{SIDE}/{kind}.{label}.{case.id.rpartition('/')[2]}"
    varied = replace(case, id=name, side=SIDE, expect="unspecified", graph=graph, delegates=None)
    if kind == SPELLED:
        return replace(varied, expect=case.expect, reason=case.reason)
    return varied if kind in OPEN_TO_ALL or case.expect != "accept" else decided(table, varied)
