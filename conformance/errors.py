"""The base of errors that a user can put right; the command line prints them in one line."""

from __future__ import annotations


class UsageError(ValueError):
    """Something the user named or wrote cannot be used; the message says what, where and what was expected."""
