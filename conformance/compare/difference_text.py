"""A difference for readers: by row and kind, equal changes together, in lines of 80 columns at most."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from npu_assay.conformance.compare.difference import Change, Difference, Run
from npu_assay.conformance.record.levels import named

WIDTH = 80
SHOWN = 3  # cases of each change, changes of each kind, and sources of each package; JSON has them all
EXAMPLE = 160  # characters of one side
SOURCES = ("suite ", "backend ")


def lines(found: Difference) -> Iterator[str]:
    """The whole text, line by line."""
    yield from _wrapped(f"a  {_head(found.a)}", 3)
    yield from _wrapped(f"b  {_head(found.b)}", 3)
    yield from _stated("stated", found.stated)
    yield from _stated("made with", [entry for entry in found.made_with if not entry[0].startswith(SOURCES)])
    yield from _sources(found)
    for row, kinds in found.by_row_and_kind():
        cases = {change.case for _, changes in kinds for change in changes}
        yield ""
        yield from _wrapped(f"{row}: {_number(cases)} differ" + "s" * (len(cases) == 1), 2)
        for kind, changes in kinds:
            yield f"  {kind}"
            yield from _kind(row, changes)
    yield ""
    yield from _wrapped(found.conclusion, 2)


def _head(run: Run) -> str:
    certificate = run.certificate
    counts = ", ".join(f"{count} {name}" for name, count in certificate.counts.items() if count or name == "fail")
    verdict = named("certified" if certificate.certified else "not certified", certificate.level)
    table = f"{certificate.table['name']}@{certificate.table['version']}"
    return f"{run.name}: {certificate.backend['name']} against {table}, {verdict}; {counts}"


def _stated(title: str, entries: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    if entries:
        yield ""
        yield title
    for what, before, after in entries:
        yield from _wrapped(f"  {what}: {_short(before)} -> {_short(after)}", 4)


def _sources(found: Difference) -> Iterator[str]:
    """How many source files differ, and the first."""
    for prefix in SOURCES:
        names = [what.removeprefix(prefix) for what, _, _ in found.made_with if what.startswith(prefix)]
        if names:
            rest = ", ..." if len(names) > SHOWN else ""
            text = f"  sources of the {prefix.strip()}: {len(names)} differ ({', '.join(names[:SHOWN])}{rest})"
            yield from _wrapped(text, 4)


def _kind(row: str, changes: Sequence[Change]) -> Iterator[str]:
    """Equal changes together, those of most cases first; numbers by their metric."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.what or f"{_side(change.before)} -> {_side(change.after)}", []).append(change)
    ranked = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    for text, group in ranked[:SHOWN] if not changes[0].what else ranked:
        yield from _wrapped(f"    {text}: {_number({change.case for change in group})}", 6)
        for change in group[:SHOWN]:
            values = f": {change.before} -> {change.after}" if change.what else ""
            yield from _wrapped(f"      {change.case.removeprefix(row + '/')}{values}", 8)
        if len(group) > SHOWN:
            yield f"      ... and {len(group) - SHOWN} more"
    if not changes[0].what and len(ranked) > SHOWN:
        yield f"    ... and {len(ranked) - SHOWN} more changes (--json has all)"


def _side(text: str | None) -> str:
    return "no such case" if text is None else _short(text)


def _short(text: str) -> str:
    return text if len(text) <= EXAMPLE else f"{text[:EXAMPLE]}..."


def _number(cases: set[str]) -> str:
    return f"{len(cases)} case" + "s" * (len(cases) != 1)


def _wrapped(text: str, indent: int) -> list[str]:
    """Lines of at most WIDTH columns; what follows the first is indented."""
    first = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text.strip(), WIDTH, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )
