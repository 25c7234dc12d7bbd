"""The picture of a report in the README, made here: `--snapshot-update` makes it anew.

Another browser draws other pixels, so the picture says which sources drew it, and these must be today's.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import ROOT
from selenium.webdriver import Chrome

from npu_assay.conformance.cli import main

PICTURE = ROOT / "docs" / "report.png"
DRAWN_BY = tuple(ROOT / "conformance" / part / "templates" for part in ("common", "report/page"))
SIZE, MOST = (1100, 760), 150_000
RUN = ["certify", "npu_assay.faults.neutron:bias_dropped", "-k", "convolution or addmm or mean or cat"]
END = b"IEND"
BEFORE_KIND = 4  # bytes of a chunk's length


def sources(*folders: Path) -> str:
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def with_note(png: bytes, note: str) -> bytes:
    """The picture with a text, as PNG's specification has it: length, kind, data, checksum."""
    data = b"tEXt" + b"Source\0" + note.encode()
    end = png.rindex(END) - BEFORE_KIND
    chunk = struct.pack(">I", len(data) - len(b"tEXt")) + data + struct.pack(">I", zlib.crc32(data))
    return png[:end] + chunk + png[end:]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "assay-my_npu"
    assert CliRunner().invoke(main, [*RUN, "--out", str(folder)]).exit_code == 1
    return folder / "report.html"


def test_the_picture_shows_what_a_report_looks_like_today(chrome: Chrome, request: pytest.FixtureRequest) -> None:
    note = sources(*DRAWN_BY)
    if request.config.getoption("--snapshot-update"):
        chrome.set_window_size(*SIZE)
        chrome.get(request.getfixturevalue("report").as_uri())
        PICTURE.write_bytes(with_note(chrome.get_screenshot_as_png(), note))
    found = PICTURE.read_bytes()
    assert found.startswith(b"\x89PNG") and len(found) < MOST
    assert note.encode() in found, "drawn by other sources: pytest tests/browser/test_pictures.py --snapshot-update"
    assert "](docs/report.png)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_another_page_is_another_picture(tmp_path: Path) -> None:
    (tmp_path / "page.css").write_text("p { color: red }")
    before = sources(tmp_path)
    (tmp_path / "page.css").write_text("p { color: blue }")
    assert sources(tmp_path) != before
