"""Which operators the Ethos-U partitioner wants whole: those that it then takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from ethosu_graphs import U55, U85, Builder
from torch import fx
from torch.fx.passes.operator_support import OperatorSupportBase

from npu_assay.conformance.run.answering import delegates
from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec
from npu_assay.partitioners.ethosu.partitioner import EthosUPartitioner
from npu_assay.partitioners.ethosu.runtime import EthosURuntime
from npu_assay.partitioners.exir import run_program, to_edge_transform_and_lower
from npu_assay.partitioners.exir.ops import edge_op, target_name

ABS, LINEAR, LOGIT, SILU = "aten.abs.default", "aten.linear.default", "aten.logit.default", "aten.silu.default"


@pytest.mark.parametrize(("target", "count"), [(U55, 10), ("ethos-u65-256", 10), (U85, 12)])
def test_how_many_operators_are_kept_whole(target: str, count: int) -> None:
    b = Builder()
    program = b.program(b.op(ABS, b.input(4)))
    operators, _ = EthosUPartitioner(EthosUCompileSpec(target)).ops_to_not_decompose(program)
    assert len(operators) == len(set(operators)) == count


def kept(write: Callable[[Builder], fx.Node], op: str, target: str = U55) -> bool:
    b = Builder()
    program = b.program(write(b))
    _, keep = EthosUPartitioner(EthosUCompileSpec(target)).ops_to_not_decompose(program)
    assert keep is not None
    return keep(next(n for n in program.graph.nodes if target_name(n.target) == op))


def test_the_filter_keeps_what_is_quantised() -> None:
    assert kept(lambda b: b.op(LINEAR, b.input(2, 4), b.weight(3, 4)), LINEAR)
    assert not kept(lambda b: b.op(LINEAR, b.raw_input(2, 4), b.weight(3, 4)), LINEAR)
    assert not kept(lambda b: b.call(LINEAR, b.input(2, 4), b.weight(3, 4)), LINEAR)
    relu: Callable[[Builder], fx.Node] = lambda b: b.op(  # noqa: E731
        "aten.relu.default", b.call(LINEAR, b.input(2, 4), b.weight(3, 4))
    )
    assert kept(relu, LINEAR)
    assert kept(lambda b: b.op(SILU, b.input(4)), SILU)
    assert not kept(lambda b: b.call(SILU, b.raw_input(4)), SILU)
    assert not kept(lambda b: b.call(ABS, b.input(4)), ABS)


def test_the_filter_keeps_nothing_that_is_refused() -> None:
    """Computed weights, which Ethos-U55 does not have; an operator that no table has."""
    computed: Callable[[Builder], fx.Node] = lambda b: b.op(LINEAR, b.input(2, 4), b.input(3, 4))  # noqa: E731
    assert kept(computed, LINEAR, U85) and not kept(computed, LINEAR, U55)
    assert not kept(lambda b: b.call(LOGIT, b.raw_input(4)), LOGIT)


# ------------------------------------------------------------------------------------ whole lowerings


class NotLinear(OperatorSupportBase):
    """Refuses linear layers, by the edge operator as a user writes it down."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return node.target is not edge_op(LINEAR)


class Quantised(torch.nn.Module):
    """A linear layer on codes, as Arm's quantizer leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_tensor.default(
            self.weight, 0.02, 0, -127, 127, torch.int8
        )
        return _coded(torch.ops.aten.linear(_coded(x), weight))


def _coded(x: torch.Tensor) -> torch.Tensor:
    q = (0.05, 3, -128, 127, torch.int8)
    codes = torch.ops.quantized_decomposed.quantize_per_tensor.default(x, *q)
    real: torch.Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor.default(codes, *q)
    return real


class Logit(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logit(x.clamp(0.1, 0.9))


def marked(model: torch.nn.Module, x: torch.Tensor) -> torch.export.ExportedProgram:
    """Exported, with the marks of Arm's quantizer."""
    program = torch.export.export(model, (x,))
    for node in program.graph.nodes:
        node.meta["custom"] = {"_arm_annotation_info": {"quantized": True}}
    return program


class Choice(torch.nn.Module):
    """A linear layer on codes decides between unsigned numbers, which no delegate takes."""

    def __init__(self) -> None:
        super().__init__()
        self.decider = Quantised()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(self.decider(torch.ones(3, 4)) > 0.0, x[:, :3], x[:, 1:])


class Ramp(torch.nn.Module):
    """Unsigned numbers that the program makes, beside those that it takes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[0] * torch.linspace(0, 6, 4, dtype=torch.uint8)


@pytest.mark.parametrize("target", [U55, U85])
@pytest.mark.parametrize("model", [Choice(), Ramp()], ids=["linear", "linspace"])
def test_what_is_refused_with_its_partition_is_taken_apart_and_runs(model: torch.nn.Module, target: str) -> None:
    """uint8 at the border of a delegate refuses all of it, which no filter knows beforehand."""
    x = torch.arange(12, dtype=torch.uint8).reshape(3, 4)
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    manager = to_edge_transform_and_lower(marked(model, x), partitioner=[partitioner])
    lowered = manager.exported_program()
    assert not {LINEAR, "aten.linspace.default"} & {target_name(n.target) for n in lowered.graph.nodes}
    assert "uint8" in {rejection.code for rejection in partitioner.rejections}
    found = run_program(lowered, (x,), {"EthosUBackend": EthosURuntime()})
    assert torch.equal(found[0], model(x))
    assert manager.to_executorch().buffer


@pytest.mark.parametrize("target", [U55, U85])
@pytest.mark.parametrize(
    ("model", "checks", "delegated"),
    [(Quantised(), [], 1), (Quantised(), [NotLinear()], 0), (Logit(), [], 0)],
    ids=["taken", "refused by a check", "not in the table"],
)
def test_what_is_refused_is_taken_apart_and_runs(
    model: torch.nn.Module, checks: list[Any], delegated: int, target: str
) -> None:
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    program = marked(model, x)
    partitioner = EthosUPartitioner(EthosUCompileSpec(target), checks)
    lowered = to_edge_transform_and_lower(program, partitioner=[partitioner]).exported_program()
    assert len(list(delegates(lowered))) == delegated
    torch.testing.assert_close(run_program(lowered, (x,), original_modules=True)[0], program.module()(x))
