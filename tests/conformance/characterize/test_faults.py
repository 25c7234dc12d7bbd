"""Faults injected into XNNPACK's device, one at a time, are found as they are; the healthy device has none of them."""

from __future__ import annotations

import functools

import pytest
from rounding_faults import FROM, inject
from rounding_here import Here, found_by, rounds_of, walked

from npu_assay.conformance.characterize.plan import Finding, limit, ratios
from npu_assay.conformance.characterize.probes import RATIO, SIZE, SPREAD, TERMS, Probe
from npu_assay.conformance.characterize.report import rounding, ties_of
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.xnnpack import backend

TABLE, ROW, PRECISION = "xnnpack@1.5", "aten.linear.default", "static_int8"
NAMED = f"{ROW}/{PRECISION}/"
MANY = Probe(ROW, PRECISION, SPREAD, many=True)


@functools.cache
def whole(fault: str) -> Finding:
    """All that is found of the device with a fault."""
    with inject(fault):
        return found_by(TABLE, NAMED, Here(backend, load_table(TABLE)))


def ratios_of(fault: str) -> Finding:
    """The ratios alone."""
    found = Finding(ROW, PRECISION)
    with inject(fault):
        walked(ratios(found, MANY), rounds_of(TABLE, NAMED, Here(backend, load_table(TABLE))))
    return found


def limits_of(fault: str, knob: str) -> list[tuple[int, int, int, bool]]:
    """The limits of terms or sizes alone."""
    found, first = Finding(ROW, PRECISION), Probe(ROW, PRECISION, knob, many=knob == TERMS)
    with inject(fault):
        walked(limit(found, first), rounds_of(TABLE, NAMED, Here(backend, load_table(TABLE))))
    return [(change.last, change.first, change.results, change.exact) for change in found.changes]


def test_the_healthy_device_shows_no_fault() -> None:
    """No limit, no bias beyond its interval, ties to even, and nearly all results the nearest code."""
    found = whole("healthy")
    assert not found.changes and not found.why
    assert abs(found.sample.bias) <= found.sample.half_width < 0.002
    assert ties_of(found)[""].rules == ("to even",)
    assert rounding(found).startswith("to the nearest, but for results within 0.000")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("k", range(1, 21))
def test_a_limit_of_ratios_is_found_exactly(k: int) -> None:
    """From 2**-k on the device cuts off. At 2**-1 itself only ties are between codes, and no ties come before."""
    (change,) = ratios_of(f"{FROM}{k}").changes
    assert (change.knob, change.last, change.first, change.below) == (RATIO, k - 1, k, k == 1)


def test_a_bias_of_a_fiftieth_is_found() -> None:
    """0.02 LSB are within the interval, and zero is not; the rule is biased."""
    now = whole("biased").sample
    assert abs(now.bias - 0.02) < now.half_width < 0.01
    assert now.bias > now.half_width
    assert rounding(whole("biased")) == "biased"


def test_a_bias_of_negative_numbers_is_told_apart() -> None:
    now = whole("negative_biased").sample
    assert now.bias_of(positive=False) == pytest.approx(-0.04, abs=0.015)
    assert abs(now.bias_of(positive=True)) < 0.002
    assert rounding(whole("negative_biased")) == "biased"


def test_halves_that_go_down_are_found() -> None:
    """Nothing but ties differs from the healthy device."""
    found, healthy = whole("half_down"), whole("healthy")
    assert ties_of(found)[""].rules == ("down",)
    assert found.sample.wrong == healthy.sample.wrong and not found.changes


def test_cutting_off_is_named() -> None:
    found = whole("truncating")
    assert rounding(found) == "always toward zero"
    assert ties_of(found)[""].rules == ("toward zero",)
    assert found.sample.share == pytest.approx(0.5, abs=0.03) and abs(found.sample.bias) < found.sample.half_width


@pytest.mark.parametrize(
    ("fault", "knob", "expected"),
    [
        ("terms_17", TERMS, (16, 17, 768, True)),
        ("size_1025", SIZE, (204, 205, 1025, True)),
        ("tail_1025", SIZE, (204, 205, 1025, True)),
        ("healthy", TERMS, None),
        ("healthy", SIZE, None),
    ],
)
def test_limits_of_terms_and_sizes_are_found_exactly(
    fault: str, knob: str, expected: tuple[int, int, int, bool] | None
) -> None:
    """Of 5 results for each row, the 1,025th is in the 205th."""
    assert limits_of(fault, knob)[:1] == ([] if expected is None else [expected])
