"""Broken copies of the XNNPACK backend do not certify: each fault is caught by the check that is there for it."""

from __future__ import annotations

from functools import cache

import faulty_xnnpack
import pytest
from faulty import Fault, checks_of, results_of, selected, tagged, wrong

from conformance.cases import cases_for
from conformance.certify import run_case
from conformance.execution import Job, run_chunk
from conformance.results import CaseResult
from conformance.table import load_table
from partitioners.exir import Backend
from partitioners.xnnpack import backend as right

TABLE = load_table("xnnpack@1.5")
ABS, LINEAR = "aten.abs.default", "aten.linear.default"


PARTITIONER = [
    tagged("alpha_taken", "aten.add.Tensor/fp32", "alpha"),
    tagged("minus_taken", "aten.sub.Tensor/fp32", "alpha"),
    tagged("rank_off_by_one", f"{ABS}/fp32", "max_rank"),
    tagged("zero_points_taken", f"{LINEAR}/static_int8", "weight_zero_point"),
    tagged("scales_mixed", "aten.cat.default/static_int8", "same_qparams"),
    tagged("scale_unlimited", f"{LINEAR}/static_int8", "requant_scale"),
    tagged("doubles_taken", "aten.exp.default/fp32", "dtype"),
    tagged("another_reason", "aten._softmax.default/fp32", "last_dim", "reason"),
    tagged("precision_ignored", f"{ABS}/fp32", "precision"),
    tagged("configs_ignored", f"{ABS}/fp32", "configs"),
]
# The cases of these stand under several constraints.
SPREAD = [
    Fault("stride_off_by_one", ("aten.max_pool2d.default/fp32/stride",), frozenset({"tag"})),
    Fault(
        "never_on_codes",
        ("aten.mul.Tensor/static_int8/precision", "aten.mul.Tensor/static_int8/operator"),
        frozenset({"tag", "gate1"}),
    ),
    Fault("per_op_mode_ignored", (f"{ABS}/fp32/operator",), frozenset({"delegates"}), frozenset({"operator"})),
    Fault("moody", (f"{ABS}/fp32/operator",), frozenset({"determinism"})),
    Fault("cycles_closed", ("aten.add.Tensor/static_int8/add_scale_ratio",), frozenset({"crash"})),
]
COMPILER = [
    wrong("bias_dropped", f"{LINEAR}/fp32", "gate3", "gate4"),
    wrong("bias_dropped", f"{LINEAR}/static_int8", "gate1", "gate2", "gate3"),
    wrong("strides_exchanged", "aten.conv2d.default/fp32", "crash"),
    wrong("scales_reversed", f"{LINEAR}/static_int8_per_channel", "gate1", "gate2", "gate3"),
    wrong("groups_transposed", f"{LINEAR}/dynamic_int4", "gate1", "gate3"),
    wrong("nibbles_swapped", f"{LINEAR}/dynamic_int4", "gate1", "gate3"),
    wrong("nibbles_signed", f"{LINEAR}/dynamic_int4", "gate1", "gate3"),
    wrong("clamp_lost", "aten.add.Tensor/static_int8/operator/context/", "gate1", "gate3"),
    wrong("upper_limit_lost", "aten.hardtanh.default/fp32", "gate1", "gate3"),
    wrong("permutation_inverted", "aten.permute_copy.default/fp32", "crash"),
    wrong("pads_exchanged", "aten.constant_pad_nd.default/fp32", "gate1", "gate3"),
    wrong("operands_exchanged", "aten.div.Tensor/fp32", "gate1", "gate3"),
    wrong("corners_forgotten", "aten.upsample_bilinear2d.vec/fp32", "gate3", "gate4"),
    wrong("weights_halved", f"{LINEAR}/fp32", "gate3", "gate4"),
    wrong("bounds_too_small", f"{ABS}/fp32/operator/accept", "crash"),
    wrong("dated", f"{ABS}/fp16", "determinism"),
]
DEVICE = [
    wrong("half_up", f"{LINEAR}/static_int8", "gate1"),
    wrong("truncating", "aten.mul.Tensor/static_int8", "gate1", "gate2"),
    wrong("zero_point_forgotten", f"{LINEAR}/static_int8", "gate1", "gate2", "gate3"),
    wrong("wrapping", f"{LINEAR}/static_int8", "gate1", "gate3"),
    wrong("exact_sums", "aten.add.Tensor/static_int8", "gate1"),
    wrong("last_bit_off", "aten.add.Tensor/fp32", "gate1"),
    wrong("reciprocal_division", "aten.div.Tensor/fp32", "gate1"),
    wrong("twice_as_far", "aten.tanh.default/fp32", "gate3"),
    wrong("estimated_root", "aten.rsqrt.default/fp32", "gate3", "gate4"),
    wrong("plain_softmax", "aten._softmax.default/fp32", "finite"),
    wrong("tanh_gelu", "aten.gelu.default/fp32", "gate3", "gate4"),
    wrong("rounding_ceil", "aten.ceil.default/fp32", "gate1"),
    wrong("constant", "aten.sigmoid.default/fp32", "not_constant"),
    wrong("half_mean", "aten.mean.dim/fp16", "gate3"),
    wrong("brief_sums", f"{LINEAR}/fp16", "gate3"),
    wrong("per_tensor_rows", f"{LINEAR}/dynamic_int8", "gate1"),
    wrong("symmetric_rows", f"{LINEAR}/dynamic_int8", "gate1"),
    wrong("lowest_rows", f"{LINEAR}/dynamic_int8", "gate1"),
    wrong("separate_rounding", f"{LINEAR}/dynamic_int8", "gate1"),
    wrong("sizes_of_the_bounds", f"{ABS}/fp32", "shape"),
    wrong("padding_counted", "aten.avg_pool2d.default/fp32/count_include_pad/", "gate3", "gate4"),
    wrong("overwriting", f"{ABS}/fp32", "mutation"),
    wrong("mean_of_one_less", "aten.mean.dim/static_int8", "gate1", "gate3"),
]
FAULTS = [*PARTITIONER, *SPREAD, *COMPILER, *DEVICE]


