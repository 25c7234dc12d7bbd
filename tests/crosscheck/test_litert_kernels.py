"""Every int8 kernel equals LiteRT's reference kernel, code for code, on random programs of its operator."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from draw import Draw, tensor

from npu_assay.partitioners.common import rescale
from npu_assay.partitioners.common.int8 import elementwise
from tests.crosscheck.kernel_programs import PROGRAMS, summed
from tests.crosscheck.litert import run_litert
from tests.crosscheck.litert_draw import Program

COUNT = 200

WIDE = (
    *("ABS", "ADD", "BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "LEAKY_RELU", "MEAN", "MUL", "PRELU", "QUANTIZE"),
    *("RELU", "SOFTMAX", "SUB", "TRANSPOSE_CONV"),
)


def differing(program: Program) -> int:
    """How many output codes differ; a shape that differs counts every code."""
    (expected,) = run_litert(program.model, program.inputs)
    inputs = [tensor(array) for array in program.inputs]
    found = program.kernel(*inputs).numpy()
    assert all(np.array_equal(a, t.numpy()) for a, t in zip(program.inputs, inputs, strict=True)), "an input changed"
    return expected.size if found.shape != expected.shape else int((found != expected).sum())


def wrong(operator: str, seeds: range) -> dict[int, int]:
    """How many codes differ, by seed, where any does."""
    counts = {seed: differing(PROGRAMS[operator](Draw(seed))) for seed in seeds}
    return {seed: count for seed, count in counts.items() if count}


def check_random_programs(operator: str, count: int) -> None:
    """No code differs in so many programs, whose seeds follow from the operator's name."""
    first = zlib.crc32(operator.encode())
    found = wrong(operator, range(first, first + count))
    assert not found, f"{operator}: {len(found)} of {count} programs differ (seed: codes) {found}"


def check_extreme_scales(operator: str) -> None:
    """Ratios far above 1 and down to 0. What is refused is undefined in LiteRT, or aborts it, and is not run."""
    compared = 0
    for seed in range(60):
        try:
            found = differing(PROGRAMS[operator](Draw(seed, (-30, 10))))
        except ValueError as refused:
            assert "expected" in str(refused)
            continue
        compared += 1
        assert not found, f"{operator}: {found} codes differ with seed {seed}"
    assert compared > 40


@pytest.mark.sampled(15)
@pytest.mark.parametrize("operator", sorted(PROGRAMS))
def test_equals_the_reference_kernel(operator: str) -> None:
    check_random_programs(operator, COUNT)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("operator", WIDE)
def test_equals_the_reference_kernel_for_extreme_scales(operator: str) -> None:
    check_extreme_scales(operator)


def test_sum_is_within_a_step_of_the_optimized_kernel() -> None:
    """That one rounds in float32. The reference kernel of LiteRT 2.3.0 is wrong where a sum is negative: no oracle."""
    apart = list[tuple[int, ...]]()
    for program in (summed(Draw(seed)) for seed in range(COUNT)):
        found = program.kernel(*(tensor(array) for array in program.inputs)).numpy().astype(int)
        both = (run_litert(program.model, program.inputs, optimized)[0] for optimized in (True, False))
        apart.append(tuple(int(abs(found - codes).max()) for codes in both))
    assert max(optimized for optimized, _ in apart) == 1
    assert max(reference for _, reference in apart) > 100


def test_another_rescale_scheme_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: single rounding, one LSB off here and there, shows in some programs."""
    monkeypatch.setattr(elementwise, "tflite_double_round", rescale.tflite_single_round)
    programs = [PROGRAMS["QUANTIZE"](Draw(seed)) for seed in range(40)]
    assert sum(differing(program) > 0 for program in programs) >= 5
