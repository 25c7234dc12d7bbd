"""Broken copies of the Ethos-U backends do not certify: each fault is caught by the check that is there for it."""

from __future__ import annotations

from functools import cache
from itertools import groupby

import faulty_ethosu
import pytest
from faulty import Fault, checks_of, results_of, selected, tagged, wrong

from conformance.cases import cases_for
from conformance.certify import run_case
from conformance.execution import Job, run_chunk
from conformance.graph import Case
from conformance.results import CaseResult
from conformance.table import load_table
from partitioners.ethosu import ethos_u55, ethos_u85
from partitioners.exir import Backend

TABLES = {backend.name: load_table(backend.table) for backend in (ethos_u55, ethos_u85)}
RIGHT = {backend.name: backend for backend in (ethos_u55, ethos_u85)}
CONV, LINEAR, POOL = "aten.convolution.default", "aten.linear.default", "aten.avg_pool2d.default"
ADD, SIN, SUM = "aten.add.Tensor", "aten.sin.default", "aten.sum.dim_IntList"
NEAREST, BILINEAR = "aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec"
MAX_POOL, ARGMAX = "aten.max_pool2d.default", "aten.argmax.default"


def on(name: str, cases: str, *checks: str) -> Fault:
    """A fault of a limit, whose cases stand under its constraint."""
    return Fault(name, (cases,), frozenset(checks or ("tag",)))


