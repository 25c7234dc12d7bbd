"""Errors that a user can put right, which the command line prints in one line, and runs that could not be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from npu_assay.conformance.common.escaped import listed

MOST = 8  # choices that a message lists


class NotRunError(RuntimeError):
    """A backend has nothing here to run its blobs on; the message says what is missing. Never a pass."""


class UsageError(ValueError):
    """Something the user named or wrote cannot be used; the message says what, where and what was expected."""


def nearest(name: str, known: Iterable[str], most: int = MOST) -> str:
    """`, did you mean 'x'?` for the known name closest to `name`, or `most` choices (0: none) when none is close."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1)
    if close:
        return f", did you mean {close[0]!r}?"
    if not most:
        return ""
    return f"; known: {listed(choices, most) or 'none'}"
