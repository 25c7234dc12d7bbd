"""A limit on a product of sizes: cases tell it from every other limit near it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.covering.looks import Look, looks
from npu_assay.conformance.table import load_table

TABLE = """
schema = 2
name = "mine"
version = "0.1"
backend_id = "MineBackend"
source = "a document"
rescale = ""

[parameters]

[common]
constraints = []
"""
WINDOWS = """
[constraints]
images = {{ says = "images only", holds = "x.rank == 4" }}
window = {{ says = "windows of at most {{value}}", holds = "kernel_h * kernel_w <= value" }}

[operators."aten.convolution.default"]
document = ""
precisions = ["int8"]
constraints = ["images @document", "window = {limit} @document"]
"""
GUARDED = """
[constraints]
rows = { says = "at most 25 in the last two of three", holds = "x.rank != 3 or x.shape[1] * x.shape[2] <= 25" }

[operators."aten.relu.default"]
document = ""
precisions = ["int8"]
constraints = ["rows @document"]
"""


@pytest.mark.long
@pytest.mark.parametrize("limit", [25, 49, 121])
def test_what_is_at_the_limit_is_accepted_and_one_more_rejected(tmp_path: Path, limit: int) -> None:
    """A square has one pair of factors, neither of which is a size of the row's plain program.

    One more is 2 x 13 of 25, 5 x 10 of 49 and 2 x 61 of 121, for which the image has to be larger, too.
    """
    areas = dict[bool, set[int]]({True: set(), False: set()})
    for look in _looks(tmp_path, WINDOWS.format(limit=limit)):
        if look.good or look.only("window"):
            *_, height, width = look.application.operands[1].shape
            areas[look.good].add(int(height) * int(width))
    assert max(areas[True]) == limit and min(areas[False]) == limit + 1


def test_a_product_that_the_plain_program_does_not_have(tmp_path: Path) -> None:
    """A row of no third dimension has none of sizes 1 and 2: both sides are found among the programs that have one."""
    found = list(_looks(tmp_path, GUARDED))
    areas = {good: {_area(look) for look in found if look.good == good} - {0} for good in (True, False)}
    assert max(areas[True]) == 25 and 25 < min(areas[False]) <= 28


def _looks(folder: Path, rows: str) -> Iterator[Look]:
    path = folder / "mine@0.1.toml"
    path.write_text(TABLE + rows)
    table = load_table(str(path))
    yield from looks(table, cases_for(table))


def _area(look: Look) -> int:
    shape = look.application.operands[0].shape
    return int(shape[1] * shape[2]) if len(shape) == 3 else 0
