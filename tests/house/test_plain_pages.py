"""Pages say things in the field's words and in sentences that one can read, and their links lead somewhere."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from tests.house.test_plain_english import INSTEAD, LEFT
from tests.house.test_vocabulary import FOLDERS, PAGES

LONGEST = 40
"""Words between two stops. A colon and a semicolon are stops, too."""
TWO_SENSES = {
    r"\b(?:by|within|than) (?:a|one) step\b|\bstep of (?:its|the) codes\b": "LSB, or one step size",
    r"\bslack\b": "error bound",
    r"\b(?:each|every|last|final) step(?:'s)?\b(?! size)": "node",
    r"\bscales? for each channel\b": "a scale per channel",
    r"\b(?:deputy|crew|nursery|kit)\b": "cluster worker, pool, fork server, scaffold",
    r"\bconstraint codes?\b|\brejection codes?\b": "constraint id, or reason",
    r"\bdynamically quantis\w+": "dynamically quantized",
}
"""Words with a second sense in this project, in that sense, and the word that has one alone."""
FORBIDDEN = {**INSTEAD, **TWO_SENSES}
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:docs|tests|conformance|partitioners|reference|faults|examples|benchmarks|golden)/[\w./@-]+)`")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def blocks(page: str) -> Iterator[str]:
    """Paragraphs, items, headings and rows of a page, each as one line; what is indented or fenced is no prose."""
    kept = list[str]()
    for line in re.sub(r"(?ms)^ *(`{3,})[^\n]*\n.*?^ *\1 *$", "", page).splitlines():
        text = line.strip()
        if line.startswith("    ") and not kept:
            continue
        if kept and (not text or ITEM.match(text) or text.startswith(("#", "|")) or kept[0].startswith(("#", "|"))):
            yield " ".join(kept)
            kept = []
        kept += [text] if text else []
    if kept:
        yield " ".join(kept)


def prose(block: str) -> str:
    """A block's words: code is one word, a link is its text."""
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"(`+)[^`].*?\1", "`code`", block))


def odd(page: str) -> Iterator[str]:
    """Words that readers of the field do not know in this sense, each with what to say instead."""
    for block in blocks(page):
        text = LEFT.sub("", prose(block))
        for pattern, instead in FORBIDDEN.items():
            yield from (
                f"{found[0]!r} in {text[max(0, found.start() - 30) : found.end() + 20]!r}, expected {instead!r}"
                for found in re.finditer(rf"(?<!-)(?:{pattern})(?!-)", text)
            )


def long(page: str) -> Iterator[str]:
    """Sentences and parts of them between stops with more words than one reads at once."""
    for block in blocks(page):
        for sentence in re.split(r"(?<=[.?!:;])\s+", "" if block.startswith("|") else prose(block)):
            if (words := len(re.findall(r"[\w`][\w'`-]*", sentence))) > LONGEST:
                yield f"{words} words, expected at most {LONGEST}: {sentence}"


def anchors(page: str) -> set[str]:
    """The names by which the headings of a page are linked, as GitHub forms them."""
    without_code = re.sub(r"(?ms)^ *(`{3,})[^\n]*\n.*?^ *\1 *$", "", page)
    found = set[str]()
    for heading in re.findall(r"(?m)^#+ +(.*?) *$", without_code):
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w -]", "", text).replace(" ", "-")
        number = next(n for n in range(100) if (f"{slug}-{n}" if n else slug) not in found)
        found.add(f"{slug}-{number}" if number else slug)
    return found


def dead(page: str, path: Path, root: Path = ROOT) -> Iterator[str]:
    """Links to files and headings that are not there, and names of the project's files in code."""
    for target in LINK.findall(re.sub(r"(`+)[^`].*?\1", "", page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name) if name else path
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file.read_text(encoding="utf-8"))):
            yield f"{target}: no such heading"
    yield from (f"`{name}`: no such file" for name in PATH.findall(page) if not (root / name.rstrip(".")).exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_uses_the_fields_words(page: Path) -> None:
    assert list(odd(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_has_no_sentence_that_is_too_long(page: Path) -> None:
    assert list(long(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert list(dead(page.read_text(encoding="utf-8"), page)) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_pages_that_messages_and_docstrings_name_are_there(folder: str) -> None:
    named = [
        (path.relative_to(ROOT).as_posix(), page)
        for path in sorted((ROOT / folder).rglob("*.py"))
        for page in re.findall(r"\bdocs/[\w./-]+\.md\b", path.read_text(encoding="utf-8"))
    ]
    assert [(module, page) for module, page in named if not (ROOT / page).exists()] == []
    assert named or folder != "conformance"


def said(data: Any) -> Iterator[str]:
    """Every text of a TOML file that is more than one word."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        for each in data:
            yield from said(each)
    elif isinstance(data, str) and " " in data:
        yield data


@pytest.mark.parametrize("path", sorted((ROOT / "conformance").rglob("*.toml")), ids=lambda path: path.name)
def test_what_tables_and_meanings_say_uses_the_fields_words(path: Path) -> None:
    """They are the sentences of reports and of pages that are made from them."""
    texts = said(tomllib.loads(path.read_text(encoding="utf-8")))
    assert [word for text in texts for word in odd(text)] == []


# ------------------------------------------------------------------------------------ injected faults

FAULTS = {
    "A relu behind a convolution.": "'behind'",
    "| a | pools in front of it |": "'in front of'",
    "## What number types are there": "'number types'",
    "- a row's\n  number type": "'number type'",
    "It is off by a step.": "'by a step'",
    "What each step returns.": "'each step'",
    "The float32 slack.": "'slack'",
    "It has a scale for each channel.": "'scale for each channel'",
    "[A stranger's](x.md) table.": "'stranger'",
    "Operators are taken apart.": "'taken apart'",
}


@pytest.mark.parametrize("page", FAULTS)
def test_an_odd_word_of_a_page_is_seen(page: str) -> None:
    (found,) = odd(f"# A page\n\n{page}\n\nGood words.\n")
    assert found.startswith(FAULTS[page])


def test_code_and_names_are_no_odd_words() -> None:
    page = "`behind` it.\n\n    a step behind\n\n```text\nslack\n```\n\nsoftmax-behind-conv, what is left behind\n"
    assert list(odd(page)) == []


def test_a_long_sentence_is_seen_wherever_it_stands() -> None:
    sentence = " ".join(["word"] * LONGEST)
    assert list(long(f"{sentence}.\n\n- {sentence};\n  {sentence}: {sentence}!\n")) == []
    for page in (f"{sentence} more.", f"- Good.\n- {sentence}\n  more", f"A `x y` [b c](d.md) {sentence}."):
        assert len(list(long(page))) == 1, page
    assert list(long(f"    {sentence} more\n\n| {sentence} more |\n")) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[x](nowhere.md)", "nowhere.md: no such file"),
        ("![a picture](docs/no.png)", "docs/no.png: no such file"),
        ("[`code`](page.md#none)", "page.md#none: no such heading"),
        ("[x](#none)", "#none: no such heading"),
        ("see `docs/none.md`", "`docs/none.md`: no such file"),
    ],
)
def test_a_link_that_leads_nowhere_is_seen(text: str, told: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page: `its` heading\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n")
    good = "[a](page.md) [b](page.md#a-page-its-heading) [c](#twice-1) [d](https://x.org/y) `[e](no.md)`"
    assert list(dead(good, page, tmp_path)) == []
    assert list(dead(f"{good} {text}", page, tmp_path)) == [told]
