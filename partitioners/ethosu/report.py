"""The reasons of rejections as a table: one part per reason, within 80 columns."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from npu_assay.partitioners.exir.backend import Rejection

WIDTH = 80
_NUMBERED = re.compile(r"(.*?)(?:_(\d+))?")


def rejection_report(rejections: Sequence[Rejection], width: int = WIDTH) -> str:
    """A table for each reason, the one with most nodes first; within it one line for each operator and finding."""
    if not rejections:
        return "No nodes rejected."
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, legacy_windows=False)
    groups = _grouped((one.code, one.sentence, one) for one in rejections)
    for (code, sentence), members in sorted(groups.items(), key=lambda item: -_node_count(item[1])):
        count = _node_count(members)
        console.print(f"{code}: {count} node{'s' if count != 1 else ''}", markup=False, highlight=False)
        console.print(f"{sentence}", markup=False, highlight=False)
        console.print(_table(members))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip()


def _table(rejections: Sequence[Rejection]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=False)
    for title in ("Operator", "Nodes", "Found"):
        table.add_column(title, overflow="fold")
    for (target, found), members in _grouped((one.target, one.found, one) for one in rejections).items():
        table.add_row(*map(_plain, (target, compact(one.node for one in members), found)))
    return table


def _plain(text: str) -> str:
    """Without rich reading anything in brackets as a style."""
    return text.replace("[", r"\[")


def _node_count(rejections: Iterable[Rejection]) -> int:
    return len({one.node for one in rejections})


def _grouped(items: Iterable[tuple[str, str, Rejection]]) -> dict[tuple[str, str], list[Rejection]]:
    groups: dict[tuple[str, str], list[Rejection]] = {}
    for first, second, one in items:
        groups.setdefault((first, second), []).append(one)
    return groups


def compact(names: Iterable[str]) -> str:
    """Node names with their numbers together: abs, abs_1, abs_2, abs_4 become `abs, _1.._2, _4`."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        found = _NUMBERED.fullmatch(name)
        stem, number = (found[1], int(found[2])) if found and found[2] else (name, 0)
        numbers.setdefault(stem, []).append(number)
    return ", ".join(_named(stem, sorted(set(found))) for stem, found in numbers.items())


def _named(stem: str, numbers: Sequence[int]) -> str:
    """One stem with all of its numbers; 0 is the stem itself."""
    later = _ranges([number for number in numbers if number])
    if 0 in numbers:
        return ", ".join([stem, *later])
    return ", ".join([f"{stem}{later[0]}", *later[1:]])


def _ranges(numbers: Sequence[int]) -> list[str]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return [f"_{low}" if low == high else f"_{low}.._{high}" for low, high in found]
