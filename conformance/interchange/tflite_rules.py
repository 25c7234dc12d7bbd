"""How each edge operator is written in TFLite, on int8 codes: one small function each.

Tensors keep torch's order of dimensions; around convolutions, pools and resizes, which read channels last, codes are
transposed. What LiteRT's specification of 8-bit quantization restricts is refused with the constraint's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import fx

from npu_assay.conformance.interchange.tflite_images import (
    adaptive,
    avg_pool,
    batch_norm,
    convolution,
    max_pool,
    mean,
    resize,
)
from npu_assay.conformance.interchange.tflite_products import addmm, batched_product, linear, mm
from npu_assay.conformance.interchange.tflite_writer import Codes, Site

Rule = Callable[[Site], None]
CUT = "aten.relu.default"
RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3
BOUNDS = {(0.0, inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}
FUSED = {"RELU": RELU, "RELU_N1_TO_1": RELU_N1_TO_1, "RELU6": RELU6}


# ------------------------------------------------------------------------------------ element by element


def _unary(kind: str, output: tuple[float, int] | None = None) -> Rule:
    """A unary operator. output: the only scale and zero point that its result may have."""

    def rule(s: Site) -> None:
        if output is not None:
            _check_output(s, output)
        s.done(kind, s.x())

    return rule


def _check_output(s: Site, wanted: tuple[float, int]) -> None:
    codes = s.known(s.result).codes
    if codes != Codes((wanted[0],), (wanted[1],)):
        raise s.refuse("output_qparams", f"the result has {codes}, expected {wanted}")


LOGISTIC, TANH = (1 / 256, -128), (1 / 128, 0)


def _binary(kind: str) -> Rule:
    def rule(s: Site) -> None:
        if s.given.get("alpha", 1) != 1:
            raise s.refuse("alpha", f"{kind} has no alpha")
        s.done(kind, s.x(), s.x("other"), fusedActivationFunction=s.fused)

    return rule


def _neg(s: Site) -> None:
    """0 - x, as TFLite has no NEG for int8."""
    x = s.x()
    codes = s.known(x).codes
    assert codes is not None
    zero = s.constant(np.full((), codes.zero_points[0], np.int8), codes)
    s.done("SUB", zero, x)


def activation(given: Mapping[str, Any]) -> str | None:
    """The TFLite operator of a relu, hardtanh or clamp, by its arguments; None for other operators and bounds."""
    for low, high in (("min_val", "max_val"), ("min", "max")):
        found = given.get(low), given.get(high)
        if low in given and not any(isinstance(bound, fx.Node) for bound in found):
            return BOUNDS.get(
                (-inf if found[0] is None else float(found[0]), inf if found[1] is None else float(found[1]))
            )
    return None


def _bounded(s: Site) -> None:
    kind = activation(s.given)
    if kind is None:
        raise s.refuse("bounds", f"TFLite has only {', '.join(BOUNDS.values())}")
    s.done(kind, s.x())


def _leaky(s: Site) -> None:
    s.done("LEAKY_RELU", s.x(), alpha=float(s["negative_slope"]))


def _prelu(s: Site) -> None:
    """Slopes lie along dim 1; TFLite broadcasts them from the right."""
    x, slopes = s.x(), s.x("weight")
    codes = s.known(slopes).codes
    if s.known(slopes).data is None or codes is None or any(codes.zero_points):
        raise s.refuse("static_weights", "the slopes are not a constant with zero point 0")
    rank = len(s.shape(x))
    if rank > 2:
        data = s.known(slopes).data
        assert data is not None
        slopes = s.constant(data.reshape(-1, *[1] * (rank - 2)), s.known(slopes).codes)
    s.done("PRELU", x, slopes)


LONGEST = 8191
"""The longest row whose sum LiteRT's fixed-point softmax can hold."""


def _softmax(s: Site) -> None:
    _check_output(s, LOGISTIC)
    x = s.x()
    rank = len(s.shape(x))
    dim = s["dim"] % max(rank, 1)
    if rank and s.shape(x)[dim] > LONGEST:
        raise s.refuse("max_channels", f"found a row of {s.shape(x)[dim]} numbers")
    if rank == 0 or dim == rank - 1:
        s.done("SOFTMAX", x, beta=1.0)
        return
    axes = [axis if axis not in (dim, rank - 1) else dim + rank - 1 - axis for axis in range(rank)]
    turned = s.permuted(x, axes)
    found = s.op("SOFTMAX", [turned], s.shape(turned), s.result, beta=1.0)
    s.permuted(found, axes, s.result)


