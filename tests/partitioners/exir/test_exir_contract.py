"""The partitioning contract: every violation gets an error that names the node."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from exir_toy import TagNodes, diamond, dump, names
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import (
    BackendDetails,
    CompileSpec,
    ContractError,
    DelegationSpec,
    ExirError,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    copy_program,
    edge_program,
    run_program,
    to_backend,
    to_edge,
)
from npu_assay.partitioners.exir.contract import same_argument
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.partitioners.exir.program import EdgeProgram, call

SPEC = DelegationSpec("ToyBackend", [])
Act = Callable[[ExportedProgram], Any]


class Acting(Partitioner):
    """Does something to the program, tags one node, and returns what `act` returned if that is not None."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self.act = act

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        result: PartitionResult | None = self.act(exported_program)
        if result is not None:
            return result
        return PartitionResult(exported_program, {"t": SPEC})


def node(program: ExportedProgram, name: str) -> fx.Node:
    found: fx.Node = next(n for n in program.graph.nodes if n.name == name)
    return found


def tag(name: str, value: Any = "t") -> Act:
    def act(program: ExportedProgram) -> None:
        node(program, name).meta["delegation_tag"] = value

    return act


def change_target(program: ExportedProgram) -> None:
    node(program, "aten_neg_default").target = edge_op("aten.relu.default")


def rename(program: ExportedProgram) -> None:
    node(program, "aten_neg_default").name = "other"


def change_argument(program: ExportedProgram) -> None:
    node(program, "aten_neg_default").args = (node(program, "x"),)


def add_constant_argument(program: ExportedProgram) -> None:
    node(program, "aten_add_tensor").kwargs = {"alpha": 2}


def swap_arguments(program: ExportedProgram) -> None:
    add = node(program, "aten_add_tensor")
    add.args = tuple(reversed(add.args))


def change_output(program: ExportedProgram) -> None:
    output = program.graph.output_node()
    output.args = ((node(program, "aten_add_tensor"), node(program, "aten_neg_default")),)


def add_node(program: ExportedProgram) -> None:
    with program.graph.inserting_after(node(program, "aten_relu_default")):
        program.graph.call_function(edge_op("aten.neg.default"), (node(program, "x"),), name="extra")


def remove_node(program: ExportedProgram) -> None:
    neg = node(program, "aten_neg_default_1")
    neg.replace_all_uses_with(node(program, "aten_neg_default"))
    program.graph.erase_node(neg)


def replace_node(program: ExportedProgram) -> None:
    neg = node(program, "aten_neg_default")
    with program.graph.inserting_before(neg):
        new = program.graph.call_function(edge_op("aten.relu.default"), neg.args, name="swapped")
    neg.replace_all_uses_with(new)
    program.graph.erase_node(neg)


def reorder(program: ExportedProgram) -> None:
    node(program, "aten_neg_default").prepend(node(program, "aten_neg_default_1"))


def append_input(program: ExportedProgram) -> None:
    with program.graph.inserting_after(node(program, "x")):
        program.graph.placeholder("late")


def change_value(program: ExportedProgram) -> None:
    add = node(program, "aten_add_tensor")
    add.meta["val"] = torch.empty(7)


def drop_weights(program: ExportedProgram) -> None:
    program.state_dict.clear()


