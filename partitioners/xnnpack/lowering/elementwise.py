"""Arithmetic and activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import fx

from npu_assay.partitioners.common.rules import bounds
from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.xnnpack.lowering.operation import Operation
from npu_assay.partitioners.xnnpack.lowering.values import Value

Lower = Callable[[Operation], Value]


def unary(op: str) -> Lower:
    """A function of one tensor and nothing else."""

    def lower(operation: Operation) -> Value:
        return _mapped(operation, op)

    return lower


def _mapped(
    operation: Operation, op: str, options: dict[str, float] | None = None, limits: tuple[float, float] | None = None
) -> Value:
    x = operation.operand(operation.node.args[0])
    last = x.is_channels_last
    made = operation.emit(op, [operation.id_of(x, last)], options or {}, limits=limits)
    return operation.result(made, last)


def binary(op: str) -> Lower:
    """A function of two tensors that broadcast."""

    def lower(operation: Operation) -> Value:
        alpha = operation.arguments.get("alpha", 1)
        require(math.isclose(alpha, 1, rel_tol=1e-9, abs_tol=1e-9), operation.node, "alpha", alpha, 1)
        values = [operation.operand(source) for source in operation.node.args[:2]]
        last = prefers_channels_last(values)
        ids = [operation.id_of(value, last and value.rank == 4) for value in values]
        return operation.result(operation.emit(op, ids, limits=operation.limits), last)

    return lower


def prefers_channels_last(values: Sequence[Value]) -> bool:
    """Whether operands that broadcast are best combined channels-last: some are, and all can be."""
    fit = all(value.rank == 4 or value.is_single for value in values)
    return fit and any(value.is_channels_last for value in values)


def limits_of(node: fx.Node) -> tuple[float, float]:
    """The limits of a relu, hardtanh or clamp; infinite where there is none.

    Torch takes the upper of two crossed limits, XNNPACK either one: the blob has them uncrossed.
    """
    low, high = bounds(node)
    return min(low, high), high


def clamp(operation: Operation) -> Value:
    """aten.relu, aten.hardtanh and aten.clamp -> Clamp."""
    return _mapped(operation, "Clamp", limits=limits_of(operation.node))


def elu(operation: Operation) -> Value:
    """aten.elu with the scales 1 -> ELU."""
    arguments = operation.arguments
    scales = (arguments["scale"], arguments["input_scale"])
    require(scales == (1, 1), operation.node, "scales", scales, (1, 1))
    return _mapped(operation, "ELU", {"alpha": float(arguments["alpha"])})


def leaky_relu(operation: Operation) -> Value:
    """aten.leaky_relu -> LeakyReLU."""
    return _mapped(operation, "LeakyReLU", {"negative_slope": float(operation.arguments["negative_slope"])})


def gelu(operation: Operation) -> Value:
    """aten.gelu in its exact form -> Gelu."""
    form = operation.arguments["approximate"]
    require(form == "none", operation.node, "approximate", form, "none")
    return _mapped(operation, "Gelu")


def square(operation: Operation) -> Value:
    """aten.pow with the exponent 2 -> Square."""
    exponent = operation.arguments["exponent"]
    require(exponent == 2, operation.node, "exponent", exponent, 2)
    return _mapped(operation, "Square")


def softmax(operation: Operation) -> Value:
    """aten._softmax over the last dimension -> Softmax."""
    x, dim = operation.operand(operation.node.args[0]), operation.arguments["dim"]
    require(dim in (-1, x.rank - 1), operation.node, "dim", dim, "the last one")
    return operation.result(operation.emit("Softmax", [operation.id_of(x)]))


def prelu(operation: Operation) -> Value:
    """aten.prelu of [N, C, H, W] -> PReLU, with a slope per channel or one for all."""
    x, slope = (operation.operand(source) for source in operation.node.args[:2])
    require(x.rank == 4 and slope.data is not None, operation.node, "operands", "other ones", "rank 4, a constant")
    return operation.result(operation.emit("PReLU", [operation.id_of(x, True), operation.id_of(slope)]), True)
