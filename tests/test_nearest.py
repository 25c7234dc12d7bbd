"""A limit on a product of sizes: cases tell it from every other limit near it."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.covering.looks import looks
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

[constraints]
images = {{ says = "images only", holds = "x.rank == 4" }}
window = {{ says = "windows of at most {{value}}", holds = "kernel_h * kernel_w <= value" }}

[operators."aten.convolution.default"]
document = ""
precisions = ["int8"]
constraints = ["images @document", "window = {limit} @document"]
"""


@pytest.mark.long
@pytest.mark.parametrize("limit", [25, 49, 121])
def test_what_is_at_the_limit_is_accepted_and_one_more_rejected(tmp_path: Path, limit: int) -> None:
    """A square has one pair of factors, neither of which is a size of the row's plain program.

    One more is 2 x 13 of 25, 5 x 10 of 49 and 2 x 61 of 121, for which the image has to be larger, too.
    """
    path = tmp_path / "mine@0.1.toml"
    path.write_text(TABLE.format(limit=limit))
    table = load_table(str(path))
    areas = dict[bool, set[int]]({True: set(), False: set()})
    for look in looks(table, cases_for(table)):
        if look.good or look.only("window"):
            *_, height, width = look.application.operands[1].shape
            areas[look.good].add(int(height) * int(width))
    assert max(areas[True]) == limit and min(areas[False]) == limit + 1
