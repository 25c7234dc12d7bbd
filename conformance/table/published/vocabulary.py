"""What published tables call things, as `words.toml` lists it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npu_assay.conformance.common.memory import once


@dataclass(frozen=True)
class Left:
    """A part of a published table that is not in the imported one, and why; `line` counts from 1."""

    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {' '.join(self.text.split())!r}: {self.why}"


@once
def words() -> Mapping[str, Any]:
    """The whole vocabulary, by its sections."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text in small letters; signs between words are spaces."""
    return tuple(re.findall(r"\w+", american(text.lower()).replace("_", " ").replace("-", " ")))


def american(text: str) -> str:
    """A text in small letters with one spelling of quantization."""
    return text.replace("quanti\N{LATIN SMALL LETTER S}", "quantiz")


def longest(sought: Mapping[tuple[str, ...], str], found: Sequence[str], at: int) -> tuple[str, int] | None:
    """The meaning of the longest run of words from `at` that has one, and how many words it has."""
    most = max(map(len, sought))
    for count in range(min(most, len(found) - at), 0, -1):
        meaning = sought.get(tuple(found[at : at + count]))
        if meaning is not None:
            return meaning, count
    return None


def by_words(section: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], str]:
    """The names of a section by their words."""
    return {split_words(name): meaning for meaning, names in section.items() for name in names}
