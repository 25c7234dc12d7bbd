"""Pages, helps and every text of the product spell as torch does: quantize, behavior, neighbor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from places import ROOT

from npu_assay.conformance.compare.drift import AGREEMENTS
from npu_assay.conformance.compare.promise import DOCUMENTED
from tests.conformance.commands.test_help import ALL

ISE = (
    "quantis|optimis|normalis|initialis|serialis|organis|recognis|generalis|specialis|summaris|minimis|maximis"
    "|synchronis|vectoris|materialis|memoris|customis"
)
BRITISH = re.compile(
    rf"(?i)(?<![\w.=-])\w*?(?:(?:{ISE})(?:e[drs]?|ers|ing|ations?)|(?:neighbour|behaviour|colour|favour|honour)\w*"
    r"|judgements?|grey|centred|labelled|modelled)(?![\w=-]|\.\w)"
)
OF_SOURCES = re.compile(
    r"(?i)\b(?:(?:what|than|whether|where|and|;) the code (?:does|did|takes|rejects|accepts|says)"
    r"|code (?:accepts|rejects)|(?:document|table)s? (?:against|and) (?:the )?code"
    r"|code and (?:table|document)s?|(?:source|released) code)\b"
)
"""Where "code" would not be a quantized integer: it is the backend that accepts, and its sources that say why."""
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    ]
)
FOLDERS = ("reference", "partitioners", "conformance", "faults", "examples")


def british(text: str) -> list[str]:
    """The words that torch spells in another way; names of files and of code are as they are."""
    prose = re.sub(r"`[^`\s]*`|\]\([^)]*\)|\{[{%].*?[%}]\}|<[^>]*>", "", text)
    return BRITISH.findall(prose)


def texts(command: click.Command) -> Iterator[str]:
    """All that the help of a command says."""
    yield from (command.help or "", command.short_help or "", command.epilog or "")
    yield from ((each.help or "") for each in command.params if isinstance(each, click.Option))


def strings(module: str) -> Iterator[str]:
    """Docstrings, messages and what else is a text: a string without a space is a name."""
    yield from (text for _, text in constants(ast.parse(module)) if " " in text)


def constants(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string with the identity of its node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield id(node), node.value


def words(module: str) -> Iterator[str]:
    """Strings of one word, which may be keys and values of files; names that a module exports are not."""
    tree = ast.parse(module)
    exported = {
        each
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
        for each, _ in constants(node.value)
    }
    yield from (text for each, text in constants(tree) if " " not in text and each not in exported)


def attributes(page: str) -> list[str]:
    """What the elements of a page say in attributes, to screen readers and pointers."""
    return re.findall(r'(?:aria-label|aria-description|alt|title|placeholder)="([^"]*)"', page)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda path: path.name)
def test_a_code_is_a_quantized_integer_on_pages(page: Path) -> None:
    assert OF_SOURCES.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.long
def test_a_code_is_a_quantized_integer_in_help_and_reports() -> None:
    helps = [text for command in ALL.values() for text in texts(command)]
    templates = [
        path.read_text() for suffix in ("html", "md", "js") for path in (ROOT / "conformance").rglob(f"*.{suffix}")
    ]
    said = list(modules())
    assert [
        found
        for text in (*helps, *templates, *said, *AGREEMENTS.values(), *DOCUMENTED.values())
        for found in OF_SOURCES.findall(text)
    ] == []


def modules() -> Iterator[str]:
    """What the modules of `conformance` say."""
    for path in sorted((ROOT / "conformance").rglob("*.py")):
        yield from strings(path.read_text(encoding="utf-8"))


def test_another_sense_of_code_is_seen() -> None:
    assert OF_SOURCES.findall(
        "what the code does. Table rejects, code accepts. Its codes; the exit code and the rest."
    ) == [
        "what the code does",
        "code accepts",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_spells_as_torch(page: Path) -> None:
    assert british(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", ALL)
def test_help_spells_as_torch(name: str) -> None:
    assert british(" ".join(texts(ALL[name]))) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_module_says_spells_as_torch(folder: str) -> None:
    """Docstrings become reference pages and sentences of rules, messages are what a user sees first."""
    found = [
        (path.relative_to(ROOT).as_posix(), word)
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in strings(path.read_text(encoding="utf-8"))
        for word in british(text)
        if not re.search(rf"\b{word}: ", text)  # a docstring's entry on a field of that name
    ]
    assert found == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_word_that_files_may_hold_is_spelled_as_torch(folder: str) -> None:
    """Names of cases keep their spelling, as waivers name them; `_requantised` names a tensor in recorded bytes."""
    found = [
        (path.relative_to(ROOT).as_posix(), word)
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "conformance/cases/" not in path.as_posix()
        for text in words(path.read_text(encoding="utf-8"))
        for word in british(text)
        if text != "_requantised"
    ]
    assert found == []


def test_attributes_of_templates_spell_as_torch() -> None:
    said = [each for path in (ROOT / "conformance").rglob("*.html") for each in attributes(path.read_text())]
    assert said and british(" ".join(said)) == []


@pytest.mark.parametrize("suffix", ["toml", "html", "md"])
def test_what_tables_and_templates_say_spells_as_torch(suffix: str) -> None:
    files = sorted((ROOT / "conformance").rglob(f"*.{suffix}"))
    texts = [(path.name, re.sub(r'^\[.*\]$|^\w+ = "\S*"$', "", path.read_text(), flags=re.M)) for path in files]
    assert files and [(name, word) for name, text in texts for word in british(text)] == []


def test_another_spelling_is_seen() -> None:
    assert british("Quantise it, and its neighbours, as `quantised` [says](behaviour.md).") == [
        "Quantise",
        "neighbours",
    ]
    assert british("a dequantised one of `not quantised` codes; quantised_by, x.quantised, re-quantise.md") == [
        "dequantised",
        "quantised",
    ]
    module = 'def f(x):\n    """Optimises x."""\n    raise ValueError(f"{x} is unquantised, not {quantised}")\n'
    assert [word for text in strings(module) for word in british(text)] == ["Optimises", "unquantised"]


def test_another_spelling_of_a_key_is_seen() -> None:
    module = 'runs["quantised"] = 1\ncode = "not_quantised"\n__all__ = ["quantised"]\n'
    assert sorted(word for text in words(module) for word in british(text)) == ["not_quantised", "quantised"]
    assert british(" ".join(attributes('<p class="grey" title="By colour">'))) == ["colour"]
