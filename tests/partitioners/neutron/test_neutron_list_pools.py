"""1-D pools, which the edge dialect writes as reshape, 2-D pool, reshape: delegated at every length, as 1.5.1 does."""

from __future__ import annotations

import pytest
import torch
from quantizing import QUANTIZES, quantized_by
from torch import Tensor, nn

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.run.answering import delegates
from npu_assay.partitioners.exir import run_program, to_edge
from npu_assay.partitioners.exir.ops import target_name

pytestmark = QUANTIZES
LENGTHS = (8, 14, 16, 24, 33)
POOLS = (nn.MaxPool1d(2), nn.AvgPool1d(2), nn.MaxPool1d(3, stride=2, padding=1), nn.AvgPool1d(3, stride=1))


def convolution() -> nn.Module:
    return nn.Conv1d(8, 16, 3, padding=1)


def network(kind: str, pool: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    if kind == "alone":
        return pool
    first = [convolution(), nn.ReLU(), pool]
    return nn.Sequential(*first, nn.Conv1d(16, 8, 3)) if kind == "between" else nn.Sequential(*first)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("kind", ["alone", "behind", "between"])
@pytest.mark.parametrize("name", ["neutron", "neutron-1.4"])
def test_one_delegate_takes_all(name: str, kind: str, pool: nn.Module, length: int) -> None:
    x = torch.randn(1, 8, length, generator=torch.Generator().manual_seed(length))
    quantized = quantized_by(network(kind, pool), name, (x,))
    edge = to_edge(torch.export.export(quantized, (x,)))
    lowered = edge.to_backend(load_backend(name).partitioner()).exported_program()
    outside = [target_name(n.target) for n in lowered.graph.nodes if target_name(n.target).startswith("aten.")]
    assert not outside and len(list(delegates(lowered))) == 1
    (found,) = run_program(lowered, (x,), {"NeutronBackend": load_backend(name).runtime})
    assert (found - quantized(x)).abs().max() <= 2 * step(found)


def step(result: Tensor) -> float:
    """The distance of two neighboring numbers of a quantized result."""
    numbers = torch.unique(result.detach())
    return float(numbers.diff().min()) if len(numbers) > 1 else 0.0
