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
    Group,
    cases_of,
    groups_by_row,
    happened,
    made_with,
    shortened,
    side_text,
    sources,
    stated,
)
from npu_assay.conformance.record.certificate import outcome_text

CASES = 20  # of each change; JSON has them all
GROUPS = 20  # changes of each kind
LONGEST = 60_000  # characters of Markdown: GitHub's comments hold 65,536
TEXT = 300  # characters of one side


def side(text: str | None) -> str:
    """One side of a change in words of a bounded length."""
    return shortened(side_text(text), TEXT)


def head(run: Run) -> tuple[str, str, str, str]:
    """A run's name, backend, table, and verdict with counts."""
    one = run.certificate
    counts = ", ".join(f"{count} {name}" for name, count in one.counts.items())
    table = f"{one.table['name']}@{one.table['version']}"
    return run.name, str(one.backend["spec"]), table, f"{outcome_text(one)}: {counts}"


def conclusion(found: Difference) -> str:
    """The last line."""
    return found.conclusion


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
    yield from _table(("stated", "a", "b"), stated(found))
    yield from _table(("made with", "a", "b"), made_with(found))
    yield from (
        f"- sources of the {part}: {len(names)} differ{'s' * (len(names) == 1)}, first {code(names[0])}"
        for part, names in sources(found)
    )
    for row, kinds in groups_by_row(found):
        yield f"\n#### {code(row)}: {cases_of(kinds)} of its cases differ\n"
        for kind, changes in kinds:
            yield from _kind(row, kind, changes)


def _happened(found: Difference) -> Iterator[str]:
    """What happened to how many cases, in our own words and numbers alone."""
    rows = happened(found)
    if rows:
        yield from ("| what happened | cases | before or now |", "|---|---:|---|")
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
    functions: dict[str, Any] = {"groups_by_row": groups_by_row, "side": side, "made_with": made_with, "stated": stated}
    environment.globals.update(
        functions | {"sources": sources, "happened": happened, "most_groups": GROUPS, "most_cases": CASES}
    )
    return environment


def html(found: Difference) -> str:
    """The difference as one HTML file that loads nothing."""
    template = _templates().get_template("difference.html")
    return template.render(found=found, a=head(found.a), b=head(found.b), conclusion=conclusion(found))
