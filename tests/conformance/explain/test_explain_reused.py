"""A layer that is called several times has one bias, whose codes fit one call: that is told, and what helps does."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from explain_models import of
from quantizing import QUANTIZES
from torch import Tensor, nn

pytestmark = QUANTIZES


class Reused(nn.Module):
    """One layer, or a copy of it for each call."""

    def __init__(self, layer: nn.Module, *, copied: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(deepcopy(layer) if copied else layer for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


torch.manual_seed(3)
LAYERS = {
    "linear": (nn.Linear(16, 16), torch.randn(4, 16)),
    "conv": (nn.Conv2d(8, 8, 3, padding=1), torch.randn(1, 8, 6, 6)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_one_bias_of_several_calls_is_told(kind: str) -> None:
    layer, x = LAYERS[kind]
    first = of(Reused(layer), (x,), "neutron").causes[0]
    assert first.code == "static_bias"
    assert first.hint == (
        "the layer is called 3 times with one bias, whose codes have the scale of one call: "
        "give each call a copy of the layer (copy.deepcopy)"
    )
    assert not of(Reused(layer, copied=True), (x,), "neutron").causes


@pytest.mark.parametrize("kind", LAYERS)
def test_a_bias_that_one_call_left_few_codes_is_no_fault_of_the_weights(kind: str) -> None:
    layer, x = LAYERS[kind]
    inputs = (1e5 * x,)  # of the first call
    cures = [cure for one in of(Reused(layer), inputs, "neutron").layers for cure in one.cures]
    bias = [cure for cure in cures if "its bias leaves" in cure]
    assert len(bias) == 2 and all(
        "the scale of another call of its layer: give each call a copy" in each for each in bias
    )
    assert not any("weights leave" in cure for cure in cures), cures
    copied = of(Reused(layer, copied=True), inputs, "neutron")
    assert not any("bias" in cure for one in copied.layers for cure in one.cures)


class Steps(nn.Module):
    """A layer called twice, whose results are put together, so have the same codes; the first ones are far smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = LAYERS["linear"][0]

    def forward(self, x: Tensor) -> Tensor:
        small = self.layer(x)
        return torch.cat([small, self.layer(small * 60)])


@pytest.mark.parametrize("backend", ["neutron", "ethos-u55"])
def test_small_results_beside_large_ones_are_no_fault_of_the_samples(backend: str) -> None:
    layers = of(Steps(), (LAYERS["linear"][1],), backend).layers
    (cure,) = (cure for one in layers if one.operator == "aten.linear.default" for cure in one.cures)
    assert "aten.linear.default of layer (Linear), test_explain_reused.py" in cure and "has the same codes" in cure
