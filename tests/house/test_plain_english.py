"""Docstrings and messages say things in the field's words, and docstrings are sentences or phrases with a subject."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from places import ROOT

from tests.house.test_vocabulary import FOLDERS, constants

INSTEAD = {
    r"\bin front of\b": "before",
    r"(?<!`)\bbehind\b(?!:)": "after",
    r"\b(?:that|which) (?:is|are) none\b": "invalid, or not a ...",
    r"\bfor what (?:is|are) (?:no|none)\b": "for a value that is not a ...",
    r"\b[Oo]pen (?:sizes?|shapes?|dims?|dimensions?)\b": "dynamic",
    r"\b(?:take|takes|taken|taking) (?:\w+ ){0,2}apart\b": "decomposed",
    r"\b(?:keep|keeps|kept|stays?|left) (?:\w+ ){0,2}whole\b": "not decomposed",
    r"\bhangs? together\b": "connected",
    r"\bwaits? for each other\b": "a cycle",
    r"\bstrangers?\b": "somebody else's, or a clean process",
    r"\bnumber[- ]types?\b": "precision (of a row) or dtype (of a tensor)",
}
"""Patterns of words that readers of the field do not know in this sense, and what to say instead."""
LEFT = re.compile(r"\b(?:leaves?|leaving|left) behind\b|\bbehind a command\b")
FRAGMENT = re.compile(r"(?:Of|Whose|Those|The same (?:of|for)) ")
"""How a docstring begins that says of what something is, and not what it is."""


def odd(module: str) -> Iterator[str]:
    """The odd words of a module's texts, each with what to say instead."""
    for _, text in constants(ast.parse(module)):
        for pattern, instead in INSTEAD.items():
            if " " in text and (found := re.search(pattern, LEFT.sub("", text))):
                yield f"{found[0]!r}, expected {instead!r}"


def fragments(module: str) -> Iterator[str]:
    """Docstrings, those below constants included, that begin as a fragment."""
    for node in ast.walk(ast.parse(module)):
        text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
        if isinstance(text, str) and FRAGMENT.match(text):
            yield text.splitlines()[0]


def gaps(module: str) -> Iterator[str]:
    """Texts with a place between two spaces where a word stands only sometimes: two spaces where it does not."""
    for node in ast.walk(ast.parse(module)):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for before, part, after in zip(parts, parts[1:], parts[2:], strict=False):
            if _ends(before, " ") and _is_sometimes(part) and _begins(after, " "):
                yield ast.unparse(node)


def _ends(part: ast.expr, with_: str) -> bool:
    return isinstance(part, ast.Constant) and str(part.value).endswith(with_)


def _begins(part: ast.expr, with_: str) -> bool:
    return isinstance(part, ast.Constant) and str(part.value).startswith(with_)


def _is_sometimes(part: ast.expr) -> bool:
    """Whether it is a text times a condition, or one that an `if` leaves out."""
    value = part.value if isinstance(part, ast.FormattedValue) else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return isinstance(value.left, ast.Constant) and isinstance(value.left.value, str)
    ends = (value.body, value.orelse) if isinstance(value, ast.IfExp) else ()
    return any(isinstance(end, ast.Constant) and end.value == "" for end in ends)


def modules(folder: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_module_uses_the_fields_words(folder: str) -> None:
    assert [(name, word) for name, module in modules(folder) for word in odd(module)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_says_what_something_is(folder: str) -> None:
    assert [(name, text) for name, module in modules(folder) for text in fragments(module)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_message_has_two_spaces_where_a_word_is_left_out(folder: str) -> None:
    assert [(name, text) for name, module in modules(folder) for text in gaps(module)] == []


FAULTS = {
    '"""The node behind a relu."""': ["'behind', expected 'after'"],
    '"""A pool in front of a relu."""': ["'in front of', expected 'before'"],
    'raise ValueError(f"{x}: an alignment that is none")': ["'that is none', expected 'invalid, or not a ...'"],
    '"""Raises TypeError for what is no config."""': ["'for what is no', expected 'for a value that is not a ...'"],
    'what = "open sizes"': ["'open sizes', expected 'dynamic'"],
    '"""Operators that are taken apart."""': ["'taken apart', expected 'decomposed'"],
    '"""Keeps nodes, which stay whole."""': ["'stay whole', expected 'not decomposed'"],
    '"""What hangs together."""': ["'hangs together', expected 'connected'"],
    'print(f"{a} and {b} wait for each other")': ["'wait for each other', expected 'a cycle'"],
    '"""A row in one number type."""': ["'number type', expected 'precision (of a row) or dtype (of a tensor)'"],
}


@pytest.mark.parametrize("module", FAULTS)
def test_an_odd_word_is_seen(module: str) -> None:
    assert list(odd(module)) == FAULTS[module]


def test_names_and_what_somebody_left_are_no_odd_words() -> None:
    text = '"""Ends what a case left behind. behind: the quantize node, see `behind`."""\nkey = {"behind": behind}'
    assert list(odd(text)) == []


def test_a_fragment_is_seen() -> None:
    module = '"""Of pools."""\nA = 1\n"""Those of a row."""\ndef f() -> None:\n    """The same of two."""\n'
    assert sorted(fragments(module)) == ["Of pools.", "The same of two.", "Those of a row."]
    assert list(fragments('"""Offers."""\ndef f() -> None:\n    """The same bytes."""\n')) == []


def test_a_gap_is_seen() -> None:
    assert list(gaps("""f"which the results {'do not' * wrong} give" """)) != []
    assert list(gaps("""f"the case {'' if right else 'does not'} fail" """)) != []
    assert list(gaps("""f"which the results {'do not ' * wrong}give, {n * 2} of {'a' if x else 'b'} kind" """)) == []
