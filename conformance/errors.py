"""Errors that a user can put right, which the command line prints in one line, and runs that could not be."""

from __future__ import annotations


class NotRunError(RuntimeError):
    """A backend has nothing here to run its blobs on; the message says what is missing. Never a pass."""


class UsageError(ValueError):
    """Something the user named or wrote cannot be used; the message says what, where and what was expected."""
