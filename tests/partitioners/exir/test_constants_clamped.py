"""Infinite numbers that quantized nodes read become finite, all others stay, and the user is told."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx import GraphModule

from npu_assay.partitioners.exir.constants_clamped import (
    Clamped,
    ClampedConstantWarning,
    clamp_constants,
    is_infinite,
    warn_clamped,
)

LEAST, LARGEST = -256.0, 255.0
INF = float("inf")
aten = torch.ops.aten


class Masked(nn.Module):
    """Adds what `mask` makes of a causal mask of -inf."""

    mask: Tensor

    def __init__(self, mask: Callable[[Tensor], Tensor] = lambda mask: mask) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((4, 4), -INF).triu(1))
        self.changed = mask

    def forward(self, x: Tensor) -> Tensor:
        return x + self.changed(self.mask)


def graph_of(model: nn.Module) -> GraphModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own
        module = torch.export.export(model, (torch.zeros(4, 4),)).module(check_guards=False)
    assert isinstance(module, GraphModule)
    return module


def calls(model: GraphModule, target: object) -> list[fx.Node]:
    return [node for node in model.graph.nodes if node.target is target]


def test_the_readers_of_a_buffer_get_a_finite_copy() -> None:
    model = graph_of(Masked())
    original = model.get_buffer("mask").clone()
    found = clamp_constants(model, calls(model, aten.add.Tensor), LEAST, LARGEST)
    assert found == [Clamped("mask", 6, 16)]
    assert torch.equal(model(torch.zeros(4, 4)), torch.full((4, 4), LEAST).triu(1))
    assert torch.equal(model.get_buffer("mask"), original)


@pytest.mark.parametrize(
    "change", [lambda mask: mask.t().t(), lambda mask: mask[None][0], lambda mask: mask.abs() * -1]
)
def test_constants_are_found_through_what_computes_on_constants(change: Callable[[Tensor], Tensor]) -> None:
    model = graph_of(Masked(change))
    assert clamp_constants(model, calls(model, aten.add.Tensor), LEAST, LARGEST)
    assert torch.equal(model(torch.zeros(4, 4)), torch.full((4, 4), LEAST).triu(1))


class Filled(nn.Module):
    """A mask that the model makes of numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.full((4, 4), -INF).triu(1)


class FilledInput(nn.Module):
    """Scores where a mask says so."""

    def forward(self, x: Tensor) -> Tensor:
        return x.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), torch.finfo(torch.float32).min) * 1


@pytest.mark.parametrize(("model", "target"), [(Filled(), aten.add.Tensor), (FilledInput(), aten.mul.Tensor)])
def test_numbers_in_front_of_a_reader_become_finite(model: nn.Module, target: object) -> None:
    graph = graph_of(model)
    (found,) = clamp_constants(graph, calls(graph, target), LEAST, LARGEST)
    assert (found.numbers, found.elements) == (1, 1)
    assert torch.equal(graph(torch.zeros(4, 4)), torch.full((4, 4), LEAST).triu(1))


class Twice(nn.Module):
    """Adds the mask, and subtracts it."""

    def __init__(self) -> None:
        super().__init__()
        self.masked = Masked()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.masked(x), x - self.masked.mask


def test_who_is_not_quantized_still_reads_the_infinite_numbers() -> None:
    model = graph_of(Twice())
    clamp_constants(model, calls(model, aten.add.Tensor), LEAST, LARGEST)
    added, subtracted = model(torch.zeros(4, 4))
    assert added.min() == LEAST
    assert subtracted.max() == INF


class Bounded(nn.Module):
    """Numbers that bound, and finite constants."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(x, -INF, 3.0) + torch.tensor([1e9, -1e9, 0.0, float("nan")])


def test_bounds_and_finite_constants_stay() -> None:
    model = graph_of(Bounded())
    readers = [node for node in model.graph.nodes if node.op == "call_function"]
    before = model.code
    assert clamp_constants(model, readers, LEAST, LARGEST) == []
    assert model.code == before


def test_what_is_infinite() -> None:
    assert [is_infinite(x) for x in (INF, -INF, -1e30, 2**60)] == [True] * 4
    assert [is_infinite(x) for x in (1e9, 0, float("nan"), None, "inf")] == [False] * 5


def test_one_warning_names_what_was_replaced() -> None:
    with pytest.warns(
        ClampedConstantWarning, match=r"MyQuantizer: .* -256 and 255 in: a \(1 of 2\), b \(3 of 4\)"
    ) as said:
        warn_clamped("MyQuantizer", [Clamped("a", 1, 2), Clamped("b", 3, 4)], LEAST, LARGEST)
    assert len(said) == 1


def test_without_infinite_numbers_nothing_is_said() -> None:
    warn_clamped("MyQuantizer", [], LEAST, LARGEST)
