"""Operators in precisions that their families do not know: right numbers, whoever computes them."""

from __future__ import annotations

from pathlib import Path

import any_backend
import pytest

from npu_assay.conformance.cases import cases_for, every_operator, has_cases
from npu_assay.conformance.cases.families import FAMILIES
from npu_assay.conformance.cases.homes import has_home
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.reference.operators import VIEWS, WITH_CASES

PRECISIONS = ("", "int8", "int16", "fp32", "fp16")
PLAIN_NUMBERS = 18
"""Operators of truths, bits and whole numbers alone, and argmax of raw codes."""
MADE = {f"aten.{name}" for name in ("arange.start_step", "eye.default", "full.default", "full_like.default")}
MADE |= {f"aten.{name}.default" for name in ("linspace", "ones", "scalar_tensor", "zeros")}
"""Numbers that an operator makes of nothing: cases of theirs are about what they are added to."""
CONVERSIONS = ("quantized_decomposed.", "dim_order_ops.", "aten._to_copy")
PRODUCTS = {"aten.conv1d.default", "aten.conv2d.default"}
"""In edge programs these are aten.convolution.default."""


def borrowed(precision: str) -> list[str]:
    known = {*VIEWS, *(name for name, family in FAMILIES.items() if family.maker(precision) is not None)}
    return sorted(
        name for name in every_operator() - known if has_cases(name, precision) and not has_home(name, precision)
    )


ASKED = [(name, precision) for precision in PRECISIONS for name in borrowed(precision)]


def test_every_operator_has_cases_of_codes_and_of_floats() -> None:
    """Each of the others is one of those that make no sense, or is something else in edge programs."""
    assert len(ASKED) > 250
    for precision in ("", "int8", "int16", "fp32"):
        without = {name for name in every_operator() - MADE - PRODUCTS if not has_cases(name, precision)}
        without = {name for name in without if not name.startswith(CONVERSIONS)}
        assert len(without) <= PLAIN_NUMBERS + 1, (precision, sorted(without))
    assert all(has_cases(name, "fp16") for name in WITH_CASES if WITH_CASES[name].half)


@pytest.mark.sampled(30)
@pytest.mark.parametrize(("name", "precision"), ASKED)
def test_what_is_borrowed_is_judged_rightly(name: str, precision: str, tmp_path: Path) -> None:
    """By a right device on codes; on floats, which that does not take, by torch itself."""
    path = tmp_path / f"any{precision}@1.0.toml"
    path.write_text(any_backend.table([name], precision))
    table = load_table(str(path))
    cases = cases_for(table)
    assert len(cases) >= 5
    for case in cases:
        result = run_case(case, any_backend.backend, table)
        wrong = [failure for failure in result.failures if failure.check not in ("tag", "empty")]
        assert not wrong, (case.id, wrong)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(name for name in FAMILIES if FAMILIES[name].floats is not None))
def test_a_strangers_table_of_floats_asks_nothing_of_xnnpack(name: str, tmp_path: Path) -> None:
    """No option of its partitioner, and both sides of what the table itself limits."""
    path = tmp_path / "any@1.0.toml"
    path.write_text(any_backend.table([name], "fp32"))
    table = load_table(str(path))
    cases = cases_for(table)
    assert {case.side for case in cases if case.constraint == "static_shape"} == {"at_limit", "outside"}
    for case in cases:
        assert not case.options
        result = run_case(case, any_backend.backend, table)
        assert not [failure for failure in result.failures if failure.check not in ("tag", "empty")], case.id
