"""Cutting and compiling: what moves where, what the outer program looks like, and that it still computes the same."""

from __future__ import annotations

import gc
import operator
from typing import Any

import pytest
import torch
from exir_toy import TagNodes, TagOperators, ToyRuntime, diamond, dump, names, random, targets
from torch import Tensor, fx, nn
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate, is_lowered_module
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_leaves

from npu_assay.partitioners.exir import (
    BackendDetails,
    BackendError,
    CompileSpec,
    ContractError,
    DelegationSpec,
    ExirError,
    LoweredBackendModule,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    delegates,
    edge_program,
    run_program,
    to_backend,
    to_edge,
)
from npu_assay.partitioners.exir.program import EdgeProgram, call

RELU, LEFT, RIGHT = "aten_relu_default", "aten_neg_default", "aten_neg_default_1"
TOTAL, SCALED, SHIFTED = "aten_add_tensor", "aten_mul_tensor", "aten_add_tensor_1"
X = random(2, 3)


def lower(program: ExportedProgram, tags: dict[str, list[str]], **options: Any) -> EdgeProgram:
    lowered = to_backend(program, TagNodes(tags, **options))
    assert isinstance(lowered, EdgeProgram)
    return lowered


def check_same(lowered: ExportedProgram, program: ExportedProgram, *inputs: Tensor) -> None:
    """Runtime, original graphs and torch's own call agree with the program that was lowered."""
    expected = run_program(program, inputs)
    for found in (
        run_program(lowered, inputs, {"ToyBackend": ToyRuntime()}),
        run_program(lowered, inputs, original_modules=True),
        tree_leaves(lowered.module()(*inputs)),
    ):
        assert len(found) == len(expected)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def kinds(program: ExportedProgram) -> dict[str, InputKind]:
    return {s.arg.name: s.kind for s in program.graph_signature.input_specs}


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"t": [RELU]},
        {"t": [RELU, LEFT, RIGHT, TOTAL, SCALED, SHIFTED]},
        {"t": [LEFT, RIGHT]},
        {"t": [TOTAL, SCALED], "u": [SHIFTED]},
        {"u": [RELU, LEFT], "t": [RIGHT, TOTAL]},
        {"t": [SCALED]},
        {"t": [LEFT]},
    ],
)
def test_same_results_and_nothing_else_changes(tags: dict[str, list[str]], constants: bool) -> None:
    program = diamond()
    before = dump(program)
    lowered = lower(program, tags, constants=constants)
    assert dump(program) == before
    assert len(delegates(lowered)) == len(tags)
    assert all("delegation_tag" not in n.meta for n in lowered.graph.nodes)
    check_same(lowered, program, X)
    assert dump(lower(program, tags, constants=constants)) == dump(lowered)


def test_every_operator_on_its_own() -> None:
    lowered = to_backend(diamond(), TagOperators())
    assert set(targets(lowered)) == {"executorch_call_delegate", "getitem"}
    assert [n for n in names(lowered) if n.startswith("lowered")] == [f"lowered_module_{i}" for i in range(6)]
    check_same(lowered, diamond(), X)


def test_shape_of_the_outer_program() -> None:
    lowered = lower(diamond(), {"t": [LEFT, RIGHT, TOTAL]})
    assert names(lowered) == [
        "x", "w", RELU, "lowered_module_0", "executorch_call_delegate", "getitem", "getitem_1", SCALED, SHIFTED,
        "output",
    ]  # fmt: skip
    delegate = next(n for n in lowered.graph.nodes if n.target is executorch_call_delegate)
    assert [str(a) for a in delegate.args] == ["lowered_module_0", RELU]
    assert [tuple(v.shape) for v in delegate.meta["val"]] == [(2, 3), (2, 3)]
    assert [s.arg.name for s in lowered.graph_signature.output_specs] == [SHIFTED, "getitem"]
    assert is_lowered_module(lowered.graph_module.lowered_module_0)


