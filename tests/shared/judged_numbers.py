"""Cases and devices whose numbers are judged in several tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.conformance.cases.make import bias_quant, quant, weight_quant
from npu_assay.conformance.judge.numerics import GateResult, Golden, golden, judge
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.reference.affine import float32

SCHEME = "tflite_double_round"
Q = quant(0.05, 3)
Y = quant(0.13, -5)


def value(
    name: str, shape: Sequence[int], q: Quant | None = Q, fill: Fill | None = None, constant: bool = False
) -> Value:
    return Value(name, tuple(shape), q, fill or Fill(seed=sum(map(ord, name))), constant)


def chain(values: Sequence[Value], *steps: tuple[str, tuple[Any, ...], Quant | None]) -> Graph:
    """Steps s0, s1, ...; each takes the one before as first operand ("x" at the start) and then its arguments."""
    written, last = [], Ref("x")
    for index, (op, rest, q) in enumerate(steps):
        written.append(Step(f"s{index}", op, (last, *rest), (), q))
        last = Ref(f"s{index}")
    return Graph(tuple(values), tuple(written), (last,))


def one(op: str, *rest: Any, x: Value | None = None, y: Quant | None = Y, more: Sequence[Value] = ()) -> Graph:
    return chain([x or value("x", (1, 8, 6, 6)), *more], (op, rest, y))


def reals(codes: Tensor, q: Quant) -> Tensor:
    """Codes as a program's output: float32."""
    assert isinstance(q.scale, float)
    return (codes.to(torch.float32) - q.zero_point) * float32(q.scale)


def device(graph: Graph) -> list[Tensor]:
    """What a correct device returns."""
    found, quants = golden(graph).codes(), golden(graph).walk(SCHEME, True).quants
    return [reals(c, q) for c, q in zip(found, quants, strict=True) if c is not None and q is not None]


def fallback(graph: Graph) -> list[Tensor]:
    """What the model returns when torch runs it, in float32 between quantize and dequantize."""
    outputs = module(graph)(*model_inputs(graph))
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def failed(results: Sequence[GateResult]) -> list[str]:
    return [result.gate for result in results if not result.passed]


def assert_only(gate: str, found: Golden, outputs: Sequence[Tensor], scheme: str | None = SCHEME) -> str:
    """The outputs fail this gate and, without it, none. Returns its message."""
    results = judge(found, outputs, scheme)
    assert failed(results) == [gate]
    assert failed(judge(found, outputs, scheme, without=[gate])) == []
    return next(result.messages[0] for result in results if result.gate == gate)


# ------------------------------------------------------------------------------------ guards


def good() -> tuple[Graph, Tensor]:
    graph = one("aten.relu.default", x=value("x", (2, 4)))
    return graph, device(graph)[0]


COARSE = quant(3.0, 0)


# ------------------------------------------------------------------------------------ faults of whole operators


def convolution(
    h: int = 1, w: int = 2, bias: bool = True, axis_scales: Sequence[float] = (0.004, 0.02, 0.01, 0.007)
) -> Graph:
    """Padding (h, w) differs by axis, so that exchanging them keeps the shape of a square image."""
    q = weight_quant(tuple(axis_scales), 0)
    values = [value("x", (1, 3, 7, 7)), value("w", (4, 3, 3, 3), q, constant=True)]
    values += [value("b", (4,), bias_quant(Q, weight_quant((0.004, 0.02, 0.01, 0.007), 0)), constant=True)]
    args = (Ref("w"), Ref("b") if bias else None, (1, 1), (h, w), (1, 1), False, (0, 0), 1)
    return chain(values, ("aten.convolution.default", args, quant(0.2, -7)))
