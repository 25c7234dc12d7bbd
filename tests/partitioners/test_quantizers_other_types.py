"""What no quantizer here can take: numbers that are not float32, and buffers that are written with such or other ones.

Each model keeps its numbers, and lowers for its backend, whatever of it stays as it is.
"""

from __future__ import annotations

import pytest
import torch
from quantizing import QUANTIZES, quantized_by
from torch import Tensor, nn

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.partitioners.exir import run_program, to_edge
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, target_name

pytestmark = QUANTIZES
OWN = ("neutron", "neutron-1.4", "xnnpack", "ethos-u55", "ethos-u85")
OTHER_TYPES = (torch.float64, torch.float16, torch.bfloat16)
QDQ = QUANTIZE | DEQUANTIZE


class Image(nn.Module):
    """Products, a pool and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear(torch.relu(self.convolution(x)).mean((2, 3)))
        return found


class Arithmetic(nn.Module):
    """Operators with parameters of their own, and operators that share them."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(torch.cat([x + x.abs(), x.sigmoid()], 1).permute(0, 2, 3, 1), -1)


class Mixed(nn.Module):
    """float64 amid float32, also beside it in one operator."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float64)
        return torch.cat([(wide + x).abs(), x.double() * 2]).to(torch.float32) + 1


class Written(nn.Module):
    """A buffer that is written with what no quantizer quantizes."""

    history: Tensor

    def __init__(self, what: str, reads: bool) -> None:
        super().__init__()
        self.what, self.reads = what, reads
        self.register_buffer("history", torch.zeros(1, 3, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        before = self.history * x if self.reads else x
        self.history.copy_(self.value(x))
        return before + self.history

    def value(self, x: Tensor) -> Tensor:
        if self.what == "sorted":
            return x.sort(-1)[0]
        if self.what == "chosen":
            found: Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
            return found
        return x.double().abs().float() if self.what == "wide" else x.cumsum(-1)


def lowers(name: str, model: nn.Module, x: Tensor) -> nn.Module:
    """The quantized module, after its numbers in the edge dialect, whole and delegated, were found in order."""
    quantized = quantized_by(model, name, (x,))
    edge = to_edge(torch.export.export(quantized, (x,)))
    found = edge.to_backend(load_backend(name).partitioner()).exported_program()
    runtime = load_backend(name).runtime
    backends = dict.fromkeys(("NeutronBackend", "XnnpackBackend", "EthosUBackend"), runtime)
    assert run_program(found, (x,), backends)[-1].isfinite().all()
    return quantized


def conversions(module: nn.Module) -> list[str]:
    assert isinstance(module, torch.fx.GraphModule)
    return [node.name for node in module.graph.nodes if target_name(node.target) in QDQ]


@pytest.mark.parametrize("model", [Image, Arithmetic])
@pytest.mark.parametrize("dtype", OTHER_TYPES)
@pytest.mark.parametrize("name", OWN)
def test_numbers_of_another_type_stay(name: str, dtype: torch.dtype, model: type[nn.Module]) -> None:
    torch.manual_seed(0)
    x, plain = torch.randn(1, 3, 8, 8, dtype=dtype), model().eval().to(dtype)
    quantized = quantized_by(plain, name, (x,))
    assert not conversions(quantized)
    assert torch.equal(quantized(x), plain(x))


@pytest.mark.parametrize("name", OWN)
def test_numbers_of_several_types(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 8, 8)
    assert conversions(lowers(name, Mixed(), x))


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("what", ["sorted", "chosen", "wide", "summed"])
@pytest.mark.parametrize("name", OWN)
def test_buffers_that_are_written(name: str, what: str, reads: bool) -> None:
    torch.manual_seed(0)
    lowers(name, Written(what, reads), torch.randn(1, 3, 8, 8))