def rename_in_signature(program: ExportedProgram) -> None:
    program.graph_signature.input_specs[1].target = "v"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            change_target,
            "aten_neg_default: .* changed the target: found aten.relu.default .*, expected aten.neg.default",
        ),
        (
            rename,
            "aten_neg_default: .* renamed a node: found aten.neg.default as other, expected .* as aten_neg_default",
        ),
        (change_argument, r"aten_neg_default: .* changed the arguments: found \(x,\), expected \(aten_relu_default,\)"),
        (swap_arguments, "aten_add_tensor: .* changed the arguments"),
        (add_constant_argument, "aten_add_tensor: .* keyword arguments: found {'alpha': 2}, expected {}"),
        (change_output, "output: .* changed the arguments"),
        (add_node, "extra: .* added a node: found aten.neg.default as extra"),
        (remove_node, "aten_neg_default_1: .* removed a node"),
        (replace_node, "aten_neg_default: .* replaced a node: found aten.relu.default as swapped"),
        (reorder, "aten_neg_default_1: .* reordered nodes: found aten_neg_default_1 before aten_neg_default"),
        (append_input, "late: .* added a node: found late"),
        (change_value, r"aten_add_tensor: .* changed meta\['val'\]: found float32\[7\], expected float32\[2, 3\]"),
        (drop_weights, "w: .* added or removed weights"),
        (rename_in_signature, "w: .* changed the signature"),
        (tag("output"), "output: a tagged output node: found tag 't'"),
        (tag("x"), "x: a tagged user input: found tag 't'"),
        (
            tag("aten_neg_default", "u"),
            r"aten_neg_default: tag missing from partition_tags: found 'u', expected .*\['t'\]",
        ),
        (tag("aten_neg_default", 7), "aten_neg_default: tag missing from partition_tags: found 7"),
    ],
)
def test_violation_names_the_node(act: Act, message: str) -> None:
    program = diamond()
    before = dump(program)
    with pytest.raises(ContractError, match=message):
        to_backend(program, Acting(act))
    assert dump(program) == before


def no_program(program: ExportedProgram) -> PartitionResult:
    return PartitionResult(None, {})  # type: ignore[arg-type]