PARTITIONER = [
    tagged("rank_loosened", f"{ADD}/int8", "max_rank"),
    tagged("rank_tightened", f"{ADD}/int8", "max_rank"),
    on("conv_height_loosened", f"{CONV}/int8/kernel_height/"),
    on("conv_height_tightened", f"{CONV}/int8/kernel_height/"),
    on("conv_area_loosened", f"{CONV}/int8/kernel_area/"),
    on("conv_area_tightened", f"{CONV}/int8/kernel_area/"),
    on("conv_wrong_axis", f"{CONV}/int8/kernel_height/"),
    on("weight_sum_loosened", f"{LINEAR}/int8/weight_sum/"),
    on("weight_sum_tightened", f"{LINEAR}/int8/weight_sum/"),
    on("matrix_size_loosened", "aten.bmm.default/int8/max_size/"),
    on("matrix_size_tightened", "aten.bmm.default/int8/max_size/"),
    on("depth_of_last_axis", f"{CONV}/int8/kernel_depth/"),
    on("pool_height_loosened", f"{POOL}/int8/kernel_height/"),
    on("pool_height_tightened", f"{POOL}/int8/kernel_height/"),
    on("pool_wrong_axis", f"{MAX_POOL}/int8/kernel_height/"),
    on("padded_pool_loosened", f"{POOL}/int8/padded_kernel/"),
    on("padded_pool_tightened", f"{POOL}/int8/padded_kernel/"),
    on("pool_stride_loosened", f"{POOL}/int8/stride/"),
    on("pool_stride_tightened", f"{POOL}/int8/stride/"),
    on("stride_of_one_axis", f"{POOL}/int8/stride/"),
    on("windows_loosened", "aten.unfold_copy.default/int8/windows/"),
    on("windows_tightened", "aten.unfold_copy.default/int8/windows/"),
    on("argmax_loosened", f"{ARGMAX}/integers/max_channels/"),
    on("argmax_tightened", f"{ARGMAX}/integers/max_channels/"),
    on("reduced_loosened", f"{SUM}/int8/reduced_size/"),
    on("reduced_tightened", f"{SUM}/int8/reduced_size/"),
    on("summed_loosened", "aten.cumsum.default/int8/summed_size/"),
    on("summed_tightened", "aten.cumsum.default/int8/summed_size/"),
    on("resize_loosened", f"{NEAREST}/int8/resize/"),
    on("resize_tightened", f"{NEAREST}/int8/resize/"),
    on("marks_ignored", f"{ADD}/int8/quantized/"),
    on("u55_as_u85", "aten.flip.default/int8/dims/"),
    on("moody", f"{ADD}/int8/operator/accept/", "determinism"),
]
COMPILER = [
    wrong("bias_dropped", f"{CONV}/int8", "gate1", "gate2", "gate3"),
    wrong("bias_dropped", f"{LINEAR}/int16", "gate1"),
    wrong("bias_reversed", f"{LINEAR}/int8", "gate1", "gate3"),
    wrong("strides_exchanged", f"{CONV}/int8", "crash"),
    wrong("pads_exchanged", f"{CONV}/int8", "gate1", "gate3"),
    wrong("dilation_lost", f"{CONV}/int8", "crash"),
    wrong("scales_reversed", f"{LINEAR}/int8_per_channel", "gate1", "gate3"),
    wrong("scales_doubled", f"{LINEAR}/int8", "gate1", "gate3", "gate4"),
    wrong("multipliers_of_16_bits", f"{ADD}/int8", "gate1"),
    wrong("weights_transposed", f"{CONV}/int8", "gate1", "gate3"),
    wrong("depthwise_transposed", f"{CONV}/int8", "gate1", "gate3"),
    wrong("input_zero_point_lost", f"{CONV}/int8", "gate1", "gate3"),
    wrong("result_zero_point_lost", f"{LINEAR}/int8", "gate1", "gate3"),
    wrong("operand_zero_point_lost", f"{ADD}/int8", "gate1", "gate3"),
    wrong("matrix_zero_point_lost", "aten.bmm.default/int8", "gate1", "gate3"),
    wrong("pool_zero_point_lost", f"{POOL}/int8", "gate1", "gate3"),
    wrong("pool_zero_points_smallest", f"{POOL}/int8", "gate1"),
    wrong("clamp_lost", "aten.relu.default/int8", "gate1", "gate3"),
    wrong("upper_limit_lost", "aten.hardtanh.default/int8", "gate1", "gate3"),
    wrong("table_unsigned", f"{SIN}/int8", "gate1", "gate3"),
    wrong("table_off_by_one", f"{SIN}/int8", "gate1", "gate3"),
    wrong("last_entry_repeated", f"{SIN}/int16", "gate1"),
    wrong("padding_code_zero", "aten.constant_pad_nd.default/int8", "gate1", "gate3"),
    wrong("padding_reversed", "aten.constant_pad_nd.default/int8", "gate1", "gate3"),
    wrong("parts_exchanged", "aten.cat.default/int8", "gate1", "gate3"),
    wrong("difference_exchanged", "aten.sub.Tensor/int8", "gate1", "gate3"),
    wrong("permutation_inverted", "aten.permute_copy.default/int8", "crash"),
    wrong("reversed_elsewhere", "aten.flip.default/int8", "gate1", "gate3"),
    wrong("begin_off_by_one", "aten.slice_copy.Tensor/int8", "gate1", "gate3"),
    wrong("extremes_exchanged", "aten.amax.default/int8", "gate1", "gate3"),
    wrong("offsets_lost", f"{BILINEAR}/int8", "crash"),
    wrong("or_equal_lost", "aten.ge.Tensor/int8", "gate1"),
    wrong("choices_exchanged", "aten.where.self/int8", "gate1", "gate3"),
    wrong("shifts_rounded", "aten.bitwise_right_shift.Tensor/integers", "gate1"),
    wrong("dated", f"{ADD}/int8/operator/accept/baseline", "determinism"),
]
DEVICE = [
    wrong("half_even", f"{ADD}/int8", "gate1"),
    wrong("half_away", f"{CONV}/int8", "gate1"),
    wrong("truncating", f"{LINEAR}/int8", "gate1", "gate2"),
    wrong("wrapping", f"{LINEAR}/int8", "gate1", "gate3"),
    wrong("saturating_early", f"{CONV}/int8", "gate1", "gate3"),
    wrong("double_rounding", f"{CONV}/int8", "gate1"),
    wrong("single_precision", f"{ADD}/int8", "gate1"),
    wrong("first_channel_for_all", f"{LINEAR}/int8_per_channel", "gate1", "gate3"),
    wrong("wide_sums_wrap", f"{LINEAR}/int16", "gate1", "gate3"),
    wrong("wide_matrices_wrap", "aten.bmm.default/int16", "gate1", "gate3"),
    wrong("wide_sums_in_float32", f"{LINEAR}/int16", "gate1"),
    wrong("narrow_sums_saturate", f"{CONV}/int8", "gate1", "gate3"),
    wrong("table_uninterpolated", f"{SIN}/int16", "gate1", "gate3"),
    wrong("table_half_interpolated", f"{SIN}/int16", "gate1"),
    wrong("table_clipped", f"{SIN}/int16", "gate1"),
    wrong("last_of_equals", f"{ARGMAX}/integers", "gate1"),
    wrong("constant", f"{SIN}/int8", "not_constant"),
    wrong("overwriting", "aten.hardtanh.default/int8", "mutation"),
    wrong("pool_off_by_one", f"{MAX_POOL}/int8", "gate1", "gate3"),
    wrong("sums_of_16_bits", f"{SUM}/int8", "gate1", "gate3"),
    wrong("negation_wraps", "aten.neg.default/int8", "gate1", "gate3"),
    wrong("products_wrap", "aten.mul.Tensor/int16", "gate1", "gate3"),
    wrong("padding_not_the_zero_point", f"{CONV}/int8", "gate1", "gate3"),
    wrong("padding_counted", f"{POOL}/int8", "gate1", "gate3"),
    wrong("padded_with_zeros", f"{MAX_POOL}/int8", "gate1", "gate3"),
    wrong("nearest_earlier", f"{NEAREST}/int8", "gate1"),
    wrong("corners_exchanged", f"{BILINEAR}/int8", "crash"),
    wrong("greater_or_equal", "aten.gt.Tensor/int8", "gate1"),
    wrong("first_index_for_all", "aten.index_select.default/int8", "gate1", "gate3"),
]
FAULTS = [*PARTITIONER, *COMPILER, *DEVICE]


