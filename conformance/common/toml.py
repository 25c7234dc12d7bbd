"""TOML that anybody may have written: bounded before it is read, and one kind of error for whatever is wrong."""

from __future__ import annotations

import re
import tomllib
from typing import Any

LARGEST = 2**20  # bytes; the largest table that ships with the suite has 40,000
PARTS = 16  # of a dotted key: reading one takes time that grows with their square
DIGITS = 1000  # of a number, in whatever base: Python refuses to write integers of more than 4,300
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{PARTS}}}")
_LONG_NUMBER = re.compile(rf"(?<![0-9A-Fa-f_])[0-9A-Fa-f_]{{{DIGITS + 1}}}")


class TomlError(ValueError):
    """A text that is not TOML; the message says what and where."""


class TomlBombError(TomlError):
    """More than anybody means, which would take hours or gigabytes to read."""


def read_toml(text: str) -> dict[str, Any]:
    """The values of a text. Raises TomlError, within seconds and megabytes whatever the text is."""
    if len(text) > LARGEST:
        raise TomlBombError(f"{len(text)} characters, expected at most {LARGEST}")
    _refuse(text, _LONG_KEY, f"a key of more than {PARTS} parts")
    _refuse(text, _LONG_NUMBER, f"a number of more than {DIGITS} digits")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TomlError("values are nested too deeply to be read") from None
    except ValueError as error:  # not only TOMLDecodeError: dates that do not exist are others
        raise TomlError(str(error)) from error


def _refuse(text: str, form: re.Pattern[str], what: str) -> None:
    found = form.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise TomlBombError(f"{what} (at line {line}): {found[0][:30]!r}...")