@cache
def results(fault: Fault) -> tuple[CaseResult, ...]:
    """All selected cases on the broken backend."""
    return results_of(getattr(faulty_xnnpack, fault.name), TABLE, selected(fault, cases_for(TABLE)))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}-{fault.cases[0]}")
def test_every_fault_is_caught(fault: Fault) -> None:
    failing = [result for result in results(fault) if result.status == "fail"]
    checks = checks_of(failing)
    assert fault.checks <= checks.keys(), checks
    if fault.constraints is not None:
        assert {result.constraint for result in failing} == fault.constraints


@pytest.mark.parametrize("fault", [*COMPILER, *DEVICE], ids=lambda fault: f"{fault.name}-{fault.cases[0]}")
def test_wrong_numbers_are_not_blamed_on_tags(fault: Fault) -> None:
    assert "tag" not in {failure.check for result in results(fault) for failure in result.failures}


def test_there_are_enough_faults_and_none_is_left_out() -> None:
    listed = {fault.name for fault in FAULTS}
    made = {name for name, value in vars(faulty_xnnpack).items() if isinstance(value, Backend)} - {"backend"}
    assert listed == made and len(listed) >= 20


def test_the_right_backend_passes_the_same_cases() -> None:
    """A tenth of them here; the conformance suite runs all."""
    cases = list({case.id: case for fault in FAULTS for case in selected(fault, cases_for(TABLE))}.values())
    assert [case.id for case in cases[::10] if run_case(case, right, TABLE).status == "fail"] == []


def test_a_broken_backend_is_found_by_its_name() -> None:
    """As `assay certify faulty_xnnpack:half_up` finds it."""
    (name,) = [c.id for c in cases_for(TABLE) if c.id == f"{LINEAR}/static_int8/operator/value/ties"]
    (result,) = run_chunk(Job("faulty_xnnpack:half_up", "xnnpack@1.5"), (name,))
    assert {failure.check for failure in result.failures} == {"gate1"}
    assert result.metrics["max_lsb"] == 1
