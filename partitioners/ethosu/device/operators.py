"""The operators of the device: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from npu_assay.partitioners.common import machine
from npu_assay.partitioners.common.machine import Kernel, limits_of_kernels
from npu_assay.partitioners.ethosu.device import elementwise, layout, linear, pooling, spans
from npu_assay.partitioners.ethosu.device.site import Site, Span, Step
from npu_assay.partitioners.ethosu.kernels import elementwise as kernels
from npu_assay.partitioners.ethosu.kernels import layout as moving
from npu_assay.partitioners.ethosu.kernels.linear import integers

Shape = tuple[int, ...]
Work = Callable[[Shape, Shape, Shape, Mapping[str, Any]], int]
"""From the shapes of the result and of the first and second operand, and the attributes."""


@dataclass(frozen=True)
class Row:
    """What the device knows about one TOSA operator.

    prepare: checks it and makes its kernel. span: the range of exact results; None if only the type
    limits it. work: its number of multiplications; of a pool, the numbers in its windows. accumulates: whether a
    RESCALE takes its sums without conversion.
    """

    prepare: Callable[[Site], Step]
    span: Callable[[Site], Span] | None = None
    work: Work | None = None
    accumulates: bool = False


def _plain(kernel: Kernel, count: int = 1, span: Callable[[Site], Span] | None = None) -> Row:
    """A kernel of so many operands, without parameters."""
    return Row(lambda site: Step(kernel, tuple(range(count))), span)


def _along(make: Callable[[int], Kernel], span: Callable[[Site], Span] | None = None) -> Row:
    """An operator along one axis."""
    return Row(lambda site: Step(make(site.attribute("axis"))), span)


def _product(prepare: Callable[[Site], Step], work: Work) -> Row:
    return Row(prepare, work=work, accumulates=True)


OPERATORS: Final[Mapping[str, Row]] = {
    "ABS": _plain(kernels.abs_, 1, spans.magnitude),
    "ADD": Row(elementwise.checked(spans.total, torch.add, kernels.add), spans.total),
    "ARGMAX": _along(moving.argmax),
    "ARITHMETIC_RIGHT_SHIFT": Row(elementwise.arithmetic_right_shift),
    "AVG_POOL2D": Row(pooling.average_pool, work=lambda y, _x, _w, a: prod(y) * prod(a["kernel"])),
    "BITWISE_AND": _plain(torch.bitwise_and, 2),
    "BITWISE_NOT": _plain(torch.bitwise_not),
    "BITWISE_OR": _plain(torch.bitwise_or, 2),
    "BITWISE_XOR": _plain(torch.bitwise_xor, 2),
    "CAST": Row(elementwise.cast),
    "CLAMP": Row(elementwise.clamp, spans.limited),
    "CLZ": _plain(kernels.clz),
    "CONCAT": Row(layout.concat, spans.joined),
    "CONV2D": _product(linear.convolution, lambda y, _x, w, _a: prod(y) * prod(w[1:])),
    "CONV3D": _product(linear.convolution3d, lambda y, _x, w, _a: prod(y) * prod(w[1:])),
    "DEPTHWISE_CONV2D": _product(linear.convolution, lambda y, _x, w, _a: prod(y) * prod(w[:2])),
    "EQUAL": _plain(torch.eq, 2),
    "GATHER": _plain(moving.gather, 2, spans.moved),
    "GREATER": _plain(torch.gt, 2),
    "GREATER_EQUAL": _plain(torch.ge, 2),
    "IDENTITY": _plain(lambda x: x, 1, spans.moved),
    "INTDIV": _plain(kernels.intdiv, 2),
    "LOGICAL_AND": _plain(torch.logical_and, 2),
    "LOGICAL_LEFT_SHIFT": _plain(kernels.logical_left_shift, 2),
    "LOGICAL_NOT": _plain(torch.logical_not),
    "LOGICAL_OR": _plain(torch.logical_or, 2),
    "LOGICAL_RIGHT_SHIFT": _plain(kernels.logical_right_shift, 2),
    "LOGICAL_XOR": _plain(torch.logical_xor, 2),
    "MATMUL": _product(linear.matmul, lambda y, x, _w, _a: prod(y) * x[-1]),
    "MAXIMUM": _plain(torch.maximum, 2, spans.larger),
    "MAX_POOL2D": Row(pooling.max_pool, spans.moved, lambda y, _x, _w, a: prod(y) * prod(a["kernel"])),
    "MINIMUM": _plain(torch.minimum, 2, spans.smaller),
    "MUL": Row(elementwise.multiply, spans.multiplied),
    "NEGATE": Row(elementwise.negate),
    "PAD": Row(layout.pad),
    "REDUCE_ALL": _along(moving.reduce_all),
    "REDUCE_ANY": _along(moving.reduce_any),
    "REDUCE_MAX": _along(moving.reduce_max, spans.moved),
    "REDUCE_MIN": _along(moving.reduce_min, spans.moved),
    "REDUCE_SUM": Row(layout.reduce_sum, spans.summed),
    "RESCALE": Row(elementwise.rescale, spans.rescaled),
    "RESHAPE": Row(layout.reshape, spans.moved),
    "RESIZE": Row(pooling.resize),
    "REVERSE": _along(moving.reverse, spans.moved),
    "SCATTER": _plain(moving.scatter, 3),
    "SELECT": _plain(torch.where, 3),
    "SLICE": Row(layout.slice_, spans.moved),
    "SUB": Row(elementwise.checked(spans.difference, torch.sub, kernels.sub), spans.difference),
    "TABLE": Row(elementwise.table, spans.looked_up),
    "TILE": Row(layout.tile, spans.moved),
    "TRANSPOSE": Row(layout.transpose, spans.moved),
    "TRANSPOSE_CONV2D": _product(linear.transpose_convolution, lambda _y, x, w, _a: prod(x[:3]) * prod(w)),
}
RULES: Final[Mapping[str, Callable[[Site], Step]]] = {code: row.prepare for code, row in OPERATORS.items()}
"""Operator -> what makes its kernel."""


def of_result(site: Site) -> Span:
    """The span of an operator's result: by its row, but never more than its type holds."""
    low, high = spans.of_type(site.y)
    span = OPERATORS[site.code].span
    if span is None:
        return low, high
    least, most = span(site)
    return (least, most) if low <= least <= most <= high else (low, high)


def prepare(site: Site, rescaled: Site | None = None) -> Step:
    """Make the kernel of an operator; that of a product may be fused with the RESCALE that is the only reader.

    Raises DeviceError for an operator that the device does not have.
    """
    step = machine.prepare(RULES, site.code, site)
    product = step.product
    if product is None:
        return step
    with limits_of_kernels(site.where):
        whole = integers(linear.bits(site), product.offset)
        last = elementwise.rescaled_product(rescaled, product) if rescaled else whole
    return replace(step, kernel=_both(step.kernel, last))


def _both(first: Kernel, second: Kernel) -> Kernel:
    def apply(*values: Tensor) -> Tensor:
        return second(first(*values))

    return apply
