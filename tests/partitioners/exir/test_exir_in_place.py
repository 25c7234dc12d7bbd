"""In-place operators: which have a functional one in their place, and that programs compute the same either way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch_programs import Function as Calling
from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import decompose, run_program, to_edge
from npu_assay.partitioners.exir.in_place import fresh_form, fresh_forms

Function = Callable[[Tensor], object]
aten = torch.ops.aten


def exported(function: Function) -> ExportedProgram:
    return torch.export.export(Calling(function), (x(),))


def x() -> Tensor:
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def chained(x: Tensor) -> Tensor:
    y = x + 1
    y *= 2
    return y.relu_() + x


def read_before(x: Tensor) -> Tensor:
    y = x * 2
    z = y.exp()
    return y.tanh_() + z


def read_after(x: Tensor) -> Tensor:
    y = x * 2
    z = y.tanh_()
    return y + z


def viewed_before(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    row = y[0]
    return y.relu_() * 2, row


def piece(x: Tensor) -> Tensor:
    y = x * 2
    first, _ = y.chunk(2)
    first.relu_()
    return y + 1


def returned_too(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    return y, y.relu_()


def idle(x: Tensor) -> Tensor:
    return torch.dropout_((x * 2).flatten(), 0.5, False).relu()


def written_through_idle(x: Tensor) -> Tensor:
    y = x * 2
    z = torch.dropout_(y[0], 0.5, False)
    z += 1
    return y


def written_after_idle(x: Tensor) -> Tensor:
    return torch.dropout_(x * 2, 0.5, False).relu_() + 1


FRESH = [(chained, 2), (read_before, 1), (read_after, 1), (returned_too, 1), (idle, 1), (written_after_idle, 2)]
TRACED = [viewed_before, piece, written_through_idle]


@pytest.mark.parametrize(("function", "count"), FRESH)
def test_changes_that_nobody_else_sees_have_functional_forms(function: Function, count: int) -> None:
    forms = fresh_forms(exported(function).graph)
    assert forms is not None and len(forms) == count


@pytest.mark.parametrize("function", TRACED)
def test_changes_that_others_see_have_none(function: Function) -> None:
    assert fresh_forms(exported(function).graph) is None


@pytest.mark.parametrize("function", [read_after, returned_too])
def test_the_operand_may_not_be_read_after_it_was_written(function: Function) -> None:
    """torch.export has the reader read the result; here it reads the operand."""
    graph = exported(function).graph
    (written,) = (node for node in graph.nodes if str(node.target) in ("aten.tanh_.default", "aten.relu_.default"))
    reader = next(iter(written.users))
    reader.args = torch.fx.map_arg(reader.args, lambda node: written.args[0] if node is written else node)
    assert fresh_forms(graph) is None


def test_inputs_that_are_written_have_no_form() -> None:
    assert fresh_forms(exported(lambda x: x.relu_()).graph) is None


def test_drawn_numbers_have_no_form() -> None:
    assert fresh_forms(exported(lambda x: torch.dropout_(x * 2, 0.5, True)).graph) is None


@pytest.mark.parametrize("function", [*(each for each, _ in FRESH), *TRACED])
def test_programs_compute_what_the_module_does(function: Function) -> None:
    found, expected = run_program(to_edge(exported(function)).exported_program(), [x()]), function(x())
    wanted = expected if isinstance(expected, tuple) else (expected,)
    assert len(found) == len(wanted) and all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("function", [each for each, _ in FRESH])
def test_graphs_are_those_of_the_trace(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    program = exported(function)
    short = to_edge(program).exported_program().graph
    monkeypatch.setattr(decompose, "fresh_forms", lambda graph: None)
    assert described(short) == described(to_edge(program).exported_program().graph)


def described(graph: torch.fx.Graph) -> list[tuple[object, ...]]:
    nodes = [node for node in graph.nodes if node.op != "output"]
    return [(node.op, node.name, str(node.target), str(node.args), str(node.kwargs)) for node in nodes]


def test_a_form_of_another_type_is_traced() -> None:
    """`x.eq_(0)` stays a number, `x.eq(0)` is none."""
    program = exported(lambda x: (x * 2).eq_(0.0))
    assert fresh_forms(program.graph) is not None
    (found,) = run_program(to_edge(program).exported_program(), [x()])
    assert found.dtype == torch.float32


@pytest.mark.parametrize(
    ("op", "form"),
    [
        (aten.relu_.default, aten.relu.default),
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.hardswish_.default, aten.hardswish.default),
        (aten.copy_.default, None),
        (aten.fill_.Scalar, None),
        (aten.squeeze_.dim, None),
        (aten.bernoulli_.float, None),
        (aten.relu6_.default, None),
        (aten.relu.default, None),
    ],
)
def test_forms_are_elementwise(op: torch._ops.OpOverload, form: torch._ops.OpOverload | None) -> None:
    assert fresh_form(op) is form
