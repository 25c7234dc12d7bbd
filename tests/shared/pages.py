"""Explanations whose pages are tested: of real models, and one whose names would break careless markup."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

import npu_assay
from npu_assay.conformance.explain.record import Explanation, Operator

HOSTILE = (
    "</script><script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\">\x00\x1b[31m"
)


class Block(nn.Module):
    """A residual block with a gelu, which Neutron does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(8, 8, 3, padding=1), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.act(self.conv(x))
        return x + y


@cache
def explanation() -> Explanation:
    """Three blocks on two backends that differ in what they take."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), Block(), Block(), Block(), nn.Flatten(), nn.Linear(800, 8))
    image = torch.randn(1, 3, 12, 12)
    found = npu_assay.explain(torch.export.export(model.eval(), (image,)), ["neutron", "xnnpack"], [(image,)])
    assert [one.error for one in found.backends] == ["", ""]
    return found


def hostile() -> Explanation:
    """The same, with texts that a model, or a backend, may have made to break the page."""

    def spoil(one: Operator) -> Operator:
        return replace(one, module=HOSTILE, kind=HOSTILE, code=HOSTILE, source=HOSTILE)

    plain = explanation()
    backends = (
        replace(one, error=HOSTILE, warnings=(HOSTILE,), operators=tuple(map(spoil, one.operators)))
        for one in plain.backends
    )
    return Explanation(HOSTILE, tuple(backends))