# ------------------------------------------------------------------------------------ layout


def _cat(s: Site) -> None:
    """Inputs with another scale or zero point than the result are requantized first, as converters do."""
    alike, wanted = list[int](), s.known(s.result).codes
    for x in (s.operand(x) for x in s["tensors"]):
        same = s.known(x).codes == wanted
        alike.append(x if same else s.op("QUANTIZE", [x], s.shape(x), s.result))
    s.done("CONCATENATION", *alike, axis=s["dim"] % len(s.sizes))


def _pad(s: Site) -> None:
    x, amounts, rank = s.kept(), list(s["pad"]), len(s.sizes)
    if min(amounts, default=0) < 0:
        raise s.refuse("non_negative_padding", f"padding {amounts}")
    pairs = [(0, 0)] * (rank - len(amounts) // 2) + list(zip(amounts[-2::-2], amounts[-1::-2], strict=True))
    codes = s.known(x).codes
    assert codes is not None
    inputs = [x, s.writer.integers(pairs)]
    if s["value"] != 0:
        code = np.clip(np.round(s["value"] / codes.scales[0]) + codes.zero_points[0], -128, 127)
        inputs.append(s.constant(np.full((), code, np.int8), codes))
    s.done("PAD" if len(inputs) == 2 else "PADV2", *inputs)


def _slice(s: Site) -> None:
    x = s.kept()
    if s["step"] != 1:
        raise s.refuse("step", "SLICE has no step")
    dim, shape = s["dim"] % len(s.sizes), s.shape(x)
    start = s["start"] or 0
    begin = [0] * len(shape)
    begin[dim] = min(max(start + shape[dim] if start < 0 else start, 0), shape[dim])
    s.done("SLICE", x, s.writer.integers(begin), s.writer.integers(s.sizes))


def _view(s: Site) -> None:
    s.reshaped(s.kept(), s.sizes, s.result)


def _permute(s: Site) -> None:
    x = s.kept()
    s.permuted(x, [axis % len(s.sizes) for axis in s["dims"]], s.result)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "aten.abs.default": _unary("ABS"),
        "aten.neg.default": _neg,
        CUT: _unary("RELU"),
        "aten.sigmoid.default": _unary("LOGISTIC", LOGISTIC),
        "aten.tanh.default": _unary("TANH", TANH),
        "aten.add.Tensor": _binary("ADD"),
        "aten.sub.Tensor": _binary("SUB"),
        "aten.mul.Tensor": _binary("MUL"),
        "aten.clamp.default": _bounded,
        "aten.hardtanh.default": _bounded,
        "aten.leaky_relu.default": _leaky,
        "aten.prelu.default": _prelu,
        "aten._softmax.default": _softmax,
        "aten.linear.default": linear,
        "aten.addmm.default": addmm,
        "aten.mm.default": mm,
        "aten.bmm.default": batched_product,
        "aten.convolution.default": convolution,
        "aten.avg_pool2d.default": avg_pool,
        "aten._adaptive_avg_pool2d.default": adaptive,
        "aten.max_pool2d.default": max_pool,
        "aten.max_pool2d_with_indices.default": max_pool,
        "aten.upsample_bilinear2d.vec": resize("RESIZE_BILINEAR"),
        "aten.upsample_nearest2d.vec": resize("RESIZE_NEAREST_NEIGHBOR"),
        "aten._native_batch_norm_legit_no_training.default": batch_norm,
        "aten.mean.dim": mean,
        "aten.cat.default": _cat,
        "aten.constant_pad_nd.default": _pad,
        "aten.slice_copy.Tensor": _slice,
        "aten.permute_copy.default": _permute,
        **dict.fromkeys(
            ("aten.view_copy.default", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default", "aten.clone.default"),
            _view,
        ),
        "dim_order_ops._clone_dim_order.default": _view,
    }
)
"""The rules by the name of the edge operator. Operators without a rule have no int8 form in TFLite here."""
