"""Names in `.pt2` files: torch writes each of them into Python code that it runs."""

from __future__ import annotations

import keyword
import unicodedata
from typing import Any

from torch import nn

from npu_assay.conformance.common.errors import UsageError

LONGEST = 4_000  # characters of a name or path
QUOTES = frozenset("\"'\\`")


def identifier(text: Any) -> str:
    """A name of Python. Raises UsageError."""
    if isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text) and len(text) <= LONGEST:
        return _as_python_reads(text)
    raise UsageError(f"found {_shown(text)}, expected a name of Python")


def path(text: Any) -> str:
    """The path of a parameter, buffer or module, as `layers.0.weight`. Raises UsageError."""
    parts = _as_python_reads(plain(text)).split(".")
    if any(hasattr(_MODULE, part) for part in parts if part):
        raise UsageError(f"found {_shown(text)}, expected a path of modules: nn.Module has an attribute of that name")
    return str(text)


def member(text: Any) -> str:
    """The name of a module in its parent. Raises UsageError."""
    return path(identifier(text))


def key(value: Any) -> Any:
    """A key of a dict of inputs or results. Raises UsageError."""
    return value if value is None or isinstance(value, (bool, int, float)) else plain(value)


def plain(text: Any) -> str:
    """A text on one line without quotes. Raises UsageError."""
    if isinstance(text, str) and len(text) <= LONGEST and text.isprintable() and not QUOTES & set(text):
        return text
    raise UsageError(f"found {_shown(text)}, expected a text of one line without quotes")


def _as_python_reads(text: str) -> str:
    """The same text. Raises UsageError where Python reads it as another name, with a wide c as `__class__`."""
    if unicodedata.is_normalized("NFKC", text):
        return text
    raise UsageError(f"found {_shown(text)}, expected a name in Unicode's form NFKC, as Python reads it")


def _shown(text: Any) -> str:
    return repr(text)[:80]


_MODULE = nn.Module()
