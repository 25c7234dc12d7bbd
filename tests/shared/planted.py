"""Models with one planted cause each: a small network that a backend takes whole, and one thing in it that it does not.

The first cause that `explain` names has to be that thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Shape = tuple[int, ...]
IMAGE: Shape = (1, 8, 16, 16)


class Between(nn.Module):
    """A function between two convolutions, or behind the second."""

    def __init__(self, function: Callable[..., Tensor], channels: tuple[int, int, int] = (8, 8, 8)) -> None:
        super().__init__()
        first, second, last = channels
        self.stem = nn.Conv2d(8, first, 3, padding=1)
        self.function = function if isinstance(function, nn.Module) else Named(function)
        self.neck = nn.Conv2d(second, last, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.act(self.neck(self.function(self.act(self.stem(x)))))
        return y


class Named(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor], *constants: Tensor) -> None:
        super().__init__()
        self.function = function
        for number, data in enumerate(constants):
            self.register_buffer(f"constant_{number}", data)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs, *self.buffers())


class Head(nn.Module):
    """A convolution, a function of its image, a linear layer behind that."""

    def __init__(self, function: Callable[..., Tensor], inputs: int, outputs: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(8, 8, 3, padding=1)
        self.function = Named(function)
        self.head = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.function(self.stem(x).relu()).flatten(1))
        return y


@dataclass(frozen=True)
class Planted:
    """A model on a backend, and the cause that is planted: an operator, and a code of its reasons.

    quantized: whether the model is quantized, "dynamic" for activations at run time.
    """

    name: str
    backend: str
    make: Callable[[], nn.Module]
    operator: str
    code: str
    shape: Shape = IMAGE
    quantized: bool = True

    def __str__(self) -> str:
        return f"{self.backend}-{self.name}"

    @property
    def model(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """The model with seeded weights, and its input."""
        torch.manual_seed(0)
        return self.make().eval(), (torch.randn(self.shape),)


def _two(function: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: Between(function)


N, X, U55, U85 = "neutron", "xnnpack", "ethos-u55", "ethos-u85"


def _conv(*args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    """A convolution of 8 channels in the middle."""
    return lambda: Between(nn.Conv2d(*args, **kwargs))


PLANTED = (
    Planted("gelu", N, _two(nn.GELU()), "aten.gelu.default", "unsupported"),
    Planted("elu", N, _two(nn.ELU()), "aten.elu.default", "unsupported"),
    Planted("sin", N, _two(torch.sin), "aten.sin.default", "unsupported"),
    Planted("flip", N, _two(lambda x: x.flip(3)), "aten.flip.default", "unsupported"),
    Planted("roll", N, _two(lambda x: torch.cumsum(x, 1)), "aten.cumsum.default", "unsupported"),
    Planted("softmax_over_rows", N, _two(lambda x: x.softmax(2)), "aten._softmax.default", "channel_dim"),
    Planted(
        "pool_channels", N, lambda: Between(nn.MaxPool2d(3, 1, 1), (12, 12, 8)), "max_pool2d", "channels_multiple_of"
    ),
    Planted("pool_stride", N, _two(nn.MaxPool2d(3, 3)), "max_pool2d", "stride_h"),
    Planted("pool_dilation", N, _two(nn.MaxPool2d(2, 1, dilation=2)), "max_pool2d", "dilation"),
    Planted("pool_ceil", N, _two(nn.AvgPool2d(3, 2, ceil_mode=True)), "aten.avg_pool2d.default", "ceil_mode"),
    Planted(
        "pool_divisor", N, _two(nn.AvgPool2d(2, divisor_override=3)), "aten.avg_pool2d.default", "divisor_override"
    ),
    Planted("upsample_by_3", N, _two(nn.Upsample(scale_factor=3)), "upsample_nearest2d", "scale"),
    Planted("groups", N, _conv(8, 8, 3, padding=1, groups=2), "aten.convolution.default", "groups"),
    Planted(
        "groups_of_a_transposed_one",
        N,
        lambda: Between(nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1, groups=4)),
        "aten.convolution.default",
        "transposed",
    ),
    Planted(
        "conv3d",
        N,
        _two(Named(lambda x: functional.conv3d(x[:, :, None], torch.ones(8, 8, 1, 1, 1))[:, :, 0])),
        "aten.convolution.default",
        "spatial_rank",
    ),
    Planted("broadcast", N, _two(lambda x: x + x.mean((2, 3), keepdim=True)), "aten.add.Tensor", "same_shape"),
    Planted("mean_of_rows", N, lambda: Head(lambda x: x.mean((2, 3)), 8), "aten.mean.dim", "keepdim"),
    Planted(
        "pad_of_channels",
        N,
        lambda: Between(Named(lambda x: functional.pad(x, (0, 0, 0, 0, 0, 8))), (8, 16, 8)),
        "aten.constant_pad_nd.default",
        "channel_and_batch_padding",
    ),
    Planted("slice_with_step", N, _two(lambda x: x[:, :, ::2]), "aten.slice_copy.Tensor", "step"),
    Planted("clamp_bounds", N, _two(lambda x: x.clamp(-3, 2.5)), "aten.clamp.default", "bounds"),
    Planted("not_quantized", N, _two(torch.abs), "aten.convolution.default", "not_quantized", quantized=False),
    Planted("erf", X, _two(torch.erf), "aten.erf.default", "unsupported", quantized=False),
    Planted("flip", X, _two(lambda x: x.flip(3)), "aten.flip.default", "unsupported", quantized=False),
    Planted(
        "softmax_over_channels", X, _two(lambda x: x.softmax(1)), "aten._softmax.default", "last_dim", quantized=False
    ),
    Planted(
        "pool_ceil",
        X,
        _two(nn.AvgPool2d(3, 2, ceil_mode=True)),
        "aten.avg_pool2d.default",
        "ceil_mode",
        quantized=False,
    ),
    Planted("pool_stride", X, _two(nn.MaxPool2d(2, 3)), "max_pool2d", "stride_within_kernel", quantized=False),
    Planted("slice_with_step", X, _two(lambda x: x[:, :, ::2]), "aten.slice_copy.Tensor", "step", quantized=False),
    Planted("mean_keepdim", X, lambda: Head(lambda x: x.mean((2, 3)), 8), "aten.mean.dim", "keepdim", quantized=False),
    Planted("cube", X, _two(lambda x: x**3), "aten.pow.Tensor_Scalar", "exponent", quantized=False),
    Planted("alpha", X, _two(lambda x: torch.add(x, x.abs(), alpha=2)), "aten.add.Tensor", "alpha", quantized=False),
    Planted("double", X, _two(lambda x: x.double().abs().float()), "_to_dim_order_copy", "dtype", quantized=False),
    Planted(
        "crop",
        X,
        _two(lambda x: functional.pad(x, (-1, -1))),
        "aten.constant_pad_nd.default",
        "non_negative_padding",
        quantized=False,
    ),
    Planted(
        "conv3d",
        X,
        _two(Named(lambda x: functional.conv3d(x[:, :, None], torch.ones(8, 8, 1, 1, 1))[:, :, 0])),
        "aten.convolution.default",
        "spatial_rank",
        quantized=False,
    ),
    Planted(
        "gather",
        U55,
        _two(lambda x: x.gather(3, torch.zeros(1, 8, 16, 16, dtype=torch.int64))),
        "aten.gather.default",
        "unsupported",
    ),
    Planted(
        "argmax_of_channels",
        U55,
        lambda: Head(lambda x: x.argmax(1).float(), 256),
        "aten.argmax.default",
        "int32_indices",
    ),
    Planted(
        "kernel_height",
        U55,
        lambda: Between(nn.Conv2d(8, 8, (65, 1))),
        "aten.convolution.default",
        "kernel_height",
        (1, 8, 80, 4),
    ),
    Planted("pool_stride", U55, _two(nn.AvgPool2d(4, 4)), "aten.avg_pool2d.default", "stride"),
    Planted("resize_scale", U55, _two(nn.Upsample(scale_factor=3)), "upsample_nearest2d", "resize_scale"),
    Planted("topk", U55, _two(lambda x: x.topk(8, 3)[0]), "aten.topk.default", "unsupported"),
    Planted("batch", U55, _two(nn.AvgPool2d(2)), "aten.avg_pool2d.default", "batch", (2, 8, 16, 16)),
    Planted("not_quantized", U55, _two(torch.abs), "aten.convolution.default", "not_quantized", quantized=False),
    Planted("flip_of_batch", U55, _two(lambda x: x.flip(0)), "aten.flip.default", "dims"),
    Planted("sort", U85, _two(lambda x: x.sort(3)[0]), "aten.sort.default", "unsupported"),
    Planted(
        "conv3d",
        U85,
        _two(Named(lambda x: functional.conv3d(x[:, :, None], torch.ones(8, 8, 1, 1, 1))[:, :, 0])),
        "aten.convolution.default",
        "static_weights",
    ),
    Planted("atan2", U85, _two(lambda x: torch.atan2(x, x.abs() + 1)), "aten.atan2.default", "unsupported"),
    Planted("fmod", U85, _two(lambda x: torch.fmod(x, x.abs() + 1)), "aten.fmod.Tensor", "unsupported"),
    Planted("not_quantized", U85, _two(torch.abs), "aten.convolution.default", "not_quantized", quantized=False),
)
