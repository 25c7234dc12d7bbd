"""What a constraint of a row says: its code, the value beside it, and where it comes from.

In a table a constraint is one string, `id = value for precisions @source`; the value may be missing,
and the precisions, which limit it to some of those that its row lists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from npu_assay.conformance.common.toml import TomlError, read_toml

_FORM = re.compile(
    r"(?P<code>[a-z][a-z0-9_]*)(?: = (?P<value>\S.*?))?(?: for (?P<precisions>\w+(?:, \w+)*))? @(?P<source>\S+)"
)

MOST = 256  # items of a constraint's list, those of lists in it counted; shipped ones have 31


@dataclass(frozen=True)
class Constraint:
    """One rule of one row. `value` is a number, a truth value, a tuple of those (or of tuples), or None.

    `precisions` are those that it holds for; empty: all of the row's.
    """

    code: str
    value: Any
    source: str
    precisions: tuple[str, ...] = ()

    def holds_for(self, precision: str | None) -> bool:
        """Whether the rule is about this precision; None asks for no one in particular."""
        return precision is None or not self.precisions or precision in self.precisions

    def sentence(self, meanings: dict[str, str]) -> str:
        """The rule in words, from the table's own list of meanings."""
        return meanings[self.code].replace("{value}", shown(self.value))


def shown(value: Any) -> str:
    """A constraint's value as a reader writes it: `(-1, 1) or (0, None)`-like lists, plain numbers."""
    if not isinstance(value, tuple):
        return "None" if value is None else str(value)
    nested = any(isinstance(item, tuple) for item in value)
    return " or ".join(map(shown, value)) if nested else f"({', '.join(map(shown, value))})"


def parse_constraint(text: str) -> Constraint:
    """Read `id = value for precisions @source`. Raises ValueError that says what is wrong with the text."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form 'id = value @source' (the value may be missing)")
    value = None if match["value"] is None else _value(match["value"])
    precisions = () if match["precisions"] is None else tuple(match["precisions"].split(", "))
    return Constraint(match["code"], value, match["source"], precisions)


def _value(text: str) -> Any:
    """A TOML value, with null inside lists for an absent bound; lists become tuples, which may hold names."""
    try:
        found = _frozen(read_toml("value = " + re.sub(r"\bnull\b", '"null"', text))["value"])
    except (TomlError, RecursionError) as error:
        raise ValueError(f"{text!r:.80} is not a number, truth value or list") from error
    if (count := text.count(",")) >= MOST:  # every program is compared with each, and asked for around each
        raise ValueError(f"found a list of {count + 1} items, expected at most {MOST}")
    return found


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(item if isinstance(item, str) and item != "null" else _frozen(item) for item in value)
    if value == "null" and isinstance(value, str):
        return None
    if isinstance(value, str | dict):
        raise ValueError(f"{value!r} is not a number, truth value or list")
    return value
