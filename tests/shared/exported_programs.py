"""Programs that exporters write, of every kind that `.pt2` files have: all of them must be read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export


@dataclass(frozen=True)
class Exported:
    """A module and how it is called and exported."""

    module: nn.Module
    inputs: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)

    def program(self) -> ExportedProgram:
        with torch.no_grad():
            return export(self.module.eval(), self.inputs, self.named, **self.how)


class Of(nn.Module):
    """A function with modules and buffers."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module, **buffers: Tensor) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=name != "fleeting")

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.function(self, *inputs, **named)


def _views(m: Any, x: Tensor) -> Any:
    k = x.shape[0] * 16
    y = torch.relu(x.reshape(k, 2)[::3])
    return y, x.shape[0] ** 2, x.shape[0] / 3, -x.shape[0] // 3


def _unknown(m: Any, x: Tensor) -> Tensor:
    n: Any = (x.sum() > 3).to(torch.int64).item()
    torch._check(n >= 0)  # type: ignore[no-untyped-call]
    torch._check(n < 5)  # type: ignore[no-untyped-call]
    return torch.zeros(n + 1).sum() + x


def _counted(m: Any, x: Tensor) -> Any:
    start = (torch.zeros((), dtype=torch.int64), x)
    return torch.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), start)  # type: ignore[no-untyped-call]


def _regions(m: Any, x: Tensor) -> Any:
    with torch.no_grad():
        y = torch.cond(x.sum() > 0, lambda t: m.parts[0](t), lambda t: t - 1, (x,))
    with torch.autocast("cpu"):
        return y @ y.T + m.b


def _changed(m: Any, x: Tensor) -> Any:
    m.b.add_(x.sum())
    x.mul_(2)
    return {"list": [x + m.b, None], "ordered": OrderedDict(n=3, m=x)}


def _functions(m: Any, x: Tensor) -> Any:
    y = torch.fft.rfft(x, norm="ortho").abs() + torch.einsum("bij,bkj->bik", x, x)[..., :3]
    z = nn.functional.interpolate(x[None], scale_factor=2.0, mode="bilinear")
    w = nn.functional.pad(x, (1, 1), mode="reflect").unfold(-1, 2, 1).std(-1, correction=1)
    index = torch.searchsorted(torch.arange(4.0), x, side="right").clamp(max=3)
    lowest = torch.div(x, 2.0, rounding_mode="floor").scatter_reduce(1, index, x, "amin")
    return y, z, w, lowest, torch.linalg.vector_norm(x), torch.quantile(x, 0.5), x.to(torch.bfloat16).new_ones(2)


def _buffers(m: Any, x: Tensor) -> Any:
    return x + m.one + m.fleeting, m.whole, m.empty, m.turned @ x.T, m.many[0, :2], m.complex * 2, m.short


class Called(nn.Module):
    """Inputs of other types, nested and by name."""

    def forward(self, x: Tensor, state: dict[str, list[Tensor]], *, size: int, mode: str) -> tuple[Tensor, int]:
        return x * state["scale"][0] * size, size + len(mode)


X, IMAGE = torch.linspace(-2, 2, 16).reshape(4, 4), torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8)
BATCH = {"dynamic_shapes": ({0: Dim("batch", min=2, max=64)},)}
OPEN = {"dynamic_shapes": (({0: Dim("batch", min=2, max=64)},),)}  # of *inputs
IMAGES = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Hardswish(), nn.MaxPool2d(2), nn.Dropout(0.5))
NAMED = nn.Sequential(OrderedDict([("my-layer", nn.Linear(4, 4)), ("0", nn.PReLU(4)), ("größe", nn.LayerNorm(4))]))
TIED = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
TIED[2].weight = TIED[0].weight
BUFFERS = {
    "one": torch.tensor(1.5),
    "fleeting": torch.ones(4),
    "whole": torch.arange(3),
    "empty": torch.ones(0, 4),
    "turned": torch.ones(4, 2).T,
    "many": torch.ones(1).expand(1000, 1000),
    "complex": torch.ones(2, dtype=torch.complex64),
    "short": torch.ones(2, dtype=torch.bfloat16),
}
PROGRAMS: dict[str, Exported] = {
    "images": Exported(IMAGES, (IMAGE,)),
    "images of any number": Exported(IMAGES, (IMAGE.repeat(3, 1, 1, 1),), how=BATCH),
    "odd names": Exported(NAMED, (X,)),
    "tied weights": Exported(TIED, (X,)),
    "buffers": Exported(Of(_buffers, **BUFFERS), (X,)),
    "recurrent": Exported(nn.LSTM(4, 8, 2, bidirectional=True), (X[None],)),
    "attention": Exported(nn.MultiheadAttention(4, 2, batch_first=True), (X[None], X[None], X[None])),
    "encoder": Exported(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (X[None],)),
    "tokens": Exported(nn.EmbeddingBag(9, 4, mode="max"), (torch.arange(6).reshape(2, 3),)),
    "weight norm": Exported(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), (X,)),
    "functions": Exported(Of(_functions), (X[None],)),
    "views": Exported(Of(_views), (torch.ones(6, 8, 4),), how=OPEN),
    "views, strictly": Exported(Of(_views), (torch.ones(6, 8, 4),), how={**OPEN, "strict": True}),
    "an unknown size": Exported(Of(_unknown), (X,)),
    "a loop": Exported(Of(_counted), (X,)),
    "regions": Exported(Of(_regions, nn.Linear(4, 4), b=torch.ones(4)), (X,)),
    "regions, strictly": Exported(Of(_regions, nn.Linear(4, 4), b=torch.ones(4)), (X,), how={"strict": True}),
    "what changes": Exported(Of(_changed, b=torch.ones(4)), (X,)),
    "other inputs": Exported(Called(), (X, {"scale": [X]}), {"size": 3, "mode": "bilinear+x"}),
}
