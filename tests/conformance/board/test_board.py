"""`assay board`: what the site says, what it reads again, and what it does with runs that are broken."""

from __future__ import annotations

import configparser
import datetime
import re
import shlex
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from board_asked import board, break_results, files
from board_runs import DAY, ROWS, case, hostile, result, results, three, write
from places import ROOT

from npu_assay.conformance.board.building import build
from npu_assay.conformance.board.digest import digest
from npu_assay.conformance.board.drawing import badge, history
from npu_assay.conformance.board.reading import asked, read
from npu_assay.conformance.board.tracks import cell, tracks
from npu_assay.conformance.cli import main
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS
from npu_assay.conformance.record.results import Failure, Reason, to_line
from npu_assay.conformance.record.shard import Shard
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.report.symptoms import ABSENT
from tests.conformance.record.test_package import run


class Page(HTMLParser):
    """Elements of a page, what they refer to, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names = list[str]()
        self.references = list[str]()
        self.ids = list[str]()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.references += [str(text) for name, text in attrs if name in ("src", "href", "action", "data")]
        self.ids += [str(text) for name, text in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a history, and with a run of texts that would break careless markup."""
    folder = tmp_path_factory.mktemp("board")
    build([*map(str, three(folder / "runs")), str(hostile(folder))], folder / "site")
    return folder / "site"


# ------------------------------------------------------------------------------------ one run


def test_a_run_is_counted_by_operator(tmp_path: Path) -> None:
    a, b = case(ROWS[0], 1), case(ROWS[1], 2)
    found, ids = digest(write(tmp_path / "r", results(4, {a: "out[0] = 1", b: "compile: KeyError: x"})))
    assert found.counts["fail"] == 2 and len(ids) == 12 and len(found.letters) == 12
    assert {row: cell(found, row).bad for row in ROWS} == {ROWS[0]: 1, ROWS[1]: 1, ROWS[2]: 0}
    assert cell(found, ROWS[0]).right == 3 and cell(found, "no such row").state == "none"
    assert [(each.cases, each.example) for each in found.findings] == [(1, b), (1, a)]
    assert found.failing == (a, b)


def test_an_operator_that_is_never_delegated_is_told_as_such(tmp_path: Path) -> None:
    left = [Failure("tag", "reject, expected accept")]
    gone = [
        replace(one, verdict="reject", status="fail", failures=tuple(left)) if one.row == ROWS[0] else one
        for one in results(4)
    ]
    found, _ = digest(write(tmp_path / "all", gone))
    assert [each.what for each in found.findings] == [f"{ABSENT} (no reason given), although the table lists it"]
    found, _ = digest(write(tmp_path / "but-one", [result(gone[0].case), *gone[1:]]))
    assert [each.what for each in found.findings] == ["Rejected for no reason, but the table allows it"]
    for code, what in (
        ("operator", f"{ABSENT} (operator), although the table lists it"),
        ("rank", "Rejected for rank, "),
    ):
        given = [replace(one, reasons=(Reason(code, "3", "few"),) if one.status == "fail" else ()) for one in gone]
        given.append(result(f"{ROWS[0]}/rank/outside/9", verdict="reject"))
        (finding,) = digest(write(tmp_path / code, given))[0].findings
        assert finding.what.startswith(what)


def test_a_waived_case_is_waived(tmp_path: Path) -> None:
    name = case(ROWS[0], 1)
    waiver = Waiver(name, ("gate1",), "known", "me", datetime.date(2999, 1, 1))
    found, _ = digest(write(tmp_path / "r", results(4, {name: "out[0] = 1"}), waivers=(waiver,)))
    assert found.certified and found.verdict == "certified with 1 of 12 cases failing and waived"
    assert (cell(found, ROWS[0]).waived, cell(found, ROWS[0]).state) == (1, "mixed") and found.findings == ()


@pytest.mark.parametrize("backend", ["refuses", "drifts"])
def test_a_real_run_is_read_as_it_counts_itself(backend: str, tmp_path: Path) -> None:
    report = run(tmp_path / "out", backend, Selection("neg", shard=Shard(1, 2)))
    found, ids = digest(tmp_path / "out")
    assert dict(found.counts) == dict(report.certificate.counts) and len(ids) == len(report.results)
    assert {row: cell(found, row).cases for row in found.rows} == {
        row: tally.cases for row, tally in report.rows if tally.cases
    }
    assert [(each.what, each.cases) for each in found.findings] == [
        (each.symptom.what, len(each.cases)) for each in report.findings
    ]


def test_an_id_with_any_character_is_read(tmp_path: Path) -> None:
    strange = [result(f"{ROWS[0]}/a/b/{text}") for text in ('q"uote', "back\\slash", 'x","status":"fail', "]")]
    found, ids = digest(write(tmp_path / "r", strange))
    assert sorted(ids) == sorted(each.case for each in strange) and found.counts["pass"] == 4


# ------------------------------------------------------------------------------------ broken runs


