"""4-bit weights in groups: processors add the groups in orders of their own, and the bound of that sees one code."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.reference.arithmetic.xnnpack.dynamic import Rows, groupwise_error, groupwise_linear, rows

CASE = "aten.linear.default/dynamic_int4/operator/accept/baseline"
Operands = tuple[Tensor, Tensor, Tensor, Tensor]


def drawn(seed: int, size: int, groups: int) -> Operands:
    """x [3, size * groups], weights [5, ...], scales [5, groups], bias [5]."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, size * groups, generator=generator) * 10 ** float(torch.randn((), generator=generator))
    weights = torch.randint(-8, 8, (5, size * groups), generator=generator).to(torch.int8)
    return x, weights, torch.rand(5, groups, generator=generator) + 0.01, torch.randn(5, generator=generator)


def signed(operands: Operands, order: range, bias_first: bool) -> Tensor:
    """What another processor may compute in float32: signed codes, groups in any order, no fused operations."""
    x, weights, scales, bias = operands
    flat: Rows = rows(x)
    steps, size = scales.to(torch.bfloat16).float(), x.shape[-1] // scales.shape[1]
    acc = bias / flat.scales if bias_first else torch.zeros(())
    for group in order:
        part = slice(group * size, (group + 1) * size)
        codes = flat.steps[:, part] + flat.zero_points.to(torch.int64)
        kernel = weights[:, part].to(torch.int64)
        acc = acc + (codes @ kernel.mT).float() * steps[:, group]
        acc = acc - flat.zero_points * (kernel.sum(1).float() * steps[:, group])
    return acc * flat.scales + (0 if bias_first else bias)


@pytest.mark.parametrize(("size", "groups"), [(32, 1), (32, 4), (64, 2), (32, 16)])
def test_every_order_stays_within_the_bound(size: int, groups: int) -> None:
    for seed in range(50):
        operands = drawn(seed, size, groups)
        right, error = groupwise_linear(*operands).double(), groupwise_error(*operands)
        for order in (range(groups), range(groups)[::-1]):
            for bias_first in (False, True):
                assert bool(((signed(operands, order, bias_first).double() - right).abs() <= error).all())


@pytest.mark.parametrize(("size", "groups"), [(32, 1), (32, 4), (64, 2)])
def test_a_weight_one_off_is_seen(size: int, groups: int) -> None:
    for seed in range(20):
        x, weights, scales, bias = operands = drawn(seed, size, groups)
        wrong = weights.clone()
        wrong[:, 3] += torch.where(wrong[:, 3] < 7, 1, -1).to(torch.int8)
        distance = (groupwise_linear(x, wrong, scales, bias) - groupwise_linear(*operands)).abs()
        assert bool((distance.double() > groupwise_error(*operands)).any())


@cache
def case() -> Case:
    return next(case for case in all_cases(load_table("xnnpack@1.5")) if case.id == CASE)


def judged(change: float) -> set[str]:
    """The gates that fail when the exact golden's output differs by some of its smallest number's bounds."""
    right = golden(case().graph)
    (near,) = right.exact("xnnpack_fp32").near.values()
    output = near.value.clone()
    at = int(near.error.argmin())
    output.view(-1)[at] += change * float(near.error.flatten()[at])
    return {gate.gate for gate in judge(right, [output.float()], "xnnpack_fp32") if gate.messages}


def test_what_a_case_may_be() -> None:
    assert judged(0) == judged(0.9) == judged(-0.9) == set()
    assert "gate3" in judged(1.2) and "gate3" in judged(-1.2)


def test_a_golden_that_is_off_itself_is_contradicted() -> None:
    """A fault that the exact golden and a backend share: a thousandth of the range, which the whole chain allows."""
    right = golden(case().graph)
    (ref,) = right.exact("xnnpack_fp32").near
    near = right.exact("xnnpack_fp32").near[ref]
    wrong = replace(near, value=near.value + (near.value.max() - near.value.min()) / 1000)
    right.exact("xnnpack_fp32").near[ref] = wrong
    failed = {gate.gate: gate.messages for gate in judge(right, [wrong.value.float()], "xnnpack_fp32") if gate.messages}
    assert set(failed) == {"gate3"} and "contradicts" in failed["gate3"][0]
