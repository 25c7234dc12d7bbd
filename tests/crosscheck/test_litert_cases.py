"""Every accepted case: the simulated NPU against LiteRT's reference kernels, on the same flatbuffer.

Each delegate runs on the case's own codes and on random codes over the full range. The comparison is
between two programs that read the same bytes; nothing here knows what the right numbers are.
"""

from __future__ import annotations

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.table import Row, Table, load_table, row_before
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.neutron import backend, backend_1_4
from tests.crosscheck.device_runs import differing, runs

TABLE, NEXT = load_table("neutron@1.3"), load_table("neutron@1.4")
NO_ORACLE = {"aten.sum.dim_IntList"}  # LiteRT's reference kernel of SUM is wrong: see test_litert_kernels.py
CHANGED = [row for row in NEXT.rows if (old := row_before(TABLE, row)) is None or old.constraints != row.constraints]


def check(table: Table, row: Row, release: Backend) -> None:
    accepted = [case for case in cases_for(table) if case.row == row.name and case.expect == "accept"]
    assert accepted
    compared = {case.id: [differing(*run) for run in runs(case.graph, release)] for case in accepted}
    assert {name: counts for name, counts in compared.items() if not counts or any(counts)} == {}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.name)
def test_no_output_differs(row: Row) -> None:
    check(TABLE, row, backend)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("row", [row for row in CHANGED if row.name not in NO_ORACLE], ids=lambda row: row.name)
def test_no_output_differs_where_the_next_release_changes_something(row: Row) -> None:
    check(NEXT, row, backend_1_4)


def test_the_comparison_notices_one_code() -> None:
    """A single code changed in one output is counted."""
    case = next(case for case in cases_for(TABLE) if case.row == "aten.relu.default" and case.expect == "accept")
    blob, inputs, (output,) = runs(case.graph)[0]
    wrong = output.clone().flatten()
    wrong[0] ^= 1
    assert differing(blob, inputs, [output]) == 0
    assert differing(blob, inputs, [wrong.reshape(output.shape)]) == 1
