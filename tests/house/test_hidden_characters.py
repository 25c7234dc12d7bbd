"""No file that people read holds characters that cannot be seen: they could make one text look like another."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from reported import NEG, run, with_results

from npu_assay.conformance.record.results import CaseResult, Failure, Reason, ResultError, from_line, to_line
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.report.junit import junit

HIDDEN = {
    "controls": "\x00\x07\x08\x1b[31m\x7f",
    "C1 controls": "".join(map(chr, range(0x80, 0xA0))),
    "embeddings and overrides": "\u202a\u202b\u202c\u202d\u202e",
    "isolates": "\u2066\u2067\u2068\u2069",
    "marks": "\u200e\u200f\u061c",
    "no width": "\u200b\u200c\u200d\u2060\ufeff",
    "separators": "\u2028\u2029\x85\u00a0\u3000",
    "tags": "\U000e0001\U000e0041",
    "private and unassigned": "\ue000\U0010ffff",
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(tmp_path_factory.mktemp("plain"), "drifts", "baseline")


def spoiled(report: Report, text: str) -> Report:
    """The same report with a text in every place of a result that a backend fills."""
    said = f"a{text}b"
    bad = {
        "failures": (Failure("crash", said, (said,)), Failure("gate1", said)),
        "reasons": (Reason(said, said, said),),
        "status": "fail",
    }
    return with_results(report, [replace(r, **bad) if r.case == NEG else r for r in report.results])  # type: ignore[arg-type]  # as named


def result_of(report: Report) -> CaseResult:
    return next(each for each in report.results if each.case == NEG)


@pytest.mark.parametrize("text", HIDDEN.values(), ids=[*HIDDEN])
def test_junit_shows_them_as_escapes(text: str, plain: Report) -> None:
    found = junit(spoiled(plain, text))
    assert all(line.isprintable() for line in found.split("\n"))
    messages = [each.get("message", "") for each in ElementTree.fromstring(found).iter("failure")]
    shown = text.encode("unicode_escape").decode()
    assert any(f"a{shown}b" in message for message in messages), messages


@pytest.mark.parametrize("text", HIDDEN.values(), ids=[*HIDDEN])
def test_results_show_them_as_escapes_and_keep_them(text: str, plain: Report) -> None:
    result = result_of(spoiled(plain, text))
    line = to_line(result)
    assert line.isprintable() and json.loads(line)["failures"][0]["message"] == f"a{text}b"
    assert from_line(line) == result
    assert all(ord(c) < 128 or c not in text for c in line)


def test_letters_of_all_languages_stay(plain: Report) -> None:
    assert "größer 大きい" in to_line(result_of(spoiled(plain, "größer 大きい")))


@pytest.mark.parametrize("text", ["\ud800", "\udfff", "\udc80"])
def test_lone_surrogates_are_no_result(text: str, plain: Report, tmp_path: Path) -> None:
    line = to_line(result_of(plain)).replace('"verdict":"', f'"verdict":"{json.dumps(text)[1:-1]}', 1)
    with pytest.raises(ResultError):
        from_line(line)
    with pytest.raises(UnicodeEncodeError):
        to_line(result_of(spoiled(plain, text)))
