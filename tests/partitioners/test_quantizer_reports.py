"""What the quantizers say, and keep, where no code stands for a number: infinite constants and tiny tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer

from npu_assay.partitioners.ethosu import EthosUCompileSpec
from npu_assay.partitioners.ethosu import quantizer as ethosu
from npu_assay.partitioners.exir.constants_clamped import ClampedConstantWarning
from npu_assay.partitioners.exir.observers import ClampedScaleWarning
from npu_assay.partitioners.neutron.quantizer import NeutronQuantizer
from npu_assay.partitioners.xnnpack.quantizer import XnnpackQuantizer, get_symmetric_quantization_config

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]


def xnnpack(per_channel: bool = False) -> Any:
    return XnnpackQuantizer().set_global(get_symmetric_quantization_config(per_channel))


def ethos(config: Any) -> Any:
    return ethosu.EthosUQuantizer(EthosUCompileSpec("ethos-u55-128")).set_global(config)


class Attention(nn.Module):
    """Scores with a causal mask in a buffer."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.full((8, 8), -torch.inf), 1))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) + self.mask, -1)


class Filled(Attention):
    """The same with a fill."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.softmax((q @ k.transpose(-1, -2)).masked_fill(self.mask < 0, -torch.inf), -1)


def quantised(module: nn.Module, quantizer: Any, inputs: tuple[Tensor, ...]) -> Any:
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(module.eval(), inputs).module(), quantizer)
        prepared(*inputs)
        return convert_pt2e(prepared)


def random(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def decibels(found: Tensor, wanted: Tensor) -> float:
    """The ratio of the wanted signal and the error."""
    return float(10 * torch.log10(wanted.pow(2).sum() / (found - wanted).pow(2).sum()))


@pytest.mark.parametrize("quantizer", [NeutronQuantizer, xnnpack])
def test_a_mask_stays_one_and_is_reported(quantizer: Any) -> None:
    """Without finite numbers it is about 7 dB, and no warning."""
    model, inputs = Attention(), random((1, 8, 16), (1, 8, 16))
    with pytest.warns(ClampedConstantWarning, match=r"replaced by -256 and 255 in: mask \(28 of 64\)"):
        found = quantised(model, quantizer(), inputs)(*inputs)
    assert decibels(found, model(*inputs)) > 15
    assert float(found[model.mask.isinf().expand_as(found)].abs().max()) == 0
    assert bool(model.mask.isinf().any())


def test_a_filled_mask_too() -> None:
    model, inputs = Filled(), random((1, 8, 16), (1, 8, 16))
    with pytest.warns(ClampedConstantWarning, match="masked_fill"):
        found = quantised(model, NeutronQuantizer(), inputs)(*inputs)
    assert decibels(found, model(*inputs)) > 25


TINY: dict[str, Callable[[], Quantizer]] = {
    "neutron": NeutronQuantizer,
    "xnnpack": xnnpack,
    "xnnpack per channel": lambda: xnnpack(True),
    "ethosu": lambda: ethos(ethosu.get_symmetric_quantization_config()),
}


def linear(scale: float) -> nn.Linear:
    torch.manual_seed(0)
    layer = nn.Linear(8, 8)
    with torch.no_grad():
        layer.weight.mul_(scale)
        assert layer.bias is not None
        layer.bias.mul_(scale)
    return layer


@pytest.mark.parametrize("name", TINY)
def test_clamped_scales_are_reported(name: str) -> None:
    """Outputs of about 1e-5 have one or two codes at the smallest scale; the warning says how many are left."""
    inputs = random((4, 8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quantised(linear(1e-5), TINY[name](), inputs)
    found = [str(one.message) for one in caught if one.category is ClampedScaleWarning]
    smallest = "1.52588e-05" if name == "ethosu" else "0.000244141"
    assert found and all(f"gets the scale {smallest}, the smallest possible: about" in text for text in found)
    assert any("8 of 8 channels of a weight" in text for text in found) == (name in ("xnnpack per channel", "ethosu"))


@pytest.mark.parametrize("name", TINY)
def test_ordinary_scales_are_not(name: str) -> None:
    quantised(linear(1), TINY[name](), random((4, 8)))


def test_zeros_lose_nothing() -> None:
    quantised(linear(0), NeutronQuantizer(), random((4, 8)))


def test_wide_codes_are_reported_when_as_few_are_left() -> None:
    """16 bits have codes to spare: a clamp that leaves as many as 8 bits have is none."""
    config = ethosu.get_symmetric_a16w8_quantization_config()
    quantised(linear(1), ethos(config), random((4, 8)))
    with pytest.warns(ClampedScaleWarning, match="gets the scale 0.000244141"):
        quantised(linear(0.01), ethos(config), random((4, 8)))