def test_shape_of_the_submodule() -> None:
    module = lower(diamond(), {"t": [LEFT, TOTAL, SCALED]}, constants=True).graph_module.lowered_module_0
    program = module.original_module
    assert names(program) == ["w", RELU, RIGHT, LEFT, TOTAL, SCALED, "output"]
    assert kinds(program) == {"w": InputKind.BUFFER, RELU: InputKind.USER_INPUT, RIGHT: InputKind.USER_INPUT}
    assert [s.arg.name for s in program.graph_signature.output_specs] == [LEFT, SCALED]
    assert program.dialect == "EDGE"
    assert all("delegation_tag" not in n.meta for n in program.graph.nodes)


def test_meta_reaches_submodule_and_outer_program() -> None:
    program = diamond()
    for node in program.graph.nodes:
        node.meta["step"] = f"step of {node.name}"
    lowered = lower(program, {"t": [RELU, LEFT]})
    module = lowered.graph_module.lowered_module_0.original_module
    assert {n.name: n.meta["step"] for n in module.graph.nodes if n.op == "call_function"} == {
        RELU: f"step of {RELU}",
        LEFT: f"step of {LEFT}",
    }
    assert [n.meta["step"] for n in lowered.graph.nodes if n.target is operator.getitem] == [
        f"step of {RELU}",
        f"step of {LEFT}",
    ]


def test_untagged_constant_is_an_input() -> None:
    lowered = lower(diamond(), {"t": [SCALED, SHIFTED]})
    module = lowered.graph_module.lowered_module_0.original_module
    assert kinds(module) == {TOTAL: InputKind.USER_INPUT, "w": InputKind.USER_INPUT}
    assert list(lowered.state_dict) == ["w"]


def test_tagged_constant_moves_inside() -> None:
    lowered = lower(diamond(), {"t": [SCALED, SHIFTED]}, constants=True)
    module = lowered.graph_module.lowered_module_0.original_module
    assert kinds(module) == {"w": InputKind.BUFFER, TOTAL: InputKind.USER_INPUT}
    assert torch.equal(module.state_dict["w"], diamond().state_dict["w"])
    assert list(lowered.state_dict) == []
    assert kinds(lowered) == {"x": InputKind.USER_INPUT}


@pytest.mark.parametrize(("other", "outside"), [({"u": [SHIFTED]}, []), ({}, ["w"])])
def test_shared_constant_is_duplicated(other: dict[str, list[str]], outside: list[str]) -> None:
    lowered = lower(diamond(), {"t": [SCALED], **other}, constants=True)
    for module in delegates(lowered).values():
        assert list(module.original_module.state_dict) == ["w"]
    assert list(lowered.state_dict) == outside
    check_same(lowered, diamond(), X)


class Counter(nn.Module):
    """Adds its input to a running total and returns the doubled total."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        """(3) -> (3)"""
        self.total += x
        return self.total + self.total


def counter() -> ExportedProgram:
    return to_edge(torch.export.export(Counter(), (torch.ones(3),))).exported_program()


def test_mutated_buffer_outside() -> None:
    program = counter()
    lowered = lower(program, {"t": [TOTAL, SHIFTED]})
    assert [s.kind for s in lowered.graph_signature.output_specs] == [
        OutputKind.BUFFER_MUTATION,
        OutputKind.USER_OUTPUT,
    ]
    check_same(lowered, program, torch.ones(3))


def test_mutated_buffer_inside() -> None:
    program = counter()
    lowered = lower(program, {"t": [TOTAL, SHIFTED]}, constants=True)
    module = lowered.graph_module.lowered_module_0.original_module
    assert [(s.kind, s.target) for s in module.graph_signature.output_specs] == [
        (OutputKind.BUFFER_MUTATION, "total"),
        (OutputKind.USER_OUTPUT, None),
    ]
    assert [s.kind for s in lowered.graph_signature.output_specs] == [OutputKind.USER_OUTPUT]
    assert list(lowered.state_dict) == []
    assert run_program(lowered, [torch.ones(3)], {"ToyBackend": ToyRuntime()})[0].tolist() == [2, 2, 2]


def test_mutated_buffer_used_on_both_sides() -> None:
    with pytest.raises(ContractError, match="b_total: a tagged mutated buffer that is not used in one partition alone"):
        lower(counter(), {"t": [SHIFTED, "b_total"]})


class Split(nn.Module):
    """Two halves, one negated."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(4, 2) -> (2, 2), (2, 2)"""
        first, second = torch.split(x, 2)
        return -first, second


