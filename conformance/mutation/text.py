"""The report of a run on a console."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from npu_assay.conformance.mutation.report import REQUIRED, Mutation, Rate


def print_report(console: Console, mutation: Mutation) -> None:
    """Rates per stage and kind, what each check noticed, survivors, and the verdict."""
    rows = [(rate.name, *_numbers(rate), f"{REQUIRED[rate.name]:.0%}") for rate in mutation.stages]
    _print(console, ("stage", "faults", "noticed", "rate", "required"), rows)
    kinds = [(rate.name, *_numbers(rate)) for rate in mutation.kinds]
    _print(console, ("kind", "faults", "noticed", "rate"), kinds)
    checks = [
        (c.name, str(c.caught), str(c.alone), f"{c.expected - c.missed} of {c.expected}") for c in mutation.checks
    ]
    _print(console, ("check", "notices", "alone", "expected"), checks)
    for one in mutation.survivors:
        console.print(f"survives: {one.id} ({one.cases} cases)", highlight=False, soft_wrap=True)
    for one in mutation.outcomes:
        if one.killed and one.missed:
            found = ", ".join(one.checks)
            missing = ", ".join(one.missed)
            console.print(f"noticed by {found}, not by {missing}: {one.id}", highlight=False, soft_wrap=True)
    count = len(mutation.outcomes)
    verdict = "the suite notices enough" if mutation.holds else "the suite does not notice enough"
    noticed = count - len(mutation.survivors)
    console.print(
        f"{mutation.backend} on {mutation.table}: {noticed} of {count} faults noticed in {mutation.seconds:.0f} s: "
        f"{verdict}",
        highlight=False,
        soft_wrap=True,
    )


def _numbers(rate: Rate) -> tuple[str, str, str]:
    return str(rate.faults), str(rate.killed), f"{rate.share:.1%}"


def _print(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for position, name in enumerate(names):
        table.add_column(name, justify="right" if position else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, highlight=False)
    console.print()
