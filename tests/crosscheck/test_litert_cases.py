"""Every accepted case: the simulated NPU against LiteRT's reference kernels, on the same flatbuffer.

Each delegate runs on the case's own codes and on random codes over the full range. The comparison is
between two programs that read the same bytes; nothing here knows what the right numbers are.
"""

from __future__ import annotations

import pytest
from crosscheck.device_runs import differing, runs

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.table import Row, load_table

TABLE = load_table("neutron@1.3")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.name)
def test_no_output_differs(row: Row) -> None:
    accepted = [case for case in cases_for(TABLE) if case.row == row.name and case.expect == "accept"]
    assert accepted
    compared = {case.id: [differing(*run) for run in runs(case.graph)] for case in accepted}
    assert {name: counts for name, counts in compared.items() if not counts or any(counts)} == {}


def test_the_comparison_notices_one_code() -> None:
    """A single code changed in one output is counted."""
    case = next(case for case in cases_for(TABLE) if case.row == "aten.relu.default" and case.expect == "accept")
    blob, inputs, (output,) = runs(case.graph)[0]
    wrong = output.clone().flatten()
    wrong[0] ^= 1
    assert differing(blob, inputs, [output]) == 0
    assert differing(blob, inputs, [wrong.reshape(output.shape)]) == 1
