"""Errors that a user can put right, which the command line prints in one line, and runs that could not be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from npu_assay.conformance.common.escaped import listed

MOST = 8  # choices that a message lists


class NotRunError(RuntimeError):
    """A backend has nothing here to run its blobs on; the message says what is missing. Never a pass."""


class UsageError(ValueError):
    """Something the user named or wrote cannot be used; the message says what, where and what was expected."""


@contextmanager
def failing(where: object, what: str, kind: type[ValueError] = UsageError) -> Iterator[None]:
    """Raise an OSError of the body as an error of this kind: where it was, what could not be done, and why."""
    try:
        yield
    except OSError as error:
        raise kind(f"{where}: {what}: {error.strerror or error}") from error


def nearest(name: str, known: Iterable[str], most: int = MOST) -> str:
    """`, did you mean 'x'?` for the known name closest to `name`, or `most` choices (0: none) when none is close."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1)
    if close:
        return f", did you mean {close[0]!r}?"
    if not most:
        return ""
    return f"; known: {listed(choices, most) or 'none'}"
