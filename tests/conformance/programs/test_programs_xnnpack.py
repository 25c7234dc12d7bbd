"""The direct program builder on XNNPACK's rows: in every precision, what torch.export and to_edge make."""

from __future__ import annotations

import pytest
import torch
from edge_programs import OPEN, assert_same, exported_program, nodes_of

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import build, model_inputs, module
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import EdgeCompileConfig, run_program, to_edge
from npu_assay.partitioners.xnnpack.partitioner import overload

TABLE = load_table("xnnpack@1.5")
CASES = {case.id: case for case in cases_for(TABLE)}
BASELINES = [case for case in CASES.values() if case.id.endswith("/operator/accept/baseline")]
# Beyond the baselines: open sizes, operands of other forms, quantization at run time of all rows together.
FORMS = [
    "aten.abs.default/fp32/operator/accept/open_axis_0",
    "aten.abs.default/fp32/operator/context/behind_float16",
    "aten.add.Tensor/fp32/alpha/outside/2",
    "aten.add.Tensor/fp32/operator/accept/constant_operand",
    "aten.add.Tensor/fp32/operator/accept/whole_number",
    "aten.add.Tensor/static_int8/operator/context/two_consumers",
    "aten.conv2d.default/fp32/operator/accept/open_axis_0",
    "aten.linear.default/dynamic_int8/operator/accept/open_axis_0",
    "aten.linear.default/dynamic_int8/operator/accept/per_tensor_weights",
    "aten.linear.default/dynamic_int8/operator/accept/quantised_per_tensor",
    "aten.linear.default/fp32/operator/accept/no_bias",
    "aten.linear.default/fp32/static_weights/outside/weights_are_an_input",
    "aten.linear.default/static_int8_per_channel/operator/context/then_relu",
    "aten.max_pool2d.default/static_int8/operator/accept/open_axis_2_and_3",
    "dim_order_ops._to_dim_order_copy.default/fp32/no_conversion/outside/float16",
    "dim_order_ops._to_dim_order_copy.default/static_int8/operator/accept/channels_last",
]


def _same(case: Case) -> None:
    preserved = [op for op in map(overload, TABLE.preserve) if op is not None]
    exported = to_edge(exported_program(case.graph), compile_config=EdgeCompileConfig(preserve_ops=preserved))
    assert_same(build(case.graph, TABLE.preserve), exported.exported_program())


COPY = "dim_order_ops._to_dim_order_copy.default"
"""torch.export leaves out copies that change nothing: FORMS has one that converts."""


@pytest.mark.sampled(15)
@pytest.mark.parametrize(
    "case", [case for case in BASELINES if case.row != COPY], ids=lambda case: f"{case.row}-{case.precision}"
)
def test_every_row_in_every_precision(case: Case) -> None:
    _same(case)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", FORMS)
def test_other_forms(name: str) -> None:
    _same(CASES[name])


def test_every_row_and_precision_has_a_baseline() -> None:
    assert {(case.row, case.precision) for case in BASELINES} == {
        (row.name, precision) for row in TABLE.rows for precision in row.precisions
    }


def test_open_sizes_are_compared_as_open() -> None:
    fixed, open_ = (
        CASES[f"aten.abs.default/fp32/operator/accept/{name}"].graph for name in ("baseline", "open_axis_0")
    )
    (_, *_, value), (_, *_, other) = nodes_of(build(fixed))[0], nodes_of(build(open_))[0]
    assert other[0][0] == OPEN and value[0][0] != OPEN and value[0][1:] == other[0][1:]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("case", BASELINES, ids=lambda case: f"{case.row}-{case.precision}")
def test_the_program_computes_what_the_module_computes(case: Case) -> None:
    inputs = model_inputs(case.graph)
    expected, found = module(case.graph)(*inputs), run_program(build(case.graph, TABLE.preserve), list(inputs))
    for a, b in zip(expected, found, strict=True):
        assert isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
