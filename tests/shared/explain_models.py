"""Models that tests of `assay explain` ask about, and how they ask."""

from __future__ import annotations

import torch
from planted_numbers import Numeric
from torch import Tensor, nn

import npu_assay
from npu_assay.conformance.explain.record import Explained


class Small(nn.Module):
    """A convolution, a gelu, which Neutron does not take, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.act, self.head = nn.Conv2d(3, 8, 3), nn.GELU(), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.act(self.stem(x)).mean((2, 3))
        return self.head(y)  # type: ignore[no-any-return]


def small() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A factory for the command."""
    return Small(), (torch.ones(1, 3, 12, 12),)


def small_share() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Two convolutions, of which Neutron takes one: the other has two groups."""
    return nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2)), (torch.ones(1, 8, 12, 12),)


def of(module: nn.Module, inputs: tuple[Tensor, ...], backend: str, *, quantized: bool = True) -> Explained:
    """A model on one backend, calibrated with its inputs."""
    program = torch.export.export(module.eval(), inputs)
    return npu_assay.explain(program, [backend], [inputs] if quantized else None).backends[0]


def with_numbers(numeric: Numeric) -> Explained:
    """The planted model, explained with its samples."""
    samples = numeric.samples()
    program = torch.export.export(numeric.make().eval(), samples[0])
    return npu_assay.explain(program, [numeric.backend], samples, inputs=numeric.inputs()).backends[0]
