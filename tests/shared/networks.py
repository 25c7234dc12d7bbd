"""The four MLPerf Tiny reference networks and a MobileNetV2 in torch, with seeded weights.

Shapes and layers follow the reference models of the MLPerf Tiny benchmark (visual wake words,
image classification, keyword spotting, anomaly detection); the weights are random, because what is
tested is arithmetic and not accuracy. Batch norm statistics are seeded too, so that folding them
changes every channel.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner
from npu_assay.partitioners.exir import EdgeCompileConfig, EdgeProgramManager, LoweredBackendModule, to_edge
from npu_assay.partitioners.xnnpack import XnnpackPartitioner


class SameConv(nn.Module):
    """A convolution with TensorFlow's SAME padding: the odd cell goes to the bottom and right."""

    def __init__(
        self, size: tuple[int, int], inputs: int, outputs: int, kernel: tuple[int, int], stride: int, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False)
        top, bottom = _same(size[0], kernel[0], stride)
        left, right = _same(size[1], kernel[1], stride)
        self.pad = (left, right, top, bottom)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.conv(functional.pad(x, self.pad) if any(self.pad) else x)
        return y


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def conv_block(
    size: tuple[int, int], inputs: int, outputs: int, kernel: tuple[int, int], stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolution, batch norm, relu."""
    return nn.Sequential(SameConv(size, inputs, outputs, kernel, stride, groups), nn.BatchNorm2d(outputs), nn.ReLU())


class MobileNetV1(nn.Module):
    """Visual wake words: width 0.25, input (1, 3, 96, 96), two classes."""

    def __init__(self) -> None:
        super().__init__()
        size, channels = 48, 8
        blocks = [conv_block((96, 96), 3, channels, (3, 3), 2)]
        for outputs, stride in [
            (16, 1),
            (32, 2),
            (32, 1),
            (64, 2),
            (64, 1),
            (128, 2),
            *[(128, 1)] * 5,
            (256, 2),
            (256, 1),
        ]:
            blocks.append(conv_block((size, size), channels, channels, (3, 3), stride, groups=channels))
            size = -(-size // stride)
            blocks.append(conv_block((size, size), channels, outputs, (1, 1)))
            channels = outputs
        self.features = nn.Sequential(*blocks)
        self.pool = nn.AvgPool2d(3)
        self.classifier = nn.Linear(256, 2)

    def backbone(self, x: torch.Tensor) -> torch.Tensor:
        """What is in front of the pool."""
        y: torch.Tensor = self.features(x)
        return y

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.flatten(self.pool(self.backbone(x)), 1)
        return functional.softmax(self.classifier(x), dim=-1)


class Residual(nn.Module):
    """Two 3x3 convolutions with a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, size: int, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        small = -(-size // stride)
        self.first = conv_block((size, size), inputs, outputs, (3, 3), stride)
        self.second = nn.Sequential(SameConv((small, small), outputs, outputs, (3, 3), 1), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.shortcut(x) + self.second(self.first(x)))


class ResNet8(nn.Module):
    """Image classification: input (1, 3, 32, 32), ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_block((32, 32), 3, 16, (3, 3))
        self.stacks = nn.Sequential(Residual(32, 16, 16, 1), Residual(32, 16, 32, 2), Residual(16, 32, 64, 2))
        self.pool = nn.AvgPool2d(8)
        self.classifier = nn.Linear(64, 10)

    def backbone(self, x: torch.Tensor) -> torch.Tensor:
        """What is in front of the pool."""
        y: torch.Tensor = self.stacks(self.stem(x))
        return y

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.flatten(self.pool(self.backbone(x)), 1)
        return functional.softmax(self.classifier(x), dim=-1)


class DSCNN(nn.Module):
    """Keyword spotting: input (1, 1, 49, 10), twelve classes."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [conv_block((49, 10), 1, 64, (10, 4), 2)]
        for _ in range(4):
            blocks += [conv_block((25, 5), 64, 64, (3, 3), groups=64), conv_block((25, 5), 64, 64, (1, 1))]
        self.features = nn.Sequential(*blocks)
        self.pool = nn.AvgPool2d((25, 5))
        self.classifier = nn.Linear(64, 12)

    def backbone(self, x: torch.Tensor) -> torch.Tensor:
        """What is in front of the pool."""
        y: torch.Tensor = self.features(x)
        return y

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.flatten(self.pool(self.backbone(x)), 1)
        return functional.softmax(self.classifier(x), dim=-1)


class Backbone(nn.Module):
    """A network's convolutions alone."""

    def __init__(self, network: MobileNetV1 | ResNet8 | DSCNN) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network.backbone(x)


class DeepAutoencoder(nn.Module):
    """Anomaly detection: input (1, 640), reconstructed through a bottleneck of eight."""

    def __init__(self) -> None:
        super().__init__()
        widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(128, 640))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel by 3x3, narrow by 1x1; with a shortcut where the shape stays."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        widen = [relu6_block(inputs, width, 1)] if expansion > 1 else []
        narrow = [nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*widen, relu6_block(width, width, 3, stride, groups=width), *narrow)
        self.keeps_shape = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.keeps_shape else y


def relu6_block(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution with symmetric padding, batch norm, relu6."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6())


class MobileNetV2(nn.Module):
    """Width 1, input (1, 3, 224, 224), 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        channels = 32
        blocks: list[nn.Module] = [relu6_block(3, channels, 3, 2)]
        for expansion, outputs, repeats, first_stride in [
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ]:
            for index in range(repeats):
                blocks.append(InvertedResidual(channels, outputs, 1 if index else first_stride, expansion))
                channels = outputs
        self.features = nn.Sequential(*blocks, relu6_block(channels, 1280, 1))
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        y: torch.Tensor = self.classifier(torch.flatten(x, 1))
        return y


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet_v1": (MobileNetV1, (1, 3, 96, 96)),
    "resnet8": (ResNet8, (1, 3, 32, 32)),
    "ds_cnn": (DSCNN, (1, 1, 49, 10)),
    "deep_autoencoder": (DeepAutoencoder, (1, 640)),
}
"""The networks of MLPerf Tiny: what makes them, and their input's shape."""

LARGE_NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet_v2": (MobileNetV2, (1, 3, 224, 224))
}


def network(name: str, seed: int = 0) -> tuple[nn.Module, tuple[int, ...]]:
    """A network in evaluation mode with seeded weights, and its input shape."""
    build, shape = (NETWORKS | LARGE_NETWORKS)[name]
    return seeded(build(), seed), shape


def seeded(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model in evaluation mode, with random weights."""
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 1
            spread = (2.0 / fan_in) ** 0.5 if parameter.dim() > 1 else 0.1
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.weight.copy_(torch.rand(module.weight.shape, generator=generator) + 0.5)
                assert module.running_mean is not None and module.running_var is not None
                module.running_mean.copy_(torch.randn(module.weight.shape, generator=generator) * 0.1)
                module.running_var.copy_(torch.rand(module.weight.shape, generator=generator) + 0.5)
    return model


def folded(model: nn.Module) -> nn.Module:
    """The model with every batch norm folded into the product in front of it, as PT2E does before it quantizes."""
    for block in model.modules():
        if isinstance(block, nn.Sequential):
            for index, (product, norm) in enumerate(pairwise(block)):
                if isinstance(norm, nn.BatchNorm2d):
                    holder, name = (product, "conv") if isinstance(product, SameConv) else (block, str(index))
                    setattr(holder, name, fuse_conv_bn_eval(getattr(holder, name), norm))
                    block[index + 1] = nn.Identity()
                elif isinstance(norm, nn.BatchNorm1d):
                    assert isinstance(product, nn.Linear)
                    block[index], block[index + 1] = fuse_linear_bn_eval(product, norm), nn.Identity()
    return model


def samples(shape: tuple[int, ...], count: int, seed: int = 1) -> list[torch.Tensor]:
    """Seeded random inputs."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for _ in range(count)]


def quantise(model: nn.Module, inputs: list[torch.Tensor], quantizer: Any = None) -> torch.export.ExportedProgram:
    """Post-training quantization, with the Neutron quantizer if none is given; the inputs calibrate."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from npu_assay.partitioners.neutron.quantizer import NeutronQuantizer

    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(model, (inputs[0],)).module(), quantizer or NeutronQuantizer())
        for x in inputs:
            prepared(x)
        return torch.export.export(convert_pt2e(prepared), (inputs[0],))


XNNPACK_PRECISIONS = ("fp32", "static_int8", "static_int8_per_channel", "dynamic_int8")


def for_xnnpack(model: nn.Module, precision: str, inputs: list[torch.Tensor]) -> torch.export.ExportedProgram:
    """The exported model: as it is, or quantized with the XNNPACK quantizer."""
    from npu_assay.partitioners.xnnpack.quantizer import XnnpackQuantizer, get_symmetric_quantization_config

    if precision == "fp32":
        with torch.no_grad():
            return torch.export.export(model, (inputs[0],))
    dynamic = precision == "dynamic_int8"
    config = get_symmetric_quantization_config(dynamic or precision.endswith("per_channel"), dynamic)
    return quantise(model, inputs, XnnpackQuantizer().set_global(config))


def four_bit_mlp(group: int) -> tuple[torch.export.ExportedProgram, list[torch.Tensor]]:
    """Three layers with 4-bit weights in groups of inputs, activations quantized at run time; and inputs.

    By torchao's `quantize_`: its affine operators, one scale and zero point per row of the activations.
    """
    from torchao.quantization import quantize_
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

    widths = (128, 192, 64, 40)
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    model = seeded(nn.Sequential(*layers[:-1]))
    four_bits = vars(torch)["int4"]  # torch's stubs do not know it
    quantize_(model, Int8DynamicActivationIntxWeightConfig(weight_dtype=four_bits, weight_granularity=PerGroup(group)))
    inputs = samples((6, widths[0]), 3)
    with torch.no_grad():
        return torch.export.export(model, (inputs[0],)), inputs


ETHOSU_PRECISIONS = ("int8", "int8_per_channel", "int16_per_channel")


def for_ethosu(
    model: nn.Module, target: str, precision: str, inputs: list[torch.Tensor]
) -> torch.export.ExportedProgram:
    """The exported model, quantized with the Ethos-U quantizer."""
    from npu_assay.partitioners.ethosu.quantizer import (
        EthosUQuantizer,
        get_symmetric_a16w8_quantization_config,
        get_symmetric_quantization_config,
    )

    wide = precision.startswith("int16")
    choose = get_symmetric_a16w8_quantization_config if wide else get_symmetric_quantization_config
    config = choose(precision.endswith("per_channel"))
    return quantise(model, inputs, EthosUQuantizer(EthosUCompileSpec(target)).set_global(config))


def edge_for_ethosu(program: torch.export.ExportedProgram, target: str) -> EdgeProgramManager:
    """The edge program, with the operators whole that Ethos-U takes whole."""
    whole, _ = EthosUPartitioner(EthosUCompileSpec(target)).ops_to_not_decompose(program)
    return to_edge(program, compile_config=EdgeCompileConfig(preserve_ops=whole))


def edge_for_xnnpack(program: torch.export.ExportedProgram) -> EdgeProgramManager:
    """The edge program, with the operators whole that XNNPACK takes whole."""
    whole, _ = XnnpackPartitioner().ops_to_not_decompose(program)
    return to_edge(program, compile_config=EdgeCompileConfig(preserve_ops=whole))


def lowered_modules(manager: EdgeProgramManager) -> list[LoweredBackendModule]:
    """The delegates of the forward method, in graph order."""
    program = manager.exported_program()
    nodes = [node for node in program.graph.nodes if node.op == "get_attr"]
    return [getattr(program.graph_module, node.target) for node in nodes]
