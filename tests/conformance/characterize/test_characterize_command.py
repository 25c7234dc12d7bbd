"""`assay characterize`: its process, its files, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from calling import assay

LINEAR = "aten.linear.default/static_int8/"


def test_a_program_that_ends_its_process_is_a_line(tmp_path: Path) -> None:
    """The device dies from 2**-9 on: that is told with its reason, and the rest is measured."""
    code, text = assay("characterize", "rounding_faults:dies", "-k", LINEAR, "--out", tmp_path / "new", "-n", 2)
    assert code == 0, text
    assert "changes from ratio of scales 2**-9: [crash] run: the process died (SIGABRT)" in text
    found = json.loads((tmp_path / "new" / "characterize.json").read_text())
    (operator,) = found["operators"]
    assert found["schema"] == 1
    assert operator["measured"]["asked"]["ratio"] == [0, 8]
    assert operator["measured"]["ratios"][8]["results"] > 1000 and not operator["measured"]["ratios"][9]["results"]
    assert operator["inferred"]["ties"] == {"": ["to even"]}
    page = (tmp_path / "new" / "characterize.md").read_text()
    assert "| `aten.linear.default` | static_int8 |" in page and "SIGABRT" in page


def test_what_cannot_be_characterized_says_why() -> None:
    """Results without codes leave nothing to measure: exit code 1."""
    code, text = assay("characterize", "xnnpack", "-k", "aten.abs.default/fp32/", "-n", 1)
    assert code == 1, text
    assert "not characterized: results are floats or integers without a scale, not codes" in text


def test_a_wrong_name_is_one_line() -> None:
    assert assay("characterize", "xnnpack", "-k", "no_such_operator")[0] == 2
    assert assay("characterize", "no_such_backend")[0] == 2


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Another seed gives other scales and numbers, and the same rule."""
    asked = ("characterize", "xnnpack", "-k", "aten.mul.Tensor/static_int8/", "--json", "-n", 2)
    texts = [assay(*asked, "--seed", seed)[1].partition("{")[2] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    inferred = [json.loads("{" + text)["operators"][0]["inferred"] for text in texts]
    assert inferred[0] == inferred[2] == {"rounding": "to the nearest", "ties": {"": ["to even"]}}
