"""Drift for readers: plain text for a terminal, Markdown for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npu_assay.conformance.drift import AGREEMENTS, FLAGS, Drift, Entry, Line

WORDS: Mapping[str, str] = {**AGREEMENTS, **FLAGS}
SHOWN = 3  # cases named of a line before the rest is only counted


def lines(found: Drift) -> Iterator[str]:
    """The counts, then every constraint of an operator that drifts, with some of its cases."""
    table = f"{found.table.name}@{found.table.version}"
    yield f"{found.backend} against {table}: {len(found.entries)} cases, {len(found.found)} drift"
    for key, words in WORDS.items():
        if key in AGREEMENTS or found.counts[key]:
            yield f"  {found.counts[key]:>6} {words}"
    for line in found.lines:
        if line.drifts:
            yield f"{place(line)}: {counts_text(line.counts)}"
            yield from (f"    {name}" for name in named(_of(found, line)))


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
    """Three tables: all cases, by constraint, and each constraint of an operator that drifts."""
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


def _header(names: Sequence[str], used: Sequence[str]) -> tuple[str, str]:
    columns = [*names, *(WORDS[key] for key in used)]
    return f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"


def _row(names: Sequence[str], counts: Mapping[str, int], used: Sequence[str]) -> str:
    return f"| {' | '.join([*names, *(str(counts[key]) if counts[key] else '' for key in used)])} |"
