"""The simulated devices round as the published definitions of their schemes say: each count is the same."""

from __future__ import annotations

import math
from importlib import import_module

import pytest
import torch
from rounding_here import Here, Scheme, found_by
from torch import Tensor

from npu_assay.conformance.characterize.plan import Finding
from npu_assay.conformance.characterize.probes import RATIO
from npu_assay.conformance.characterize.report import finding_lines, record, rounding, ties_of
from npu_assay.conformance.table import load_table


def double_round(sums: Tensor, ratio: float) -> Tensor:
    """TensorFlow Lite: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT (gemmlowp's fixedpoint.h)."""
    fraction, shift = math.frexp(ratio)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    product = (sums << max(shift, 0)) * multiplier
    nudge = torch.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = torch.div(product + nudge, 1 << 31, rounding_mode="trunc")
    right = max(-shift, 0)
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0).to(torch.int64))


def single_round(sums: Tensor, ratio: float) -> Tensor:
    """TOSA: apply_scale_32 without double_round."""
    fraction, exponent = math.frexp(ratio)
    multiplier, shift = round(fraction * 2**31), 31 - exponent
    return (sums * multiplier + (1 << (shift - 1))) >> shift


def fp32(sums: Tensor, ratio: float) -> Tensor:
    """XNNPACK: float(acc) * scale, saturated, then lrintf, which rounds ties to even."""
    return (sums.to(torch.float32) * torch.tensor(ratio, dtype=torch.float32)).clamp(-1e4, 1e4).round().to(torch.int64)


DEVICES: dict[str, tuple[str, str, str, Scheme]] = {
    "neutron": ("neutron", "neutron@1.3", "aten.convolution.default/", double_round),
    "ethos-u55": ("ethosu.ethos_u55", "ethos_u55@1.5", "aten.linear.default/int8/", single_round),
    "ethos-u85": ("ethosu.ethos_u85", "ethos_u85@1.5", "aten.linear.default/int8_per_channel/", single_round),
    "xnnpack": ("xnnpack", "xnnpack@1.5", "aten.linear.default/static_int8/", fp32),
}


@pytest.fixture(scope="module", params=DEVICES)
def both(request: pytest.FixtureRequest) -> tuple[str, Finding, Finding]:
    """A device's finding, and that of its scheme's definition."""
    place, table, expression, scheme = DEVICES[request.param]
    module, _, name = f"npu_assay.partitioners.{place}".partition(".ethos_")
    backend = getattr(import_module(module), f"ethos_{name}" if name else "backend")
    here = Here(backend, load_table(table))
    return request.param, found_by(table, expression, here), found_by(table, expression, scheme)


@pytest.mark.sampled(1)
def test_a_device_rounds_as_its_scheme_is_defined(both: tuple[str, Finding, Finding]) -> None:
    """Every count is the same: of wrong results at each ratio, of ties, of limits."""
    _, device, scheme = both
    assert record(device) == record(scheme)


@pytest.mark.sampled(1)
def test_what_is_said_of_it_is_what_the_scheme_says(both: tuple[str, Finding, Finding]) -> None:
    """One rounding has no limits; of two, the first shows below a half, and less with each further bit."""
    name, device, _ = both
    ways = {where: ties.rules for where, ties in ties_of(device).items()}
    if name == "neutron":
        (change,) = device.changes
        assert (change.knob, change.first, change.below) == (RATIO, 1, True)
        assert [round(device.ratios[k].share, 2) for k in (0, 1, 2)] == pytest.approx([0, 0.25, 0.125], abs=0.02)
        assert ways == {"from 2**-0 on": ("up",), "from 2**-2 on": ("away from zero",)}
        assert rounding(device).startswith("to the nearest, twice")
    else:
        assert not device.changes, list(finding_lines(device))
        assert ways == {"": ("to even" if name == "xnnpack" else "up",)}
        assert rounding(device).startswith("to the nearest") and "twice" not in rounding(device)
        assert abs(device.sample.bias) <= device.sample.half_width
