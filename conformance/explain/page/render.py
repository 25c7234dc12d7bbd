"""The page from its templates: what a template writes is escaped, and free of control characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npu_assay.conformance.common.templating import rendered
from npu_assay.conformance.explain.page.drawing import HEIGHT, WIDTH, drawing_of
from npu_assay.conformance.explain.record import Explained, Explanation
from npu_assay.conformance.explain.summary import MODEL, Module, module_tree, short, summary_rows
from npu_assay.conformance.explain.view import answer, cause_lines, known_of, listed, lost, notes, title

COLOURS = 6
"""The colors of backends in explain.css; further backends get them again."""


def page(explanation: Explanation) -> str:
    """The explanation as one HTML file that needs nothing else: graph, causes, layers, modules, search."""
    return rendered(
        "explain.page",
        "explain.html",
        script="explain.js",
        explanation=explanation,
        data=explanation.as_json(),
        rows=list(summary_rows(explanation)),
        answers=[list(answer(one)) for one in explanation.backends],
        silences=list(notes(explanation, "silence")),
        drawings=[drawing_of(one.operators) for one in explanation.backends],
        trees=[module_tree(one.operators) for one in explanation.backends],
        places_of=[{each.name: n for n, each in enumerate(one.operators)} for one in explanation.backends],
        takers=_takers(explanation),
        colours=COLOURS,
        width=WIDTH,
        height=HEIGHT,
        top=MODEL,
        short=short,
        is_module=lambda part: isinstance(part, Module),
        places_in=lambda names, places: [places[name] for name in names if name in places],
        cause_lines=cause_lines,
        known_of=known_of,
        listed=listed,
        lost=lost,
        title=title,
    )


# ------------------------------------------------------------------------------------ the same operator elsewhere


def _takers(explanation: Explanation) -> list[list[set[int]]]:
    """For each operator of each backend's program the backends that take it, by their numbers."""
    keys = [list(_keys(one)) for one in explanation.backends]
    taking: dict[tuple[str, str, int], set[int]] = {key: set() for own in keys for key in own}
    for number, one in enumerate(explanation.backends):
        for key, operator in zip(keys[number], one.operators, strict=True):
            if operator.delegate is not None:
                taking[key].add(number)
    return [[taking[key] for key in own] for own in keys]


def _keys(one: Explained) -> Iterator[tuple[str, str, int]]:
    """What an operator is called for every backend, as each gets a program of its own: the n-th of a module's."""
    seen = Counter[tuple[str, str]]()
    for operator in one.operators:
        key = (operator.module, operator.operator)
        seen[key] += 1
        yield (*key, seen[key])
