"""A difference of two runs as Markdown and as HTML, whatever texts the runs hold."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ci_asked import HOSTILE, command, outside_of_code

from npu_assay.conformance.common.markup import code
from npu_assay.conformance.compare.difference import Difference, compare, read_run
from npu_assay.conformance.compare.difference_groups import stated
from npu_assay.conformance.compare.difference_pages import CASES, LONGEST, html, lines, markdown
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.waivers import Waiver
from tests.conformance.record.test_package import run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Difference:
    made = tmp_path_factory.mktemp("diff")
    for name in ("backend", "refuses"):
        run(made / name, name, Selection("neg"))
    return compare(read_run(made / "backend"), read_run(made / "refuses"))


@pytest.fixture(scope="module")
def spoiled(found: Difference) -> Difference:
    """The same, with texts that would break careless markup in every place."""
    spoil = tuple(replace(change, after=HOSTILE, row=HOSTILE, what=HOSTILE) for change in found.changes)
    return replace(
        found, changes=spoil, stated=((HOSTILE,) * 3,), made_with=((HOSTILE,) * 3,), a=replace(found.a, name=HOSTILE)
    )


def test_markdown_says_what_the_text_says(found: Difference) -> None:
    text = markdown(found)
    assert text.startswith(f"### Different: {len(found.a.results)} of {len(found.a.results)} cases\n")
    assert "\n- tags: `accept` to `reject (mood), which fails`: " in text
    assert re.search(r"\n\| no longer accepted \| [1-9]\d* \| now: in part or not at all \|\n", text)
    assert "| `counts` | `" in text
    assert markdown(compare(found.a, found.a)).startswith("### The same\n")


def test_both_forms_say_of_which_run_the_words_are(found: Difference) -> None:
    """ "newly accepted | 1 | went to the device in part or not at all" was read as what is so now."""
    turned = compare(found.b, found.a)
    assert "| what happened | cases | before or now |" in markdown(turned)
    assert '<th scope="col" class="word">before or now</th>' in html(turned)
    assert re.search(r"\| newly accepted \| \d+ \| before: in part or not at all \|", markdown(turned))
    assert re.search(r'newly accepted</th><td>\d+</td><td class="word">before: in part or not at all<', html(turned))


def test_waivers_of_one_reason_owner_and_day_are_told_together(found: Difference) -> None:
    day = datetime.date(2026, 12, 1)
    waivers = tuple(Waiver(f"case/{n}", ("gate1", "gate3")[n % 2 :], "slow fix", "jane", day) for n in range(12))
    later = Waiver("case/12", ("tag",), "slow fix", "jane", datetime.date(2027, 1, 1), 2)
    with_them = replace(found.a, certificate=replace(found.a.certificate, waivers=(*waivers, later)))
    one = compare(with_them, found.a)
    assert markdown(one).startswith(f"### Different: 13 waivers; 0 of {len(found.a.results)} cases\n")
    assert "| `12 waivers` | `gate1, gate3 until 2026-12-01, jane: slow fix` | `none` |\n" in markdown(one)
    assert "| `waiver of case/12` | `tag up to 2 LSB until 2027-01-01, jane: slow fix` | `none` |\n" in markdown(one)
    assert [text.count("slow fix") for text in (markdown(one), html(one), " ".join(lines(one)))] == [2, 2, 2]
    assert len(one.as_json()["stated"]) == 13
    longer = tuple(replace(waiver, expires=later.expires) for waiver in waivers)
    changed = compare(with_them, replace(found.a, certificate=replace(found.a.certificate, waivers=longer)))
    until = [f"gate1, gate3 until {text}, jane: slow fix" for text in (day, later.expires)]
    assert ("12 waivers", *until) in stated(changed) and len(stated(changed)) == 2


def test_markdown_of_texts_that_are_not_trusted(spoiled: Difference) -> None:
    text = outside_of_code(markdown(spoiled))
    for word in ("<", "alert", "e.vil", "@someone", "\x1b"):
        assert word not in text, word
    for line in text.splitlines():
        assert not line.startswith("|") or len(re.findall(r"(?<!\\)\|", line)) in (4, 6)


def test_markdown_fits_a_comment(found: Difference) -> None:
    many = tuple(
        replace(change, row=f"row{number}", after=f"{number} {'x' * 200}")
        for number in range(200)
        for change in found.changes[:10]
    )
    text = markdown(replace(found, changes=many))
    assert len(text) < LONGEST + 100 and text.endswith("The rest is left out (--json has all).\n")


class Elements(HTMLParser):
    """The elements of a page, and what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names = list[str]()
        self.references = list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.references += [str(text) for name, text in attrs if name in ("src", "href", "action", "data")]


def test_html_is_one_file_without_markup_of_a_backend(found: Difference, spoiled: Difference) -> None:
    page = Elements(html(spoiled))
    assert "script" not in page.names and page.references == []
    assert "alert(1)" in html(spoiled) and "\x1b" not in html(spoiled)
    assert Elements(html(found)).names.count("li") >= CASES
    assert html(found) == html(found) and "mood (a bad one)" in html(found)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a|b", "`a\\|b`"),
        ("", "`none`"),
        ("`", "`` ` ``"),
        ("a``b`", "``` a``b` ```"),
        ("a\nb", "`a\\nb`"),
        (" x", "`  x `"),
    ],
)
def test_any_text_is_a_code_span(text: str, span: str) -> None:
    assert code(text) == span


def test_the_command_has_each_form(found: Difference, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shown = command("diff", found.a.name, found.b.name, "--markdown", "--html", str(page))
    assert shown.exit_code == 1 and shown.stdout.startswith("### Different")
    assert page.read_text(encoding="utf-8") == html(found)
    assert command("diff", found.a.name, found.a.name, "--html", str(page)).exit_code == 0
