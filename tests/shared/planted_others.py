"""Networks of other shapes than those of `planted`, each with one planted cause, and the same network without it.

Attention, gates, made weights, tables of tokens, a layer that was left unquantized: the cause is named by the module
that it is in, too. They were written down before the code that names causes was read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from quantizing import quantized_by
from torch import Tensor, nn
from torch.nn import functional

Inputs = tuple[Tensor, ...]
N, X, U55, U85 = "neutron", "xnnpack", "ethos-u55", "ethos-u85"


@dataclass(frozen=True)
class Other:
    """A network made with its cause or without, on a backend: the operator, the code of its reasons, and the module.

    quantized: whether the model is quantized by the backend's quantizer; False also for a model that comes quantized.
    """

    name: str
    backend: str
    make: Callable[[bool], nn.Module]
    inputs: Callable[[], Inputs]
    operator: str
    code: str
    module: str
    quantized: bool = True

    def __str__(self) -> str:
        return f"{self.backend}-{self.name}"

    def model(self, planted: bool = True) -> tuple[nn.Module, Inputs]:
        """The network with seeded weights, and its inputs."""
        torch.manual_seed(0)
        return self.make(planted).eval(), self.inputs()


def image(*shape: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(shape),)


class Part(nn.Module):
    """A function as a module, so that its place has a name."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


class Video(nn.Module):
    """Frames side by side in the channels, which the network moves into the batch."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.shape = (4, 8, 16, 16) if planted else (1, 32, 16, 16)
        channels = self.shape[1]
        self.stem, self.frame = nn.Conv2d(32, 32, 1), nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.frame(self.stem(x).relu().view(self.shape))
        return y.relu()  # type: ignore[no-any-return]


class Halves(nn.Module):
    """An inverted bottleneck whose two halves gate each other."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        width = 10 if planted else 16
        self.expand, self.project = nn.Conv2d(8, 2 * width, 1), nn.Conv2d(width, 8, 1)
        self.halve, self.width = Part(lambda y: y[:, width:] * y[:, :width].sigmoid()), width

    def forward(self, x: Tensor) -> Tensor:
        return x + self.project(self.halve(self.expand(x)))  # type: ignore[no-any-return]


class LinearAttention(nn.Module):
    """A product of two maps of as many rows as no multiple of 8, or as one."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        rows = 12 if planted else 16
        self.q, self.k = nn.Linear(16, rows * 16), nn.Linear(16, 16 * rows)
        self.mix = Part(lambda q, k: torch.bmm(q.view(1, rows, 16), k.view(1, 16, rows)))

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self.q(x), self.k(x))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """A residual block of linear layers with a norm in front, as transformers have."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16) if planted else nn.ReLU()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.up(self.norm(x)).relu())  # type: ignore[no-any-return]


class Relaid(nn.Module):
    """Two branches of convolutions, one of which asks for another memory format."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.relay = Part(lambda y: y.contiguous(memory_format=torch.channels_last) if planted else y.abs())

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.relay(self.a(x).relu())) + x  # type: ignore[no-any-return]


class Coder(nn.Module):
    """An autoencoder of linear layers."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.enter, self.act, self.leave = nn.Linear(32, 8), nn.SELU() if planted else nn.ELU(), nn.Linear(8, 32)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.leave(self.act(self.enter(x)))).abs()  # type: ignore[no-any-return]


class Hyper(nn.Module):
    """A layer whose weights another input decides."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.made, self.first, self.planted = nn.Linear(8, 256), nn.Linear(16, 16), planted
        self.apply_made = Part(lambda x, w: functional.linear(x, w.view(16, 16)))

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        y = self.first(x).relu()
        return self.apply_made(y, self.made(z)) if self.planted else y  # type: ignore[no-any-return]


class Perceptron(nn.Module):
    """The two layers of a transformer's block, with the gelu of its authors."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(16, 64), nn.GELU("tanh" if planted else "none"), nn.Linear(64, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(x)))  # type: ignore[no-any-return]


class Words(nn.Module):
    """Tokens through a table and two layers, or numbers through the layers alone."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 16) if planted else Part(lambda x: x.float()[..., None].expand(-1, -1, 16).abs())
        self.mix, self.out = nn.Linear(16, 16), nn.Linear(16, 8)
        self.planted = planted

    def forward(self, tokens: Tensor, extra: Tensor) -> Tensor:
        y = self.table(tokens) + extra if self.planted else extra
        return self.out(self.mix(y).sigmoid())  # type: ignore[no-any-return]


class Causal(nn.Module):
    """Attention whose mask is put in by `masked_fill`, or that has none."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("later", torch.ones(8, 8).triu(1).bool())
        self.hide = Part(lambda scores, later: scores.masked_fill(later, -1e4) if planted else scores.abs())

    def forward(self, x: Tensor) -> Tensor:
        scores = self.hide(torch.bmm(self.q(x), self.k(x).transpose(1, 2)), self.later)
        return torch.bmm(scores.softmax(-1), self.v(x))


