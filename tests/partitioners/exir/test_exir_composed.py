"""Delegates inside modules that are exported again: the call stays one, and no device sees a tensor without data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from exir_toy import ToyRuntime, random
from torch import Tensor, nn
from torch.export import Dim, export

from npu_assay.partitioners.exir import (
    BackendDetails,
    LoweredBackendModule,
    PreprocessResult,
    delegates,
    register_runtime,
    run_program,
    to_backend,
    to_edge,
)
from npu_assay.partitioners.exir.pte.run import load
from npu_assay.partitioners.exir.run import _RUNTIMES

X = random(2, 4)


class Doubles(nn.Module):
    """What the toy backend knows; one output, returned as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.tensor([1.0, -2.0, 3.0, -4.0]))

    def forward(self, x: Tensor) -> Tensor:
        """The sum with the bias, doubled where it is positive."""
        y: Tensor = torch.relu(x + self.get_buffer("bias"))
        return y + y


class Parent(nn.Module):
    """Calls a module twice, with operators of its own before, between and after."""

    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.child = child

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The child's first output of x and of its negative."""
        return self.child(x)[0] + 1, self.child(-x)[0]


@pytest.fixture
def runtime() -> Iterator[ToyRuntime]:
    runtime = ToyRuntime()
    register_runtime("ToyBackend", runtime)
    yield runtime
    del _RUNTIMES["ToyBackend"]


@pytest.mark.parametrize("strict", [False, True], ids=["traced", "strict"])
def test_a_delegate_in_an_exported_module_stays_one(runtime: ToyRuntime, strict: bool) -> None:
    child = to_backend("ToyBackend", to_edge(export(Doubles(), (X,))).exported_program(), [])
    program = export(Parent(child), (X,), strict=strict)
    edge = to_edge(program)
    assert (runtime.loads, runtime.runs) == (0, 0)
    calls = list(delegates(edge.exported_program()).values())
    assert [call.processed_bytes for call in calls] == [child.processed_bytes] * 2
    expected = (Doubles()(X) + 1, Doubles()(-X))
    _check(run_program(edge.exported_program(), [X]), expected)
    _check(load(edge.to_executorch().buffer).execute("forward", [X]), expected)
    assert runtime.runs == 4
    _check(program.module()(X), expected)


def test_open_sizes_stay_open_through_the_call(runtime: ToyRuntime) -> None:
    sizes = ({0: Dim("rows", min=1, max=8)},)
    child = to_backend("ToyBackend", to_edge(export(Doubles(), (X,), dynamic_shapes=sizes)).exported_program(), [])
    edge = to_edge(export(Parent(child), (X,), dynamic_shapes=sizes))
    longer = random(5, 4)
    outputs = load(edge.to_executorch().buffer).execute("forward", [longer])
    _check(outputs, (Doubles()(longer) + 1, Doubles()(-longer)))


class NestedBackend(BackendDetails):
    """Compiles anything to nothing; there is no runtime."""

    @staticmethod
    def preprocess(edge_program: object, compile_specs: object) -> PreprocessResult:
        """An empty blob."""
        return PreprocessResult(b"")


class Nested(nn.Module):
    """Takes and returns dicts, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.linear = nn.Linear(4, 3)

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, object]:
        """One output that depends on the buffer, one that does not, and none between."""
        self.get_buffer("calls").add_(1)
        return {"a": self.linear(inputs["x"]) + self.get_buffer("calls"), "b": (None, inputs["y"] * 3)}


class Flat(nn.Module):
    """Calls a delegate with its inputs side by side."""

    def __init__(self, child: LoweredBackendModule) -> None:
        super().__init__()
        self.child = child

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The two tensors among the three outputs."""
        outputs = self.child(x, y)
        return outputs[0] * 2, outputs[2]


def test_inputs_and_outputs_of_a_delegate_lie_side_by_side() -> None:
    inputs = (X, random(3))
    whole = export(Nested().eval(), ({"x": inputs[0], "y": inputs[1]},))
    child = to_backend("NestedBackend", to_edge(whole).exported_program(), [])
    expected = Flat(child)(*inputs)
    program = export(Flat(child), inputs)
    edge = to_edge(program).exported_program()
    assert len(delegates(edge)) == 1
    _check(run_program(edge, inputs, original_modules=True), expected)
    _check(program.module()(*inputs), expected)


def _check(found: object, expected: tuple[Tensor, ...]) -> None:
    assert isinstance(found, (list, tuple))
    torch.testing.assert_close(tuple(found), expected)
