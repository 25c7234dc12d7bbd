"""to_edge_transform_and_lower: what stays whole for whom, in what order, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from exir_toy import TagOperators, dump, random, seeded, targets
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional

from npu_assay.partitioners.exir import (
    BackendDetails,
    BackendError,
    CompileSpec,
    DelegationSpec,
    EdgeCompileConfig,
    EdgeError,
    EdgeProgramManager,
    ExirError,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    delegates,
    run_program,
    to_edge,
    to_edge_transform_and_lower,
)
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.partitioners.exir.verifier import OPERATOR_TYPES
from npu_assay.partitioners.neutron import NeutronPartitioner
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime

aten: Any = torch.ops.aten
X = random(3, 4)


class Net(nn.Module):
    """Two linear layers, the second without bias, and what is in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.second = nn.Linear(5, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Both layers."""
        y: Tensor = self.second(functional.hardswish(self.first(x)))
        return y


def exported(sizes: Any = None) -> ExportedProgram:
    return torch.export.export(seeded(Net()), (X,), dynamic_shapes=sizes)


class Keeps(Partitioner):
    """Wants operators whole and delegates nothing."""

    def __init__(self, *ops: Any, keeps: Callable[[fx.Node], bool] | None = None) -> None:
        super().__init__()
        self.ops, self.keeps = ops, keeps
        self.seen: list[str] = []

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Callable[[fx.Node], bool] | None]:
        """What it was made with; remembers what it was shown."""
        self.seen = targets(ep)
        return list(self.ops), self.keeps

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """No partitions."""
        return PartitionResult(exported_program, {})


def forward(*partitioners: Partitioner, sizes: Any = None) -> ExportedProgram:
    return to_edge_transform_and_lower(exported(sizes), partitioner=list(partitioners)).exported_program()


@pytest.mark.parametrize("sizes", [None, ({0: Dim("n", min=2, max=9)},)])
def test_xnnpack_gets_its_operators_whole(sizes: Any) -> None:
    program = forward(XnnpackPartitioner(), sizes=sizes)
    (lowered,) = delegates(program).values()
    assert targets(lowered.original_module) == [
        "aten.linear.default", "aten.hardswish.default", "aten.linear.default",
    ]  # fmt: skip
    runtimes = {"XnnpackBackend": XnnpackRuntime()}
    assert torch.allclose(run_program(program, [X], runtimes)[0], seeded(Net())(X), atol=1e-6)


def test_other_partitioners_and_none() -> None:
    plain = to_edge(exported()).exported_program()
    assert dump(to_edge_transform_and_lower(exported()).exported_program()) == dump(plain)
    assert dump(forward()) == dump(plain)
    assert targets(forward(NeutronPartitioner())) == targets(plain)


def test_partitioners_see_a_functional_program_and_take_turns() -> None:
    first = Keeps()
    program = forward(first, XnnpackPartitioner(), TagOperators())
    assert first.seen == ["aten.linear.default", "aten.hardswish.default", "aten.linear.default"]
    assert len(delegates(program)) == 1


def test_a_filter_decides_node_by_node() -> None:
    keeps = Keeps(aten.linear.default, keeps=lambda n: n.op == "call_function" and len(n.args) == 3)
    # What nobody delegates is taken apart after all.
    assert dump(forward(keeps)) == dump(to_edge(exported()).exported_program())
    nobody = Keeps(aten.linear.default, aten.hardswish.default, keeps=lambda n: False)
    assert dump(forward(nobody)) == dump(to_edge(exported()).exported_program())
    # Whom the one leaves out, the other may have taken.
    assert len(delegates(forward(XnnpackPartitioner(), keeps))) == 1


class TakesOne(Keeps):
    """Delegates the first linear layer, and refuses the others only once it sees the partitions."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """One partition."""
        first = next(n for n in exported_program.graph.nodes if n.target is edge_op("aten.linear.default"))
        first.meta["delegation_tag"] = "t"
        return PartitionResult(exported_program, {"t": DelegationSpec("Unlinked", [])})


class Unlinked(BackendDetails):
    """Compiles anything to nothing."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """An empty blob."""
        return PreprocessResult(b"")


def _forget_meta(module: fx.GraphModule) -> None:
    for node in module.graph.nodes:
        node.meta = {"val": node.meta["val"]} if "val" in node.meta else {}


@pytest.mark.parametrize("sizes", [None, ({0: Dim("n", min=2, max=9)},)], ids=["fixed", "open"])
def test_what_a_partition_leaves_out_is_taken_apart(sizes: Any) -> None:
    program = forward(TakesOne(aten.linear.default), sizes=sizes)
    (delegate,) = delegates(program).values()
    assert targets(delegate.original_module) == ["aten.linear.default"]
    assert "aten.linear.default" not in targets(program) and "aten.mm.default" in targets(program)
    found = run_program(program, [X], original_modules=True)[0]
    assert torch.allclose(found, seeded(Net())(X), atol=1e-6)


def test_passes_that_forget_meta_leave_no_node_whole() -> None:
    manager = to_edge_transform_and_lower(exported(), [_forget_meta], [Keeps(aten.linear.default)])
    assert targets(manager.exported_program()) == targets(to_edge(exported()).exported_program())


def test_what_was_asked_for_by_the_configuration_stays_whole() -> None:
    config = EdgeCompileConfig(preserve_ops=[aten.linear.default])
    keeps = Keeps(aten.linear.default, aten.hardswish.default)
    manager = to_edge_transform_and_lower(exported(), None, [keeps], None, config)
    assert targets(manager.exported_program()).count("aten.linear.default") == 2
    assert "aten.hardswish.default" not in targets(manager.exported_program())


def test_a_pass_that_makes_what_has_no_kernel_is_an_error() -> None:
    def replace_addmm(module: fx.GraphModule) -> None:
        node = next(n for n in module.graph.nodes if n.target is edge_op("aten.relu.default"))
        node.target = edge_op("aten.silu.default")

    class Relu(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x)

    program = torch.export.export(Relu(), (X,))
    with pytest.raises(
        BackendError, match="aten_relu_default: Keeps wants an operator not decomposed and did not delegate it"
    ):
        to_edge_transform_and_lower(program, [replace_addmm], [Keeps(aten.silu.default)])


def test_operators_that_cannot_stay_whole(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "npu_assay.partitioners.exir.transform_and_lower"):
        program = forward(Keeps(aten.view.default, aten.add.Tensor, aten.relu_.default))
    assert [r.getMessage().split(", ")[0] for r in caplog.records] == [
        f"{name}: must be decomposed" for name in ("aten.view.default", "aten.add.Tensor", "aten.relu_.default")
    ]
    assert dump(program) == dump(to_edge(exported()).exported_program())


def test_methods_passes_and_constants() -> None:
    seen: list[str] = []

    def look(module: fx.GraphModule) -> None:
        seen.extend(n.name for n in module.graph.nodes if n.op == "call_function")

    manager = to_edge_transform_and_lower(
        {"a": exported(), "b": exported()},
        {"b": [look]},
        {"a": [XnnpackPartitioner()]},
        {"version": 3},
        EdgeCompileConfig(preserve_ops=[aten.hardswish.default]),
    )
    assert (manager.methods, manager.config_methods) == ({"a", "b"}, {"version"})
    assert len(delegates(manager.exported_program("a"))) == 1
    assert not delegates(manager.exported_program("b"))
    assert "aten_hardswish_default" in seen and "aten_linear_default" not in seen


def test_the_programs_before_decomposition_are_the_partitioners_to_change() -> None:
    class Swaps(Keeps):
        def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
            return torch.export.export(nn.ReLU(), (X,))

    assert targets(forward(Swaps())) == ["aten.relu.default"]


@pytest.mark.parametrize(
    ("partitioner", "message"),
    [
        (Keeps(), r"partitioner: partitioners of the wrong type: found Keeps, expected a list, as in \[Keeps\(...\)\]"),
        (XnnpackPartitioner, r"found XnnpackPartitioner, expected a list, as in \[XnnpackPartitioner\(...\)\]"),
        ([Partitioner], r"not a partitioner: found the class Partitioner without partition\(\)"),
        ([nn.ReLU], "not a partitioner: found the class ReLU, expected an instance of a Partitioner subclass"),
        ({"other": [Keeps()]}, r"partitioner: unknown method: found 'other', expected one of \['forward'\]"),
        ({"forward": Keeps()}, r"partitioner\['forward'\]: partitioners of the wrong type: found Keeps"),
        ([Keeps("relu")], "Keeps.ops_to_not_decompose: not an operator overload: found 'relu'"),
    ],
)
def test_refuses(partitioner: Any, message: str) -> None:
    with pytest.raises(ExirError, match=message):
        to_edge_transform_and_lower(exported(), partitioner=partitioner)


# ------------------------------------------------------------------------------------ what the dialect checks


def function_program(function: Callable[..., Tensor], *inputs: Tensor) -> ExportedProgram:
    class Module(nn.Module):
        def forward(self, *values: Tensor) -> Tensor:
            return function(*values)

    return torch.export.export(Module(), inputs)


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (torch.relu, torch.ones(2, dtype=torch.bool), "aten_relu_default: aten.relu.default does not take this type"),
        (
            torch.abs,
            torch.ones(2, dtype=torch.complex64),
            "found torch.complex64 from values_0, expected one of bfloat",
        ),
        (torch.neg, torch.ones(2, dtype=torch.uint16), "aten_neg_default: .* found torch.uint16 from values_0"),
    ],
)
def test_types_that_an_operator_does_not_take(function: Callable[..., Tensor], x: Tensor, message: str) -> None:
    program = function_program(function, x)
    with pytest.raises(EdgeError, match=message):
        to_edge(program)
    assert to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False)).methods == {"forward"}


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (torch.exp, [torch.ones(2, dtype=torch.int32)]),
        (lambda x, i: x[i], [X, torch.tensor([0, 1], dtype=torch.int64)]),
        (lambda x, i: torch.where(i, x, 0.5), [X, X > 0]),
        (lambda x: x.permute(1, 0), [X.to(torch.complex64)]),
        (lambda x, y: torch.cat([x, y]), [X, X.long()]),
    ],
)
def test_types_that_pass(function: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    assert to_edge(function_program(function, *inputs)).methods == {"forward"}


def test_every_operator_with_types_exists() -> None:
    assert all(hasattr(aten, name.removeprefix("aten.")) for name in OPERATOR_TYPES)


def test_managers_check_what_they_are_told_to() -> None:
    whole = EdgeCompileConfig(preserve_ops=[aten.hardswish.default])
    program = to_edge(exported(), compile_config=whole).exported_program()
    with pytest.raises(EdgeError, match="aten_hardswish_default: operator outside core ATen"):
        EdgeProgramManager(program)
    EdgeProgramManager(program, None, whole)
    EdgeProgramManager(program, core_aten_ops_exception_list=[aten.hardswish.default])
    manager = EdgeProgramManager(program, preserve_ops=[aten.hardswish.default])
    assert manager.compile_config.preserve_ops == [aten.hardswish.default]

    def spell(module: fx.GraphModule) -> None:
        node = next(n for n in module.graph.nodes if n.name == "aten_hardswish_default")
        node.target = edge_op("aten.clone.default")

    with pytest.raises(EdgeError, match=r"found aten\.clone\.default, expected a dim_order operator"):
        manager.transform([spell])
    assert manager.transform([spell], EdgeCompileConfig(_skip_dim_order=True)).methods == {"forward"}
    assert manager.transform([spell], EdgeCompileConfig(_check_ir_validity=False)).methods == {"forward"}


def test_edge_operators_answer_as_torchs() -> None:
    add = edge_op("aten.add.Tensor")
    assert add is edge_op("aten.add.Tensor") and add != aten.add.Tensor
    assert (add.__name__, add.name(), add.namespace, add._op) == (
        "aten.add.Tensor",
        "aten::add.Tensor",
        "aten",
        aten.add.Tensor,
    )
    assert str(add._schema).startswith("aten::add.Tensor(")
    held = {name: getattr(aten.add, name) for name in aten.add.overloads()}
    assert add.to_out_variant() is aten.add.out
    assert all(getattr(aten.add, name) is overload for name, overload in held.items())
    assert edge_op("aten.max_pool2d_with_indices.default").to_out_variant() is aten.max_pool2d_with_indices.out
    with pytest.raises(ValueError, match=r"dim_order_ops\._clone_dim_order\.default has no out variant"):
        edge_op("dim_order_ops._clone_dim_order.default").to_out_variant()
    with pytest.raises(AttributeError):
        _ = add.unheard