def reseal(run: Path, text: str) -> None:
    """Other results, with the digests made to fit."""
    from npu_assay.conformance.record.certificate import certificate_text, read_certificate
    from npu_assay.conformance.record.folder import sha256

    (run / RESULTS).write_text(text)
    one = read_certificate((run / CERTIFICATE).read_text())
    (run / CERTIFICATE).write_text(certificate_text(one.__class__(**{**vars(one), "results_sha256": sha256(text)})))


def fail_one(run: Path) -> None:
    lines = [to_line(each) for each in results(4, {case(ROWS[0], 1): "out[0] = 9"})]
    reseal(run, "".join(f"{line}\n" for line in sorted(lines)))


def no_certificate(run: Path) -> None:
    (run / CERTIFICATE).unlink()


def edit_certificate(run: Path) -> None:
    path = run / CERTIFICATE
    path.write_text(path.read_text().replace('"made": "2026', '"made": "2025'))


def odd_line(run: Path) -> None:
    reseal(run, (run / RESULTS).read_text() + "not a line\n")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (break_results, "results.jsonl is not the file that certificate.json was made of"),
        (fail_one, "certificate.json counts "),
        (no_certificate, "incomplete: certificate.json is missing"),
        (edit_certificate, "certificate.json was edited"),
        (odd_line, "not a result record"),
    ],
)
def test_a_broken_run_is_listed_and_the_rest_is_built(damage: object, told: str, tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good", results()), write(tmp_path / "bad", results())
    assert callable(damage)
    damage(bad)
    found = board(good, bad, tmp_path / "nowhere", "--out", tmp_path / "site")
    assert found.exit_code == 0, found.output
    assert f"not read: bad: {told}" in found.output and "not read: nowhere: no such folder" in found.output
    page = Page((tmp_path / "site" / "index.html").read_text())
    assert told in page.text and "no such folder or archive" in page.text and "toy" in page.text


def test_nothing_readable_is_exit_code_2(tmp_path: Path) -> None:
    found = board(tmp_path / "nowhere", "--out", tmp_path / "site")
    assert found.exit_code == 2 and not (tmp_path / "site").exists()
    assert found.output == (
        "assay: found no run that can be read, expected at least one: nowhere: no such folder or archive\n"
    )
    assert board("--out", tmp_path / "site").exit_code == 2


@pytest.mark.parametrize("word", ["0.1=", "=", ""])
def test_a_run_without_a_path_is_one_error(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path / "here", results()))
    found = board(word, "--out", tmp_path / "site")
    assert found.exit_code == 2 and not (tmp_path / "site").exists()
    assert found.output == f"assay: RUN {word!r}: found no path, expected [LABEL=]RUN, a folder or an archive\n"


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("mine")
    found = board(write(tmp_path / "r", results()), "--out", tmp_path / "site")
    assert found.exit_code == 2 and "holds other files (mine.txt)" in found.output
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["mine.txt"]


# ------------------------------------------------------------------------------------ pages


def test_every_page_is_whole_and_every_link_leads_somewhere(site: Path) -> None:
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) == 7
    for path, page in pages.items():
        assert {"script", "link", "img", "iframe"} & set(page.names) <= (
            {"script"} if path.name == "index.html" else set()
        )
        assert len(page.ids) == len(set(page.ids))
        for reference in page.references:
            target, _, part = reference.partition("#")
            assert "//" not in reference, reference
            assert (path.parent / target).is_file() if target else part in page.ids, reference
    index = pages[site / "index.html"]
    assert index.names.count("script") == 1 and "http" not in index.text.replace("https://", "")


def test_every_page_can_be_reached(site: Path) -> None:
    known, waiting = set[Path](), [site / "index.html"]
    while waiting:
        path = waiting.pop().resolve()
        if path in known or path.suffix != ".html":
            continue
        known.add(path)
        waiting += [
            path.parent / each.partition("#")[0] for each in Page(path.read_text()).references if each[0] != "#"
        ]
    assert known == {path.resolve() for path in site.rglob("*.html")}


def test_no_text_of_a_run_is_markup(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert "\x00" not in text and "\x1b" not in text and "<img" not in text, path
        assert text.count("</script>") == (path.name == "index.html")
    for path in site.rglob("*.svg"):
        names = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(path.read_text()).iter()}
        assert names == {"svg", "title", "rect", "path", "g", "text"}


def test_a_badge_says_backend_table_and_verdict(tmp_path: Path) -> None:
    found, _ = digest(write(tmp_path / "r", results()))
    root = ElementTree.fromstring(badge(found))
    assert root.get("aria-label") == "toy against toy@1.0: certified"
    assert [each.text for each in root.iter() if each.tag.endswith("}text")] == ["toy against toy@1.0", "certified"]
    assert "#2a7d46" in badge(found) and "http" not in badge(found).replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("failing", "said", "color"),
    [({}, "passed", "#4a5a78"), ({case(ROWS[0], 1): "out[0] = 1"}, "not passed", "#b3261e")],
)
def test_a_badge_of_a_selection_says_so(failing: dict[str, str], said: str, color: str, tmp_path: Path) -> None:
    found, _ = digest(write(tmp_path / "r", results(failing=failing), selection=Selection("abs")))
    assert f"toy against toy@1.0: {said}, a selection of the cases" in badge(found) and color in badge(found)