def test_untagged_getitems_follow_their_operator() -> None:
    program = to_edge(torch.export.export(Split(), (torch.ones(4, 2),))).exported_program()
    lowered = lower(program, {"t": ["aten_split_with_sizes_copy_default"]}, backend_id="AnyBackend")
    module = lowered.graph_module.lowered_module_0.original_module
    assert names(module)[1:] == ["aten_split_with_sizes_copy_default", "getitem", "getitem_1", "output"]
    x = random(4, 2)
    assert torch.equal(run_program(lowered, [x], original_modules=True)[0], -x[:2])


def test_a_second_partitioner_continues_and_may_nest() -> None:
    first = lower(diamond(), {"t": [RELU]})
    second = lower(first, {"t": [TOTAL]})
    assert [n for n in names(second) if n.startswith("lowered")] == ["lowered_module_0", "lowered_module_1"]
    check_same(second, diamond(), X)
    nested = to_backend(second, TagNodes({"t": ["executorch_call_delegate", "getitem", LEFT]}, "AnyBackend"))
    assert len(delegates(nested)) == 2
    inner = next(iter(delegates(nested).values())).original_module
    assert len(delegates(inner)) == 1
    assert torch.equal(run_program(nested, [X], original_modules=True)[0], run_program(diamond(), [X])[0])


class AnyBackend(BackendDetails):
    """Accepts everything, and spoils the program it was given."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        for node in reversed(edge_program.graph.nodes):
            edge_program.graph.erase_node(node)
        return PreprocessResult(b"anything", {1: (2,)}, "stored")


class Careless(BackendDetails):
    """Returns nothing."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        return None  # type: ignore[return-value]


