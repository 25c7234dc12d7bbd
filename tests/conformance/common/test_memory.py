"""What is remembered does not depend on what was asked before: equal records may still differ."""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.common.memory import many_records, remember
from npu_assay.conformance.interchange.forms import golden_of
from npu_assay.conformance.judge import code_limits
from npu_assay.conformance.judge.known_limits import KnownLimits
from npu_assay.conformance.judge.numerics import Golden, golden
from npu_assay.conformance.programs.build import materialise
from npu_assay.conformance.programs.edge_writer import EdgeWriter
from npu_assay.conformance.programs.graph import Fill, Graph, Value
from npu_assay.conformance.record.results import program_sha256
from npu_assay.reference.affine import float32


@dataclass(frozen=True)
class Number:
    value: float


def test_a_record_is_answered_once() -> None:
    asked: list[Number] = []
    remembering = remember(2)(asked.append)
    one, two, three = (Number(value) for value in (1, 2, 3))
    for record in (one, one, two, three, two, one):
        remembering(record)
    assert asked == [one, two, three, one]


def test_equal_records_are_not_confused() -> None:
    @remember(8)
    def sign(number: Number) -> float:
        return math.copysign(1.0, number.value)

    assert Number(0.0) == Number(-0.0)
    assert [sign(Number(value)) for value in (0.0, -0.0, 0.0)] == [1, -1, 1]


def test_zeros_keep_their_signs() -> None:
    def signs(*zeros: float) -> list[bool]:
        value = Value("x", (2,), None, Fill("list", values=zeros))
        return torch.signbit(materialise(value)).tolist()

    assert signs(0.0, 0.0) == [False, False]
    assert signs(-0.0, 0.0) == [True, False]
    assert [math.copysign(1.0, float32(zero)) for zero in (0.0, -0.0, 0.0)] == [1, -1, 1]


def test_programs_that_differ_by_a_sign_have_different_digests() -> None:
    first, second = (Graph((Value("x", (1,), None, Fill("list", values=(zero,))),), (), ()) for zero in (0.0, -0.0))
    assert first == second and program_sha256(first) != program_sha256(second)


def test_equal_programs_have_their_own_goldens_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Graph((Value("x", (1,), None, Fill("list", values=(zero,))),), (), ()) for zero in (0.0, -0.0))
    assert [golden_of(graph).graph is graph for graph in (first, second, first)] == [True] * 3
    asked: list[Graph] = []

    def remembered(graph: Graph) -> Golden:
        asked.append(graph)
        return golden(graph)

    monkeypatch.setattr(code_limits, "golden", remembered)
    limits = KnownLimits(None)
    assert [limits.of(graph) for graph in (first, second, first)] == [None] * 3
    assert [graph is known for graph, known in zip(asked, (first, second), strict=True)] == [True, True]


def test_whole_numbers_and_reals_give_results_of_different_types() -> None:
    def written(number: float) -> Tensor:
        writer = EdgeWriter()
        x = writer.user_input("x", (2,), torch.int64)
        value = writer.emit("aten.clamp.default", (x, number), {}).meta["val"]
        assert isinstance(value, Tensor)
        return value

    assert [written(number).dtype for number in (1, 1.0, 1)] == [torch.int64, torch.float32, torch.int64]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was_afterwards(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with pytest.raises(KeyError), many_records():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == enabled
    finally:
        gc.enable() if before else gc.disable()
