"""Cases follow the table: other values give other boundaries, and what cannot be followed is one clear error."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest
from limit_tables import changed, neutron

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.coverage import coverage, failures
from npu_assay.conformance.programs.graph import Case, Ref
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.tagging import prepare, tag
from npu_assay.conformance.table import Table
from npu_assay.faults.neutron import with_macs

MULTIPLES = (
    "channels_multiple_of",
    "matrix_dims_multiple_of",
    "any_dim_multiple_of",
    "sliced_dim_multiple_of",
    "alone_channels_multiple_of",
    "transposed",
)


def subject_shape(case: Case) -> tuple[int, ...]:
    """The shape of the subject's first operand where that is a model input."""
    (step,) = [step for step in case.graph.steps if step.name == SUBJECT]
    ref = next(ref for arg in step.args for ref in (arg if isinstance(arg, tuple) else (arg,)) if isinstance(ref, Ref))
    return next((value.shape for value in case.graph.values if value.name == ref.name), ())


# ------------------------------------------------------------------------------------ other values


def test_a_table_of_fours_has_its_boundaries_at_four(tmp_path: Path) -> None:
    table = changed(tmp_path, ('"channels_multiple_of = 8', '"channels_multiple_of = 4'))
    ids = {c.id for c in cases_for(table) if c.row == "aten.mean.dim" and c.constraint == "channels_multiple_of"}
    prefix = "aten.mean.dim/channels_multiple_of"
    assert {f"{prefix}/at_limit/4", f"{prefix}/outside/3", f"{prefix}/outside/5"} <= ids
    assert f"{prefix}/at_limit/8" in ids and f"{prefix}/outside/7" not in ids


def test_the_stock_backend_fails_a_table_of_fours_and_says_why(tmp_path: Path) -> None:
    table = changed(tmp_path, ('"channels_multiple_of = 8', '"channels_multiple_of = 4'))
    cases = {case.id: case for case in cases_for(table)}
    result = run_case(cases["aten.mean.dim/channels_multiple_of/at_limit/4"], neutron(), table)
    (failure,) = [f for f in result.failures if f.check == "tag"]
    assert failure.message.startswith(
        "reject, expected accept; channels_multiple_of: found 4 channels, 8 MAC units, but the channel count must be"
    )
    assert run_case(cases["aten.mean.dim/channels_multiple_of/outside/3"], neutron(), table).failures == ()


def of_macs(folder: Path, macs: int) -> Table:
    """The table of an NPU with another number of MAC units."""
    multiples = [(f'"{code} = 8 ', f'"{code} = {macs} ') for code in MULTIPLES]
    return changed(
        folder, *multiples, ("macs = 8\n", f"macs = {macs}\n"), ("max_size = 524288", f"max_size = {2**16 * macs}")
    )


# Rows that have nothing to do with the number of MAC units, but for transposed convolutions.
FREE = {"aten.abs.default", "aten.neg.default", "aten.leaky_relu.default", "aten.sigmoid.default", "aten.tanh.default"}
FREE |= {"aten.convolution.default", "aten.addmm.default", "aten.mm.default", "aten.add.Tensor"}
FREE |= {"aten.avg_pool2d.default", "aten._adaptive_avg_pool2d.default", "aten.constant_pad_nd.default"}


@pytest.mark.parametrize(("macs", "every"), [(4, 1), (6, 4), (16, 4)])
@pytest.mark.sampled(1)
def test_another_npu_keeps_the_promises_of_its_own_table(macs: int, every: int, tmp_path: Path) -> None:
    """Verdicts and reasons are right for NPUs with 4, 6 and 16 MAC units. Nothing is compiled or run."""
    table, backend = of_macs(tmp_path, macs), with_macs(macs)
    cases = cases_for(table)
    assert failures(coverage(table, cases)) == []
    asked = [case for case in cases if case.constraint == "transposed" or case.row not in FREE]
    wrong = []
    for case in asked[::every]:
        found = tag(case, backend, table.row(case.row), prepare(case, backend, table))
        codes = {reason.code for reason in found.reasons or ()}
        right = case.expect in (found.verdict, "unspecified") and (case.reason is None or case.reason in codes)
        wrong += [] if right else [(case.id, found.verdict, codes)]
    assert wrong == []


