"""The form of a program file: its plan, delegates, text, and what is refused."""

from __future__ import annotations

import io
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch_programs import CASES, Counter, called, edge, plan_of, randn
from exir_toy import TagNodes, ToyBackend, ToyRuntime
from torch import Tensor, nn
from torch.export import Dim

from npu_assay.partitioners.exir import (
    EdgeError,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    ExirError,
    MemoryPlanningPass,
    to_backend,
)
from npu_assay.partitioners.exir.execution.outs import out_variant
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.pte.model import DelegateCall, KernelCall
from npu_assay.partitioners.exir.pte.reader import read
from npu_assay.partitioners.exir.pte.run import load
from npu_assay.partitioners.exir.run import run_program

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
        "npu_assay.partitioners.exir.execution.memory_planning.check_overlaps", lambda tensors, alignment: None
    )
    planning = MemoryPlanningPass(algorithm=lambda requests, alignment: [0] * len(requests))
    x = randn(2, 3)
    manager = edge(lambda x: -x * x, x).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    found = load(manager.buffer).execute("forward", [x])[0]
    assert not torch.equal(found, -x * x)
