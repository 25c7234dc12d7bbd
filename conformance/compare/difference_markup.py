"""A difference as Markdown, for a comment on a change, and as one HTML file. No text of a backend is markup there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Environment

from npu_assay.conformance.common.markup import code
from npu_assay.conformance.common.templating import html_templates
from npu_assay.conformance.compare.difference import Difference, Run
from npu_assay.conformance.compare.difference_groups import (
    OUTCOMES,
    Group,
    by_row_and_kind,
    cases_of,
    outcomes,
)
from npu_assay.conformance.record.certificate import outcome_text

CASES = 20  # of each change; JSON has them all
GROUPS = 20  # changes of each kind
LONGEST = 60_000  # characters of Markdown: GitHub's comments hold 65,536
TEXT = 300  # characters of one side
SOURCES = ("suite ", "backend ")


def side(text: str | None) -> str:
    """One side of a change in words of a bounded length."""
    return "no such case" if text is None else text if len(text) <= TEXT else f"{text[:TEXT]}..."


def head(run: Run) -> tuple[str, str, str, str]:
    """A run's name, backend, table, and verdict with counts."""
    one = run.certificate
    counts = ", ".join(f"{count} {name}" for name, count in one.counts.items())
    table = f"{one.table['name']}@{one.table['version']}"
    return run.name, str(one.backend["spec"]), table, f"{outcome_text(one)}: {counts}"


def happened(found: Difference) -> list[tuple[str, int, str]]:
    """What happened, to how many cases, and what that means."""
    rows = [(outcome, cases, OUTCOMES[outcome]) for outcome, cases in outcomes(found).items()]
    skipped = found.unselected.items()
    return rows + [(f"not run in {name}, a selection", len(cases), "not compared") for name, cases in skipped]


def conclusion(found: Difference) -> str:
    """The last line."""
    return found.conclusion


def sources(found: Difference) -> tuple[tuple[str, int, str], ...]:
    """How many source files of suite and backend differ, and the first of each."""
    names = {prefix: [what for what, _, _ in found.made_with if what.startswith(prefix)] for prefix in SOURCES}
    return tuple((prefix.strip(), len(of), of[0].removeprefix(prefix)) for prefix, of in names.items() if of)


def made_with(found: Difference) -> list[tuple[str, str, str]]:
    """What the runs were made with, apart from source files."""
    return [entry for entry in found.made_with if not entry[0].startswith(SOURCES)]


# ------------------------------------------------------------------------------------ Markdown


def markdown(found: Difference) -> str:
    """The difference in GitHub's Markdown, no longer than a comment there may be."""
    lines, size = list[str](), 0
    for line in _markdown(found):
        size += len(line) + 1
        if size > LONGEST:
            lines.append("\nThe rest is left out (--json has all).")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _markdown(found: Difference) -> Iterator[str]:
    yield f"### {conclusion(found)[:1].upper()}{conclusion(found)[1:]}"
    yield ""
    yield from _table(("", "run", "backend", "table", "verdict"), [("a", *head(found.a)), ("b", *head(found.b))])
    yield from _happened(found)
    yield from _table(("stated", "a", "b"), found.stated)
    yield from _table(("made with", "a", "b"), made_with(found))
    yield from (
        f"- sources of the {part}: {count} differ{'s' * (count == 1)}, first {code(first)}"
        for part, count, first in sources(found)
    )
    for row, kinds in by_row_and_kind(found):
        yield f"\n#### {code(row)}: {cases_of(kinds)} of its cases differ\n"
        for kind, changes in kinds:
            yield from _kind(row, kind, changes)


def _happened(found: Difference) -> Iterator[str]:
    """What happened to how many cases, in our own words and numbers alone."""
    rows = happened(found)
    if rows:
        yield from ("| what happened | cases | |", "|---|---:|---|")
        yield from (f"| {outcome} | {cases} | {means} |" for outcome, cases, means in rows)
        yield ""


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table with a first column of our own words; nothing when it has no rows."""
    if not rows:
        return
    yield f"| {' | '.join(titles)} |"
    yield "|" + " --- |" * len(titles)
    yield from (f"| {' | '.join(code(side(cell)) for cell in row)} |" for row in rows)
    yield ""


def _kind(row: str, kind: str, found: Sequence[Group]) -> Iterator[str]:
    for group in found[:GROUPS]:
        change = code(group.what) if group.what else f"{code(side(group.before))} to {code(side(group.after))}"
        yield f"- {kind}: {change}: {group.cases}"
        for each in group.changes[:CASES]:
            values = f": {code(side(each.before))} to {code(side(each.after))}" if each.what else ""
            yield f"  - {code(each.case.removeprefix(row + '/'))}{values}"
        if len(group.changes) > CASES:
            yield f"  - and {len(group.changes) - CASES} more"
    if len(found) > GROUPS:
        yield f"- {kind}: {len(found) - GROUPS} more changes (--json has all)"


# ------------------------------------------------------------------------------------ HTML


@lru_cache(maxsize=1)
def _templates() -> Environment:
    environment = html_templates("compare", "common")
    functions: dict[str, Any] = {"by_row_and_kind": by_row_and_kind, "side": side, "made_with": made_with}
    environment.globals.update(
        functions | {"sources": sources, "happened": happened, "most_groups": GROUPS, "most_cases": CASES}
    )
    return environment


def html(found: Difference) -> str:
    """The difference as one HTML file that loads nothing."""
    template = _templates().get_template("difference.html")
    return template.render(found=found, a=head(found.a), b=head(found.b), conclusion=conclusion(found))
