"""What the suite takes the constraints of tables for; `python -m npu_assay.conformance.table.meanings` prints the page.

A table's sentence is for readers; the cases follow the code. So the page is made from the cases: which operators have
some for a code, and which values they take. Only the notes are written by hand.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from npu_assay.conformance.cases import cases_for, of_domain
from npu_assay.conformance.cases.family import STATIC_INT8
from npu_assay.conformance.cases.limits import LimitError
from npu_assay.conformance.common.escaped import listed
from npu_assay.conformance.table import INTEGER_PRECISIONS, PRECISIONS, Row, Table, load_table

IMPOSSIBLE = -(2**40)
WIDTH = 120
LISTED = 8  # operators of one code that are named
HEAD = """# Constraints

What each constraint means to the suite. The sentence that a table has for a constraint is for its readers;
**the cases follow the constraint's id**, whatever the sentence says. So a limit of yours belongs under an id only if it
is the limit that is described here. `python -m npu_assay.conformance.table.meanings` prints this page, and a test
compares the two.

A row has the cases of one of three kinds of hardware, by its `precisions`:

| rows | as | here called |
|---|---|---|
| without `precisions` | Neutron | static int8 |
| with some of `{floats}` | XNNPACK | floats |
| with some of `{integers}` | Ethos-U | integers |

Under each id stand, by kind, the sentence of the shipped tables, the values that cases can be made for, and the
operators of those tables that have cases for it. An id that an operator has no cases for is an error, and so is a
value that none can be made for.

A limit that no id says is a predicate that a table defines itself: see [predicates.md](predicates.md). So is any
id of this page that is to mean something else: a table's definition comes first.
"""
KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "static int8": ("neutron@1.3", "neutron@1.4"),
        "floats": ("xnnpack@1.5",),
        "integers": ("ethos_u55@1.5", "ethos_u85@1.5"),
    }
)
"""The shipped tables of each kind of rows."""


@dataclass(frozen=True)
class Use:
    """What the tables of a kind have for a code: sentences, values that cases can be made for, operators."""

    kind: str
    sentences: tuple[str, ...]
    values: tuple[str, ...]
    operators: tuple[str, ...]


def uses() -> dict[str, list[Use]]:
    """By code, in the order of the alphabet, what the shipped tables have for it, by kind."""
    found: dict[str, list[Use]] = defaultdict(list)
    for kind, names in KINDS.items():
        tables = [load_table(name) for name in names]
        for code in {code for table in tables for code, _ in table.meanings}:
            found[code].append(_use(kind, code, tables))
    return dict(sorted(found.items()))


def _use(kind: str, code: str, tables: Iterable[Table]) -> Use:
    sentences = [text for table in tables for known, text in table.meanings if known == code]
    rows = [(table, row) for table in tables for row in table.rows if code in {c.code for c in row.constraints}]
    common = any(code in {c.code for c in table.common} for table in tables)
    names = sorted({row.name for _, row in rows})
    return Use(kind, _once(sentences), tuple(_values(code, rows)), ("every operator",) if common else tuple(names))


def _values(code: str, rows: Sequence[tuple[Table, Row]]) -> Iterator[str]:
    """The values that errors about an impossible one expect, each once; any, for rows with a domain."""
    valued = [(table, row) for table, row in rows if row.constraint(code).value is not None]
    yield from _once(_expected(table, row, code) for table, row in valued)


def _expected(table: Table, row: Row, code: str) -> str:
    if any(of_domain(table, row, precision) for precision in row.precisions or (STATIC_INT8,)):
        return "any that its predicate compares"
    changed = (replace(c, value=IMPOSSIBLE) if c.code == code else c for c in row.constraints)
    try:
        cases_for(replace(table, rows=(replace(row, constraints=tuple(changed)),), refused=()))
    except LimitError as error:
        return str(error).partition(": expected ")[2]
    return "for readers only: cases are made without regard to it"


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def notes() -> dict[str, str]:
    """By code, what its sentence does not say."""
    data = tomllib.loads(Path(__file__).with_name("meanings.toml").read_text(encoding="utf-8"))
    return {code: " ".join(str(text).split()) for code, text in data.items()}


def page() -> str:
    """The whole page, as Markdown."""
    floats = [name for name in PRECISIONS if name not in INTEGER_PRECISIONS]
    names = {"floats": ", ".join(floats), "integers": ", ".join(INTEGER_PRECISIONS)}
    parts = [HEAD.format(**names)]
    known, told = uses(), notes()
    for code in sorted({*known, *told}):
        lines = _section(told.get(code, ""), known.get(code, []))
        parts.append("\n".join([f"## {code}\n", *lines]) + "\n")
    return "\n".join(parts)


def _section(note: str, found: Sequence[Use]) -> Iterator[str]:
    if note:
        yield from (textwrap.fill(note, WIDTH), "")
    for use in found:
        yield f"- {use.kind}: {' / '.join(use.sentences)}"
        for value in use.values:
            yield f"  - `{{value}}`: {value}"
        yield f"  - {listed(use.operators, LISTED)}"
    if not found:
        yield "- in no shipped table"


if __name__ == "__main__":
    print(page(), end="")
