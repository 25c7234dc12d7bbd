"""Programs to their last form: execution dialect, instructions, memory, and the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch_programs import CASES, Counter, Function, called, edge, plan_of, randn
from torch import Tensor, nn
from torch.export import Dim, export

from npu_assay.partitioners.exir import (
    EdgeError,
    ExecutorchBackendConfig,
    MemoryPlanningPass,
    to_edge,
)
from npu_assay.partitioners.exir.pte.model import JumpFalseCall
from npu_assay.partitioners.exir.pte.run import load
from npu_assay.partitioners.exir.run import run_program

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")


@pytest.mark.parametrize("name", CASES)
def test_program_returns_what_the_model_does(name: str) -> None:
    function, inputs = CASES[name]
    wanted = function(*inputs)
    wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
    manager = edge(function, *inputs).to_executorch()
    for found in (load(manager.buffer).execute("forward", inputs), run_program(manager.exported_program(), inputs)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("inputs", "outputs"), [(False, True), (True, False), (False, False)])
def test_callers_may_bring_memory(inputs: bool, outputs: bool) -> None:
    planning = MemoryPlanningPass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    manager = edge(CASES["views"][0], randn(2, 6)).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    plan = plan_of(manager)
    for index, planned in [(plan.inputs[0], inputs), (plan.outputs[0], outputs)]:
        value = plan.values[index]
        assert (getattr(value, "allocation") is not None) == planned  # noqa: B009
    torch.testing.assert_close(
        load(manager.buffer).execute("forward", [randn(2, 6)])[0], CASES["views"][0](randn(2, 6))
    )


def test_buffers_are_kept_and_start_from_their_data() -> None:
    loaded, model, x = load(edge(Counter(), randn(3)).to_executorch().buffer), Counter(), randn(3)
    for _ in range(3):
        torch.testing.assert_close(loaded.execute("forward", [x])[0], model(x))


def test_buffers_that_swap_are_copied_first() -> None:
    class Swap(nn.Module):
        a: Tensor
        b: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.tensor([1.0]))
            self.register_buffer("b", torch.tensor([2.0]))

        def forward(self, x: Tensor) -> Tensor:
            a = self.a.clone()
            self.a.copy_(self.b)
            self.b.copy_(a)
            return self.a + x

    loaded, model, x = load(edge(Swap(), randn(1)).to_executorch().buffer), Swap(), randn(1)
    for _ in range(3):
        torch.testing.assert_close(loaded.execute("forward", [x])[0], model(x))


def test_open_sizes_are_planned_at_their_bounds() -> None:
    def function(x: Tensor) -> Any:
        y = torch.relu(x.reshape(x.shape[0] * 2, -1)) + 1
        return y, x.shape[0] * 3

    manager = edge(function, randn(4, 6), dynamic_shapes=(({0: Dim("batch", min=2, max=8)},),)).to_executorch()
    plan = plan_of(manager)
    value = plan.values[plan.inputs[0]]
    assert getattr(value, "sizes") == (8, 6)  # noqa: B009
    assert getattr(value, "dynamism") == "bound"  # noqa: B009
    assert {"aten::sym_size.int", "executorch_prim::mul.Scalar", "executorch_prim::et_view.default"} <= set(
        called(manager)
    )
    loaded = load(manager.buffer)
    for batch in (2, 5, 8):
        x = randn(batch, 6)
        found, wanted = loaded.execute("forward", [x]), function(x)
        torch.testing.assert_close(found[0], wanted[0])
        assert found[1] == wanted[1]


def test_open_sizes_beside_tensors() -> None:
    def function(x: Tensor) -> Any:
        n = x.shape[0]
        return x * n, x.to(torch.int64) // n, n - x, x * (n / 2)

    manager = edge(function, randn(4, 6), dynamic_shapes=(({0: Dim("batch", min=2, max=8)},),)).to_executorch()
    loaded = load(manager.buffer)
    for batch in (2, 5, 8):
        x = randn(batch, 6)
        for found, wanted in zip(loaded.execute("forward", [x]), function(x), strict=True):
            torch.testing.assert_close(found, wanted)


def test_arithmetic_on_sizes_that_the_runtime_does_not_have() -> None:
    power = edge(lambda x: x * (x.shape[0] ** -0.5), randn(4, 6), dynamic_shapes=(({0: Dim("n", min=2, max=8)},),))
    with pytest.raises(EdgeError, match="pow_1: operation without an instruction: found pow"):
        power.to_executorch()


NORMALIZATIONS: dict[str, Callable[[], nn.Module]] = {
    "batch": lambda: nn.BatchNorm2d(4),
    "batch without parameters": lambda: nn.BatchNorm2d(4, affine=False),
    "batch without statistics": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "instance": lambda: nn.InstanceNorm2d(4, affine=True),
    "instance with statistics": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "layer": lambda: nn.LayerNorm((3, 5)),
    "group": lambda: nn.GroupNorm(2, 4),
}


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_normalizations_take_one_type(kind: str, dtype: torch.dtype) -> None:
    """Torch's functions take a half input with float32 parameters, but no kernel that a program could call."""
    model, x = NORMALIZATIONS[kind]().eval(), randn(2, 4, 3, 5).to(dtype)
    assert model(x).dtype == dtype
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(EdgeError, match=f"norm.* takes tensors of one type: found {name} from .*, float32 from"):
        edge(model, x).to_executorch()
    for twin, given in ((model, x.float()), (NORMALIZATIONS[kind]().eval().to(dtype), x)):
        (found,) = load(edge(twin, given).to_executorch().buffer).execute("forward", [given])
        torch.testing.assert_close(found, twin(given), atol=1e-2, rtol=1e-2)