def refused(chip: str) -> list[tuple[str, Case]]:
    """For each code of a table a case behind that limit."""
    cases = (case for case in cases_for(TABLES[chip]) if case.expect == "reject" and case.reason == case.constraint)
    by_code = groupby(sorted(cases, key=lambda case: (case.constraint, case.id)), key=lambda case: case.constraint)
    return [(code, next(found)) for code, found in by_code]


CODES = [(chip, code, case) for chip in TABLES for code, case in refused(chip)]


@cache
def results(fault: Fault) -> tuple[CaseResult, ...]:
    """All selected cases on the broken backend."""
    broken: Backend = getattr(faulty_ethosu, fault.name)
    table = TABLES[broken.name]
    return results_of(broken, table, selected(fault, cases_for(table)))


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


@pytest.mark.parametrize(("chip", "code", "case"), CODES, ids=lambda value: value if isinstance(value, str) else "")
def test_every_rule_that_is_dropped_or_misnamed_is_missed(chip: str, code: str, case: Case) -> None:
    """A case behind the limit of each code, without the rules of that code, and with another reason for them."""
    prefix = "u85_" if chip == "ethos-u85" else ""
    for fault, checks in (("without", {"tag", "reason", "crash"}), ("misnamed", {"reason"})):
        broken = getattr(faulty_ethosu, f"{prefix}{fault}_{code}")
        found = {failure.check for failure in run_case(case, broken, TABLES[chip]).failures}
        assert found & checks, (fault, case.id, found)


def test_there_are_enough_faults_and_none_is_left_out() -> None:
    listed = {fault.name for fault in FAULTS}
    made = {name for name, value in vars(faulty_ethosu).items() if isinstance(value, Backend)}
    assert listed == made - {"ethos_u55", "ethos_u85"} and len(listed) >= 80


@pytest.mark.parametrize("chip", TABLES)
def test_the_right_backend_passes_the_same_cases(chip: str) -> None:
    """A tenth of them here; the conformance suite runs all."""
    of_chip = [fault for fault in FAULTS if getattr(faulty_ethosu, fault.name).name == chip]
    cases = list({case.id: case for fault in of_chip for case in selected(fault, cases_for(TABLES[chip]))}.values())
    assert [case.id for case in cases[::10] if run_case(case, RIGHT[chip], TABLES[chip]).status == "fail"] == []


@pytest.mark.parametrize(("name", "check"), [("half_away", "gate1"), ("without_alpha", "tag")])
def test_a_broken_backend_is_found_by_its_name(name: str, check: str) -> None:
    """As `assay certify faulty_ethosu:half_away` finds it."""
    prefix = f"{LINEAR}/int8/operator/value/" if check == "gate1" else f"{ADD}/int8/alpha/outside/"
    names = [case.id for case in cases_for(TABLES["ethos-u55"]) if case.id.startswith(prefix)]
    found = run_chunk(Job(f"faulty_ethosu:{name}", "ethos_u55@1.5"), tuple(names))
    assert check in {failure.check for result in found for failure in result.failures}