def result(tags: Any) -> Act:
    return lambda program: PartitionResult(program, tags)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda program: program, r"Acting: partition\(\) returned something else: found EdgeProgram, expected a Part"),
        (lambda program: {"t": SPEC}, "found dict, expected a PartitionResult"),
        (no_program, "Acting: tagged_exported_program of the wrong type: found NoneType"),
        (result(None), "Acting: partition_tags of the wrong type: found NoneType, expected a dict"),
        (result(["t"]), "found list, expected a dict from tag to DelegationSpec"),
        (result({"t": ("ToyBackend", [])}), r"partition_tags\['t'\]: value of the wrong type: found tuple"),
        (result({1: SPEC}), r"partition_tags\[1\]: tag of the wrong type: found int"),
        (result({"t": DelegationSpec(int, [])}), "backend_id of the wrong type: found type"),  # type: ignore[arg-type]
        (result({"t": DelegationSpec("ToyBackend", None)}), "compile_specs of .*found None"),  # type: ignore[arg-type]
        (result({"t": DelegationSpec("ToyBackend", ["k"])}), r"found \['k'\]"),  # type: ignore[list-item]
    ],
)
def test_wrong_results(act: Act, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        to_backend(diamond(), Acting(act))


class ReturnsNothing(Partitioner):
    """Forgets its return statement."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        return None  # type: ignore[return-value]


def test_no_result() -> None:
    with pytest.raises(ContractError, match=r"ReturnsNothing: .* found NoneType, expected a PartitionResult"):
        to_backend(diamond(), ReturnsNothing())


def test_partition_must_be_implemented() -> None:
    class Incomplete(Partitioner):
        """Has no partition method."""

    with pytest.raises(TypeError, match=r"abstract method '?partition"):
        Incomplete()  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (
            {"t": ["aten_relu_default", "aten_add_tensor"]},
            "aten_neg_default.*: cycle of partitions: found .*partition 't'",
        ),
        (
            {"a": ["aten_relu_default", "aten_add_tensor"], "b": ["aten_neg_default", "aten_neg_default_1"]},
            "found partition '(.)' -> partition '(.)' -> partition '\\1', expected no cycle",
        ),
    ],
)
def test_cycles(tags: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        to_backend(diamond(), TagNodes(tags))


def test_islands_under_one_tag_are_no_cycle() -> None:
    lowered = to_backend(diamond(), TagNodes({"t": ["aten_neg_default", "aten_neg_default_1"]}))
    assert names(lowered).count("executorch_call_delegate") == 1


def split() -> EdgeProgram:
    graph = fx.Graph()
    parts = call(graph, "aten.split_with_sizes_copy.default", (graph.placeholder("x"), [1, 2], 0))
    first, second = (graph.call_function(operator.getitem, (parts, i)) for i in range(2))
    graph.output((call(graph, "aten.neg.default", (first,)), second))
    return edge_program(graph, inputs={"x": torch.empty(3, 2)})


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"a": ["getitem", "aten_neg_default"]}, "getitem: getitem node and its operator in different partitions"),
        (
            {"a": ["aten_split_with_sizes_copy_default"], "b": ["getitem"]},
            "getitem: .* found tag 'b', and 'a' on aten_split",
        ),
    ],
)
def test_operators_with_several_outputs(tags: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        to_backend(split(), TagNodes(tags))


def test_tags_and_changes_in_control_flow_bodies() -> None:
    class Choose(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = torch.cond(x.sum() > 0, torch.neg, torch.relu, (x,))
            return result

    program = to_edge(torch.export.export(Choose(), (torch.ones(2),))).exported_program()

    def body(given: ExportedProgram) -> fx.Node:
        graph = given.graph_module.get_submodule("true_graph_0").graph
        found: fx.Node = next(n for n in graph.nodes if n.op == "call_function")
        return found

    def tag_body(given: ExportedProgram) -> None:
        body(given).meta["delegation_tag"] = "t"

    def change_body(given: ExportedProgram) -> None:
        body(given).target = edge_op("aten.relu.default")

    with pytest.raises(ContractError, match=r"true_graph_0\.aten_neg_default: a tag inside a control flow body"):
        to_backend(program, Acting(tag_body))
    with pytest.raises(ContractError, match=r"aten_neg_default: partition\(\) changed the target"):
        to_backend(program, Acting(change_body))
    lowered = to_backend(program, TagNodes({"t": ["cond", "getitem"]}, "AnyBody"))
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(run_program(lowered, [x], original_modules=True)[0], Choose()(x))


class AnyBody(BackendDetails):
    """Accepts everything."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult(b"body")


def test_tags_without_nodes_and_returned_copies_are_fine() -> None:
    def act(program: ExportedProgram) -> PartitionResult:
        twin = copy_program(program)
        node(twin, "aten_add_tensor").meta["delegation_tag"] = "used"
        return PartitionResult(twin, {"unused": DelegationSpec("NoSuchBackend", []), "used": SPEC})

    lowered = to_backend(diamond(), Acting(act))
    assert names(lowered).count("executorch_call_delegate") == 1


def test_the_partitioner_sees_real_weights_and_no_earlier_tags() -> None:
    program = diamond()
    tag("aten_add_tensor", "stale")(program)
    seen = []

    def act(given: ExportedProgram) -> None:
        seen.append(given)
        tag("aten_neg_default")(given)

    lowered = to_backend(program, Acting(act))
    assert seen[0] is not program
    assert torch.equal(seen[0].state_dict["w"], program.state_dict["w"])
    assert [n for n in names(lowered) if n.startswith("aten_add")] == ["aten_add_tensor", "aten_add_tensor_1"]
    assert node(program, "aten_add_tensor").meta["delegation_tag"] == "stale"


@pytest.mark.parametrize(
    ("partitioner", "message"),
    [
        (
            Acting,
            r"not a partitioner: found the class Acting, which takes arguments, expected an instance, Acting\(...\)",
        ),
        (
            fx.Node,
            "partitioner: not a partitioner: found the class Node, expected an instance of a Partitioner subclass",
        ),
        (lambda program: None, "found an object of type function, expected an instance of a Partitioner subclass"),
        (None, "found an object of type NoneType"),
    ],
)
def test_not_a_partitioner(partitioner: Any, message: str) -> None:
    with pytest.raises(ExirError, match=message):
        to_backend(diamond(), partitioner)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ([1, 1], [1, 1], True),
        ([1, 1], (1, 1), False),
        (1, 1.0, False),
        (1, True, False),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        ({"a": 1}, {"a": 2}, False),
        (slice(0, 1), slice(0, 2), False),
        (torch.int8, torch.int8, True),
        (None, None, True),
    ],
)
def test_same_argument(left: Any, right: Any, same: bool) -> None:
    assert same_argument(left, right) is same


def test_partitioner_keeps_its_spec() -> None:
    assert Acting(lambda program: None).spec == {}
    assert TagNodes({"t": ["n"]}).spec == {"tags": {"t": ["n"]}}
    assert Acting(lambda program: None).ops_to_not_decompose(diamond()) == ([], None)
    assert CompileSpec("k", b"v") == CompileSpec("k", b"v")
