"""Element-wise operators: one float kernel each; sums, products and clamps on codes as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import torch

from npu_assay.partitioners.common.int8.output import Bounds, Kernel2
from npu_assay.partitioners.common.machine import Kernel, Step
from npu_assay.partitioners.xnnpack.device.site import FLOATS, Site, in_float32, limited
from npu_assay.partitioners.xnnpack.kernels import activation, elementwise
from npu_assay.partitioners.xnnpack.kernels import convert as conversions
from npu_assay.partitioners.xnnpack.kernels.fma import flushed
from npu_assay.partitioners.xnnpack.xnn_model import XNode
from npu_assay.reference.affine import Affine

UNARY: Final[Mapping[str, Kernel]] = {
    "Abs": torch.abs,
    "Ceiling": lambda x: flushed(x).ceil(),
    "Cos": activation.cos,
    "Exp": activation.exp,
    "Floor": lambda x: flushed(x).floor(),
    "Gelu": activation.gelu,
    "Hardswish": activation.hardswish,
    "Log": activation.log,
    "Negate": lambda x: flushed(x).neg(),
    "ReciprocalSquareRoot": lambda x: torch.rsqrt(flushed(x)),
    "Sigmoid": activation.sigmoid,
    "Sin": activation.sin,
    "Softmax": activation.softmax,
    "Square": lambda x: flushed(flushed(x).square()),
    "SquareRoot": lambda x: torch.sqrt(flushed(x)),
    "Tanh": activation.tanh,
}
"""Softmax runs over the last axis."""

BINARY: Final[Mapping[str, Kernel]] = {
    "Add": torch.add,
    "Div": torch.div,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Multiply": torch.mul,
    "PReLU": lambda x, slope: torch.where(x < 0, x * slope, x),
    "Subtract": torch.sub,
}
_FLUSHING: Final = frozenset(
    [
        "Add",
        "BatchMatrixMultiply",
        "Div",
        "Exp",
        "FullyConnected",
        "Gelu",
        "Hardswish",
        "Maximum",
        "Minimum",
        "Multiply",
        "Sigmoid",
        "Softmax",
        "Square",
        "Subtract",
        "Tanh",
    ]
)
_ON_CODES: Final[Mapping[str, Callable[[Affine, Affine, Affine, Bounds | None], Kernel2]]] = {
    "Add": elementwise.add,
    "Multiply": elementwise.mul,
    "Subtract": elementwise.sub,
}


def unary(site: Site) -> Step:
    """An operator of one float input."""
    return Step(in_float32(UNARY[site.node.op], site.y.dtype))


def binary(site: Site) -> Step:
    """An operator of two operands that broadcast, within the limits of a fused activation."""
    a, b, y = site.x, site.input(1), site.y
    if site.on_codes:
        affine = site.affine(y)
        kernel = _ON_CODES[site.node.op](site.affine(a), site.affine(b), affine, site.codes(affine))
        return Step(kernel, (0, 1))
    compute = BINARY[site.node.op]
    first, second = (_as_it_is if normal else flushed for normal in site.normal)
    reals = limited(lambda p, q: flushed(compute(first(p), second(q))), site.limits())
    return Step(in_float32(reals, y.dtype), (0, 1))


def _as_it_is(x: torch.Tensor) -> torch.Tensor:
    return x


def without_subnormals(node: XNode) -> bool:
    """Whether no result is a subnormal float32: its kernel ends by flushing, and no float16 is one."""
    return node.op in _FLUSHING and node.limits in (None, (-math.inf, math.inf))


def clamp(site: Site) -> Step:
    """Clamp, which is relu and hardtanh too; on codes the output may have its own quantization."""
    assert site.node.limits is not None
    low, high = site.node.limits
    if site.on_codes:
        return Step(elementwise.clamp(low, high, site.affine(site.x), site.affine(site.y)))
    return Step(lambda x: flushed(x).clamp(low, high))


def leaky_relu(site: Site) -> Step:
    """x for x >= 0, else x * negative_slope; a number below the normal range is not below zero."""
    slope = torch.tensor(site.option("negative_slope"), dtype=FLOATS[site.y.dtype]).float()
    return Step(in_float32(lambda x: torch.where(flushed(x) < 0, flushed(x * slope), x), site.y.dtype))


def elu(site: Site) -> Step:
    """x for x >= 0, else alpha * (exp(x) - 1)."""
    alpha = float(site.option("alpha"))
    return Step(in_float32(lambda x: activation.elu(x, alpha), site.y.dtype))


def convert(site: Site) -> Step:
    """Between reals and codes. For parameters chosen at run time the product that follows quantizes."""
    given, wanted = site.x.dtype, site.y.dtype
    if wanted == "qdint8":
        return Step(lambda x: x)
    if wanted == "qint8":
        return Step(conversions.quantize(site.affine(site.y), half=given == "fp16"))
    return Step(conversions.dequantize(site.affine(site.x), half=wanted == "fp16"))
