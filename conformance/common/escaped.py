"""Text from a backend or a file that is not trusted, as terminals and reports can show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COMMAND, NO_COMMAND = "##[", r"\x23#["
"""How a command of GitHub's runner begins in its older form, which counts anywhere in a line; and as an escape.

`##[stop-commands]` in the middle of a message would silence every annotation that follows it.
"""


def plain(text: str) -> str:
    """Control characters, line ends among them, what turns the direction of text, and runner commands, as escapes."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.replace(COMMAND, NO_COMMAND)


class Lines(str):
    """A text of several lines that a template writes as they are: code, or Markdown of our own."""

    __slots__ = ()


def visible(value: Any) -> Any:
    """What a template writes: text as `plain` gives it, all else (marked text among it) as it is."""
    return plain_lines(value) if isinstance(value, Lines) else plain(value) if type(value) is str else value


def plain_lines(text: str) -> str:
    """As `plain`, for a text of several lines, which stay lines."""
    return "\n".join(map(plain, text.split("\n")))


def counted(count: int, noun: str) -> str:
    """A number of things whose plural ends in s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def shorten(text: str, most: int) -> str:
    """A text of at most so many characters, which ends in dots if there are more."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def beginning(text: str, most: int) -> str:
    """The first characters of a text, and dots if there are more."""
    return text if len(text) <= most else f"{text[:most]}..."


def listed(names: Sequence[str], most: int = 4, between: str = ", ") -> str:
    """Some names, and how many there are beside them."""
    rest = len(names) - most
    return between.join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
