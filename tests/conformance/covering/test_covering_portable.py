"""What is found by search are programs on every processor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from onednn import without_onednn

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.covering import domain
from npu_assay.conformance.covering.looks import looked
from npu_assay.conformance.programs.graph import Case, Quant
from npu_assay.conformance.table import load_table


@pytest.mark.parametrize("row", ["aten.conv1d.default", "aten.conv2d.default"])
def test_a_half_precision_convolution_with_other_numbers_is_no_case(row: str) -> None:
    """Where oneDNN has float16 kernels for a processor, torch's refuse a float32 bias; its own kernel takes one."""
    name = f"{row}/fp16/operator/accept/baseline"
    (case,) = (case for case in cases_for(load_table("xnnpack@1.5")) if case.id == name)
    assert _confirmed(case)
    grid = Quant(0.05, 3)
    values = tuple(replace(v, quant=grid, dtype="float32") if v.name == "b" else v for v in case.graph.values)
    assert not _confirmed(replace(case, graph=replace(case.graph, values=values)))


def _confirmed(case: Case) -> bool:
    look = looked(case, ())
    assert look is not None
    with without_onednn():
        return domain._is_case(look)
