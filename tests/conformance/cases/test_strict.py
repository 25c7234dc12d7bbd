"""Limits that a table defines: the cases that are generated from them tell a backend that keeps them from others."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import strict_backend
from click.testing import CliRunner

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cli import main
from npu_assay.conformance.coverage import coverage, failures
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import Selection, conclude
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table

STRICT = load_table(strict_backend.TABLE)
OWN = {rule.code for rule in STRICT.own.definitions if rule.holds is not None}
AUDITED = {
    "kernel * dilation <= 64 of a convolution": ("aten.convolution.default", "reach"),
    "weight bytes <= 512 KiB": ("aten.convolution.default", "weights_fit"),
    "convolution stride in {1, 2, 4}": ("aten.convolution.default", "strides"),
    "stride 1, 2 or the whole image": ("aten.avg_pool2d.default", "pool_stride"),
    "height * width % 4": ("aten.avg_pool2d.default", "pixels"),
    "second input of add constant": ("aten.add.Tensor", "second_constant"),
    "rank <= 4": ("aten.mean.dim", "max_dims"),
    "a list of dtypes": ("aten.relu.default", "codes"),
    "input channels % 16 of a convolution": ("aten.convolution.default", "in_lanes"),
    "output channels % 8 of a convolution": ("aten.convolution.default", "out_lanes"),
    "channels % 8 of relu": ("aten.relu.default", "lanes"),
    "batch = 1 of add": ("aten.add.Tensor", "one_image"),
    "kernel area <= 64 of a convolution": ("aten.convolution.default", "area"),
    "kernel area <= 64 of a pool": ("aten.avg_pool2d.default", "area"),
    "kernel size in {1, 3, 5}": ("aten.convolution.default", "odd_kernels"),
    "at most 65,536 elements of add": ("aten.add.Tensor", "few"),
    "kernel height <= 7": ("aten.max_pool2d.default", "short_kernel"),
    "channels % 128 of cat": ("aten.cat.default", "cat_lanes"),
    "stride_h in {1, 2, 4} of max_pool2d": ("aten.max_pool2d.default", "strides"),
    "a static divisor": ("aten.remainder.Tensor", "static_divisor"),
    "same shape": ("aten.mul.Tensor", "alike"),
    "rank <= 12": ("aten.abs.default", "deep"),
    "channels % 3 of cat": ("aten.cat.default", "own_axis"),
}
"""The limits of an ordinary NPU that users asked for, and where they stand in the table."""
LIMITED = sorted((row.name, c.code) for row in STRICT.rows for c in row.constraints)


@cache
def of_row(row: str) -> tuple[Case, ...]:
    """The cases of one row, which are generated without those of the others."""
    return cases_for(replace(STRICT, rows=(STRICT.row(row),)))


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case for row in STRICT.rows for case in of_row(row.name))


def about(row: str, code: str) -> list[Case]:
    return [case for case in of_row(row) if case.constraint == code]


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", [row.name for row in STRICT.rows])
def test_a_backend_that_keeps_every_limit_passes_every_case(row: str) -> None:
    failed = {}
    for case in of_row(row):
        result = run_case(case, strict_backend.backend, STRICT)
        if result.failures:
            failed[case.id] = [f"{f.check}: {f.message}" for f in result.failures]
    assert not failed


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("row", "code"), LIMITED)
def test_a_forgotten_limit_fails_every_case_outside_it(row: str, code: str) -> None:
    forgetful = strict_backend.without(code)
    outside = [case for case in about(row, code) if case.side == "outside"]
    assert outside
    for case in outside:
        assert any(f.check == "tag" for f in run_case(case, forgetful, STRICT).failures), case.id


def test_all_audited_limits_are_in_the_one_table() -> None:
    assert len(AUDITED) == len({*AUDITED.values()}) == 23
    assert {*AUDITED.values()} <= {
        (row.name, c.code) for row in STRICT.rows for c in (*row.constraints, *STRICT.common)
    }


@pytest.mark.parametrize("limit", AUDITED)
def test_breaking_one_rule_fails_the_run(limit: str) -> None:
    """At the level of tags, on the cases of that limit alone; there are some on both of its sides."""
    row, code = AUDITED[limit]
    found = about(row, code)
    assert {"at_limit", "outside"} <= {case.side for case in found}, {case.id for case in found}
    right, broken = (
        [run_case(case, each, STRICT, level="tags") for case in found]
        for each in (strict_backend.backend, strict_backend.without(code))
    )
    assert concluded(right, found) == () and concluded(broken, found)[0].endswith("cases fail")


def concluded(results: list[CaseResult], found: list[Case]) -> tuple[str, ...]:
    return conclude(results, found, Selection(), (), datetime.date(2026, 6, 1)).objections


@pytest.mark.slow
def test_the_whole_table_certifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(strict_backend.__file__).parent)
    options = ["certify", "strict_backend:backend", "--level", "tags", "-n", "2", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0 and "CERTIFIED (tags): strict_backend:backend against strict@1.0" in done.output


def test_every_limit_has_cases_on_both_sides_or_a_reason() -> None:
    records = [record for record in coverage(STRICT, cases()) if record.constraint in OWN]
    assert not failures(records)


def test_what_no_case_can_reach_has_the_reason_of_the_table() -> None:
    (reason,) = {record.known for record in coverage(STRICT, cases()) if record.constraint == "fits"}
    assert reason == "every model of the suite fits"


@pytest.mark.long
def test_limits_are_reached_two_at_a_time() -> None:
    """A backend that takes strides of 4 and kernels of 5, but not both at once, fails."""
    both = [case for case in of_row("aten.convolution.default") if "/limits_together_" in case.id]
    assert 1 < len(both) < 30
    narrow = strict_backend.backend_that_also_refuses("aten.convolution.default", strict_backend.wide_and_coarse)
    failed = [case.id for case in both if run_case(case, narrow, STRICT).failures]
    assert failed
