"""The exact-integer golden: ATen operators on codes, in ATen layout and spelling, by the scheme's arithmetic.

A function of `npu_assay.reference.arithmetic.tflite` is channels-last and takes what a TensorFlow Lite operator takes.
Here each ATen operator becomes the functions that compute it: arguments are read as torch reads them (lists of one,
negative dims, an empty stride is the kernel), images are moved to channels-last and back. Where a TFLite
operator needs equal quantisations and the operands differ, a QUANTIZE follows (before a concatenation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.arithmetic.xnnpack import quantize
from npu_assay.reference.golden.aten import ALIASES, bound, canonical
from npu_assay.reference.golden.weighted import MOVEMENT
from npu_assay.reference.integer import arithmetic, images, movement, tosa, xnnpack
from npu_assay.reference.integer.operand import IntegerError, QTensor, Rule
from npu_assay.reference.integer.reals import reals, run_dynamic, run_reals
from npu_assay.reference.integer.xnnpack import FUSED, PRODUCTS

__all__ = [
    "FUSED",
    "OPERATORS",
    "PRODUCTS",
    "SCHEMES",
    "IntegerError",
    "QTensor",
    "quantize",
    "reals",
    "run",
    "run_dynamic",
    "run_reals",
]


def run(
    op: str, args: Sequence[Any], kwargs: Mapping[str, Any], y: Affine, scheme: str = "tflite_double_round"
) -> tuple[Tensor, ...]:
    """An operator on codes: the int8 codes of its outputs, quantised as `y`. Operands are never written to.

    Raises IntegerError for an operator or operands without integer semantics in that scheme's arithmetic. The
    index output of max_pool2d_with_indices is left out: an NPU does not compute it.
    """
    if scheme not in SCHEMES:
        raise IntegerError(f"rescale scheme: found {scheme!r}, expected one of {sorted(SCHEMES)}")
    name = canonical(op)
    given = bound(name, args, kwargs)
    if scheme == "xnnpack_fp32":
        if name not in xnnpack.RULES:
            raise IntegerError(f"operator: found {op!r}, expected one with integer semantics")
        return (xnnpack.RULES[name](given, y),)
    if scheme == "tosa_single_round":
        return _run_tosa(name, given, y)
    if name in MOVEMENT and name not in ("aten.cat.default", "aten.upsample_nearest2d.vec"):
        return movement.moved(name, given, y)
    if name not in _RULES:
        raise IntegerError(f"operator: found {op!r}, expected one with integer semantics")
    return (_RULES[name](given, y),)


def _run_tosa(name: str, given: Mapping[str, Any], y: Affine) -> tuple[Tensor, ...]:
    try:
        if name in tosa.SEVERAL:
            return tosa.SEVERAL[name](given, y)
        if name in tosa.RULES:
            return (tosa.RULES[name](given, y),)
    except ValueError as error:
        raise IntegerError(str(error)) from error
    raise IntegerError(f"operator: found {name!r}, expected one with integer semantics")


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "aten.abs.default": arithmetic.unary(tflite.abs_),
        "aten.neg.default": arithmetic.neg,
        "aten.relu.default": arithmetic.limits(0.0, None),
        "aten.relu6.default": arithmetic.limits(0.0, 6.0),
        "aten.hardtanh.default": arithmetic.limits("min_val", "max_val"),
        "aten.clamp.default": arithmetic.limits("min", "max"),
        "aten.leaky_relu.default": arithmetic.leaky_relu,
        "aten.prelu.default": arithmetic.prelu,
        "aten.sigmoid.default": arithmetic.unary(tflite.logistic),
        "aten.tanh.default": arithmetic.unary(tflite.tanh),
        "aten._softmax.default": arithmetic.softmax,
        "aten.add.Tensor": arithmetic.binary("aten.add.Tensor", tflite.add),
        "aten.sub.Tensor": arithmetic.binary("aten.sub.Tensor", tflite.sub),
        "aten.mul.Tensor": arithmetic.binary("aten.mul.Tensor", tflite.mul),
        "aten.div.Tensor": arithmetic.div,
        "aten.mm.default": arithmetic.matmul,
        "aten.addmm.default": arithmetic.addmm,
        "aten.linear.default": arithmetic.linear,
        "aten.bmm.default": arithmetic.bmm,
        "aten.convolution.default": images.convolution,
        "aten.conv1d.default": images.convolution,
        "aten.conv2d.default": images.convolution,
        "aten.avg_pool1d.default": images.avg_pool(1),
        "aten.avg_pool2d.default": images.avg_pool(2),
        "aten._adaptive_avg_pool2d.default": images.adaptive_avg_pool,
        "aten.adaptive_avg_pool2d.default": images.adaptive_avg_pool,
        "aten.max_pool1d.default": images.max_pool(1),
        "aten.max_pool2d.default": images.max_pool(2),
        "aten.max_pool2d_with_indices.default": images.max_pool(2),
        "aten.mean.dim": images.mean,
        "aten.upsample_bilinear2d.vec": images.bilinear,
        "aten.upsample_nearest2d.vec": images.nearest,
        "aten.cat.default": movement.cat,
        "aten.constant_pad_nd.default": movement.pad,
    }
)
OPERATORS = frozenset(_RULES) | MOVEMENT | frozenset(ALIASES)
SCHEMES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "tflite_double_round": OPERATORS,
        "tosa_single_round": frozenset(tosa.RULES) | frozenset(tosa.SEVERAL) | frozenset(ALIASES),
        "xnnpack_fp32": frozenset(xnnpack.RULES) | frozenset(ALIASES),
    }
)
"""Rescale scheme -> the operators that a device of that scheme computes on integers."""
