"""What-ifs name what a user can change: an attribute of a layer, or a size of an input, by which others are decided."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, fx, nn

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases.boundaries.knob import Knob
from npu_assay.conformance.explain.following import Following
from npu_assay.conformance.explain.lowered import lower


class Heads(nn.Module):
    """Attention as it is often written: 108 results of one layer, as 3 times 3 heads of 12."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(36, 108), nn.Linear(36, 36)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).relu().reshape(1, 16, 3, 3, 12).permute(2, 0, 3, 1, 4)
        return self.out(((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).reshape(1, 16, 36))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.rnn = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0].tanh()  # type: ignore[no-any-return]


def told(module: nn.Module, inputs: tuple[Tensor, ...], operator: str, axis: int, to: int) -> str | None:
    """What is told of a size of the first operand of the model's first operator of this name in this module."""
    backend = load_backend("xnnpack")
    program = lower(torch.export.export(module.eval(), inputs), backend).program
    node = next(node for node in program.graph.nodes if operator in str(node.target))
    source = node.args[0]
    assert isinstance(source, fx.Node)
    return Following(program).in_words(
        Knob("x", source.meta["val"].shape[axis], (), lambda *_: None, slots=(("x", axis),)), to, node
    )


class Fixed(nn.Module):
    """A size that no layer and no input decides."""

    def forward(self, x: Tensor) -> Tensor:
        return (torch.ones(3, 12) * x).abs()


CONV = nn.Sequential(
    nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(768, 5)
)
IMAGE, ROWS, STEPS = (torch.randn(1, 3, 32, 32),), (torch.randn(1, 16, 36),), (torch.randn(1, 4, 20),)
GRU = "which follows from 3 * hidden_size of rnn (GRU)"


@pytest.mark.filterwarnings("ignore:The tensor attributes self.rnn:UserWarning")
@pytest.mark.parametrize(
    ("module", "inputs", "operator", "axis", "to", "expected"),
    [
        (CONV, IMAGE, "max_pool2d", 1, 16, "channels 12 -> 16, which follows from out_channels of 0 (Conv2d)"),
        (
            CONV[:3],
            IMAGE,
            "max_pool2d",
            3,
            20,
            "width 16 -> 20, which follows from size 3 of the input input (32 -> 40)",
        ),
        (Heads(), ROWS, "softmax", 3, 20, "width 16 -> 20, which follows from size 1 of the input x"),
        (Heads(), ROWS, "relu", 2, 112, None),  # no three heads for q, k and v
        (
            Heads(),
            ROWS,
            "relu",
            2,
            144,
            "size 2 of its operand 108 -> 144, which follows from out_features of qkv (Linear)",
        ),
        (Recurrent(nn.GRU(20, 28)), STEPS, "split_with_sizes", 1, 88, None),
        (Recurrent(nn.GRU(20, 28)), STEPS, "split_with_sizes", 1, 96, f"size 1 of its operand 84 -> 96, {GRU}"),
        (
            Recurrent(nn.GRU(20, 28)),
            STEPS,
            "aten.tanh.default",
            2,
            32,
            f"size 2 of its operand 28 -> 32, {GRU} (84 -> 96)",
        ),
    ],
)
def test_a_size_follows_from(
    module: nn.Module, inputs: tuple[Tensor, ...], operator: str, axis: int, to: int, expected: str | None
) -> None:
    assert told(module, inputs, operator, axis, to) == expected


def test_a_size_that_an_operator_says_itself() -> None:
    found = told(Fixed(), (torch.ones(1),), "abs", 1, 16)
    assert found is not None and found.startswith("size 1 of its operand 12 -> 16, which follows from ")
