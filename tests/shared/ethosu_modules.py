"""Small models, one for each kind of operator that people quantize for Ethos-U, with inputs to calibrate them.

The inputs suit the operators: numbers from 0 to 1 for what has no other arguments, integers where integers are meant.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from executorch_programs import Function
from torch import Tensor, nn
from torch.nn import functional as F

IMAGE = (1, 4, 6, 6)
ROWS = (3, 8)


@dataclass(frozen=True)
class Sample:
    """A model and its inputs. make: a fresh model, or the function that it applies; kind: what the inputs hold."""

    make: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...] = (IMAGE,)
    kind: str = "normal"
    is_module: bool = False
    options: Mapping[str, object] = field(default_factory=dict)

    def model(self, name: str) -> nn.Module:
        """In evaluation mode, with seeded weights."""
        if not self.is_module:
            return Function(self.make)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(name.encode()))
            made = self.make()
        assert isinstance(made, nn.Module)
        return made.eval()

    def inputs(self, seed: int) -> tuple[Tensor, ...]:
        """One seeded tensor for each shape."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(DRAWS[self.kind](shape, generator) for shape in self.shapes)


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def _unit(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator) * 0.9 + 0.05


def _int32(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(0, 4, shape, generator=generator, dtype=torch.int32)


def _int8(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)


def _int64(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(0, 4, shape, generator=generator)


DRAWS: Mapping[str, Callable[[tuple[int, ...], torch.Generator], Tensor]] = {
    "normal": _normal,
    "unit": _unit,
    "int32": _int32,
    "int8": _int8,
    "int64": _int64,
}


def of(function: Callable[..., object], *shapes: tuple[int, ...], kind: str = "normal") -> Sample:
    """A sample that applies a function."""
    return Sample(function, shapes or (IMAGE,), kind)


def module(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Sample:
    """A sample with weights."""
    return Sample(make, shapes or (IMAGE,), is_module=True)


class Attention(nn.Module):
    """Scaled products of three projections."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


class Addmm(nn.Module):
    """A sum and a product with a stored matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(8, 5)), nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


class Residual(nn.Module):
    """Two branches of convolutions, added and activated."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1, bias=False)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.first(x)) + F.hardtanh(self.second(x), 0.0, 6.0))


_UNARY: Mapping[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "round": torch.round,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "neg": torch.neg,
    "relu": torch.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "sign": torch.sign,
    "mish": F.mish,
    "softplus": F.softplus,
}
_POSITIVE: Mapping[str, Callable[[Tensor], Tensor]] = {
    "log": torch.log,
    "log1p": torch.log1p,
    "log10": torch.log10,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sqrt": torch.sqrt,
    "acos": torch.acos,
    "asin": torch.asin,
    "atanh": torch.atanh,
    "acosh": lambda x: torch.acosh(x + 1.5),
    "logit": lambda x: torch.logit(x, 1e-3),
}

SAMPLES: Mapping[str, Sample] = {
    **{name: of(function) for name, function in _UNARY.items()},
    **{name: of(function, kind="unit") for name, function in _POSITIVE.items()},
    "add": of(torch.add, IMAGE, IMAGE),
    "add_scalar": of(lambda x: x + 1.5),
    "add_alpha": of(lambda x, y: torch.add(x, y, alpha=2), IMAGE, IMAGE),
    "add_inplace": of(lambda x, y: (x * 1.0).add_(y), IMAGE, IMAGE),
    "sub": of(torch.sub, IMAGE, (1, 4, 1, 1)),
    "rsub": of(lambda x: 1.5 - x),
    "mul": of(torch.mul, IMAGE, IMAGE),
    "mul_scalar": of(lambda x: x * 0.3),
    "div": of(torch.div, IMAGE, IMAGE, kind="unit"),
    "div_scalar": of(lambda x: x / 2),
    "div_floor": of(lambda x, y: torch.div(x, y, rounding_mode="floor"), IMAGE, IMAGE, kind="unit"),
    "div_trunc": of(lambda x, y: torch.div(x, y, rounding_mode="trunc"), IMAGE, IMAGE, kind="unit"),
    "floor_divide": of(lambda x, y: x // y, IMAGE, IMAGE, kind="unit"),
    "remainder": of(lambda x, y: torch.remainder(x, y), IMAGE, IMAGE, kind="unit"),
    "remainder_scalar": of(lambda x: torch.remainder(x, 0.3)),
    "pow3": of(lambda x: x**3),
    "pow_tensor": of(torch.pow, IMAGE, IMAGE, kind="unit"),
    "fmod": of(lambda x: torch.fmod(x, 0.3)),
    "atan2": of(torch.atan2, IMAGE, IMAGE),
    "maximum": of(torch.maximum, IMAGE, IMAGE),
    "minimum": of(torch.minimum, IMAGE, IMAGE),
    "clamp": of(lambda x: torch.clamp(x, -0.5, 0.7)),
    "clamp_tensor": of(torch.clamp, IMAGE, IMAGE),
    "conv2d": module(lambda: nn.Conv2d(4, 8, 3, padding=1)),
    "conv2d_relu": module(lambda: nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU())),
    "conv2d_relu6": module(lambda: nn.Sequential(nn.Conv2d(4, 8, 3, bias=False), nn.ReLU6())),
    "conv2d_hardtanh": module(lambda: nn.Sequential(nn.Conv2d(4, 8, 3), nn.Hardtanh())),
    "conv2d_norm_relu": module(lambda: nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU())),
    "conv2d_depthwise": module(lambda: nn.Conv2d(4, 4, 3, groups=4)),
    "conv2d_grouped": module(lambda: nn.Conv2d(4, 6, 3, groups=2)),
    "conv2d_stride4": module(lambda: nn.Conv2d(4, 8, 2, stride=4)),
    "conv2d_stride4_padded": module(lambda: nn.Conv2d(4, 8, 2, stride=4, padding=1)),
    "conv2d_same": module(lambda: nn.Conv2d(4, 8, 3, padding="same")),
    "conv2d_same_even": module(lambda: nn.Conv2d(4, 8, (2, 3), padding="same", dilation=(3, 1))),
    "conv1d": module(lambda: nn.Conv1d(4, 8, 3), (1, 4, 9)),
    "conv3d": module(lambda: nn.Conv3d(4, 8, (2, 2, 2)), (1, 4, 4, 4, 4)),
    "conv_transpose2d": module(lambda: nn.ConvTranspose2d(4, 6, 2, stride=2)),
    "conv_transpose2d_grouped": module(lambda: nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2)),
    "residual": module(Residual),
    "linear": module(lambda: nn.Linear(8, 5), ROWS),
    "linear_3d": module(lambda: nn.Linear(8, 5, bias=False), (1, 3, 8)),
    "linear_relu": module(lambda: nn.Sequential(nn.Linear(8, 5), nn.ReLU()), ROWS),
    "addmm": module(Addmm, ROWS),
    "matmul": of(torch.matmul, (2, 3, 4), (2, 4, 5)),
    "baddbmm": of(lambda x, y, z: torch.baddbmm(x, y, z, beta=0.5, alpha=2), (2, 3, 5), (2, 3, 8), (2, 8, 5)),
    "matmul_2d": of(torch.matmul, (3, 4), (4, 5)),
    "matmul_4d": of(torch.matmul, (1, 2, 3, 4), (1, 2, 4, 5)),
    "mm": of(torch.mm, (3, 4), (4, 5)),
    "bmm": of(torch.bmm, (2, 3, 4), (2, 4, 5)),
    "einsum": of(lambda x, y: torch.einsum("bij,bjk->bik", x, y), (2, 3, 4), (2, 4, 5)),
    "attention": module(Attention, (1, 4, 8)),
    "avg_pool2d": of(lambda x: F.avg_pool2d(x, 2)),
    "avg_pool2d_padded": of(lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "avg_pool2d_uncounted": of(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    "avg_pool2d_batch": of(lambda x: F.avg_pool2d(x, 2), (2, 4, 6, 6)),
    "max_pool2d": of(lambda x: F.max_pool2d(x, 2)),
    "max_pool2d_batch": of(lambda x: F.max_pool2d(x, 3, 2, 1), (2, 4, 6, 6)),
    "adaptive_avg_pool2d": of(lambda x: F.adaptive_avg_pool2d(x, 2)),
    "adaptive_avg_pool2d_4": of(lambda x: F.adaptive_avg_pool2d(x, 4)),
    "adaptive_avg_pool2d_1": of(lambda x: F.adaptive_avg_pool2d(x, 1)),
    "adaptive_max_pool2d": of(lambda x: F.adaptive_max_pool2d(x, 2)),
    "mean": of(lambda x: x.mean((2, 3))),
    "mean_all": of(torch.mean),
    "mean_keepdim": of(lambda x: x.mean(-1, keepdim=True), ROWS),
    "sum": of(lambda x: x.sum(1)),
    "sum_all": of(torch.sum),
    "var": of(lambda x: x.var((2, 3))),
    "norm": of(lambda x: torch.linalg.vector_norm(x, dim=1)),
    "amax": of(lambda x: x.amax(1)),
    "max_dim": of(lambda x: x.max(1)[0]),
    "max_all": of(torch.max),
    "cumsum": of(lambda x: x.cumsum(1)),
    "prod": of(lambda x: x.prod(1)),
    "topk": of(lambda x: x.topk(2)[0]),
    "argmax": of(lambda x: x.argmax(1).to(torch.int32)),
    "softmax": of(lambda x: x.softmax(-1), ROWS),
    "softmax_1": of(lambda x: x.softmax(1)),
    "log_softmax": of(lambda x: x.log_softmax(-1), ROWS),
    "logsumexp": of(lambda x: x.logsumexp(-1), ROWS),
    "batch_norm": module(lambda: nn.BatchNorm2d(4)),
    "group_norm": module(lambda: nn.GroupNorm(2, 4)),
    "layer_norm": module(lambda: nn.LayerNorm(8), ROWS),
    "layer_norm_plain": of(lambda x: F.layer_norm(x, (8,)), ROWS),
    "instance_norm": module(lambda: nn.InstanceNorm2d(4)),
    "prelu": module(lambda: nn.PReLU(4)),
    "glu": of(lambda x: F.glu(x, 1)),
    "cosine": of(lambda x, y: F.cosine_similarity(x, y), IMAGE, IMAGE),
    "permute": of(lambda x: x.permute(0, 2, 3, 1)),
    "permute_6": of(lambda x: x.permute(5, 4, 3, 2, 1, 0), (1, 2, 2, 2, 2, 3)),
    "permute_7": of(lambda x: x.permute(6, 5, 4, 3, 2, 1, 0), (1, 2, 2, 2, 2, 2, 3)),
    "transpose": of(lambda x: x.transpose(1, 2) + 1.0),
    "permute_reshape": of(lambda x: x.permute(0, 2, 3, 1).reshape(1, -1)),
    "reshape": of(lambda x: torch.relu(x).reshape(1, -1)),
    "flatten": of(lambda x: torch.flatten(x, 1).tanh()),
    "squeeze": of(lambda x: x.squeeze(0).tanh()),
    "unsqueeze": of(lambda x: x.unsqueeze(0).tanh()),
    "clone": of(torch.clone),
    "cat": of(lambda x, y: torch.cat([x, y], 1), IMAGE, IMAGE),
    "stack": of(lambda x, y: torch.stack([x, y], 1), ROWS, ROWS),
    "split": of(lambda x: torch.split(x, 2, 1)[1].tanh()),
    "chunk": of(lambda x: torch.chunk(x, 2, 1)[0] + torch.chunk(x, 2, 1)[1]),
    "slice": of(lambda x: x[:, 1:3].tanh()),
    "slice_strided": of(lambda x: x[:, ::2].tanh()),
    "select": of(lambda x: x[:, 1].tanh()),
    "unbind": of(lambda x: torch.unbind(x, 1)[0].tanh()),
    "expand": of(lambda x: x.expand(1, 4, 6, 6), (1, 4, 1, 1)),
    "repeat": of(lambda x: x.repeat(1, 2, 1, 1)),
    "repeat_interleave": of(lambda x: x.repeat_interleave(2, 1)),
    "roll": of(lambda x: torch.roll(x, 1, 1)),
    "flip_1": of(lambda x: x.flip(1)),
    "flip_3": of(lambda x: x.flip(3)),
    "flip_12": of(lambda x: x.flip(1, 2)),
    "pad": of(lambda x: F.pad(x, (1, 1, 2, 0))),
    "pad_value": of(lambda x: F.pad(x, (1, 1), value=0.5)),
    "pad_reflect": of(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
    "pad_replicate": of(lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate")),
    "pixel_shuffle": of(lambda x: F.pixel_shuffle(x, 2)),
    "pixel_unshuffle": of(lambda x: F.pixel_unshuffle(x, 2)),
    "unfold": of(lambda x: x.unfold(2, 2, 2).tanh()),
    "im2col": of(lambda x: F.unfold(x, 2)),
    "nearest_2": of(lambda x: F.interpolate(x, scale_factor=2, mode="nearest")),
    "nearest_3": of(lambda x: F.interpolate(x, scale_factor=3, mode="nearest")),
    "bilinear_2": of(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "any": of(lambda x: (x > 0.5).any(1)),
    "eq": of(torch.eq, IMAGE, IMAGE),
    "ne": of(torch.ne, IMAGE, IMAGE),
    "gt": of(torch.gt, IMAGE, IMAGE),
    "lt_scalar": of(lambda x: x < 0.5),
    "where": of(lambda x, y: torch.where(x > y, x, y), IMAGE, IMAGE),
    "where_scalar": of(lambda x: torch.where(x > 0.5, x, 0.0)),
    "masked_fill": of(lambda x: x.masked_fill(x > 0.5, 0.25)),
    "masked_fill_inplace": of(lambda x: x.tanh().masked_fill_(x > 0.5, 0.25)),
    "index_select_int64": of(lambda x: x.index_select(1, torch.tensor([1, 0]))),
    "index_int64": of(lambda x: x[torch.tensor([0, 0]), torch.tensor([3, -1])]),
    "gather_int64": of(lambda x: x.gather(1, torch.tensor([[5, 0, 0], [1, 2, 3], [7, 7, 7]])), ROWS),
    "logical_and": of(lambda x, y: torch.logical_and(x > 0, y > 0), IMAGE, IMAGE),
    "full": of(lambda x: x + torch.full((1, 4, 1, 1), 0.5)),
    "ones": of(lambda x: x * torch.ones(6)),
    "arange": of(lambda x: x + torch.arange(6, dtype=torch.float32)),
    "select_scatter": of(lambda x, y: torch.select_scatter(x, y, 1, 2), IMAGE, (1, 6, 6)),
    "slice_scatter": of(lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), IMAGE, (1, 2, 6, 6)),
    "tril": of(torch.tril),
    "dropout": of(lambda x: F.dropout(x, 0.5, training=False).tanh()),
    "int32_add": of(torch.add, ROWS, ROWS, kind="int32"),
    "int32_mul": of(torch.mul, ROWS, ROWS, kind="int32"),
    "int32_shift": of(lambda x, y: x << y, ROWS, ROWS, kind="int32"),
    "int32_and": of(torch.bitwise_and, ROWS, ROWS, kind="int32"),
    "int32_eq": of(torch.eq, ROWS, ROWS, kind="int32"),
    "int32_to_float": of(lambda x: x.to(torch.float32), ROWS, kind="int32"),
    "int8_argmax": of(lambda x: x.argmax(-1).to(torch.int32), ROWS, kind="int8"),
    "to_int32": of(lambda x: x.to(torch.int32)),
}  # fmt: skip
"""By name."""
