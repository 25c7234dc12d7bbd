"""Element-wise operators: broadcasting arithmetic, activations, tables and requantization."""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

from npu_assay.partitioners.common.int8 import elementwise, lut
from npu_assay.partitioners.common.int8 import softmax as softmax_kernel
from npu_assay.partitioners.common.int8.output import Bounds, Kernel2
from npu_assay.partitioners.common.machine import Step
from npu_assay.partitioners.neutron.device.site import Shape, Site
from npu_assay.reference.affine import Affine

REAL_LIMITS: Final[dict[str, tuple[float | None, float | None]]] = {
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


ROW_LIMIT: Final = 8191
"""Entries that SOFTMAX can sum in its fixed-point format."""


def fused_bounds(site: Site, y: Affine) -> Bounds | None:
    """Codes that the fused activation allows; None without one."""
    name = site.option("fused_activation_function")
    return None if name == "NONE" else elementwise.relu_bounds(*REAL_LIMITS[name], y)


def add(site: Site) -> Step:
    """ADD with broadcasting. Source: TFLite kernels/add.cc."""
    a, b, y = _binary(site)
    return Step(elementwise.add(a, b, y, fused_bounds(site, y)), (0, 1))


def sub(site: Site) -> Step:
    """SUB with broadcasting. Source: TFLite kernels/sub.cc."""
    a, b, y = _binary(site)
    return Step(elementwise.sub(a, b, y, fused_bounds(site, y)), (0, 1))


def mul(site: Site) -> Step:
    """MUL with broadcasting. Source: TFLite kernels/mul.cc."""
    a, b, y = _binary(site)
    site.ratio(a.scale * b.scale / y.scale)
    return Step(elementwise.mul(a, b, y, fused_bounds(site, y)), (0, 1))


def maximum(site: Site) -> Step:
    """MAXIMUM with broadcasting; one quantization. Source: TFLite kernels/maximum_minimum.cc."""
    return _extreme(site, elementwise.maximum)


def minimum(site: Site) -> Step:
    """MINIMUM with broadcasting; one quantization. Source: TFLite kernels/maximum_minimum.cc."""
    return _extreme(site, elementwise.minimum)


def _extreme(site: Site, kernel: Kernel2) -> Step:
    _binary(site)
    for position in (0, 1):
        site.same_quantisation(site.y, site.input(position))
    return Step(kernel, (0, 1))


def abs_(site: Site) -> Step:
    """ABS, with a rescale when the scales differ. Source: TFLite kernels/elementwise.cc."""
    return Step(elementwise.abs_(*_unary(site)))


def relu(site: Site) -> Step:
    """RELU, RELU6, RELU_N1_TO_1 and RELU_0_TO_1. Source: TFLite kernels/activations.cc."""
    x, y = _unary(site)
    return Step(elementwise.relu(*REAL_LIMITS[site.operator.code], x, y))


def leaky_relu(site: Site) -> Step:
    """LEAKY_RELU with a constant slope. Source: TFLite kernels/activations.cc."""
    x, y = _unary(site)
    alpha = site.option("alpha")
    site.ratio(x.scale * abs(alpha) / y.scale)
    return Step(elementwise.leaky_relu(alpha, x, y))


def prelu(site: Site) -> Step:
    """PRELU with constant slopes that broadcast to the input. Source: TFLite kernels/activations.cc."""
    x, y = _unary(site)
    alpha = site.input(1)
    a = site.affine(alpha)
    site.ratio(x.scale * a.scale / y.scale)
    site.output_shape(broadcast(site, site.x.shape, alpha.shape))
    return Step(elementwise.prelu(site.constant(1, "int8"), a, x, y))


def quantize(site: Site) -> Step:
    """QUANTIZE from int8 to int8: the same reals with another scale and zero point."""
    return Step(elementwise.requantize(*_unary(site)))


def logistic(site: Site) -> Step:
    """LOGISTIC; the output is fixed to scale 1/256, zero point -128."""
    site.fixed_output(1 / 256, -128)
    return Step(lut.logistic(*_table(site)))


def exp(site: Site) -> Step:
    """EXP: a table of float32 numbers. Source: TFLite kernels/exp.cc."""
    return Step(lut.exp(*_table(site)))


def log(site: Site) -> Step:
    """LOG: a table of float32 numbers, the lowest code where there is no logarithm. Source: kernels/elementwise.cc."""
    return Step(lut.log(*_table(site)))


def tanh(site: Site) -> Step:
    """TANH; the output is fixed to scale 1/128, zero point 0."""
    site.fixed_output(1 / 128, 0)
    return Step(lut.tanh(*_table(site)))


def softmax(site: Site) -> Step:
    """SOFTMAX over the last axis; the output is fixed to scale 1/256, zero point -128."""
    site.fixed_output(1 / 256, -128)
    x, _ = _table(site)
    beta = site.option("beta")
    site.require(beta > 0, "beta", beta, "positive")
    row = site.x.shape[-1] if site.x.shape else 0
    site.require(1 <= row <= ROW_LIMIT, "size of the last axis", row, f"1 to {ROW_LIMIT}")
    return Step(softmax_kernel.softmax(beta, x))


def broadcast(site: Site, a: Shape, b: Shape) -> Shape:
    """The shape of an operator on shapes `a` and `b`, aligned at the last axis."""
    sizes = list(zip_longest(reversed(a), reversed(b), fillvalue=1))
    fits = all(p == q or 1 in (p, q) for p, q in sizes)
    site.require(fits, "input shapes", f"{list(a)} and {list(b)}", "shapes that broadcast")
    return tuple(max(pair) for pair in reversed(sizes))


def _unary(site: Site) -> tuple[Affine, Affine]:
    """Quantization of input and output, which have one shape; the one is rescaled to the other."""
    x, y = _table(site)
    site.ratio(x.scale / y.scale)
    return x, y


def _table(site: Site) -> tuple[Affine, Affine]:
    """Quantization of input and output, which have one shape: nothing is rescaled."""
    site.output_shape(site.x.shape)
    return site.affine(site.x), site.affine(site.y)


def _binary(site: Site) -> tuple[Affine, Affine, Affine]:
    first, second = site.x, site.input(1)
    site.output_shape(broadcast(site, first.shape, second.shape))
    return site.affine(first), site.affine(second), site.affine(site.y)
