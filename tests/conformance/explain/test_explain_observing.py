"""The range of a histogram is the one that torchao finds, by the same steps."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from torch import Tensor
from torchao.quantization.pt2e.observer import HistogramObserver

from npu_assay.conformance.explain import observing
from npu_assay.conformance.explain.observing import best_range


def samples(kind: str, seed: int) -> Tensor:
    """Numbers of a distribution."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3000, generator=generator)
    made: dict[str, Tensor] = {
        "normal": x,
        "few": x[:5],
        "equal": torch.full((40,), 1.5),
        "outlier": torch.cat([x, torch.tensor([300.0])]),
        "heavy": x**5,
        "positive": x.relu(),
        "sigmoid": (9 * x).sigmoid(),
        "steps": (3 * x).round(),
        "zero": torch.zeros(10),
        "tiny": x * 1e-30,
    }
    return made[kind]


KINDS = ("normal", "few", "equal", "outlier", "heavy", "positive", "sigmoid", "steps", "zero", "tiny")


def observer(kind: str, seed: int) -> HistogramObserver:
    made = HistogramObserver(dtype=torch.int8, quant_min=-128, quant_max=127)
    for part in samples(kind, seed).chunk(1 + seed):
        made(part)
    return made


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_range_of_torchao(kind: str, seed: int) -> None:
    one = observer(kind, seed)
    wanted = [float(each) for each in one._non_linear_param_search()]
    given = [float(each) for each in best_range(one)]
    assert all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in zip(given, wanted, strict=True))


def test_another_step_is_another_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(observing, "STEP", 1e-3)
    ranges = [(best_range(each), each._non_linear_param_search()) for each in (observer(kind, 0) for kind in KINDS)]
    assert any([*map(float, given)] != [*map(float, wanted)] for given, wanted in ranges)
