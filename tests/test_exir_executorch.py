"""Programs to their last form: execution dialect, instructions, memory, and the file."""

from __future__ import annotations

import io
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from exir_toy import TagNodes, ToyBackend, ToyRuntime
from torch import Tensor, nn
from torch.export import Dim, export

from npu_assay.partitioners.exir import (
    EdgeError,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    ExirError,
    MemoryPlanningPass,
    to_backend,
    to_edge,
)
from npu_assay.partitioners.exir.execution.outs import out_variant
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.pte.model import DelegateCall, JumpFalseCall, KernelCall, Plan
from npu_assay.partitioners.exir.pte.reader import read
from npu_assay.partitioners.exir.pte.run import load
from npu_assay.partitioners.exir.run import run_program

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Counter(nn.Module):
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((3,), 5.0))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return self.count * x


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def edge(model: nn.Module | Callable[..., Any], *inputs: Any, **options: Any) -> EdgeProgramManager:
    module = model if isinstance(model, nn.Module) else Function(model)
    with torch.no_grad():
        return to_edge(export(module.eval(), inputs, **options))


def plan_of(manager: ExecutorchProgramManager, method: str = "forward") -> Plan:
    return next(p for p in manager.executorch_program.plans if p.name == method)


def called(manager: ExecutorchProgramManager) -> list[str]:
    """The operators of the forward method in the order of their calls."""
    plan = plan_of(manager)
    names = [f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators]
    return [names[i.op_index] for i in plan.chains[0].instructions if isinstance(i, KernelCall)]


# ------------------------------------------------------------------------------------------------ results


CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "add": (lambda x, y: x + y, (randn(2, 3), randn(2, 3, seed=1))),
    "views": (lambda x: torch.relu((x * x).reshape(3, 4).flatten().unsqueeze(1)) * 2.5, (randn(2, 6),)),
    "view of an input": (lambda x: torch.relu(x.reshape(-1)), (randn(2, 6),)),
    "view returned": (lambda x: (x + 1).reshape(-1), (randn(2, 6),)),
    "split": (lambda x: x.split([1, 2, 3], 1), (randn(2, 6),)),
    "pool": (lambda x: nn.functional.max_pool2d(x, 2), (randn(1, 2, 4, 4),)),
    "layer norm": (lambda x: nn.functional.layer_norm(x, (6,)), (randn(2, 6),)),
    "top": (lambda x: torch.topk(x, 2), (randn(3, 5),)),
    "index": (lambda x, i: x[:, i], (randn(2, 6), torch.tensor([3, 0]))),
    "integers": (lambda x: (x + 3, x // 2), (torch.arange(12).reshape(3, 4),)),
    "returned twice": (lambda x: (x, (y := x + 1), y), (randn(2, 3),)),
}


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


# ------------------------------------------------------------------------------------------------ form


def test_edge_programs_stay_as_they_are() -> None:
    manager = edge(Counter(), randn(3))
    before = str(manager.exported_program().graph)
    first, second = manager.to_executorch(), manager.to_executorch()
    assert str(manager.exported_program().graph) == before
    assert first.buffer == second.buffer
    run_program(first.exported_program(), [randn(3)])
    assert torch.equal(manager.exported_program().state_dict["count"], torch.full((3,), 5.0))


def test_copies_of_execution_programs() -> None:
    program = edge(Counter(), randn(3)).to_executorch().exported_program()
    twin = deepcopy(program)
    assert twin.dialect == "EXECUTION"
    assert str(twin.graph) == str(program.graph)
    assert ExecutorchProgramManager({"forward": twin}).buffer == ExecutorchProgramManager({"forward": program}).buffer


def test_execution_dialect_writes_into_allocated_memory() -> None:
    program = edge(CASES["pool"][0], *CASES["pool"][1]).to_executorch().exported_program()
    names = [target_name(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert program.dialect == "EXECUTION"
    assert names == ["memory.alloc", "memory.alloc", "aten.max_pool2d_with_indices.out", "getitem"]


def test_views_need_no_instruction() -> None:
    function, inputs = CASES["views"]
    shared = edge(function, *inputs).to_executorch()
    copied = edge(function, *inputs).to_executorch(ExecutorchBackendConfig(remove_view_copy=False))
    assert called(shared) == ["aten::mul.out", "aten::relu.out", "aten::mul.out"]
    assert sum("copy" in name for name in called(copied)) == 3
    assert shared.memory_plan().arena_bytes < copied.memory_plan().unshared_bytes


def test_every_argument_of_the_schema_is_there() -> None:
    """`add.out` has self, other, alpha and out, and returns out once more."""
    plan = plan_of(edge(CASES["add"][0], *CASES["add"][1]).to_executorch())
    (call,) = plan.chains[0].instructions
    assert isinstance(call, KernelCall)
    self_, other, alpha, out, again = call.args
    assert (self_, other, out) == (*plan.inputs, plan.outputs[0])
    assert plan.values[alpha] == 1 and out == again


def test_memory_report() -> None:
    manager = edge(lambda x: torch.relu(torch.sigmoid(torch.tanh(x))), randn(64)).to_executorch()
    memory = manager.memory_plan()
    assert plan_of(manager).buffer_sizes == (0, memory.arena_bytes) == (0, 512)
    assert (memory.unshared_bytes, memory.peak_bytes, memory.reuse) == (1024, 512, 2)
    names = ["arg_0", "aten_tanh_default", "aten_sigmoid_default", "aten_relu_default"]
    assert [p.request.name.replace("inputs", "arg") for p in memory.tensors] == names
    assert [(p.request.first, p.request.last) for p in memory.tensors] == [(-1, 0), (0, 1), (1, 2), (2, 3)]


def test_names_of_written_buffers_on_request() -> None:
    named = edge(Counter(), randn(3)).to_executorch(ExecutorchBackendConfig(emit_mutable_buffer_names=True))
    plain = edge(Counter(), randn(3)).to_executorch()
    assert [getattr(v, "name", None) for v in plan_of(named).values].count("count") == 1
    assert [getattr(v, "name", None) for v in plan_of(plain).values].count("count") == 0


def test_passes_run_first() -> None:
    seen = []
    edge(CASES["add"][0], *CASES["add"][1]).to_executorch(
        ExecutorchBackendConfig(passes=[lambda module: seen.append(len(module.graph.nodes))])
    )
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("edge_name", "kernel"),
    [
        ("aten.add.Tensor", "aten::add.out"),
        ("aten.mean.default", "aten::mean.dtype_out"),
        ("aten.mean.dim", "aten::mean.out"),
        ("aten.max.dim", "aten::max.dim_max"),
        ("aten.full.default", "aten::full.out"),
        ("aten.arange.start_step", "aten::arange.start_out"),
        ("aten._to_copy.default", "aten::_to_copy.out"),
        ("aten.any.default", "aten::any.all_out"),
        ("aten.upsample_nearest2d.vec", "aten::upsample_nearest2d.vec_out"),
        ("aten.pow.Tensor_Scalar", "aten::pow.Tensor_Scalar_out"),
        ("aten.split_with_sizes_copy.default", "aten::split_with_sizes_copy.out"),
        ("dim_order_ops._to_dim_order_copy.default", "dim_order_ops::_to_dim_order_copy.out"),
        ("quantized_decomposed.quantize_per_tensor.tensor", "quantized_decomposed::quantize_per_tensor.Tensor_out"),
        ("quantized_decomposed.dequantize_per_channel.default", "quantized_decomposed::dequantize_per_channel.out"),
    ],
)
def test_out_variant(edge_name: str, kernel: str) -> None:
    found = out_variant(edge_name)
    assert found is not None
    assert f"{found.name}.{found.overload}" == kernel


# ------------------------------------------------------------------------------------------------ delegates


TOY = ("aten_add_tensor", "aten_relu_default", "aten_mul_tensor")


def toy(x: Tensor) -> Tensor:
    return torch.relu(x + x) * x


def test_delegates_are_called() -> None:
    x = randn(2, 3)
    manager = edge(toy, x).to_backend(TagNodes({"all": TOY})).to_executorch()
    plan = plan_of(manager)
    assert [type(i) for i in plan.chains[0].instructions] == [DelegateCall]
    assert [d.id for d in plan.delegates] == ["ToyBackend"]
    found = load(manager.buffer, {"ToyBackend": ToyRuntime()}).execute("forward", [x])
    torch.testing.assert_close(found[0], toy(x))
    assert manager.memory_plan().padding == 64


@pytest.mark.parametrize("segments", [True, False])
def test_lowered_module_is_a_program(segments: bool) -> None:
    x = randn(2, 3)
    lowered = to_backend("ToyBackend", edge(toy, x).exported_program(), [], details={"ToyBackend": ToyBackend})
    file = lowered.buffer(extract_delegate_segments=segments)
    assert file[4:8] == b"ET12"
    assert [d.id for d in read(file).plans[0].delegates] == ["ToyBackend"]
    assert [p.name for p in lowered.program().plans] == ["forward"]
    found = load(file, {"ToyBackend": ToyRuntime()}).execute("forward", [x])
    torch.testing.assert_close(found[0], toy(x))
    (chain,) = lowered.program(emit_stacktrace=True).plans[0].chains
    assert chain.stacktrace is not None and len(chain.stacktrace) == len(chain.instructions)


# ------------------------------------------------------------------------------------------------ files and text


def test_save(tmp_path: Path) -> None:
    manager = edge(CASES["add"][0], *CASES["add"][1]).to_executorch()
    manager.save(tmp_path / "add.pte")
    assert [p.name for p in tmp_path.iterdir()] == ["add.pte"]
    assert (tmp_path / "add.pte").read_bytes() == manager.buffer
    stream = io.BytesIO()
    manager.write_to_file(stream)
    assert stream.getvalue() == manager.buffer
    with pytest.raises(ValueError, match=r"ends with \.pte"):
        manager.save(tmp_path / "add.bin")


def test_failed_save_leaves_nothing(tmp_path: Path) -> None:
    manager = edge(CASES["add"][0], *CASES["add"][1]).to_executorch()
    (tmp_path / "add.pte").mkdir()
    with pytest.raises(OSError):
        manager.save(tmp_path / "add.pte")
    assert [p.name for p in tmp_path.iterdir()] == ["add.pte"]


def test_dump(capsys: pytest.CaptureFixture[str]) -> None:
    manager = edge(CASES["add"][0], *CASES["add"][1]).to_executorch()
    manager.dump_executorch_program()
    assert capsys.readouterr().out == (
        "forward: 1 instruction, 96 bytes\n"
        "  0: aten::add.out (0:float32[2, 3]@1.0 I0, 1:float32[2, 3]@1.32 I1, 3:1, "
        "2:float32[2, 3]@1.64 O0, 2:float32[2, 3]@1.64 O0)\n"
        "  returns 2:float32[2, 3]@1.64 O0\n"
    )
    out = io.StringIO()
    manager.dump_executorch_program(verbose=True, out=out)
    assert "KernelCall(" in out.getvalue() and "allocation_info=AllocationDetails(" in out.getvalue()


# ------------------------------------------------------------------------------------------------ errors


def test_operator_without_an_out_variant() -> None:
    with torch.library._scoped_library("assay_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        manager = edge(lambda x: torch.ops.assay_test.twice(x), randn(2))
        with pytest.raises(EdgeError, match=r"assay_test_twice_default: operator without an out variant: .*twice"):
            manager.to_executorch()


def test_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def function(x: Tensor) -> Any:
        body = (lambda x: x.sum() < 10, lambda x: (x + 1.0,), (x,))
        return while_loop(*body)  # type: ignore[no-untyped-call]  # torch leaves it so

    with pytest.raises(EdgeError, match="while_loop: operation without an instruction"):
        edge(function, randn(3)).to_executorch()


def test_size_without_a_bound() -> None:
    manager = edge(toy, randn(4, 6), dynamic_shapes=(({0: Dim.DYNAMIC},),))
    with pytest.raises(EdgeError, match="size without an upper bound"):
        manager.to_executorch()


def test_unknown_field_of_the_configuration() -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        ExecutorchBackendConfig(remove_view_copies=True)  # type: ignore[call-arg]  # what is tested


@pytest.mark.parametrize("field", ["segment_alignment", "constant_tensor_alignment", "delegate_alignment"])
def test_wrong_alignment(field: str) -> None:
    manager = edge(toy, randn(2))
    with pytest.raises(ExirError, match=rf"config\.{field}.*found 24.*power of two"):
        manager.to_executorch(ExecutorchBackendConfig(**{field: 24}))  # type: ignore[arg-type]  # by name


def test_models_with_parameters_run_in_torch() -> None:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), randn(2, 4)
    manager = edge(model, x)
    program = manager.to_executorch().exported_program()
    torch.testing.assert_close(program.module()(x), model(x).detach())
    weights = [store["0.weight"] for store in (program.state_dict, manager.exported_program().state_dict)]
    assert weights[0].data_ptr() == weights[1].data_ptr()
    assert [weight.requires_grad for weight in weights] == [False, True]


def test_wrong_arguments() -> None:
    manager = edge(toy, randn(2))
    with pytest.raises(ExirError, match="an ExecutorchBackendConfig"):
        manager.to_executorch({})  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ExirError, match="found EDGE"):
        ExecutorchProgramManager({"forward": manager.exported_program()})
    with pytest.raises(ExirError, match="unknown method"):
        manager.to_executorch().exported_program("backward")
    with pytest.raises(ExirError, match="unknown method"):
        manager.to_executorch().memory_plan("backward")


def test_colliding_plan_is_caught() -> None:
    planning = MemoryPlanningPass(algorithm=lambda requests, alignment: [0] * len(requests))
    with pytest.raises(ExirError, match="overlapping tensors"):
        edge(toy, randn(2)).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))


def test_wrong_plan_shows_in_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner uses the arena as planned, so a tensor over another changes what comes out."""
    monkeypatch.setattr(
        "npu_assay.partitioners.exir.execution.planning.check_overlaps", lambda tensors, alignment: None
    )
    planning = MemoryPlanningPass(algorithm=lambda requests, alignment: [0] * len(requests))
    x = randn(2, 3)
    manager = edge(lambda x: -x * x, x).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    found = load(manager.buffer).execute("forward", [x])[0]
    assert not torch.equal(found, -x * x)
