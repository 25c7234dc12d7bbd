"""The order of runs on a board, what changed between neighbors, and what is built again."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from board_asked import board, break_results, files
from board_runs import DAY, HOSTILE, ROWS, case, result, results, three, write

from npu_assay.conformance.board import reading
from npu_assay.conformance.board.building import build
from npu_assay.conformance.board.reading import CACHE, asked, read
from npu_assay.conformance.board.ready_runs import Asking
from npu_assay.conformance.board.tracks import FAILS, GONE, MENDED, NEW, TAGS, natural, slug, tracks
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.archive import archive_bytes
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import RESULTS
from npu_assay.conformance.record.waivers import Waiver

# ------------------------------------------------------------------------------------ history


def test_runs_are_in_the_order_of_releases_and_compared_with_their_neighbors(tmp_path: Path) -> None:
    found, _ = read(asked([str(path) for path in three(tmp_path)[::-1]]), tmp_path / "site", 1)
    (track,) = tracks(found)
    assert [one.release for one in track.runs] == ["1.9", "1.10", "1.11"]
    newest, oldest = track.changes
    assert dict(oldest.kinds) == {FAILS: (case(ROWS[2], 1),), MENDED: (case(ROWS[0], 1),)}
    mended = tuple(sorted((case(ROWS[1], 1), case(ROWS[2], 1))))
    assert dict(newest.kinds) == {MENDED: mended, NEW: tuple(sorted(case(row, 4) for row in ROWS))}


def test_tags_and_cases_that_go_are_told(tmp_path: Path) -> None:
    before = results(2)
    after = [result(before[0].case, verdict="reject"), *before[1:-1]]
    paths = [write(tmp_path / "a", before), write(tmp_path / "b", after)]
    (track,) = tracks(read(asked([str(path) for path in paths]), tmp_path / "site", 1)[0])
    assert dict(track.changes[0].kinds) == {TAGS: (before[0].case,), GONE: (before[-1].case,)}


def test_what_is_waived_is_compared(tmp_path: Path) -> None:
    """A failing case and its waiver come and go; in the end the waiver alone is another."""
    name, other = case(ROWS[0], 1), case(ROWS[1], 1)
    known, again = (Waiver(name, ("gate1",), text, "me", DAY) for text in ("known", "later"))
    beside = Waiver(other, ("gate1",), "known", "me", DAY)
    wrong = results(failing={name: "out"})
    runs = [
        (results(), ()),
        (wrong, (known,)),
        (wrong, ()),
        (wrong, (known,)),
        (results(), ()),
        (results(failing={name: "out", other: "out"}), (known, beside)),
        (results(failing={name: "out", other: "out"}), (known,)),
        (wrong, (known,)),
        (wrong, (again,)),
    ]
    paths = [
        str(write(tmp_path / f"r{n}", found, waivers=kept, version=f"1.{n}")) for n, (found, kept) in enumerate(runs)
    ]
    build(paths, tmp_path / "site")
    (track,) = tracks(read(asked(paths), tmp_path / "site", 1)[0])
    assert [change.brief for change in track.changes[::-1]] == [
        "1 newly waived",
        "1 no longer waived",
        "1 newly waived",
        "1 mended",
        "2 newly waived",
        "1 no longer waived",
        "1 mended",
        "other waivers",
    ]
    text = next((tmp_path / "site" / "tracks").iterdir()).read_text()
    then = "certified with 1 of 12 cases failing and waived, then not certified"
    assert f"state another verdict ({then}) and other waivers." in text
    assert text.count("The same in every case.") == 1


def test_another_verdict_of_the_same_cases_is_told(tmp_path: Path) -> None:
    """An objection of another kind, such as a waiver that is not needed."""
    paths = [write(tmp_path / "a", results()), write(tmp_path / "b", results(), certified=False, version="1.1")]
    build([str(path) for path in paths], tmp_path / "site")
    index = (tmp_path / "site" / "index.html").read_text()
    assert "another verdict (certified, then not certified)</td>" in index and "the same<" not in index


def test_backends_levels_and_selections_are_tracks_of_their_own(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a", results()),
        write(tmp_path / "b", results(), level="tags"),
        write(tmp_path / "c", results(), backend="other"),
        write(tmp_path / "d", results(), selection=Selection("abs")),
    ]
    found = tracks(read(asked([str(path) for path in paths]), tmp_path / "site", 1)[0])
    assert [track.title for track in found] == [
        "other against toy",
        "toy against toy",
        "toy against toy (tags)",
        "toy against toy (-k 'abs')",
    ]
    assert len({track.slug for track in found}) == 4


def test_labels_name_releases_and_folders_hold_runs(tmp_path: Path) -> None:
    three(tmp_path / "runs")
    contents = {path.name: path.read_bytes() for path in (tmp_path / "runs" / "r1").iterdir()}
    (tmp_path / "runs" / "old.zip").write_bytes(archive_bytes(contents))
    (tmp_path / "runs" / "r1").rename(tmp_path / "r1")
    found, _ = read(asked([f"beta={tmp_path / 'runs'}"]), tmp_path / "site", 1)
    assert sorted(one.name for one in found.runs) == ["old.zip", "r2", "r3"]
    assert {one.release for one in found.runs} == {"beta"}


def test_a_run_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    run, other = write(tmp_path / "r", results()), write(tmp_path / "s", results(), backend="other")
    archive = tmp_path / "r.zip"
    archive.write_bytes(archive_bytes({path.name: path.read_bytes() for path in run.iterdir()}))
    found = board(archive, run, other, "--out", tmp_path / "site")
    assert "counted once: r.zip is the same run as r\n2 runs, 2 of them read anew; " in found.output
    assert board(run, archive, other, "--out", tmp_path / "two").exit_code == 0
    assert files(tmp_path / "site") == files(tmp_path / "two")
    found = board(run, f"rc={archive}", "--out", tmp_path / "labels")
    assert "counted once" not in found.output and found.output.startswith("2 runs")


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [write(tmp_path / day / "assay-toy", results(size)) for size, day in enumerate(("monday", "tuesday"), 1)]
    found, _ = read(asked([str(path) for path in [*paths, paths[0]]]), tmp_path / "site", 1)
    assert sorted(one.name for one in found.runs) == ["monday/assay-toy", "tuesday/assay-toy"]


@pytest.mark.parametrize(("lower", "higher"), [("1.9", "1.10"), ("1.3", "1.3.1"), ("2", "10"), ("1.0", "1.0-post")])
def test_releases_count_as_numbers(lower: str, higher: str) -> None:
    assert natural(lower) < natural(higher)


@pytest.mark.parametrize("between", [".", "-", ""])
def test_a_candidate_comes_before_its_release(between: str) -> None:
    steps = ["dev", "dev2", "a", "alpha2", "b1", "beta2", "pre", "rc", "RC2", "rc10"]
    releases = ["0.1", "0.1-fix", *(f"0.2{between}{step}" for step in steps), "0.2", "0.2-arch", "0.2.1"]
    assert sorted(set(releases), key=natural) == releases


def test_slugs_are_file_names_of_their_own() -> None:
    texts = ["a b", "a/b", "../../x", HOSTILE, "x" * 500, "", "A", "a"]
    found = [slug(text) for text in texts]
    assert len(set(found)) == len(texts)
    assert all(re.fullmatch(r"[A-Za-z0-9.-]{1,80}", each) and not each.startswith(".") for each in found)


# ------------------------------------------------------------------------------------ built again


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    paths = three(tmp_path / "runs")
    build([str(path) for path in paths], tmp_path / "one")
    build([str(path) for path in paths], tmp_path / "two", Asking(workers=2))
    build([str(path) for path in paths[::-1]], tmp_path / "three")
    build([str(path) for path in paths], tmp_path / "one")
    one = files(tmp_path / "one")
    assert one == files(tmp_path / "two") == files(tmp_path / "three") and len(one) == 8


def test_what_is_unchanged_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(path) for path in three(tmp_path / "runs")]
    build(paths, tmp_path / "site")
    before = files(tmp_path / "site")

    def opened(path: Path) -> None:
        raise AssertionError(f"{path} is read again")

    monkeypatch.setattr(reading, "digest", opened)
    monkeypatch.setattr(reading, "_sha256", opened)
    built = build(paths, tmp_path / "site")
    assert (built.runs.fresh, built.changed) == (0, 0) and files(tmp_path / "site") == before


def test_another_time_is_no_other_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = three(tmp_path / "runs")
    build([str(path) for path in paths], tmp_path / "site")
    for path in paths:
        os.utime(path / RESULTS, (1, 1))
    monkeypatch.setattr(reading, "digest", None)
    assert build([str(path) for path in paths], tmp_path / "site").runs.fresh == 0


def test_what_changed_is_read_again(tmp_path: Path) -> None:
    paths = three(tmp_path / "runs")
    build([str(path) for path in paths], tmp_path / "site")
    shutil.rmtree(paths[2])
    write(paths[2], results(5, {case(ROWS[0], 4): "out[0] = 1"}), version="1.11")
    built = build([str(path) for path in paths], tmp_path / "site")
    assert built.runs.fresh == 1 and built.changed >= 3
    build([str(path) for path in paths], tmp_path / "fresh")
    assert files(tmp_path / "site") == files(tmp_path / "fresh")


def test_an_edit_that_keeps_the_size_is_noticed(tmp_path: Path) -> None:
    """The cache believes no time alone."""
    good, other = write(tmp_path / "a", results()), write(tmp_path / "b", results(5))
    build([str(good), str(other)], tmp_path / "site")
    break_results(good)
    built = build([str(good), str(other)], tmp_path / "site")
    assert [name for name, _ in built.runs.broken] == ["a"]


def test_pages_of_runs_that_are_gone_go(tmp_path: Path) -> None:
    paths = three(tmp_path / "runs")
    build([str(path) for path in paths], tmp_path / "site")
    build([str(path) for path in paths[1:]], tmp_path / "site")
    build([str(path) for path in paths[1:]], tmp_path / "fresh")
    assert files(tmp_path / "site") == files(tmp_path / "fresh")


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', '{"schema": null, "runs": 3}', "\x00"])
def test_a_cache_that_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    paths = [str(path) for path in three(tmp_path / "runs")]
    build(paths, tmp_path / "site")
    before = files(tmp_path / "site")
    (tmp_path / "site" / CACHE).write_text(text)
    assert build(paths, tmp_path / "site").runs.fresh == 3 and files(tmp_path / "site") == before


def test_a_cache_removes_nothing_but_pages(tmp_path: Path) -> None:
    paths = [str(path) for path in three(tmp_path / "runs")]
    build(paths, tmp_path / "site")
    (tmp_path / "precious.html").write_text("mine")
    cache = json.loads((tmp_path / "site" / CACHE).read_text())
    (tmp_path / "site" / CACHE).write_text(json.dumps(cache | {"pages": ["../precious.html"]}))
    with pytest.raises(UsageError, match=r"its list of pages names '\.\./precious\.html'"):
        build(paths, tmp_path / "site")
    assert (tmp_path / "precious.html").read_text() == "mine"
