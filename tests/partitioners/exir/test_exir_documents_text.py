"""Programs as text, data of several methods, and arguments of the wrong kind, as the documents have them."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from exir_documented import EXPORT, Model, X, printed
from exir_toy import TagNodes, TagOperators, random, seeded
from torch import Tensor, nn
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import delegates, run_program, to_edge, to_edge_transform_and_lower
from npu_assay.partitioners.exir.backend.backend_details import BackendDetails, PreprocessResult
from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec
from npu_assay.partitioners.exir.errors import BackendError, ExirError
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime

# ------------------------------------------------------------------------------------ programs as text and records


def test_stack_traces_are_emitted_on_request() -> None:
    edge = to_edge(torch.export.export(seeded(Model()), (X,)))
    lowered = edge.to_backend(TagOperators())
    first, *_ = delegates(lowered.exported_program()).values()
    (plain,), (traced,) = (first.program(emit_stacktrace=on).plans[0].chains for on in (False, True))
    assert plain.stacktrace == () and plain.instructions == traced.instructions
    ((*_, frame),) = traced.stacktrace
    assert frame.filename.endswith((".py",)) and frame.lineno > 0 and frame.context
    config = printed((EXPORT, "ExecutorchBackendConfig"))(emit_stacktrace=True)
    program = lowered.to_executorch(config)
    (chain,) = program.executorch_program.plans[0].chains
    assert len(chain.stacktrace) == len(chain.instructions) and all(chain.stacktrace)
    read = import_module("npu_assay.partitioners.exir.pte").read
    assert read(program.buffer) == read(import_module("npu_assay.partitioners.exir.pte").write(read(program.buffer)))
    assert read(program.buffer).plans[0].chains[0].stacktrace == chain.stacktrace


TABLES = """
Program ExecutionPlan ContainerMetadata EValue Tensor AllocationDetails Chain Instruction KernelCall DelegateCall Int
IntList Operator BackendDelegate BackendDelegateDataReference DataSegment SubsegmentOffsets
"""
FIELDS = """
version execution_plan constant_buffer backend_delegate_data segments constant_segment mutable_data_segments
named_data name container_meta_type values inputs outputs chains operators delegates non_const_buffer_sizes
encoded_inp_str encoded_out_str val_type val scalar_type storage_offset sizes dim_order requires_grad
data_buffer_idx allocation_info layout shape_dynamism extra_tensor_info memory_id offset_low offset_high
instructions stacktrace instr_args_type instr_args op_index args delegate_index overload id processed
compile_specs location index offset size segment_index offsets int_val items
"""
"""Tables of program.fbs, and fields that the file of a small program has."""


def test_the_verbose_dump_has_the_names_of_the_schema() -> None:
    edge = to_edge(torch.export.export(seeded(Model()), (X,)))
    out = io.StringIO()
    edge.to_backend(TagOperators()).to_executorch().dump_executorch_program(verbose=True, out=out)
    text = out.getvalue()
    assert [name for name in TABLES.split() if f"{name}(" not in text] == []
    assert [name for name in FIELDS.split() if f" {name}=" not in text] == []
    assert {line.strip().partition("=")[0] for line in text.splitlines() if "=" in line} <= set(FIELDS.split())


# ------------------------------------------------------------------------------------ data of several methods


class Double(nn.Module):
    """A linear layer that another method has as well."""

    def __init__(self, linear: nn.Module, sign: int) -> None:
        super().__init__()
        self.linear, self.sign = linear, sign

    def forward(self, x: Tensor) -> Tensor:
        """(2, 16) -> (2, 24)."""
        y: Tensor = self.linear(x)
        return torch.relu(y) if self.sign > 0 else -y


def two_methods() -> dict[str, ExportedProgram]:
    linear = seeded(nn.Linear(16, 24))
    x = random(2, 16)
    return {name: torch.export.export(Double(linear, sign), (x,)) for name, sign in (("up", 1), ("down", -1))}


def test_weights_that_methods_share_are_stored_once() -> None:
    programs, x = two_methods(), random(2, 16, seed=4)
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()])
    file = lowered.to_executorch().buffer
    weight = programs["up"].state_dict["linear.weight"].detach().numpy().tobytes()
    assert file.count(weight) == 1
    runtimes = {"XnnpackBackend": XnnpackRuntime()}
    load = import_module("npu_assay.partitioners.exir.pte.run").load
    for name, program in programs.items():
        expected = program.module()(x)
        for found in (
            load(file, runtimes=runtimes).execute(name, [x])[0],
            run_program(lowered.exported_program(name), [x], runtimes)[0],
        ):
            torch.testing.assert_close(found, expected)
    # Alone, a delegate needs nothing beside its blob.
    (alone,) = delegates(
        to_edge_transform_and_lower(programs["up"], partitioner=[XnnpackPartitioner]).exported_program()
    ).values()
    assert alone.named_data_store_output is None and alone.processed_bytes.count(weight) == 1


def test_a_backend_may_compile_all_methods_at_once() -> None:
    class Together(BackendDetails):
        @staticmethod
        def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
            return PreprocessResult(b"")

        @classmethod
        def preprocess_multimethod(cls, edge_programs: Any, compile_specs: Any) -> Any:
            seen.append({method: len(found) for method, found in edge_programs.items()})
            return answers[0](edge_programs)

    def right(given: Any) -> Any:
        return {method: [PreprocessResult(b"x")] * len(found) for method, found in given.items()}

    answers: list[Callable[[Any], Any]] = [right]
    seen: list[dict[str, int]] = []
    edge = to_edge(two_methods())
    partitioner = TagNodes({"t": ["aten_relu_default", "aten_neg_default"]}, "Together")
    assert edge.to_backend(partitioner).methods == {"up", "down"}
    assert seen == [{"up": 1, "down": 1}]
    wrong: list[Callable[[Any], Any]] = [lambda given: None, lambda given: {}, lambda given: {m: [] for m in given}]
    for one in wrong:
        answers[:] = [one]
        with pytest.raises(BackendError, match=r"Together: preprocess_multimethod\(\) returned something unusable"):
            edge.to_backend(partitioner)


# ------------------------------------------------------------------------------------ arguments of the wrong kind

EDGE = to_edge(torch.export.export(nn.ReLU(), (X,)))
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "to_backend": (lambda: EDGE.to_backend(3), "partitioner: not a partitioner: found an object of type int"),  # type: ignore[arg-type]
    "class": (lambda: EDGE.to_backend(nn.ReLU), "found the class ReLU, expected an instance of a Partitioner"),  # type: ignore[arg-type]
    "transform": (lambda: EDGE.transform(3), "passes of the wrong type: found int"),  # type: ignore[arg-type]
    "text": (lambda: EDGE.transform("passes"), "passes of the wrong type: found str"),  # type: ignore[arg-type]
    "to_executorch": (lambda: EDGE.to_executorch(3), "config: configuration of the wrong type: found int"),  # type: ignore[arg-type]
    "etrecord": (lambda: to_edge(EDGE.exported_program(), generate_etrecord=True), "no ETRecord is made: found True"),
    "program": (lambda: printed((EXPORT, "ExecutorchProgramManager"))(3), "execution_programs: .*: found int"),
    "not a program": (
        lambda: printed((EXPORT, "ExecutorchProgramManager"))({"forward": nn.ReLU()}),
        "method 'forward': not a program: found ReLU",
    ),
    "method": (lambda: EDGE.exported_program("nope"), "method_name: unknown method: found 'nope'"),
    "number": (lambda: EDGE.to_executorch().exported_program(3), "method_name: unknown method: found 3"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("act", "message"), WRONG.values(), ids=WRONG)
def test_arguments_of_the_wrong_kind_are_one_clear_error(act: Callable[[], Any], message: str) -> None:
    with pytest.raises(ExirError, match=message):
        act()


# ------------------------------------------------------------------------------------ max.dim


class Largest(nn.Module):
    """One of the results of max, or of min."""

    def __init__(self, function: Callable[..., Any], index: int, **options: Any) -> None:
        super().__init__()
        self.function, self.index, self.options = function, index, options

    def forward(self, x: Tensor) -> Tensor:
        """The values or the indices."""
        found: Tensor = self.function(x, **self.options)[self.index]
        return found


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (2, 3, 4, 4)])
@pytest.mark.parametrize("function", [torch.max, torch.min])
@pytest.mark.parametrize(("index", "keepdim"), [(0, False), (0, True), (1, False)])
def test_one_result_of_max_alone(
    function: Callable[..., Any], index: int, keepdim: bool, shape: tuple[int, ...]
) -> None:
    model, x = Largest(function, index, dim=1, keepdim=keepdim), random(*shape)
    manager = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[XnnpackPartitioner()])
    (found,) = run_program(manager.exported_program(), [x], {"XnnpackBackend": XnnpackRuntime()})
    assert torch.equal(found, model(x))
    assert manager.to_executorch().buffer
