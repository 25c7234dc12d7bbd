"""The exact-integer golden: ATen operators on codes, in ATen layout and spelling, by the int8 kernels.

A kernel of `reference.int8` is channels-last and takes what a TensorFlow Lite operator takes. Here each
ATen operator becomes the kernels that compute it: arguments are read as torch reads them (lists of one,
negative dims, an empty stride is the kernel), images are moved to channels-last and back. Where a TFLite
operator needs equal quantisations and the operands differ, a QUANTIZE follows (before a concatenation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from reference.affine import Affine
from reference.golden.aten import CLONE, aten, bound, canonical
from reference.golden.slack import reciprocal_scale
from reference.golden.weighted import MOVEMENT
from reference.int8 import conv, elementwise, lut, matmul, pool, resize, softmax

Given = Mapping[str, Any]  # arguments by their schema names
Pair = tuple[int, int]
Rule = Callable[[Given, Affine], Tensor]


class IntegerError(ValueError):
    """An operator, or its operands, without integer semantics on an NPU."""


@dataclass(frozen=True)
class QTensor:
    """Codes and what they stand for: real = scale * (code - zero_point).

    codes: int8, or int32 for a bias. scale: one number, or one per index of `axis`.
    """

    codes: Tensor
    scale: float | tuple[float, ...]
    zero_point: int = 0
    axis: int | None = None

    @property
    def affine(self) -> Affine:
        """The per-tensor quantisation. Raises IntegerError for a per-channel one."""
        if isinstance(self.scale, tuple):
            raise IntegerError(f"operand: found {len(self.scale)} scales, expected one")
        return Affine(self.scale, self.zero_point)

    @property
    def scales(self) -> tuple[float, ...]:
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)


def run(op: str, args: Sequence[Any], kwargs: Mapping[str, Any], y: Affine) -> tuple[Tensor, ...]:
    """An operator on codes: the int8 codes of its outputs, quantised as `y`. Operands are never written to.

    Raises IntegerError for an operator or operands without integer semantics. The index output of
    max_pool2d_with_indices is left out: an NPU does not compute it.
    """
    name = canonical(op)
    given = bound(name, args, kwargs)
    if name in MOVEMENT and name not in ("aten.cat.default", "aten.upsample_nearest2d.vec"):
        return _moved(name, given, y)
    if name not in _RULES:
        raise IntegerError(f"operator: found {op!r}, expected one with integer semantics")
    return (_RULES[name](given, y),)


# ------------------------------------------------------------------------------------ operands


def _operand(given: Given, name: str, dtype: torch.dtype = torch.int8) -> QTensor:
    x = given[name]
    if not isinstance(x, QTensor) or x.codes.dtype != dtype:
        found = x.codes.dtype if isinstance(x, QTensor) else type(x).__name__
        raise IntegerError(f"operand {name!r}: found {found}, expected codes of {dtype}")
    return x


def _bias(given: Given, name: str = "bias") -> Tensor | None:
    return None if given[name] is None else _operand(given, name, torch.int32).codes


def _pair(numbers: int | Sequence[int], rank: int = 2) -> Pair:
    """One number for both axes, or one each; of a 1-D operator the height is 1 (stride, kernel, dilation)."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    if rank == 1:
        return (1, listed[0])
    return (listed[0], listed[-1])


def _padding(numbers: int | Sequence[int], rank: int = 2) -> tuple[Pair, Pair]:
    h, w = (0, _pair(numbers, 1)[1]) if rank == 1 else _pair(numbers)
    return ((h, h), (w, w))


