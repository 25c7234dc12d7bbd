"""What a shell completes: backends, tables and operators. Nothing here loads torch or a backend."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem


def backends(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Installed backends, with the object that each one is."""
    from npu_assay.conformance.backend.loading import registered  # help starts without

    found = ((name, point.value) for name, point in registered().items())
    return [CompletionItem(name, help=told) for name, told in found if name.startswith(incomplete)]


def tables(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tables that ship with the suite; else files."""
    from npu_assay.conformance.table import FOLDER  # help starts without

    return _names(sorted(path.stem for path in FOLDER.glob("*.toml")), incomplete) or [_file(incomplete)]


def operators(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Operators of the table that is asked for, or that the backend names; of all shipped ones where neither is known.

    Whole names, else the short ones that people type.
    """
    from npu_assay.conformance.backend.stated_table import stated_table  # help starts without
    from npu_assay.conformance.table import FOLDER, TableError, load_table
    from npu_assay.conformance.table.operator_names import names_of

    named = context.params.get("table") or stated_table(context.params.get("backend") or "")
    try:
        found = [load_table(name) for name in ([named] if named else map(str, FOLDER.glob("*.toml")))]
    except TableError:
        return []
    rows = sorted({row.name for table in found for row in table.rows})
    return _names(rows, incomplete) or _names(sorted({name for row in rows for name in names_of(row)}), incomplete)


def every_operator(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Operators that the suite has cases for, by whole or short name."""
    from npu_assay.conformance.cases import every_operator as known  # slow to load

    names = known()
    return _names(sorted({*names, *(name.split(".")[1] for name in names if name.count(".") > 1)}), incomplete)


def _names(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _file(incomplete: str) -> CompletionItem:
    return CompletionItem(incomplete, type="file")
