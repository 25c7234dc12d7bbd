"""A difference for readers: by row and kind, equal changes together, in lines of 80 columns at most."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.compare.difference import Difference, Run
from npu_assay.conformance.compare.difference_groups import (
    Group,
    cases_of,
    groups_by_row,
    happened,
    made_with,
    shortened,
    sources,
    stated,
)
from npu_assay.conformance.record.certificate import outcome_text

WIDTH = 80
SHOWN = 3  # cases of each change, changes of each kind, and sources of each package; JSON has them all
EXAMPLE = 160  # characters of one side


def lines(found: Difference) -> Iterator[str]:
    """The whole text, line by line: what happened to how many cases first."""
    yield from _wrapped(f"a  {_head(found.a)}", 3)
    yield from _wrapped(f"b  {_head(found.b)}", 3)
    yield from _outcomes(found)
    yield from _stated("stated", stated(found))
    yield from _made_with(found)
    for row, kinds in groups_by_row(found):
        cases = cases_of(kinds)
        yield ""
        yield from _wrapped(f"{row}: {counted(cases, 'case')} differ" + "s" * (cases == 1), 2)
        for kind, changes in kinds:
            yield f"  {kind}"
            yield from _kind(row, changes)
    yield ""
    yield from _wrapped(found.conclusion, 2)


def _outcomes(found: Difference) -> Iterator[str]:
    rows = happened(found)
    if rows:
        yield from ("", "what happened")
    for what, cases, means in rows:
        yield from _wrapped(f"  {what}: {counted(cases, 'case')} ({means})", 4)


def _head(run: Run) -> str:
    certificate = run.certificate
    counts = ", ".join(f"{count} {name}" for name, count in certificate.counts.items() if count or name == "fail")
    table = f"{certificate.table['name']}@{certificate.table['version']}"
    return f"{run.name}: {certificate.backend['name']} against {table}, {outcome_text(certificate)}; {counts}"


def _stated(title: str, entries: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    if entries:
        yield ""
        yield title
    for what, before, after in entries:
        yield from _wrapped(f"  {what}: {_short(before)} -> {_short(after)}", 4)


def _made_with(found: Difference) -> Iterator[str]:
    """Versions and backends, and how many source files differ, with the first."""
    others = made_with(found)
    if found.made_with and not others:
        yield from ("", "made with")
    yield from _stated("made with", others)
    for part, names in sources(found):
        rest = ", ..." if len(names) > SHOWN else ""
        differ = "differs" if len(names) == 1 else "differ"
        yield from _wrapped(f"  sources of the {part}: {len(names)} {differ} ({', '.join(names[:SHOWN])}{rest})", 4)


def _kind(row: str, found: Sequence[Group]) -> Iterator[str]:
    """Equal changes with their first cases; the values of numbers and of texts that vary with each case."""
    numbers = [group for group in found if group.what]
    others = [group for group in found if not group.what]
    for group in (*numbers, *others[:SHOWN]):
        text = group.what or f"{_short(group.before)} -> {_short(group.after)}"
        yield from _wrapped(f"    {text}: {counted(group.cases, 'case')}", 6)
        for change in group.changes[:SHOWN]:
            values = f": {_short(change.before or '')} -> {_short(change.after or '')}" if group.what else ""
            yield from _wrapped(f"      {change.case.removeprefix(row + '/')}{values}", 8)
        if len(group.changes) > SHOWN:
            yield f"      ... and {len(group.changes) - SHOWN} more"
    if len(others) > SHOWN:
        yield f"    ... and {len(others) - SHOWN} more changes (--json has all)"


def _short(text: str) -> str:
    return shortened(text, EXAMPLE)


def _wrapped(text: str, indent: int) -> list[str]:
    """Lines of at most WIDTH columns; what follows the first is indented."""
    first = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text.strip(), WIDTH, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )
