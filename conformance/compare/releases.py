"""`assay table diff --page`: what a release of a table changes for who has the one before, as Markdown.

The words are the tables'; the numbers are of programs that were written for the table before, and that the new one
takes or excludes by its predicates.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.predicates.applications import application
from npu_assay.conformance.predicates.definitions import defined
from npu_assay.conformance.predicates.evaluation import holds
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Row, Table, row_before

WIDTH = 120


@dataclass(frozen=True)
class Moved:
    """A row of both tables: the limits that are gone, those that came, and how many programs change their side.

    taken: programs that the table before excludes and the new one takes. lost: those that it takes and the new one
    excludes, by the limit that does.
    """

    row: Row
    gone: tuple[str, ...]
    came: tuple[str, ...]
    taken: int
    lost: tuple[tuple[str, int], ...]

    @property
    def wider(self) -> bool:
        """Whether nothing that was taken is excluded, and limits are gone."""
        return bool(self.gone) and not self.lost


def page(before: Table, after: Table) -> str:
    """The whole page."""
    both = [(old, row) for row in after.rows if (old := row_before(before, row)) is not None]
    new = [row for row in after.rows if row_before(before, row) is None]
    out = [row for row in before.rows if row_before(after, row) is None]
    moved = list(_moved(before, after, both))
    parts = [
        f"# From {before.title} to {after.title}",
        *_section("Operators that now go to the NPU", (_promised(after, row) for row in new)),
        *_section("Operators that no longer go to the NPU", (f"`{row.name}`" for row in out)),
        *_section("Other names", (f"`{a.name}` is `{b.name}`" for a, b in both if a.name != b.name)),
        *_section("Wider limits", _grouped(each for each in moved if each.wider)),
        *_section("Narrower limits, or narrower in part", _grouped(each for each in moved if not each.wider)),
        *_section("The same", _same(both, moved)),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _section(title: str, items: Iterable[str]) -> Iterator[str]:
    listed = [textwrap.fill(f"- {item}", WIDTH, subsequent_indent="  ") for item in items]
    if listed:
        yield f"\n## {title}\n"
        yield from listed


def _promised(table: Table, row: Row) -> str:
    limits = "; ".join(table.sentence(c) for c in row.constraints)
    return f"`{row.name}`: {limits}"


def _same(both: Sequence[tuple[Row, Row]], moved: Sequence[Moved]) -> Iterator[str]:
    others = {each.row.name for each in moved}
    names = [f"`{row.name}`" for _, row in both if row.name not in others]
    if names:
        yield f"{len(names)} operators have the limits that they had: {', '.join(names)}"


def _grouped(moved: Iterable[Moved]) -> Iterator[str]:
    """Rows that change in the same way together."""
    alike = grouped_by(moved, lambda each: (each.gone, each.came, tuple(code for code, _ in each.lost)))
    yield from map(_told, alike.values())


def _told(members: Sequence[Moved]) -> str:
    first, names = members[0], ", ".join(f"`{each.row.name}`" for each in members)
    taken, lost = sum(each.taken for each in members), sum(n for each in members for _, n in each.lost)
    parts = [names + ":"]
    if first.gone:
        parts.append(f"No longer: {'; '.join(first.gone)}.")
    if first.came:
        parts.append(f"Now: {'; '.join(first.came)}.")
    if taken:
        parts.append(f"{taken} programs that were excluded are taken.")
    if lost:
        codes = ", ".join(dict.fromkeys(code for each in members for code, _ in each.lost))
        parts.append(f"{lost} programs that were taken are excluded ({codes}).")
    return " ".join(parts)


def _moved(before: Table, after: Table, both: Iterable[tuple[Row, Row]]) -> Iterator[Moved]:
    was, now = (grouped_by(cases_for(table), lambda case: case.row) for table in (before, after))
    for old, row in both:
        gone, came = _without(before, old, row), _without(after, row, old)
        if gone or came:
            taken = sum("/no_longer_" in case.id for case in now.get(row.name, []))
            yield Moved(row, gone, came, taken, _lost(after, row, was.get(old.name, [])))


def _without(table: Table, row: Row, other: Row) -> tuple[str, ...]:
    """The limits of a row, in words, that another one has not."""
    known = [(c.code, c.value) for c in other.constraints]
    return tuple(table.sentence(c) for c in row.constraints if (c.code, c.value) not in known)


def _lost(after: Table, row: Row, cases: Iterable[Case]) -> tuple[tuple[str, int], ...]:
    """How many programs that were taken each limit excludes."""
    found = defaultdict[str, int](int)
    for case in cases:
        if case.expect == "accept":
            known = application(case.graph, case.subject)
            for each in defined(after, row, case.precision):
                truth = holds(each.predicate, known.with_value(each.value).find, each.code)
                found[each.code] += truth is False
    return tuple((code, number) for code, number in found.items() if number)
