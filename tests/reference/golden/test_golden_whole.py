"""Truths and whole numbers have no roundings: of operands that are known exactly, one answer is right."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.reference import golden as operators

LEFT, RIGHT = (50, 60, 70, 80, 0, -3), (10, 60, 90, 20, 0, -4)
TRUTHS = ("ge.Tensor", "gt.Tensor", "le.Tensor", "lt.Tensor", "eq.Tensor", "ne.Tensor", "logical_and.default")
WHOLE = ("add.Tensor", "sub.Tensor", "mul.Tensor", "bitwise_xor.Tensor", "maximum.default", "floor_divide.default")


def _value(name: str, numbers: tuple[int, ...], dtype: str, quant: Quant | None = None) -> Value:
    return Value(name, (len(numbers),), quant, Fill("list", values=numbers), dtype=dtype)


def _failing(graph: Graph, output: torch.Tensor, scheme: str | None, delegated: bool) -> list[str]:
    return [r.gate for r in judge(golden(graph), [output], scheme, delegated=delegated) if not r.passed]


def _graph(op: str, *values: Value) -> Graph:
    return Graph(
        values, (Step("subject", f"aten.{op}", tuple(Ref(value.name) for value in values)),), (Ref("subject"),)
    )


@pytest.mark.parametrize(("scheme", "delegated"), [(None, True), (None, False), ("xnnpack_fp32", True)])
@pytest.mark.parametrize("quant", [None, Quant(0.05, 3)])
@pytest.mark.parametrize("op", TRUTHS)
def test_every_wrong_truth_is_seen(op: str, quant: Quant | None, scheme: str | None, delegated: bool) -> None:
    graph = _graph(op, *(_value(n, v, "float32", quant) for n, v in (("x", LEFT), ("y", RIGHT))))
    zero = 3 if quant else 0
    right = edge_op(f"aten.{op}")(torch.tensor(LEFT) - zero, torch.tensor(RIGHT) - zero)
    assert _failing(graph, right, scheme, delegated) == []
    for place in range(len(LEFT)):
        wrong = right.clone()
        wrong[place] = ~wrong[place]
        assert "gate3" in _failing(graph, wrong, scheme, delegated)


@pytest.mark.parametrize(("scheme", "delegated"), [(None, True), (None, False), ("xnnpack_fp32", True)])
@pytest.mark.parametrize("quant", [None, Quant(0.05, 3)])
@pytest.mark.parametrize("op", ["argmax.default", "argmin.default"])
def test_every_wrong_place_is_seen(op: str, quant: Quant | None, scheme: str | None, delegated: bool) -> None:
    numbers = (50, 60, 70, 80, 90, 20, 10, 5, 7, 7, 7, 7)
    x = Value("x", (3, 4), quant, Fill("list", values=numbers))
    graph = Graph((x,), (Step("subject", f"aten.{op}", (Ref("x"), 1)),), (Ref("subject"),))
    right = edge_op(f"aten.{op}")(torch.tensor(numbers).view(3, 4), 1)
    assert _failing(graph, right, scheme, delegated) == []
    for row in range(3):
        wrong = right.clone()
        wrong[row] = (wrong[row] + 1) % 4
        assert "gate3" in _failing(graph, wrong, scheme, delegated)


@pytest.mark.parametrize(("error", "open_"), [(0.4, False), (0.5, True), (3.0, True)])
def test_a_place_is_open_where_another_may_be_as_large(error: float, open_: bool) -> None:
    value = torch.tensor([[1.0, 3.0, 2.0]], dtype=torch.float64)
    x = operators.Bounded(value, torch.full_like(value, error))
    for name, each in (("argmax", x), ("argmin", operators.Bounded(-value, x.error))):
        for args in ((1,), ()):
            (found,) = operators.run(f"aten.{name}.default", (each, *args))
            assert found.value.flatten().tolist() == [1.0] and bool(found.error.isinf().all()) == open_


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16])
@pytest.mark.parametrize("op", WHOLE)
def test_a_whole_number_that_is_off_by_one_is_seen(op: str, dtype: torch.dtype) -> None:
    left, right = (tuple(max(n, 1) for n in numbers) for numbers in (LEFT, RIGHT))
    name = str(dtype).removeprefix("torch.")
    graph = _graph(op, _value("x", left, name), _value("y", right, name))
    expected = edge_op(f"aten.{op}")(torch.tensor(left, dtype=dtype), torch.tensor(right, dtype=dtype))
    assert _failing(graph, expected, None, True) == []
    for place in range(len(LEFT)):
        wrong = expected.clone()
        wrong[place] += 1
        assert "gate3" in _failing(graph, wrong, None, True)


@pytest.mark.parametrize(
    ("op", "dtype", "numbers"),
    [
        ("bitwise_not.default", torch.uint8, (0, 1, 200, 255)),
        ("bitwise_not.default", torch.bool, (0, 1)),
        ("add.Tensor", torch.int8, (100, -100, 64, -128)),
        ("mul.Tensor", torch.int32, (2**20, -(2**20), 65537, 3)),
    ],
)
def test_whole_numbers_wrap_around(op: str, dtype: torch.dtype, numbers: tuple[int, ...]) -> None:
    count = 1 if op.startswith("bitwise_not") else 2
    values = [_value(name, numbers, str(dtype).removeprefix("torch.")) for name in ("x", "y")[:count]]
    expected = edge_op(f"aten.{op}")(*[torch.tensor(numbers).to(dtype)] * count)
    assert _failing(_graph(op, *values), expected, None, True) == []
    assert _failing(_graph(op, *values), torch.zeros_like(expected), None, True) != []


def test_codes_made_of_reals_have_roundings() -> None:
    """float32(1 / scale) is not 1 / scale: at a tie the next code is right, too, and no other."""
    x = Value("x", (2,), None, Fill("list", values=(0.25, 2.0)), dtype="float32")
    args = (Ref("x"), 0.1, 3, -128, 127, "int8")
    step = Step("subject", "quantized_decomposed.quantize_per_tensor.default", args)
    graph = Graph((x,), (step,), (Ref("subject"),))
    right = edge_op(step.op)(torch.tensor([0.25, 2.0]), 0.1, 3, -128, 127, torch.int8)
    assert _failing(graph, right, None, True) == []
    assert "gate3" in _failing(graph, right + 2, None, True)


def test_roundings_of_truths_would_hide_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: 1 - 2**-21 is no whole number, and 0 is the one below."""
    rounded = operators.run_float

    def once(op: str, args: Any, kwargs: Any, dtype: torch.dtype) -> tuple[Any, ...]:
        found = rounded(op, args, kwargs, dtype)
        return tuple(type(y)(y.value, y.error + y.value * 2.0**-21) for y in found)

    monkeypatch.setattr(operators, "run_float", once)
    graph = _graph("ne.Tensor", _value("x", LEFT, "float32"), _value("y", RIGHT, "float32"))
    assert _failing(graph, torch.zeros(len(LEFT), dtype=torch.bool), None, True) == []
