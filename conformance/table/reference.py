"""`assay table reference`: a table as a page, for readers: every row, every constraint in words, and how many cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npu_assay.conformance.predicates.own import Definition
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Row, Table


def page(table: Table) -> str:
    """The page, as Markdown. Raises SelectionError and LimitError for a table that no cases can be made of."""
    cases = all_cases(table)
    parts = [_head(table, cases), _constraints(table), *(_row(table, row, cases) for row in table.rows)]
    if table.refused:
        parts.append("## Refused\n\n" + "\n".join(f"- `{row.name}`: {_reason(table, row)}" for row in table.refused))
    return "\n\n".join(parts) + "\n"


def _head(table: Table, cases: tuple[Case, ...]) -> str:
    rescale = (
        f"Integers are rescaled by the scheme `{table.rescale}`." if table.rescale else "No rescale scheme is named."
    )
    counts = f"{len(table.rows)} operators, {len(cases)} cases."
    return f"# {table.name} {table.version}\n\n{_escaped(table.source)}. {counts} {rescale}"


def _constraints(table: Table) -> str:
    """What the table defines itself, and what it takes from the suite."""
    lines = ["## Constraints", "", "| code | says | holds |", "|---|---|---|"]
    for code, sentence in table.meanings:
        holds = _meaning(table.own.definition(code))
        lines.append(f"| `{code}` | {_escaped(sentence)} | {holds} |")
    if table.common:
        lines += ["", f"For every operator: {', '.join(f'`{c.code}`' for c in table.common)}."]
    return "\n".join(lines)


def _meaning(defined: Definition | None) -> str:
    if defined is None:
        return "the suite's meaning"
    parts = [f"`{defined.holds.text}`"] if defined.holds is not None else []
    return "; ".join([*parts, *([f"unchecked: {_escaped(defined.unchecked)}"] if defined.unchecked else [])])


def _row(table: Table, row: Row, cases: tuple[Case, ...]) -> str:
    own = [case for case in cases if case.row == row.name]
    lines = [f"## {row.name}", "", *_said(row), f"{len(own)} cases.", ""]
    if row.constraints:
        lines += ["| constraint | says | source | accepted | at the limit | rejected |", "|---|---|---|---|---|---|"]
    for constraint in row.constraints:
        sides = Counter(case.side for case in own if case.constraint == constraint.code)
        kinds = f" ({', '.join(constraint.precisions)})" if constraint.precisions else ""
        counts = " | ".join(str(sides[side]) for side in ("accept", "at_limit", "outside"))
        says = _escaped(table.sentence(constraint))
        lines.append(f"| `{constraint.code}`{kinds} | {says} | {constraint.source} | {counts} |")
    return "\n".join(lines).rstrip()


def _said(row: Row) -> Iterator[str]:
    if row.document:
        yield f"The document says: {_escaped(row.document)}"
        yield ""
    if row.precisions:
        yield f"Precisions: {', '.join(row.precisions)}."
        yield ""


def _reason(table: Table, row: Row) -> str:
    return _escaped(table.sentence(row.constraints[0]))


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#" else c for c in " ".join(text.split()))
