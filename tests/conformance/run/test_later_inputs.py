"""Right numbers stay right on inputs that are drawn when a program is compiled, whatever their secret is."""

from __future__ import annotations

import pytest

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.run.answering import answer
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.one_case import asked, judged
from npu_assay.conformance.run.selection import cases_of
from npu_assay.conformance.table import load_table


@pytest.mark.parametrize("secret", ["secret234", "secret312", "secret319"])
@pytest.mark.parametrize("variant", ["behind_pad", "behind_pad_without_a_value"])
def test_a_bias_behind_a_pad_counts_in_steps_of_the_accumulator(variant: str, secret: str) -> None:
    """Codes with zeros around them are codes: the bound has half a step of the accumulator for the bias."""
    backend, table = load_backend("xnnpack"), load_table("xnnpack@1.5")
    name = f"aten.conv2d.default/static_int8_per_channel/operator/context/{variant}"
    case = next(case for case in cases_of(table, "aten.conv2d.default") if case.id == name)
    drawing = Drawing(case.graph, None, secret)
    assert judged(case, table, answer(asked(case, table), backend, drawing), drawing).failures == ()
