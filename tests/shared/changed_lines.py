"""Lines of kernels with another meaning: one text for another in a function, and a row of a table that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.xnnpack import backend as xnnpack


class Change(NamedTuple):
    """In a function of a module, or a method, one text for another; and a row that shows it, in cases with a text."""

    module: str
    function: str
    old: str
    new: str
    row: str
    cases: str
    backend: Backend


Line = tuple[str, str, str, str, str]
"""Module, function, text, other text, row without "aten."."""

INT8, RESCALE = "npu_assay.partitioners.common.int8", "npu_assay.partitioners.common.rescale"
TOSA, XNNPACK = "npu_assay.partitioners.ethosu.kernels", "npu_assay.partitioners.xnnpack.kernels"

DOUBLE_ROUNDING: tuple[Line, ...] = (
    # O1: the double rounding made single, in the stage that most kernels end with
    (f"{INT8}.output", "_float_stage", "math.ldexp(1.0, e - 1) + zero_point", "zero_point", "mul.Tensor"),
    (f"{INT8}.output", "_float_stage", ".addcmul_(negative, step)", "", "convolution.default"),
    (f"{INT8}.output", "_float_stage", ".floor_()", ".ceil_()", "bmm.default"),
    (f"{INT8}.output", "float64_stage", "y.zero_point + 0.5", "y.zero_point", "addmm.default"),
    (f"{INT8}.output", "bounds", "return y.qmin,", "return y.qmin + 1,", "mul.Tensor"),
    (RESCALE, "double_rounder", "1 << 31 if k else 0", "0", "leaky_relu.default"),
    (RESCALE, "double_rounder", "(1 << 30) +", "", "relu.default"),
    (f"{INT8}.elementwise", "mul", "- b.zero_point", "+ b.zero_point", "mul.Tensor"),
    (f"{INT8}.elementwise", "abs_", "(scaled + y.zero_point", "(scaled - y.zero_point", "abs.default"),
    (f"{INT8}.elementwise", "_sum", "_aligned(b, twice) * sign", "_aligned(b, twice)", "neg.default"),
    (f"{INT8}.elementwise", "_sum", "_aligned(a, twice)", "_aligned(a, 2 * twice)", "add.Tensor"),
    (f"{INT8}.elementwise", "relu_bounds", "+ _steps(hi, y)", "+ _steps(hi, y) + 1", "hardtanh.default"),
    (f"{INT8}.elementwise", "_steps", "+ 0.5", "", "clamp.default"),
    (f"{INT8}.elementwise", "leaky_relu", "float32(alpha)", "0.97 * alpha", "leaky_relu.default"),
    (f"{INT8}.elementwise", "prelu", "value >= 0", "value > 1", "prelu.default"),
    (f"{INT8}.lut", "_float_table", "half_away_(", "torch.floor(", "sigmoid.default"),
    (f"{INT8}.lut", "tanh", "np.tanh", "np.arctan", "tanh.default"),
    (f"{INT8}.softmax", "_exponential", "_THIRD", "2 * _THIRD", "_softmax.default"),
    (f"{INT8}.softmax", "_reciprocal", "range(3)", "range(0)", "_softmax.default"),
    (f"{INT8}.matmul", "batch_matmul", "- b.zero_point", "", "bmm.default"),
    (f"{INT8}.matmul", "_ratios", "x.scale32 *", "1.01 * x.scale32 *", "addmm.default"),
    (f"{INT8}.conv", "_parameters", "x.scale32 *", "1.01 * x.scale32 *", "convolution.default"),
    (f"{INT8}.pool", "avg_pool2d", "count // 2", "0", "avg_pool2d.default"),
    (f"{INT8}.pool", "mean", "count * x.zero_point", "x.zero_point", "mean.dim"),
    (f"{INT8}.resize", "resize_bilinear", "_ONE * _ONE // 2, -", "0, -", "upsample_bilinear2d.vec"),
    (f"{INT8}.resize", "_nearest", "math.floor(place) for", "math.ceil(place) for", "upsample_nearest2d.vec"),
)

STATIC: tuple[Line, ...] = (
    (f"{XNNPACK}.output", "fp32_stage", ".round_()", ".add_(0.5).floor_()", "mul.Tensor"),
    (f"{XNNPACK}.output", "fp32_stage", "below, above)", "below, above - 1)", "linear.default"),
    (f"{XNNPACK}.output", "ratios", "weights * x.scale32", "1.01 * weights * x.scale32", "conv2d.default"),
    (f"{XNNPACK}.output", "code", "round(", "int(", "hardtanh.default"),
    (f"{XNNPACK}.output", "to_codes", "add(zero_point)", "sub(zero_point)", "sub.Tensor"),
    (f"{XNNPACK}.output", "to_steps", "sub_(zero_point)", "add_(zero_point)", "add.Tensor"),
    (f"{XNNPACK}.elementwise", "_sum", "half = 1 << (shift - 1)", "half = 0", "add.Tensor"),
    (f"{XNNPACK}.elementwise", "_sum", "second *= sign", "", "sub.Tensor"),
    (f"{XNNPACK}.elementwise", "_sum", "_PRECISION -", "_PRECISION - 8 -", "add.Tensor"),
    (f"{XNNPACK}.elementwise", "clamp", ".round_()", ".floor_()", "clamp.default"),
    (f"{XNNPACK}.pooling", "mean", "float32(ratio / count)", "float32(ratio / (count + 1))", "mean.dim"),
    (f"{XNNPACK}.pooling", "mean", ".round_()", ".trunc_()", "mean.dim"),
)

DYNAMIC: tuple[Line, ...] = (
    (f"{XNNPACK}.dynamic", "quantize_rows", "(x * steps).round_()", "(x * steps).floor_()", "linear.default"),
    (f"{XNNPACK}.dynamic", "quantize_rows", "-128.0 - first, 127.0", "-128.0, 127.0", "linear.default"),
    (f"{XNNPACK}.dynamic", "quantize_rows", "reciprocal(steps)", "reciprocal(1.00001 * steps)", "conv2d.default"),
    (f"{XNNPACK}.dynamic", "quantize_rows", "255.0", "254.0", "conv1d.default"),
    (f"{XNNPACK}.dynamic", "quantize_rows", ".clamp_max_(0.0)", "", "linear.default"),
    (f"{XNNPACK}.dynamic", "_stage", "acc.float() * scales, steps", "acc.float(), scales * steps", "conv2d.default"),
    (f"{XNNPACK}.dynamic", "_stage", "fma(acc.float() * scales, steps, add)", "acc * scales * steps", "linear.default"),
    (f"{XNNPACK}.dynamic", "linear", ".sub_(rows.zero_points)", "", "linear.default"),
    (f"{XNNPACK}.dynamic", "_on_images", ".sub_(rows.zero_points)", "", "conv1d.default"),
    (f"{XNNPACK}.fma", "emulated_fma", "product = p * q", "product = (p * q).astype(np.float32)", "linear.default"),
)

GROUPWISE: tuple[Line, ...] = (
    (f"{XNNPACK}.dynamic", "groupwise_linear", "+ part.sum(0).float() * step", "", "linear.default"),
    (f"{XNNPACK}.dynamic", "groupwise_linear", "rows.zero_points + 128", "rows.zero_points", "linear.default"),
)

SINGLE_ROUNDING_U55: tuple[Line, ...] = (
    (f"{TOSA}.rescale", "_in_float64", "y.zero_point + 0.5", "y.zero_point", "abs.default"),
    (f"{TOSA}.rescale", "_in_int64", "<< (shift - 1)", "<< shift", "add.Tensor"),
    (f"{TOSA}.rescale", "rescale", "- x.zero_point", "", "maximum.default"),
    (f"{TOSA}.placed", "floored", "least, most)", "least, most - 1)", "convolution.default"),
    (f"{TOSA}.elementwise", "table8", "roll(128)", "roll(127)", "tanh.default"),
    (f"{TOSA}.elementwise", "negate", "x.zero_point + y.zero_point", "0", "neg.default"),
    (f"{TOSA}.pooling", "reciprocal", "(1 << 30) + 1", "(1 << 30) - 99999999", "avg_pool2d.default"),
    (f"{TOSA}.resize", "_nearest", "high, low", "low, low", "upsample_nearest2d.vec"),
    (f"{INT8}.sums", "offset", "- x.zero_point *", "+ x.zero_point *", "linear.default"),
)

SINGLE_ROUNDING_U85: tuple[Line, ...] = (
    (f"{TOSA}.rescale", "_in_float64", "-shift) * multiplier", "1 - shift) * multiplier", "mm.default"),
    (f"{TOSA}.rescale", "_Floored.__call__", "floor_()", "round_()", "bmm.default"),
    (f"{TOSA}.placed", "floored", "offset + away(dtype)", "offset + away(dtype) - 0.5", "linear.default"),
    (f"{TOSA}.placed", "conv2d", "padding, x.zero_point)", "padding, 0)", "convolution.default"),
    (f"{TOSA}.placed", "clamp", "low, high, out", "low, high - 1, out", "relu.default"),
    (f"{TOSA}.elementwise", "mul", "b.to(torch.int32)", "b.to(torch.int32).abs()", "mul.Tensor"),
    (f"{TOSA}.elementwise", "table16", "wide & 127", "wide & 126", "sigmoid.default"),
    (f"{TOSA}.resize", "_positions", "+ offset", "", "upsample_bilinear2d.vec"),
    (f"{TOSA}.linear", "matmul", "sub_(b.zero_point)", "sub_(0)", "bmm.default"),
    (RESCALE, "tosa_multiplier", "round(fraction * 2**bits)", "int(fraction * 2**20) << 11", "sub.Tensor"),
)


def changes() -> Iterator[Change]:
    """All of them, in every scheme."""
    for backend, cases, lines in (
        (neutron, "", DOUBLE_ROUNDING),
        (xnnpack, "static_int8", STATIC),
        (xnnpack, "dynamic_int8", DYNAMIC),
        (xnnpack, "dynamic_int4", GROUPWISE),
        (ethos_u55, "", SINGLE_ROUNDING_U55),
        (ethos_u85, "", SINGLE_ROUNDING_U85),
    ):
        yield from (Change(*line[:4], f"aten.{line[4]}", cases, backend) for line in lines)
