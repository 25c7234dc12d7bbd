"""MobileNetV3-small in plain torch modules: layers, sizes and random weights of torchvision's `mobilenet_v3_small`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


class SqueezeExcitation(nn.Module):
    """Scales channels by what a small network makes of their means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.activation = nn.Conv2d(channels, squeezed, 1), nn.ReLU()
        self.fc2, self.scale_activation = nn.Conv2d(squeezed, channels, 1), nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x  # type: ignore[no-any-return]


def conv_norm(
    inputs: int, outputs: int, kernel: int, act: Activation | None, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution, its batch norm, and an activation or none."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=0.001, momentum=0.01),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel, squeeze and excite, narrow by 1x1; with a shortcut where the shape stays."""

    def __init__(
        self, inputs: int, kernel: int, width: int, outputs: int, squeezes: bool, act: Activation, stride: int
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv_norm(inputs, width, 1, act)] if width != inputs else []
        layers.append(conv_norm(width, width, kernel, act, stride, groups=width))
        if squeezes:
            layers.append(SqueezeExcitation(width, _divisible(width // 4)))
        self.block = nn.Sequential(*layers, conv_norm(width, outputs, 1, None))
        self.keeps_shape = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(x)
        return x + y if self.keeps_shape else y


def _divisible(size: int) -> int:
    """The nearest multiple of 8 that is at least 90 % of the size."""
    near = max(8, (size + 4) // 8 * 8)
    return near + 8 if near < 0.9 * size else near


RE, HS = nn.ReLU, nn.Hardswish
BLOCKS: tuple[tuple[int, int, int, int, bool, Activation, int], ...] = (
    (16, 3, 16, 16, True, RE, 2),
    (16, 3, 72, 24, False, RE, 2),
    (24, 3, 88, 24, False, RE, 1),
    (24, 5, 96, 40, True, HS, 2),
    (40, 5, 240, 40, True, HS, 1),
    (40, 5, 240, 40, True, HS, 1),
    (40, 5, 120, 48, True, HS, 1),
    (48, 5, 144, 48, True, HS, 1),
    (48, 5, 288, 96, True, HS, 2),
    (96, 5, 576, 96, True, HS, 1),
    (96, 5, 576, 96, True, HS, 1),
)
"""Channels of the input, kernel, width, channels of the output, squeezes, activation, stride."""


class MobileNetV3Small(nn.Module):
    """Input (1, 3, 224, 224), 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_norm(3, 16, 3, HS, 2), *(InvertedResidual(*each) for each in BLOCKS), conv_norm(96, 576, 1, HS)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 1000))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
        return y


def mobilenet_v3_small() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A factory for the command, on images of 64 pixels."""
    torch.manual_seed(0)
    return MobileNetV3Small().eval(), (torch.randn(1, 3, 64, 64),)
