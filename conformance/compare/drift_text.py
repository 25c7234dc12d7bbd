"""Drift for readers: plain text for a terminal, Markdown for a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from npu_assay.conformance.common.escaped import Lines, listed
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.common.markup import markdown_table
from npu_assay.conformance.compare.drift import AGREEMENTS, FLAGS, Drift, Entry, Line
from npu_assay.conformance.compare.promise import BEYOND, DIFFER, DOCUMENTED
from npu_assay.conformance.record.levels import unjudged
from npu_assay.conformance.table import Row, Table

WORDS: Mapping[str, str] = {**AGREEMENTS, **FLAGS}
SHOWN = 3  # cases named of a line before the rest is only counted


def lines(found: Drift) -> Iterator[str]:
    """The counts, every constraint of an operator that drifts, with some cases; then document against backend."""
    table = found.table.title
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
        yield f"  {code}{_origin(origin)}: {counts}; {listed(names, SHOWN)}"
    if found.beyond:
        yield f"  {DOCUMENTED[BEYOND]}: {listed([' '.join(place).strip() for place in found.beyond], SHOWN)}"


def constraints_that_differ(found: Drift) -> dict[tuple[str, str], list[Line]]:
    """The lines in which document and backend differ, by constraint and source."""
    differing = (line for line in found.lines if line.differs)
    return dict(sorted(grouped_by(differing, lambda line: (line.constraint, line.source)).items()))


def documented_text(counts: Mapping[str, int]) -> str:
    """The counts in which document and backend differ that are not 0."""
    return ", ".join(f"{counts[key]} {DOCUMENTED[key]}" for key in DIFFER if counts[key])


def _origin(source: str) -> str:
    return f" [{source}]" if source else ""


def place(line: Line) -> str:
    """Operator, precision and constraint."""
    return "/".join(filter(None, (line.row, line.precision, line.constraint)))


def counted_words(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """In words what was counted, where that is not 0."""
    return [(words, counts[key]) for key, words in WORDS.items() if counts[key]]


def counts_text(counts: Mapping[str, int]) -> str:
    """The counts that are not 0."""
    return ", ".join(f"{count} {words}" for words, count in counted_words(counts))


def named(entries: Sequence[Entry]) -> Iterator[str]:
    """Some cases with what failed first, and how many more there are."""
    for entry in entries[:SHOWN]:
        yield f"{entry.result.case}: {next(map(str, entry.result.failures), entry.agreement)}"
    if len(entries) > SHOWN:
        yield f"... and {len(entries) - SHOWN} more"


def _of(found: Drift, line: Line) -> list[Entry]:
    key = line.row, line.precision, line.constraint
    return [e for e in found.found if (e.result.row, e.precision, e.result.constraint) == key]


def drift_markdown(found: Drift) -> Lines:
    """All cases, by constraint, and each constraint of an operator that drifts; then document against backend."""
    return Lines("\n".join(_markdown(found)))


def _markdown(found: Drift) -> Iterator[str]:
    yield from ("| | cases |", "|---|---|")
    for key, words in WORDS.items():
        if key in AGREEMENTS or found.counts[key]:
            yield f"| {words} | {found.counts[key]} |"
    used = [key for key in WORDS if found.counts[key]]
    constraints = (((f"`{name}`",), counts) for name, counts in found.by("constraint").items())
    yield from ("", _table(["constraint"], used, constraints))
    drifting = [line for line in found.lines if line.drifts]
    places = ((f"{line.row} {line.precision}".rstrip(), f"`{line.constraint}`") for line in drifting)
    rows = zip(places, (line.counts for line in drifting), strict=True)
    yield from ("", _table(["operator", "constraint"], used, rows), "", *_documented_markdown(found))


def _documented_markdown(found: Drift) -> Iterator[str]:
    """Document against backend: all cases, by constraint and source, and the operators that have other names."""
    used = [key for key in DOCUMENTED if found.documented[key]]
    yield markdown_table(
        ("document against backend", "cases"), ((DOCUMENTED[key], found.documented[key]) for key in used)
    )
    rows = []
    for (code, origin), group in constraints_that_differ(found).items():
        counts = {key: sum(line.documented[key] for line in group) for key in DIFFER}
        rows.append(((f"`{code}`", origin, ", ".join(dict.fromkeys(line.row for line in group))), counts))
    if rows:
        differing = [key for key in DIFFER if key in used]
        yield from ("", _table(["constraint", "from", "operators"], differing, rows, DOCUMENTED))
    if found.beyond:
        beyond = ((*place, cases) for place, cases in found.beyond.items())
        yield from ("", markdown_table(("operator", "precision", DOCUMENTED[BEYOND]), beyond))
    refused = [
        (row.documented_as or row.name, row.document, f"`{row.constraints[0].code}`")
        for row in without_cases(found.table)
    ]
    rewritten = [(one.name, one.document, ", ".join(one.operators)) for one in found.table.rewritten]
    if refused or rewritten:
        yield from (
            "",
            markdown_table(("without cases", "document", "refused for, or rewritten to"), refused + rewritten),
        )


def _table(
    names: Sequence[str],
    used: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Mapping[str, int]]],
    words: Mapping[str, str] = WORDS,
) -> Lines:
    """A table of counts by these keys, after the columns of these names; nothing for 0."""
    cells = ([*row, *(counts[key] or "" for key in used)] for row, counts in rows)
    return markdown_table([*names, *(words[key] for key in used)], cells)
