"""`assay table diff`: what one table promises and another does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from npu_assay.conformance.table import Row, Table
from npu_assay.conformance.table.constraints import shown
from npu_assay.reference.operators import VIEWS

NONE = "none"


@dataclass(frozen=True)
class Change:
    """One difference. where: a row's name, a constraint's code, or "" for the table; before and after in words."""

    where: str
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}: {self.before} -> {self.after}"


def changes(a: Table, b: Table) -> list[Change]:
    """From `a` to `b`: the table's own words, rows, constraints of rows, then sentences and definitions."""
    return [*_top(a, b), *_rows(a, b), *_meanings(a, b)]


def _top(a: Table, b: Table) -> Iterator[Change]:
    for name in ("name", "version", "backend_id", "source", "rescale", "preserve", "mark", "follows", "parameters"):
        yield from _changed("", name, _words(getattr(a, name)), _words(getattr(b, name)))
    yield from _constraints("every row", {str(c): c for c in _texts(a.common)}, {str(c): c for c in _texts(b.common)})


def _rows(a: Table, b: Table) -> Iterator[Change]:
    before, after = ({row.name: row for row in table.every_row} for table in (a, b))
    for old, new in _renamed(before, after):
        yield from _changed(new, "name", old, new)
        before[new] = before.pop(old)
    for name in dict.fromkeys((*before, *after)):
        if name not in after or name not in before:
            yield Change(name, "row", "promised" if name in before else NONE, "promised" if name in after else NONE)
            continue
        yield from _changed(name, "row", _kind(a, before[name]), _kind(b, after[name]))
        yield from _row(name, before[name], after[name])


def _renamed(before: Mapping[str, Row], after: Mapping[str, Row]) -> list[tuple[str, str]]:
    """Rows of one operator that go by ATen's name of the view in one table alone: the old name and the new one."""
    gone = {VIEWS.get(name, name): name for name in before if name not in after}
    came = {VIEWS.get(name, name): name for name in after if name not in before}
    return [(gone[operator], came[operator]) for operator in gone if operator in came]


def _kind(table: Table, row: Row) -> str:
    return "refused" if row in table.refused else "promised"


def _row(name: str, a: Row, b: Row) -> Iterator[Change]:
    for field in fields(Row):
        if field.name not in ("name", "constraints"):
            yield from _changed(name, field.name, _words(getattr(a, field.name)), _words(getattr(b, field.name)))
    yield from _constraints(name, dict.fromkeys(_texts(a.constraints)), dict.fromkeys(_texts(b.constraints)))


def _texts(constraints: object) -> Iterator[str]:
    assert isinstance(constraints, tuple)
    for c in constraints:
        value = "" if c.value is None else f" = {shown(c.value)}"
        kinds = f" for {', '.join(c.precisions)}" if c.precisions else ""
        yield f"{c.code}{value}{kinds} @{c.source}"


def _constraints(where: str, a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Change]:
    """One change for each code, whatever of it changed."""
    before, after = ({text.split(" ")[0]: text for text in texts} for texts in (a, b))
    for code in dict.fromkeys((*before, *after)):
        yield from _changed(where, "constraint", before.get(code, NONE), after.get(code, NONE))


def _meanings(a: Table, b: Table) -> Iterator[Change]:
    before, after = dict(a.meanings), dict(b.meanings)
    for code in (code for code in before if code in after):
        yield from _changed(code, "sentence", before[code], after[code])
        yield from _changed(code, "definition", _definition(a, code), _definition(b, code))


def _definition(table: Table, code: str) -> str:
    defined = table.own.definition(code)
    if defined is None:
        return "the suite's"
    parts = [defined.holds.text] if defined.holds is not None else []
    return "; ".join([*parts, *([f"unchecked: {defined.unchecked}"] if defined.unchecked else [])])


def _changed(where: str, what: str, before: str, after: str) -> Iterator[Change]:
    if before != after:
        yield Change(where, what, before, after)


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or NONE
    return str(value) if value not in (None, "") else NONE