class Textual(BackendDetails):
    """Returns text where bytes belong."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult("text")  # type: ignore[arg-type]


def test_whole_program_form() -> None:
    program, specs = diamond(), [CompileSpec("level", b"3")]
    before = dump(program)
    lowered = to_backend("AnyBackend", program, specs)
    assert isinstance(lowered, LoweredBackendModule)
    assert dump(program) == before
    assert (lowered.backend_id, lowered.processed_bytes, lowered.compile_specs) == ("AnyBackend", b"anything", specs)
    assert lowered.original_module is program
    assert lowered.meta == {"debug_handle_map": {1: (2,)}}
    assert lowered.named_data_store_output == "stored"


def test_one_delegate_program() -> None:
    specs = [CompileSpec("level", b"3")]
    lowered = to_backend("ToyBackend", diamond(), specs)
    assert b'"level": "3"' in lowered.processed_bytes
    program = lowered.calling_program()
    assert names(program) == [
        "x", "lowered_module_0", "executorch_call_delegate", "getitem", "getitem_1", "output",
    ]  # fmt: skip
    assert list(program.state_dict) == []
    check_same(program, diamond(), X)
    assert all(torch.equal(a, b) for a, b in zip(lowered(X), run_program(diamond(), [X]), strict=True))


def test_lowered_module_within_a_model_is_exported_as_a_delegate() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lowered = to_backend("ToyBackend", diamond(), [])

        def forward(self, x: Tensor) -> Tensor:
            results: list[Tensor] = executorch_call_delegate(self.lowered, x)
            return results[0] + 1

    program = to_edge(torch.export.export(Model(), (X,))).exported_program()
    assert "executorch_call_delegate" in targets(program)
    assert torch.equal(run_program(program, [X], {"ToyBackend": ToyRuntime()})[0], run_program(diamond(), [X])[0] + 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("NoSuch", diamond(), []), "backend_id: unknown backend: found 'NoSuch', expected one of .*'ToyBackend'"),
        (("ToyBackend", nn.Identity(), []), "edge_program: not a program: found Identity, expected an ExportedProgram"),
        (("ToyBackend", diamond(), None), "compile_specs: compile_specs of the wrong type: found None"),
        (("ToyBackend", diamond(), [("k", b"v")]), "compile_specs of the wrong type: found "),
        (("Careless", diamond(), []), r"Careless: preprocess\(\) returned something unusable: found NoneType"),
        (
            ("Textual", diamond(), []),
            "Textual: .* found str, expected a PreprocessResult whose processed_bytes are bytes",
        ),
        ((nn.Identity(), TagOperators()), "first argument: to_backend cannot lower this: found Identity"),
        ((), "first argument: to_backend cannot lower this: found none, expected .*graph_module, partitioner"),
        (("ToyBackend", diamond()), "arguments: .* found str first, and missing a required argument: 'compile_specs'"),
        ((diamond(), TagOperators(), []), "arguments: .* found EdgeProgram first, and too many positional arguments"),
        (
            (diamond(), TagNodes),
            r"found the class TagNodes, which takes arguments, expected an instance, TagNodes\(...\)",
        ),
        ((diamond(), Partitioner), r"found the class Partitioner without partition\(\), expected a subclass that"),
        ((diamond().graph_module, nn.Identity()), "partitioner: not a partitioner: found an object of type Identity"),
        ((fx.symbolic_trace(nn.ReLU()), TagOperators), "node without a value: found no meta"),
    ],
)
def test_refuses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ExirError, match=message):
        to_backend(*arguments)


def test_refuses_aten_programs() -> None:
    program = torch.export.export(Split(), (torch.ones(4, 2),))
    forms: list[tuple[Any, ...]] = [("ToyBackend", program, []), (program, TagOperators())]
    for arguments in forms:
        with pytest.raises(ExirError, match=r"program of another dialect: found [A-Z]+, expected EDGE"):
            to_backend(*arguments)


def test_unknown_backend_of_a_partitioner_is_found_before_anything_is_compiled() -> None:
    class Mixed(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            for node in exported_program.graph.nodes:
                if node.name in (RELU, LEFT):
                    node.meta["delegation_tag"] = node.name
            return PartitionResult(
                exported_program, {RELU: DelegationSpec("Careless", []), LEFT: DelegationSpec("NoSuch", [])}
            )

    with pytest.raises(BackendError, match="unknown backend: found 'NoSuch'"):
        to_backend(diamond(), Mixed())


def test_details_decide_between_backends_of_one_name() -> None:
    twin = type("ToyBackend", (BackendDetails,), {"preprocess": staticmethod(AnyBackend.preprocess)})
    with pytest.raises(BackendError, match=r"ToyBackend: several backends of one name: found .*, expected one class"):
        to_backend("ToyBackend", diamond(), [])
    assert to_backend("ToyBackend", diamond(), [], details={"ToyBackend": twin}).processed_bytes == b"anything"
    lowered = to_backend(diamond(), TagNodes({"t": [RELU]}), details={"ToyBackend": twin})
    assert lowered.graph_module.lowered_module_0.processed_bytes == b"anything"
    # Class objects live in reference cycles, and subclasses are found as long as they live.
    del twin
    gc.collect()
    assert to_backend("ToyBackend", diamond(), []).backend_id == "ToyBackend"


def test_dead_code_in_a_partition() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    call(graph, "aten.relu.default", (x,))
    graph.output((call(graph, "aten.neg.default", (x,)),))
    program = edge_program(graph, inputs={"x": X})
    lowered = lower(program, {"t": [RELU]})
    check_same(lowered, program, X)


def test_same_output_twice_and_outputs_that_are_inputs() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    relu = call(graph, "aten.relu.default", (x,))
    graph.output((relu, x, relu))
    program = edge_program(graph, inputs={"x": X})
    lowered = lower(program, {"t": [RELU]})
    check_same(lowered, program, X)
