"""Text from a backend or a file that is not trusted, as terminals and reports can show it."""

from __future__ import annotations

from typing import Any


def plain(text: str) -> str:
    """Control characters, line ends among them, and what turns the direction of text, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible(value: Any) -> Any:
    """What a template writes: text as `plain` gives it, all else (marked text among it) as it is."""
    return plain(value) if type(value) is str else value


def plain_lines(text: str) -> str:
    """The same of a text of several lines, which stay lines."""
    return "\n".join(map(plain, text.split("\n")))


def counted(count: int, noun: str) -> str:
    """A number of things whose plural ends in s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
