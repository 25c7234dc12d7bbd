"""What a user mistyped is told before torch is loaded, which takes ten times as long as to see it.

A fork of the command looks, so that the command itself has loaded nothing that judges when a backend's process is made.
What the fork does not see, the command says later, in the same words.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from npu_assay.conformance.commands.shared import refuse, usage_errors
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.fuzz.names import is_program
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.programs.variation_names import SIDE

if TYPE_CHECKING:
    from npu_assay.conformance.programs.graph import Case
    from npu_assay.conformance.table import Table


def tell_mistakes(backend: str, table: str | None, expression: str | None = None, waivers: Path | None = None) -> None:
    """End the command with one line and exit code 2 if a name, a file or -k is wrong; else return.

    Where torch is loaded already, nothing is gained, and nothing looked at.
    """
    if "torch" in sys.modules:
        return
    message = _of_fork(partial(_mistake, backend, table, expression, waivers))
    if message:
        refuse(message)


def tell_missing(model: str, specs: Sequence[str]) -> None:
    """End the command likewise if a backend is unknown, or the file of a model is not there."""
    if "torch" not in sys.modules:
        with usage_errors():
            from npu_assay.conformance.backend.loading import target  # help starts without
            from npu_assay.conformance.explain.named import check_file, names_file

            for spec in specs:
                target(spec)
            if names_file(model):
                check_file(Path(model))


def _of_fork(found: Callable[[], str]) -> str:
    """What a function returns in a fork of this process without torch; "" if it fails, as where it needs torch."""
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as answer:
        process = fork(lambda: _answer(writing, found))
        os.close(writing)
        text = answer.read()
    os.waitpid(process, 0)
    return text


def _answer(writing: int, found: Callable[[], str]) -> None:
    sys.modules["torch"] = None  # type: ignore[assignment]  # to import it is an error
    os.write(writing, found().encode()[: 2**15])


def _mistake(backend: str, table: str | None, expression: str | None, waivers: Path | None) -> str:
    """The first mistake in words; "" if none is seen without loading the backend."""
    from npu_assay.conformance.backend.loading import target  # help starts without
    from npu_assay.conformance.backend.stated_table import stated_table
    from npu_assay.conformance.record.waivers import load_waivers
    from npu_assay.conformance.table import TableError, load_table

    try:
        target(backend)
        if waivers is not None:
            load_waivers(waivers)
        named = table if table is not None else stated_table(backend)
        if named is not None:
            _check_selects(load_table(named), expression)
    except (UsageError, TableError) as error:
        return str(error)
    return ""


def _check_selects(table: Table, expression: str | None) -> None:
    """Raise SelectionError for an expression that cannot be read or that matches none of the table's cases.

    The operators that it names come first: where one of their cases matches, those of the others are not made.
    """
    from npu_assay.conformance.findings import regression  # what judges, which a backend's process must not have
    from npu_assay.conformance.run.selection import cases_of, compile_expression, none_selected
    from npu_assay.reference.outside import points

    if expression is None or is_program(expression) or any(points()):  # operators of others may need torch
        return
    rows = [row.name for row in table.asked_rows]
    matches, words = compile_expression(expression, rows), expression.lower().split()
    if any(SIDE in name for word in words for name in (word, *(regression(word) or ()))):
        return  # which variations a table has needs torch
    made: dict[str, tuple[Case, ...]] = {}
    for row in sorted(rows, key=lambda row: not any(word in row or row in word for word in words)):
        made[row] = cases_of(table, row)
        if any(case.id == expression or matches(case.id) for case in made[row]):
            return
    raise none_selected(f"-k {expression!r}", [case for row in rows for case in made[row]], expression)
