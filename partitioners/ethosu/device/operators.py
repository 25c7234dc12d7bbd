"""Which operators the device has, and what prepares each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from torch import Tensor

from npu_assay.partitioners.common import machine
from npu_assay.partitioners.common.machine import Kernel, limits_of_kernels
from npu_assay.partitioners.ethosu.device import elementwise, images, movement, products
from npu_assay.partitioners.ethosu.device.site import Site, Step
from npu_assay.partitioners.ethosu.kernels.elementwise import BINARY, UNARY
from npu_assay.partitioners.ethosu.kernels.products import integers

RULES: Final[Mapping[str, Callable[[Site], Step]]] = {
    **dict.fromkeys((*UNARY, *BINARY), elementwise.plain),
    **dict.fromkeys(movement.ALONG, movement.along),
    "ARITHMETIC_RIGHT_SHIFT": elementwise.arithmetic_right_shift,
    "AVG_POOL2D": images.average_pool,
    "CAST": elementwise.cast,
    "CLAMP": elementwise.clamp,
    "CONCAT": movement.concat,
    "CONV2D": products.convolution,
    "CONV3D": products.convolution3d,
    "DEPTHWISE_CONV2D": products.convolution,
    "GATHER": movement.gather,
    "MATMUL": products.matmul,
    "MAX_POOL2D": images.max_pool,
    "MUL": elementwise.multiply,
    "NEGATE": elementwise.negate,
    "PAD": movement.pad,
    "REDUCE_SUM": movement.reduce_sum,
    "RESCALE": elementwise.rescale,
    "RESHAPE": movement.reshape,
    "RESIZE": images.resize,
    "SCATTER": movement.scatter,
    "SELECT": elementwise.select,
    "SLICE": movement.slice_,
    "TABLE": elementwise.table,
    "TILE": movement.tile,
    "TRANSPOSE": movement.transpose,
    "TRANSPOSE_CONV2D": products.transpose_convolution,
}
"""Operator -> what makes its kernel."""

PRODUCTS: Final = frozenset({"CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "MATMUL", "TRANSPOSE_CONV2D"})
"""Operators whose accumulators a RESCALE takes as they are."""


def prepare(site: Site, rescaled: Site | None = None) -> Step:
    """Make the kernel of an operator, of a product also together with the RESCALE that alone takes its result.

    Raises DeviceError for what the device does not have.
    """
    step = machine.prepare(RULES, site.code, site)
    product = step.product
    if product is None:
        return step
    with limits_of_kernels(site.where):
        whole = integers(products.bits(site), product.offset)
        last = elementwise.rescaled_product(rescaled, product) if rescaled else whole
    return replace(step, kernel=_both(step.kernel, last))


def _both(first: Kernel, second: Kernel) -> Kernel:
    def apply(*values: Tensor) -> Tensor:
        return second(first(*values))

    return apply
