"""No script runs on a page but its own: its policy names the digest of it, and the browser sees to the rest."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest
from board_runs import three
from pages import explanation
from reported import run

from npu_assay.conformance.board.building import build
from npu_assay.conformance.explain.page.render import page
from npu_assay.conformance.report.render import html as report_page

SCRIPT = re.compile(r"<script(?P<kind>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)


class Attributes(HTMLParser):
    """The attributes of a page's elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found = list[tuple[str, str]]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(name, value or "") for name, value in attrs]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every page of HTML that the suite writes, by a name."""
    folder = tmp_path_factory.mktemp("pages")
    build(list(map(str, three(folder / "runs"))), folder / "site")
    board = {path.name: path.read_text(encoding="utf-8") for path in (folder / "site").rglob("*.html")}
    report = report_page(run(folder / "run", "drifts", "baseline or quantized"))
    return {**board, "explain": page(explanation()), "report": report}


def test_every_page_names_the_digest_of_its_script(pages: dict[str, str]) -> None:
    assert {"index.html", "explain", "report"} <= {*pages} and len(pages) >= 6
    for name, text in pages.items():
        stated = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
        assert len(stated) == 1, name
        rules = dict(rule.strip().partition(" ")[::2] for rule in html.unescape(stated[0]).split(";"))
        assert {rules[kind] for kind in ("default-src", "base-uri", "form-action")} == {"'none'"}, name
        scripts = [found["text"] for found in SCRIPT.finditer(text) if "application/json" not in found["kind"]]
        digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
        assert all(rules["script-src"] == f"'sha256-{digest}'" for digest in digests), name
        assert rules["script-src"].startswith("'sha256-") and "unsafe" not in rules["script-src"], name
    assert all(SCRIPT.search(pages[name]) for name in ("index.html", "explain", "report"))


def test_no_page_has_a_script_in_an_attribute(pages: dict[str, str]) -> None:
    """A policy with a digest would not run those."""
    for name, text in pages.items():
        found = Attributes(text).found
        assert found and not [each for each in found if each[0].startswith("on") or "javascript:" in each[1]], name
