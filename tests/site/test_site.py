"""The pages as a site: built without a warning, which a broken link would be, and loading nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from npu_assay.conformance.cli import main
from npu_assay.partitioners import exir

DOCS = ROOT / "docs"
LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["'](?:https?:)?//[^"']*""")


def built(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(source), str(target)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    run = built(DOCS, target)
    assert run.returncode == 0, run.stderr
    return target


def test_every_page_stands_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    pages = [path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")]
    assert len(pages) > 50
    assert [page for page in pages if f'href="{page}"' not in menu and page != "index.html"] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert LOADED.findall(path.read_text()) == [], path


def test_the_search_for_loads_finds_one() -> None:
    assert LOADED.findall('<script defer src="https://example.org/x.js">') and LOADED.findall("<img src='//x/y.png'>")


def test_every_command_is_on_the_page(site: Path) -> None:
    text = (site / "commands.html").read_text()
    for name in main.commands:
        assert f'id="assay-{name}"' in text, name


def test_the_public_interface_is_on_the_page(site: Path) -> None:
    text = (site / "python.html").read_text()
    for name in exir.__all__:
        assert f'id="npu_assay.partitioners.exir.{name}"' in text or f"<code>{name}</code>" in text, name


@pytest.mark.parametrize("text", ["[x](no-such-page.md)", "[x](files.md#no-such-heading)"])
def test_a_broken_link_ends_the_build(tmp_path: Path, text: str) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    shutil.copy(DOCS / "conf.py", source)
    (source / "files.md").write_text("# Files\n")
    (source / "index.md").write_text(f"# X\n\n```{{toctree}}\nfiles\n```\n\n{text}\n")
    run = built(source, tmp_path / "site")
    assert run.returncode != 0 and "no-such" in run.stderr
