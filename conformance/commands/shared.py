"""What the commands share: errors that the user can put right, and how many processes to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

UNUSABLE = 2


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def usage_errors() -> Iterator[None]:
    """One line and exit code 2 for what the user can put right."""
    from conformance.errors import UsageError
    from conformance.table import TableError

    try:
        yield
    except (UsageError, TableError) as error:
        click.echo(f"assay: {error}", err=True)
        raise SystemExit(UNUSABLE) from None


def plain(text: str) -> str:
    """A text from a file that is not trusted, as a terminal can show it: control characters as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
