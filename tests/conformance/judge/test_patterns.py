"""How wrong numbers lie to the right ones: each pattern is seen, and is not told where something else is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.judge import patterns
from npu_assay.conformance.judge.gates import Coded, Output
from npu_assay.conformance.judge.patterns import PATTERNS, pattern
from npu_assay.conformance.programs.graph import Quant
from npu_assay.reference.golden import Bounded

QUANT = Quant(0.5, zero_point=-3)
RIGHT = torch.tensor([[[-88, 35, -20, 61], [12, -45, 77, -9], [52, 98, -70, 24]]] * 2, dtype=torch.float64)
RIGHT[1] = RIGHT[1].flip(0, 1) + torch.arange(12, dtype=torch.float64).reshape(3, 4)
ENDS = RIGHT.clone()
ENDS[0, 0, 0], ENDS[0, 1, 2], ENDS[1, 0, 1], ENDS[1, 2, 3] = -128, 127, 127, -128


def of_codes(found: Tensor, expected: Tensor) -> Output:
    found = found.round().clamp(-128, 127)
    zero = torch.zeros_like(expected)
    bounded = Bounded((expected + 3) * 0.5, torch.full_like(expected, 0.25))
    codes = Coded(QUANT, found, expected, zero, (found, found), zero)  # type: ignore[arg-type]  # not looked at
    real = (found + 3) * 0.5
    return Output("out", real, bounded, (real - bounded.value).abs(), codes, 0.5, bounded)


def of_reals(found: Tensor, expected: Tensor) -> Output:
    bounded = Bounded(expected, torch.full_like(expected, 1e-6))
    return Output("out", found, bounded, (found - expected).abs(), None, 1.0, bounded)


def channels(x: Tensor, *numbers: float) -> Tensor:
    """Another number for each index of axis 1."""
    return torch.tensor(numbers, dtype=torch.float64).reshape(1, -1, 1).expand_as(x)


def unsigned(codes: Tensor) -> Tensor:
    """What is left of numbers past the ends when they are made narrow without saturation."""
    return torch.where(codes == 127, -110.0, torch.where(codes == -128, 93.0, codes))


CHANGES: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    (patterns.CONSTANT, lambda x: torch.full_like(x, 5)),
    (patterns.ORDER, lambda x: x.flip(1)),
    (patterns.ORDER, lambda x: x.transpose(1, 2).reshape(x.shape)),
    (patterns.SHIFTED, lambda x: torch.cat([x[..., 1:], torch.full_like(x[..., :1], -3)], -1)),
    (patterns.NEGATED, lambda x: -6 - x),
    (patterns.CUT, lambda x: x.clamp(-40, 50)),
    (patterns.OFFSET, lambda x: x + 9),
    (patterns.OFFSETS, lambda x: x + channels(x, 9, 0, -7)),
    (patterns.SCALED, lambda x: (x + 3) * 0.5 - 3),
    (patterns.SCALES, lambda x: (x + 3) * channels(x, 0.5, 1, 0.25) - 3),
    (patterns.SIDED, lambda x: torch.where(x < -3, (x + 3) * 0.25 - 3, x)),
    (patterns.PLACES, lambda x: torch.cat([x[:, :2], torch.tensor([[[4, 88, 9, -70]]] * 2)], 1)),
)


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_each_is_seen_in_codes(name: str, change: Callable[[Tensor], Tensor]) -> None:
    assert pattern(of_codes(change(RIGHT), RIGHT)) == name


@pytest.mark.parametrize("name", [patterns.CONSTANT, patterns.ORDER, patterns.CUT, patterns.OFFSET, patterns.OFFSETS])
def test_each_is_seen_in_reals(name: str) -> None:
    for change in (change for known, change in CHANGES if known == name):
        assert pattern(of_reals(change(RIGHT), RIGHT)) == name


def test_a_limit_that_is_forgotten() -> None:
    assert pattern(of_codes(RIGHT, RIGHT.clamp(-3, 127))) == patterns.UNCUT


def test_numbers_past_the_end_that_come_in_at_the_other() -> None:
    assert pattern(of_codes(unsigned(ENDS), ENDS)) == patterns.WRAPPED


def test_indices_are_no_quantities() -> None:
    """However they lie to the right ones: the last of equals is where a clamp would put it, too."""
    for change in (lambda x: x + 2, lambda x: torch.full_like(x, 3), lambda x: x.clamp(max=1)):
        expected = torch.tensor([[0.0, 3.0, 1.0, 2.0]], dtype=torch.float64)
        assert pattern(replace(of_reals(change(expected), expected), indices=True)) == patterns.INDICES
        assert pattern(replace(of_reals(expected, expected), indices=True)) == ""


def test_every_pattern_has_a_case() -> None:
    seen = {name for name, _ in CHANGES} | {patterns.UNCUT, patterns.WRAPPED, patterns.INDICES}
    assert seen == set(PATTERNS)


@pytest.mark.parametrize("change", [lambda x: x, lambda x: x + 1, lambda x: x - (x > 0).to(x.dtype)])
def test_what_rounding_explains_has_none(change: Callable[[Tensor], Tensor]) -> None:
    assert pattern(of_codes(change(RIGHT), RIGHT)) == ""


def test_what_has_no_pattern_has_none() -> None:
    generator = torch.Generator().manual_seed(3)
    for _ in range(200):
        noise = torch.randint(-60, 60, RIGHT.shape, generator=generator)
        assert pattern(of_codes(RIGHT + noise, RIGHT)) == ""


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_one_element_that_does_not_fit_is_enough(name: str, change: Callable[[Tensor], Tensor]) -> None:
    found = change(RIGHT).clone()
    found[0, 0, 1] = 83 if found[0, 0, 1] < 20 else -83
    assert pattern(of_codes(found, RIGHT)) != name


@pytest.mark.parametrize("found", [torch.tensor([1.0, torch.nan]), torch.tensor([[3.0] * 4]), torch.zeros(0)])
def test_too_little_and_what_is_not_finite_tell_nothing(found: Tensor) -> None:
    assert (
        pattern(of_reals(found.double(), torch.arange(found.numel(), dtype=torch.float64).reshape(found.shape))) == ""
    )