CHANGES = {
    "max_channels": ("max_channels = 2048", "max_channels = 500"),
    "max_size": ("max_size = 524288", "max_size = 100001"),
    "min_rank": ("min_rank = 2", "min_rank = 3"),
    "rank of a pad": ("max_rank = 5", "max_rank = 6"),
    "rank of a view": ('"max_rank = 7 @v1.3.1", "max_input_rank = 8', '"max_rank = 5 @v1.3.1", "max_input_rank = 6'),
    "rank of the rest": ("max_rank = 8", "max_rank = 5"),
    "one vertical stride": ("stride_h = [1, 2]", "stride_h = [2]"),
    "three vertical strides": ("stride_h = [1, 2]", "stride_h = [1, 2, 3]"),
    "a long vertical stride": ("stride_h = [1, 2]", "stride_h = [1, 16]"),
    "nine rows at a time": ("stride_h = [1, 2]", "stride_h = [9]"),
    "another dilation": ("dilation = 1", "dilation = 2"),
    "sizes rounded up": ("ceil_mode = false", "ceil_mode = true"),
    "another batch": ("batch = 1 @document", "batch = 3 @document"),
    "one factor": ("scale = [2, 4]", "scale = [3]"),
    "bounds": ("bounds = [[-1, 1], [0, 1], [0, 6], [0, null]]", "bounds = [[0, null], [-2, 2]]"),
    "output": ("output_qparams = [0.00390625, -128]", "output_qparams = [0.0078125, 127]"),
    "odd multiple": ('"any_dim_multiple_of = 8', '"any_dim_multiple_of = 3'),
    "smallest multiple": ('"sliced_dim_multiple_of = 8', '"sliced_dim_multiple_of = 2'),
    "odd slices": ('"sliced_dim_multiple_of = 8', '"sliced_dim_multiple_of = 5'),
    "two channels": ('"channels_multiple_of = 8', '"channels_multiple_of = 2'),
    "two channels alone": ('"alone_channels_multiple_of = 8', '"alone_channels_multiple_of = 2'),
    "many channels": ('"matrix_dims_multiple_of = 8', '"matrix_dims_multiple_of = 20'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_other_value_has_both_sides(change: str, tmp_path: Path) -> None:
    table = changed(tmp_path, CHANGES[change])
    assert failures(coverage(table, cases_for(table))) == []


def sizes(table: Table, row: str, constraint: str, size: Callable[[tuple[int, ...]], int]) -> tuple[set[int], set[int]]:
    """Sizes of the subject's first operand, a model input: of accepted cases, and outside the constraint."""
    own = [case for case in cases_for(table) if case.row == row and subject_shape(case)]
    accepted = {size(subject_shape(case)) for case in own if case.expect == "accept"}
    return accepted, {size(subject_shape(case)) for case in own if case.reason == constraint}


@pytest.mark.parametrize(("row", "axis"), [("aten.prelu.default", 1), ("aten._softmax.default", -1)])
def test_positions_stand_on_both_sides_of_the_value(row: str, axis: int, tmp_path: Path) -> None:
    table = changed(tmp_path, ("positions = 4096", "positions = 97"), ("max_size = 524288", "max_size = 50000"))
    accepted, outside = sizes(table, row, "positions", lambda shape: prod(shape) // shape[axis])
    assert max(accepted) == 97 and min(outside) == 98


def test_channels_and_sizes_stand_on_both_sides_of_the_value(tmp_path: Path) -> None:
    row = "aten._softmax.default"
    table = changed(tmp_path, CHANGES["max_channels"])
    accepted, outside = sizes(table, row, "max_channels", lambda shape: shape[-1])
    assert max(accepted) == 496 and min(outside) == 504
    accepted, outside = sizes(table, row, "max_size", prod)
    assert max(accepted) == 524288 and min(outside) == 524288 + 256


@pytest.mark.parametrize(
    ("row", "change", "most"),
    [
        ("aten.constant_pad_nd.default", "rank of a pad", 6),
        ("aten._softmax.default", "min_rank", 3),
    ],
)
def test_ranks_stand_on_both_sides_of_the_value(row: str, change: str, most: int, tmp_path: Path) -> None:
    code = "max_rank" if "pad" in change else "min_rank"
    accepted, outside = sizes(changed(tmp_path, CHANGES[change]), row, code, len)
    assert max(accepted) == most < min(outside) if "pad" in change else max(outside) < most == min(accepted)


def arguments(table: Table, row: str, constraint: str) -> dict[str, set[object]]:
    """By verdict, the second and third argument of cases about a constraint."""
    found: dict[str, set[object]] = {"accept": set(), "reject": set()}
    for case in cases_for(table):
        if case.row == row and case.constraint == constraint:
            (step,) = [step for step in case.graph.steps if step.name == SUBJECT]
            found[case.expect].add(step.args[1:3])
    return found


def test_lists_are_followed(tmp_path: Path) -> None:
    table = changed(tmp_path, *(CHANGES[name] for name in ("bounds", "one vertical stride", "one factor")))
    bounds = arguments(table, "aten.clamp.default", "bounds")
    assert {(0, None), (-2, 2)} <= bounds["accept"] and {(-1, 1), (0, 1), (0, 6)} <= bounds["reject"]
    strides = arguments(table, "aten.max_pool2d.default", "stride_h")
    assert ((2, 2), (2, 2)) in strides["accept"] and ((2, 2), (1, 1)) in strides["reject"]
    factors = arguments(table, "aten.upsample_nearest2d.vec", "scale")
    assert (None, (3.0, 3.0)) in factors["accept"] and (None, (2.0, 2.0)) in factors["reject"]


def test_a_fixed_output_is_followed(tmp_path: Path) -> None:
    table = changed(tmp_path, CHANGES["output"])
    cases = [case for case in cases_for(table) if case.row == "aten.sigmoid.default"]
    own = {case.id: [step.quant for step in case.graph.steps if step.name == SUBJECT] for case in cases}
    accepted = {quants[0] for case in cases if case.expect == "accept" for quants in [own[case.id]]}
    assert {(quant.scale, quant.zero_point) for quant in accepted if quant} == {(0.0078125, 127)}
