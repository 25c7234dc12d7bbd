"""Drift for readers: plain text for a terminal, Markdown for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npu_assay.conformance.compare.drift import AGREEMENTS, FLAGS, Drift, Entry, Line
from npu_assay.conformance.compare.promise import BEYOND, DIFFER, DOCUMENTED
from npu_assay.conformance.record.levels import unjudged
from npu_assay.conformance.table import Row, Table

WORDS: Mapping[str, str] = {**AGREEMENTS, **FLAGS}
SHOWN = 3  # cases named of a line before the rest is only counted


def lines(found: Drift) -> Iterator[str]:
    """The counts, every constraint of an operator that drifts, with some cases; then document against backend."""
    table = f"{found.table.name}@{found.table.version}"
    counts = f"{len(found.entries)} cases, {len(found.found)} drift"
    yield f"{found.backend} against {table}: {counts}{unjudged(found.level)}"
    for key, words in WORDS.items():
        if key in AGREEMENTS or found.counts[key]:
            yield f"  {found.counts[key]:>6} {words}"
    for line in found.lines:
        if line.drifts:
            yield f"{place(line)}: {counts_text(line.counts)}"
            yield from (f"    {name}" for name in named(_of(found, line)))
    yield from ("document against backend, by constraint and where it comes from:", *_documented(found))


def documented_lines(found: Drift) -> Iterator[str]:
    """Every constraint of an operator in which document and backend differ, then what is not in one of them."""
    for line in found.lines:
        if line.differs:
            yield f"{place(line)}{_origin(line.source)}: {documented_text(line.documented)}"
    for (row, precision), cases in found.beyond.items():
        yield f"{'/'.join(filter(None, (row, precision)))}: {cases} {DOCUMENTED[BEYOND]}"
    for refused in without_cases(found.table):
        (reason,) = refused.constraints
        name = refused.documented_as or refused.name
        yield f"{name} ({refused.document}) has no cases, refused: {reason.code} [{reason.source}]"
    for one in found.table.rewritten:
        yield f"{one.name} ({one.document}) has no cases, rewritten to {', '.join(one.operators)}"


def without_cases(table: Table) -> tuple[Row, ...]:
    """The refused operators that no edge program shows by themselves."""
    return tuple(row for row in table.refused if not row.precisions)


def _documented(found: Drift) -> Iterator[str]:
    for key, words in DOCUMENTED.items():
        if found.documented[key]:
            yield f"  {found.documented[key]:>6} {words}"
    for (code, origin), group in constraints_that_differ(found).items():
        names = list(dict.fromkeys(line.row for line in group))
        counts = documented_text({key: sum(line.documented[key] for line in group) for key in DOCUMENTED})
        yield f"  {code}{_origin(origin)}: {counts}; {_some(names)}"
    if found.beyond:
        yield f"  {DOCUMENTED[BEYOND]}: {_some([' '.join(place).strip() for place in found.beyond])}"


def constraints_that_differ(found: Drift) -> dict[tuple[str, str], list[Line]]:
    """The lines in which document and backend differ, by constraint and source."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in found.lines:
        if line.differs:
            groups.setdefault((line.constraint, line.source), []).append(line)
    return dict(sorted(groups.items()))


def documented_text(counts: Mapping[str, int]) -> str:
    """The counts in which document and backend differ that are not 0."""
    return ", ".join(f"{counts[key]} {DOCUMENTED[key]}" for key in DIFFER if counts[key])


def _origin(source: str) -> str:
    return f" [{source}]" if source else ""


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return f"{', '.join(names[:SHOWN])}{f' and {rest} more' if rest > 0 else ''}"


def place(line: Line) -> str:
    """Operator, precision and constraint."""
    return "/".join(filter(None, (line.row, line.precision, line.constraint)))


def counts_text(counts: Mapping[str, int]) -> str:
    """The counts that are not 0."""
    return ", ".join(f"{counts[key]} {words}" for key, words in WORDS.items() if counts[key])


def named(entries: Sequence[Entry]) -> Iterator[str]:
    """Some cases with what failed first, and how many more there are."""
    for entry in entries[:SHOWN]:
        failures = entry.result.failures
        yield f"{entry.result.case}: {f'[{failures[0].check}] {failures[0].message}' if failures else entry.agreement}"
    if len(entries) > SHOWN:
        yield f"... and {len(entries) - SHOWN} more"


def _of(found: Drift, line: Line) -> list[Entry]:
    key = line.row, line.precision, line.constraint
    return [e for e in found.found if (e.result.row, e.precision, e.result.constraint) == key]


def drift_markdown(found: Drift) -> str:
    """The tables as one text."""
    return "\n".join(markdown(found))


def markdown(found: Drift) -> Iterator[str]:
    """All cases, by constraint, and each constraint of an operator that drifts; then document against backend."""
    yield from ("| | cases |", "|---|---|")
    for key, words in WORDS.items():
        if key in AGREEMENTS or found.counts[key]:
            yield f"| {words} | {found.counts[key]} |"
    used = [key for key in WORDS if found.counts[key]]
    yield from ("", *_header(["constraint"], used))
    for name, counts in found.by("constraint").items():
        yield _row([f"`{name}`"], counts, used)
    yield from ("", *_header(["operator", "constraint"], used))
    for line in found.lines:
        if line.drifts:
            kind = f" {line.precision}" if line.precision else ""
            yield _row([f"{line.row}{kind}", f"`{line.constraint}`"], line.counts, used)
    yield from ("", *documented_markdown(found))


def documented_markdown(found: Drift) -> Iterator[str]:
    """Document against backend: all cases, by constraint and source, and the operators that have other names."""
    yield from ("| document against backend | cases |", "|---|---|")
    used = [key for key in DOCUMENTED if found.documented[key]]
    yield from (f"| {DOCUMENTED[key]} | {found.documented[key]} |" for key in used)
    differing = [key for key in DIFFER if key in used]
    groups = constraints_that_differ(found)
    if groups:
        yield from ("", *_header(["constraint", "from", "operators"], differing, DOCUMENTED))
    for (code, origin), group in groups.items():
        counts = {key: sum(line.documented[key] for line in group) for key in differing}
        names = ", ".join(dict.fromkeys(line.row for line in group))
        yield _row([f"`{code}`", origin, names], counts, differing)
    if found.beyond:
        yield from ("", f"| operator | precision | {DOCUMENTED[BEYOND]} |", "|---|---|---|")
    yield from (f"| {row} | {precision} | {cases} |" for (row, precision), cases in found.beyond.items())
    yield from _uncounted(found.table)


def _uncounted(table: Table) -> Iterator[str]:
    """The document's operators that have no cases."""
    refused = without_cases(table)
    if refused or table.rewritten:
        yield from ("", "| without cases | document | refused for, or rewritten to |", "|---|---|---|")
    for row in refused:
        yield f"| {row.documented_as or row.name} | {row.document} | `{row.constraints[0].code}` |"
    yield from (f"| {one.name} | {one.document} | {', '.join(one.operators)} |" for one in table.rewritten)


def _header(names: Sequence[str], used: Sequence[str], words: Mapping[str, str] = WORDS) -> tuple[str, str]:
    columns = [*names, *(words[key] for key in used)]
    return f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"


def _row(names: Sequence[str], counts: Mapping[str, int], used: Sequence[str]) -> str:
    return f"| {' | '.join([*names, *(str(counts[key]) if counts[key] else '' for key in used)])} |"
