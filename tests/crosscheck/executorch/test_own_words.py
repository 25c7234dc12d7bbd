"""The product's texts are its own: no sentence of ours stands in ExecuTorch's sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

executorch = pytest.importorskip("executorch", reason="the peer is the extra `executorch`")

PRODUCT = ROOT
FOLDERS = ("reference", "partitioners", "conformance", "faults")
LEAST = 5
"""Words of a text that counts as a sentence."""
Gram = tuple[str, ...]
COMMON = frozenset(
    {
        " is not a multiple of ",
        "The data of a tensor",
        "a positive power of two",
        "per tensor or per channel",
        "slice_copy(x, dim, start, end, step).",
        "the number of inputs and outputs",
    }
)
"""Turns of phrase, and an operator's arguments, that no two people put otherwise."""


def words(text: str) -> list[str]:
    """In small letters, without the marks around them; an operator's dotted name is one."""
    stripped = (word.strip("\"'`.,:;!?()[]{}") for word in text.lower().split())
    return [word for word in stripped if word]


def grams(found: list[str]) -> set[Gram]:
    """Every run of `LEAST` words."""
    return {tuple(found[start : start + LEAST]) for start in range(len(found) - LEAST + 1)}


def texts(source: str) -> Iterator[str]:
    """The literals of a module, docstrings included; of an f-string each part between two values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def sentences() -> dict[str, set[Gram]]:
    """Our texts of `LEAST` words and more, as literals or as one of their sentences, with their runs of words."""
    found: dict[str, set[Gram]] = {}
    for folder in FOLDERS:
        for path in sorted((PRODUCT / folder).rglob("*.py")):
            for text in texts(path.read_text()):
                for part in {text, *re.split(r"[.:;]\s", text)}:
                    if len(words(part)) >= LEAST:
                        found[part] = grams(words(part))
    return found


def test_a_copied_sentence_is_found() -> None:
    """The comparison itself."""
    source = 'raise ValueError(f"{name}: the quick brown fox jumps over {count} dogs")'
    assert grams(words("The quick brown fox jumps")) <= grams(words(" ".join(texts(source))))
    assert not grams(words("The quick brown fox sleeps")) <= grams(words(source))


def test_no_sentence_stands_in_executorchs_sources() -> None:
    ours = sentences()
    known = set().union(*ours.values())
    copied: dict[str, str] = {}
    root = Path(next(iter(executorch.__path__)))
    files = sorted(root.rglob("*.py"))
    assert len(files) > 500 and len(ours) > 1000
    for path in files:
        theirs = known & grams(words(path.read_text(errors="replace")))
        if theirs:
            copied |= {text: str(path.relative_to(root)) for text, runs in ours.items() if runs <= theirs}
    assert {text: where for text, where in copied.items() if text not in COMMON} == {}