def _on_images(kernel: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Runs a channels-last kernel on [N, C, H, W], or on [N, C, W] as images of height 1.

    Raises IntegerError for another rank.
    """
    if x.dim() == 3:
        return _on_images(kernel, x.unsqueeze(-2)).squeeze(-2)
    if x.dim() != 4:
        raise IntegerError(f"operand: found rank {x.dim()}, expected an image, [N, C, H, W] or [N, C, W]")
    return kernel(x.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2).contiguous()


def _same(x: Affine, y: Affine) -> bool:
    return (x.scale32, x.zero_point) == (y.scale32, y.zero_point)


def _requantised(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    return codes if _same(x, y) else elementwise.requantize(x, y)(codes)


def _require(holds: bool, op: str, found: str, expected: str) -> None:
    if not holds:
        raise IntegerError(f"{op}: found {found}, expected {expected}")


# ------------------------------------------------------------------------------------ movement


def _moved(op: str, given: Given, y: Affine) -> tuple[Tensor, ...]:
    """Runs the operator itself on codes. Memory formats and dim orders move no number."""
    x = _operand(given, "self")
    ignored = {"self", "memory_format", "dim_order", "non_blocking"}
    result = x.codes if op == CLONE else aten(op)(x.codes, *(v for k, v in given.items() if k not in ignored))
    pieces = [result] if isinstance(result, Tensor) else list(result)
    return tuple(_requantised(piece.contiguous(), x.affine, y) for piece in pieces)


def _cat(given: Given, y: Affine) -> Tensor:
    pieces = [_requantised(x.codes, x.affine, y) for x in given["tensors"]]
    return torch.cat(pieces, given["dim"])


def _pad(given: Given, y: Affine) -> Tensor:
    """The constant is quantised by the input's parameters, ties to even."""
    x = _operand(given, "self")
    code = round(float(given["value"]) / x.affine.scale32) + x.zero_point
    padded = torch.constant_pad_nd(x.codes, list(given["pad"]), min(max(code, -128), 127))
    return _requantised(padded, x.affine, y)


# ------------------------------------------------------------------------------------ element-wise


def _unary(make: Callable[[Affine, Affine], Callable[[Tensor], Tensor]]) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        x = _operand(given, "self")
        return make(x.affine, y)(x.codes)

    return rule


def _binary(op: str, make: Callable[[Affine, Affine, Affine], Callable[[Tensor, Tensor], Tensor]]) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        a, b = _operand(given, "self"), _operand(given, "other")
        _require(given.get("alpha", 1) == 1, op, f"alpha = {given.get('alpha')}", "alpha = 1")
        return make(a.affine, b.affine, y)(a.codes, b.codes)

    return rule


def _neg(given: Given, y: Affine) -> Tensor:
    """A subtraction from the code of zero."""
    x = _operand(given, "self")
    zero = torch.full_like(x.codes, x.zero_point)
    return elementwise.sub(x.affine, x.affine, y)(zero, x.codes)


def _div(given: Given, y: Affine) -> Tensor:
    """Times the divisor's reciprocals, held as symmetric int8 codes."""
    x = _operand(given, "self")
    divisor = given["other"]
    if isinstance(divisor, QTensor):
        _require(not isinstance(divisor.scale, tuple), "aten.div.Tensor", "a scale per channel", "one scale")
        divisor = (divisor.codes - divisor.zero_point).to(torch.float32) * divisor.affine.scale32
    reciprocal = 1 / torch.as_tensor(divisor, dtype=torch.float32)
    _require(bool(torch.isfinite(reciprocal).all()), "aten.div.Tensor", "a zero divisor", "none")
    held = Affine(reciprocal_scale(reciprocal), 0)
    codes = torch.round(reciprocal / held.scale32).clamp_(-127, 127).to(torch.int8)
    return elementwise.mul(x.affine, held, y)(x.codes, codes)


def _limits(lower: str | float, upper: str | float | None) -> Rule:
    """relu and its kin: limits are numbers, or the names of the arguments that hold them."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = _operand(given, "self")
        lo, hi = (given[limit] if isinstance(limit, str) else limit for limit in (lower, upper))
        hi = None if hi == float("inf") else hi
        return elementwise.relu(lo, hi, x.affine, y)(x.codes)

    return rule


def _leaky_relu(given: Given, y: Affine) -> Tensor:
    x = _operand(given, "self")
    return elementwise.leaky_relu(float(given["negative_slope"]), x.affine, y)(x.codes)


def _prelu(given: Given, y: Affine) -> Tensor:
    """Slopes along dim 1, which is last in channels-last."""
    x, slopes = _operand(given, "self"), _operand(given, "weight")
    kernel = elementwise.prelu(slopes.codes.reshape(-1), slopes.affine, x.affine, y)
    return kernel(x.codes.movedim(1, -1).contiguous()).movedim(-1, 1).contiguous()


def _softmax(given: Given, y: Affine) -> Tensor:
    x, dim = _operand(given, "self"), given["dim"]
    rows = softmax.softmax(1.0, x.affine)(x.codes.movedim(dim, -1).contiguous())
    return _requantised(rows.movedim(-1, dim).contiguous(), softmax.OUTPUT, y)


# ------------------------------------------------------------------------------------ sums of products


def _matmul(given: Given, y: Affine) -> Tensor:
    """mm: the second operand is the transpose of FULLY_CONNECTED's weights."""
    a, b = _operand(given, "self"), _operand(given, "mat2")
    return _fully_connected(a, b.codes.t(), b, None, y)


def _addmm(given: Given, y: Affine) -> Tensor:
    factors = (given["alpha"], given["beta"])
    _require(factors == (1, 1), "aten.addmm.default", f"(alpha, beta) = {factors}", "(1, 1)")
    a, b = _operand(given, "mat1"), _operand(given, "mat2")
    return _fully_connected(a, b.codes.t(), b, _bias(given, "self"), y)


def _linear(given: Given, y: Affine) -> Tensor:
    weight = _operand(given, "weight")
    return _fully_connected(_operand(given, "input"), weight.codes, weight, _bias(given), y)


def _fully_connected(x: QTensor, codes: Tensor, weight: QTensor, bias: Tensor | None, y: Affine) -> Tensor:
    """codes: the weights [O, I]."""
    kernel = matmul.fully_connected(
        codes.contiguous(), bias, x.affine, weight.scales, y, weight.zero_point, keep_dims=True
    )
    return kernel(x.codes)


def _bmm(given: Given, y: Affine) -> Tensor:
    a, b = _operand(given, "self"), _operand(given, "mat2")
    return matmul.batch_matmul(a.affine, b.affine, y)(a.codes, b.codes)


def _convolution(given: Given, y: Affine) -> Tensor:
    """1-D and 2-D, grouped (as many groups as the channels say) and transposed; weights must be symmetric."""
    x, weight = _operand(given, "input"), _operand(given, "weight")
    _require(weight.zero_point == 0, "convolution", f"weight zero point {weight.zero_point}", "0")
    kernel = weight.codes if weight.codes.dim() == 4 else weight.codes.unsqueeze(-2)
    rank = weight.codes.dim() - 2
    _require(kernel.dim() == 4, "convolution", f"rank {kernel.dim()} weights", "rank 3 or 4")
    if given.get("transposed"):
        return _transposed(given, x, kernel, weight.scales, rank, y)
    prepared = conv.conv2d(
        kernel.permute(0, 2, 3, 1).contiguous(),
        _bias(given),
        x.affine,
        weight.scales,
        y,
        _pair(given["stride"], rank),
        _pair(given["dilation"], rank),
        _padding(given["padding"], rank),
    )
    return _on_images(prepared, x.codes)


def _transposed(given: Given, x: QTensor, kernel: Tensor, scales: Sequence[float], rank: int, y: Affine) -> Tensor:
    """Weights [I, O, KH, KW]. Padding crops the result; output_padding adds to its end."""
    _require(given["groups"] == 1, "transposed convolution", f"{given['groups']} groups", "1")
    dilation = _pair(given["dilation"], rank)
    _require(dilation == (1, 1), "transposed convolution", f"dilation {dilation}", "(1, 1)")
    stride, crop = _pair(given["stride"], rank), _padding(given["padding"], rank)
    more = _padding(given["output_padding"], rank)
    sizes = (x.codes.shape[2] if rank == 2 else 1, x.codes.shape[-1])
    extents = zip(sizes, stride, crop, kernel.shape[2:], more, strict=True)
    height, width = ((n - 1) * s - 2 * c[0] + k + m[0] for n, s, c, k, m in extents)
    shape = (x.codes.shape[0], height, width, kernel.shape[1])
    weights = kernel.permute(1, 2, 3, 0).contiguous()
    cropped = (crop[0][0], crop[1][0])
    prepared = conv.transpose_conv(weights, _bias(given), shape, x.affine, scales, y, stride, cropped)
    return _on_images(prepared, x.codes)


# ------------------------------------------------------------------------------------ pools and sizes


def _avg_pool(rank: int) -> Rule:
    """AVERAGE_POOL_2D; padding that counts is a PAD with the zero point before it."""

    def rule(given: Given, y: Affine) -> Tensor:
        _require(not given["ceil_mode"], "avg_pool", "ceil_mode", "none")
        _require(given.get("divisor_override") is None, "avg_pool", "divisor_override", "none")
        x = _operand(given, "self")
        kernel = _pair(given["kernel_size"], rank)
        stride = _pair(given["stride"], rank) if given["stride"] else kernel
        padding = _padding(given["padding"], rank)
        codes = x.codes
        if given["count_include_pad"]:
            (top, bottom), (left, right) = padding
            border = (left, right, top, bottom) if rank == 2 else (left, right)
            codes, padding = torch.constant_pad_nd(codes, border, x.zero_point), ((0, 0), (0, 0))
        pooled = _on_images(pool.avg_pool2d(kernel, stride, x.affine, padding), codes)
        return _requantised(pooled, x.affine, y)

    return rule


def _adaptive_avg_pool(given: Given, y: Affine) -> Tensor:
    """An average pool when the output's size divides the input's."""
    x, size = _operand(given, "self"), _pair(given["output_size"])
    extents = (x.codes.shape[-2], x.codes.shape[-1])
    divides = all(n % m == 0 for n, m in zip(extents, size, strict=True))
    _require(divides, "adaptive_avg_pool2d", f"{extents} -> {size}", "a size that divides")
    kernel = (extents[0] // size[0], extents[1] // size[1])
    return _requantised(_on_images(pool.avg_pool2d(kernel, kernel, x.affine), x.codes), x.affine, y)


def _max_pool(rank: int) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        _require(not given["ceil_mode"], "max_pool", "ceil_mode", "none")
        _require(_pair(given["dilation"], rank) == (1, 1), "max_pool", f"dilation {given['dilation']}", "1")
        x = _operand(given, "self")
        kernel = _pair(given["kernel_size"], rank)
        stride = _pair(given["stride"], rank) if given["stride"] else kernel
        pooled = _on_images(pool.max_pool2d(kernel, stride, _padding(given["padding"], rank)), x.codes)
        return _requantised(pooled, x.affine, y)

    return rule


def _mean(given: Given, y: Affine) -> Tensor:
    x, dims = _operand(given, "self"), given["dim"]
    axes = [dims] if isinstance(dims, int) else list(dims or range(x.codes.dim()))
    positive = [axis % x.codes.dim() for axis in axes]
    return pool.mean(positive, bool(given["keepdim"]), x.affine, y)(x.codes)


def _size(given: Given, x: Tensor) -> Pair:
    """The output's height and width, given or by factors."""
    if given["output_size"] is not None:
        return _pair(given["output_size"])
    height, width = (int(n * f) for n, f in zip(x.shape[-2:], given["scale_factors"], strict=True))
    return height, width


def _bilinear(given: Given, y: Affine) -> Tensor:
    x, align = _operand(given, "input"), bool(given["align_corners"])
    kernel = resize.resize_bilinear(_size(given, x.codes), align_corners=align, half_pixel=not align)
    return _requantised(_on_images(kernel, x.codes), x.affine, y)


def _nearest(given: Given, y: Affine) -> Tensor:
    x = _operand(given, "input")
    kernel = resize.resize_nearest(_size(given, x.codes))
    return _requantised(_on_images(kernel, x.codes), x.affine, y)


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "aten.abs.default": _unary(elementwise.abs_),
        "aten.neg.default": _neg,
        "aten.relu.default": _limits(0.0, None),
        "aten.relu6.default": _limits(0.0, 6.0),
        "aten.hardtanh.default": _limits("min_val", "max_val"),
        "aten.clamp.default": _limits("min", "max"),
        "aten.leaky_relu.default": _leaky_relu,
        "aten.prelu.default": _prelu,
        "aten.sigmoid.default": _unary(lut.logistic),
        "aten.tanh.default": _unary(lut.tanh),
        "aten._softmax.default": _softmax,
        "aten.add.Tensor": _binary("aten.add.Tensor", elementwise.add),
        "aten.sub.Tensor": _binary("aten.sub.Tensor", elementwise.sub),
        "aten.mul.Tensor": _binary("aten.mul.Tensor", elementwise.mul),
        "aten.div.Tensor": _div,
        "aten.mm.default": _matmul,
        "aten.addmm.default": _addmm,
        "aten.linear.default": _linear,
        "aten.bmm.default": _bmm,
        "aten.convolution.default": _convolution,
        "aten.conv1d.default": _convolution,
        "aten.conv2d.default": _convolution,
        "aten.avg_pool1d.default": _avg_pool(1),
        "aten.avg_pool2d.default": _avg_pool(2),
        "aten._adaptive_avg_pool2d.default": _adaptive_avg_pool,
        "aten.adaptive_avg_pool2d.default": _adaptive_avg_pool,
        "aten.max_pool1d.default": _max_pool(1),
        "aten.max_pool2d.default": _max_pool(2),
        "aten.max_pool2d_with_indices.default": _max_pool(2),
        "aten.mean.dim": _mean,
        "aten.upsample_bilinear2d.vec": _bilinear,
        "aten.upsample_nearest2d.vec": _nearest,
        "aten.cat.default": _cat,
        "aten.constant_pad_nd.default": _pad,
    }
)
OPERATORS = frozenset(_RULES) | MOVEMENT