def test_the_history_shows_what_is_rare(tmp_path: Path) -> None:
    """One failing case of many is at least two high."""
    write(tmp_path / "r", results(400, {case(ROWS[0], 1): "out[0] = 1"}))
    (track,) = tracks(read(asked([str(tmp_path / "r")]), tmp_path / "site", 1)[0])
    bars = [each for each in ElementTree.fromstring(history(track)).iter() if each.tag.endswith("rect")]
    assert [(each.get("fill"), each.get("height")) for each in bars if each.get("fill") == "#b3261e"] == [
        ("#b3261e", "2.0")
    ]


def test_the_index_says_what_changed(site: Path) -> None:
    text = re.sub(r"\s+", " ", Page((site / "index.html").read_text()).text)
    assert "2 mended, 3 new" in text and "toy@1.11" in text


def test_operators_of_a_selection_are_counted(tmp_path: Path) -> None:
    """Of the table of operators alone they are left out, which says so."""
    some = [result(case(row, 1)) for row in ("aten.mm.default", "aten.exp.default", ROWS[0])]
    paths = [write(tmp_path / "a", results()), write(tmp_path / "b", some, backend="b", selection=Selection("m"))]
    build([str(path) for path in paths], tmp_path / "site")
    text = Page((tmp_path / "site" / "index.html").read_text()).text
    assert "2 backends, 2 runs, 5 operators." in text and "latest run of each backend; runs of a selection" in text
    build([str(paths[0])], tmp_path / "site")
    text = Page((tmp_path / "site" / "index.html").read_text()).text
    assert "1 backend, 1 run, 3 operators." in text and "runs of a selection" not in text


def test_columns_of_one_backend_at_two_levels_are_told_apart(tmp_path: Path) -> None:
    levels = {level: write(tmp_path / level, results(), level=level) for level in ("numbers", "tags", "compiles")}
    build([str(path) for path in levels.values()], tmp_path / "site")
    heads = re.findall(r'<th scope="col"><a.*?</th>', (tmp_path / "site" / "index.html").read_text())
    assert len(heads) == len({re.sub(r'href="[^"]*"', "", head) for head in heads}) == len(levels)


def test_waivers_are_listed_by_reason_owner_and_day(tmp_path: Path) -> None:
    """An expired one waives nothing, though another one waives its case."""
    a, b, c = (case(row, 1) for row in ROWS)
    late, over = datetime.date(2999, 1, 1), DAY - datetime.timedelta(days=1)
    waivers = (
        Waiver(a, ("gate1",), "known", "me", late),
        Waiver(b, ("gate1", "gate2"), "known", "me", late, max_lsb=2),
        Waiver(c, ("gate1",), "new", "you", DAY),
        Waiver(a, ("gate3",), "old", "you", over),
    )
    wrong = [
        replace(one, metrics={**one.metrics, "max_lsb": 2}) for one in results(failing=dict.fromkeys((a, b, c), "out"))
    ]
    build([str(write(tmp_path / "r", wrong, waivers=waivers))], tmp_path / "site")
    (page,) = (tmp_path / "site" / "runs").iterdir()
    text = " ".join(Page(re.sub("</t[dh]>", " | ", page.read_text())).text.split())
    assert "Every failing case is waived." in text and "No case fails" not in text
    assert (
        "known | me | 2999-01-01 | gate1, gate2, up to 2 LSB | 2 | new | you | 2026-03-01 | gate1 | 1 | "
        "old | you | 2026-02-28 | gate3 | 0 of 1 |"
    ) in text
    assert "Every failing case of the latest runs is waived." in (tmp_path / "site" / "index.html").read_text()


def test_a_page_is_small_whatever_runs_hold(tmp_path: Path) -> None:
    names = [case(row, number) for row in ROWS for number in range(3000)]
    write(tmp_path / "a", results(3000))
    write(tmp_path / "b", results(3000, dict.fromkeys(names, "out[0] = 1")), version="1.1")
    build([str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "site")
    assert max(len(data) for data in files(tmp_path / "site").values()) < 60_000


# ------------------------------------------------------------------------------------ this project's own


def test_tox_builds_the_site_of_every_backend(tmp_path: Path) -> None:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "tox.ini")
    lines = settings["testenv:board"]["commands"].strip().splitlines()
    words = [shlex.split(re.sub(r"{env_(tmp_)?dir}{/}", f"{tmp_path}/", line).replace("{/}", "/")) for line in lines]
    certified = [one[2] for one in words if one[:2] == ["assay", "certify"]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(certified) == sorted(project["entry-points"]["npu_assay.backends"])
    for seed, one in enumerate(words[:-1]):
        context = main.commands["certify"].make_context("certify", one[2:])
        run(context.params["out"], "backend", Selection("baseline", seed=seed))
    *_, last = words
    assert board(*[word for word in last[2:] if word != "{posargs}"]).exit_code == 0
    assert len(list((tmp_path / "site" / "runs").iterdir())) == 5