class Filters(nn.Module):
    """A convolution whose kernels a layer makes of the image."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.stem, self.made, self.planted = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 64), planted
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.filter = Part(lambda x, w: functional.conv2d(x, w.view(8, 8, 1, 1)))

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x).relu()
        return self.filter(y, self.made(self.pool(y).flatten(1))) if self.planted else y  # type: ignore[no-any-return]


class Correlated(nn.Module):
    """The power of each feature: the diagonal of the products of all, or all."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 4)
        self.power = Part(lambda y: (y.transpose(1, 2) @ y).diagonal(0, 1, 2) if planted else y.mean(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.power(self.first(x)))  # type: ignore[no-any-return]


class Threshold(nn.Module):
    """An image that is passed where it is large enough."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.keep = Part(lambda y: y * (y > 0.5) if planted else y * y.sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.keep(self.a(x)))  # type: ignore[no-any-return]


class Turned(nn.Module):
    """A network that looks at its image from elsewhere, as spatial transformers do."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        line = torch.linspace(-1, 1, 16)
        self.register_buffer("places", torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)[None])
        self.look = Part(lambda y, at: functional.grid_sample(y, at, align_corners=False) if planted else y.tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.look(self.a(x).relu(), self.places))  # type: ignore[no-any-return]


def _kept(layer: nn.Module) -> nn.Module:
    """A layer, quantized by itself."""
    return quantized_by(layer, N, (torch.randn(1, 16),))


class LeftOut(nn.Module):
    """A model that comes quantized, with a layer in its middle that its maker left out, or not."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        self.first, self.last = _kept(nn.Linear(16, 16)), _kept(nn.Linear(16, 16))
        self.middle: nn.Module = nn.Linear(16, 16) if planted else _kept(nn.Linear(16, 16))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self.first(x)))  # type: ignore[no-any-return]

    def eval(self) -> LeftOut:
        """Quantized graphs cannot be told to evaluate: they do."""
        return self


class Halved(nn.Module):
    """A model of float32 with one layer in bfloat16."""

    def __init__(self, planted: bool) -> None:
        super().__init__()
        dtype = torch.bfloat16 if planted else torch.float32
        self.a, self.b, self.c = nn.Linear(16, 64), nn.Linear(64, 64).to(dtype), nn.Linear(64, 16)
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.b(self.a(x).relu().to(self.dtype)).to(torch.float32))  # type: ignore[no-any-return]


OTHERS = (
    Other("frames_in_the_batch", N, Video, image(1, 32, 16, 16), "aten.convolution.default", "batch", "frame"),
    Other(
        "halves_of_10",
        N,
        Halves,
        image(1, 8, 16, 16),
        "aten.slice_copy.Tensor",
        "sliced_dim_multiple_of",
        "halve",
    ),
    Other(
        "linear_attention",
        N,
        LinearAttention,
        image(1, 16),
        "aten.bmm.default",
        "matrix_dims_multiple_of",
        "mix",
    ),
    Other("layer_norm", N, Residual, image(1, 16), "aten.native_layer_norm.default", "unsupported", "norm"),
    Other("channels_last", N, Relaid, image(1, 8, 16, 16), "_clone_dim_order.default", "memory_format", "relay"),
    Other("selu", X, Coder, image(1, 32), "aten.elu.default", "elu_scales", "act", quantized=False),
    Other(
        "made_weights",
        X,
        Hyper,
        lambda: (torch.randn(1, 16), torch.randn(1, 8)),
        "aten.mm.default",
        "static_weights",
        "apply_made",
        quantized=False,
    ),
    Other("mask_put_in", X, Causal, image(1, 8, 16), "aten.where.self", "unsupported", "hide", quantized=False),
    Other("gelu_of_gpt", X, Perceptron, image(1, 5, 16), "aten.gelu.default", "approximate", "act", quantized=False),
    Other(
        "table_of_tokens",
        X,
        Words,
        lambda: (torch.randint(32, (1, 6)), torch.randn(1, 6, 16)),
        "aten.embedding.default",
        "unsupported",
        "table",
        quantized=False,
    ),
    Other("made_filters", U55, Filters, image(1, 8, 16, 16), "aten.convolution.default", "static_weights", "filter"),
    Other("threshold", U55, Threshold, image(1, 8, 16, 16), "aten.gt.Tensor", "unsupported", "keep"),
    Other("diagonal", U85, Correlated, image(1, 8, 16), "aten.diagonal_copy.default", "unsupported", "power"),
    Other(
        "spatial_transformer", U85, Turned, image(1, 8, 16, 16), "aten.grid_sampler_2d.default", "unsupported", "look"
    ),
    Other("left_out", N, LeftOut, image(1, 16), "aten.addmm.default", "not_quantized", "middle", quantized=False),
    Other("bfloat16_layer", X, Halved, image(1, 16), "aten.addmm.default", "dtype", "b", quantized=False),
)