def test_normalizations_of_open_sizes_are_of_one_type() -> None:
    shapes = ({0: Dim("batch", min=2, max=8)},)
    manager = edge(nn.GroupNorm(2, 4), randn(4, 4, 3), dynamic_shapes=shapes).to_executorch()
    assert "aten::native_group_norm.out" in called(manager)


def test_branches_jump() -> None:
    def function(x: Tensor) -> Any:
        y: Tensor = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: torch.relu(x + 1), (x,))
        return y + 1

    manager = edge(function, randn(2, 3)).to_executorch()
    jumps = [i for i in plan_of(manager).chains[0].instructions if isinstance(i, JumpFalseCall)]
    assert len(jumps) == 2
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        torch.testing.assert_close(load(manager.buffer).execute("forward", [x])[0], function(x))


def test_branches_within_branches() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        def inner(x: Tensor, y: Tensor) -> Any:
            return torch.cond(y.sum() > 0, lambda x, y: (x + 1.0, y.clone()), lambda x, y: (x.clone(), x * y), (x, y))

        u, v = torch.cond(x.sum() > 0, lambda x, y: (x.clone(), y * 2.0), inner, (x, y))
        return u + v, v

    loaded = load(edge(function, randn(3), randn(3)).to_executorch().buffer)
    for x, y in [(1, 1), (1, -1), (-1, 1), (-1, -1)]:
        inputs = (torch.full((3,), float(x)), torch.full((3,), 2.0 * y))
        for found, wanted in zip(loaded.execute("forward", inputs), function(*inputs), strict=True):
            assert torch.equal(found, wanted)


def test_methods_and_constants() -> None:
    programs = {
        "b": export(Function(lambda x: x * 2), (randn(2),)),
        "a": export(Function(lambda x: x + 1), (randn(2),)),
    }
    constants = {"version": 3, "nested": {"scale": 0.5, "table": torch.arange(4)}, "kind": torch.int8}
    manager = to_edge(programs, constant_methods=constants).to_executorch()
    assert manager.methods == {"a", "b"}
    assert manager.config_methods == set(constants)
    assert [p.name for p in manager.executorch_program.plans] == ["a", "b", *constants]
    loaded, x = load(manager.buffer), randn(2)
    torch.testing.assert_close(loaded.execute("a", [x])[0], x + 1)
    torch.testing.assert_close(loaded.execute("b", [x])[0], x * 2)
    assert loaded.execute("version", []) == [3]
    scale, table = loaded.execute("nested", [])
    assert scale == 0.5 and torch.equal(table, torch.arange(4))
    assert loaded.execute("kind", []) == [1]
