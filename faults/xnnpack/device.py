"""XNNPACK devices that compute something else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from npu_assay import faults
from npu_assay.faults import Patch
from npu_assay.partitioners.common.int8.output import Bounds, bounds
from npu_assay.partitioners.common.machine import Kernel, Step
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.xnnpack import backend
from npu_assay.partitioners.xnnpack.device import elementwise, linear, pooling
from npu_assay.partitioners.xnnpack.device.operators import RULES
from npu_assay.partitioners.xnnpack.device.site import Site
from npu_assay.partitioners.xnnpack.kernels import activation, dynamic
from npu_assay.partitioners.xnnpack.kernels import elementwise as sums
from npu_assay.partitioners.xnnpack.kernels import linear as products
from npu_assay.partitioners.xnnpack.kernels.pooling import mean
from npu_assay.partitioners.xnnpack.runtime import Program
from npu_assay.reference.affine import Affine


def device(patched: Patch = lambda: patch.dict({}), after: Any = lambda program, outputs: outputs) -> Backend:
    """A backend with a broken device."""
    return faults.with_device(backend, patched, after)


def stage(finish: Callable[[Tensor, Affine, Bounds], Tensor]) -> Patch:
    """The end of static int8 products: scaled accumulators, the result's parameters and limits -> codes."""

    def made(multiplier: Tensor, y: Affine, activation: Bounds | None = None) -> Kernel:
        return lambda acc: finish(acc.float() * multiplier, y, bounds(y, activation)).float() - y.zero_point

    def patched() -> Any:
        stack = ExitStack()
        stack.enter_context(patch.object(products, "fp32_stage", made))
        stack.enter_context(patch.object(sums, "fp32_stage", made))
        return stack

    return patched


def _half_up(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return (torch.floor(value + 0.5) + y.zero_point).clamp(*found).char()


def _truncated(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return (torch.trunc(value) + y.zero_point).clamp(*found).char()


def _without_zero_point(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return value.round().clamp(*found).char()


def _wrapping(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return (value.round() + y.zero_point).long().bitwise_and(0xFF).to(torch.uint8).view(torch.int8)


def _half_even_sum(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Any:
    low, high = bounds(y, activation)

    def apply(p: Tensor, q: Tensor) -> Tensor:
        real = a.scale32 * (p.double() - a.zero_point) + b.scale32 * (q.double() - b.zero_point)
        return (torch.round(real / y.scale32) + y.zero_point).clamp(low, high).char()

    return apply


half_up = device(stage(_half_up))
truncating = device(stage(_truncated))
zero_point_forgotten = device(stage(_without_zero_point))
wrapping = device(stage(_wrapping))
exact_sums = device(lambda: patch.dict(elementwise._ON_CODES, {"Add": _half_even_sum}))


def unary(op: str, kernel: Kernel) -> Patch:
    """Another function for an operator of one input."""
    return lambda: patch.dict(elementwise.UNARY, {op: kernel})


def binary(op: str, kernel: Kernel) -> Patch:
    """Another function for an operator of two inputs."""
    return lambda: patch.dict(elementwise.BINARY, {op: kernel})


def next_up(x: Tensor) -> Tensor:
    """The next number away from zero."""
    return torch.nextafter(x, torch.copysign(torch.full_like(x, torch.inf), x))


def _rsqrt_estimate(x: Tensor) -> Tensor:
    """A processor's estimate of 12 bits without the Newton step after it."""
    return (torch.rsqrt(x).view(torch.int32) & ~0xFFF).view(torch.float32)


def _plain_softmax(x: Tensor) -> Tensor:
    powers = torch.exp(x)
    return powers / powers.sum(-1, keepdim=True)


def _tanh_gelu(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


last_bit_off = device(binary("Add", lambda a, b: next_up(a + b)))
reciprocal_division = device(binary("Div", lambda a, b: a * (1 / b)))
twice_as_far = device(unary("Tanh", lambda x: activation.tanh(x) * (1 + 2.0**-20)))
estimated_root = device(unary("ReciprocalSquareRoot", _rsqrt_estimate))
plain_softmax = device(unary("Softmax", _plain_softmax))
tanh_gelu = device(unary("Gelu", _tanh_gelu))
rounding_ceil = device(unary("Ceiling", torch.round))
constant = device(unary("Sigmoid", lambda x: torch.full_like(x, 0.5)))


def _half_mean(site: Site) -> Step:
    """Means of float16 that are added up in float16."""
    if site.y.dtype != "fp16":
        return pooling.global_average(site)

    def apply(x: Tensor) -> Tensor:
        cells = x.flatten(1, 2)
        total = torch.zeros_like(cells[:, 0])
        for cell in cells.unbind(1):
            total = total + cell
        return (total / cells.shape[1]).view(len(x), 1, 1, -1)

    return Step(apply)


def _brief_sums(site: Site) -> Step:
    """Float16 products that are added up in bfloat16. (XNNPACK's own kernels for float16 may add up in float16.)"""
    if site.y.dtype != "fp16" or site.input(1).data is None:
        return linear.fully_connected(site)
    matrix, bias = site.constant(1), site.constant(2) if site.inputs[2] is not None else None

    def apply(x: Tensor) -> Tensor:
        total = torch.zeros((*x.shape[:-1], len(matrix)), dtype=torch.bfloat16)
        for k in range(matrix.shape[1]):
            total = total + (x[..., k : k + 1] * matrix[:, k]).bfloat16()
        return total.half() if bias is None else total.half() + bias

    return Step(apply)


half_mean = device(lambda: patch.dict(RULES, {"GlobalAvgPooling2d": _half_mean}))
brief_sums = device(lambda: patch.dict(RULES, {"FullyConnected": _brief_sums}))


_rows = dynamic.quantize_rows


def _whole_tensor(reals: Tensor) -> dynamic.Rows:
    """One scale and zero point for all rows."""
    rows, shape = _rows(reals.reshape(1, -1)), (len(reals), *[1] * (reals.dim() - 1))
    points, scales = (one.flatten().expand(len(reals)).reshape(shape) for one in (rows.zero_points, rows.scales))
    return dynamic.Rows(rows.codes.view(reals.shape), points, scales)


def _symmetric(reals: Tensor) -> dynamic.Rows:
    """No zero points."""
    axes = tuple(range(1, reals.dim()))
    scales = (reals.float().abs().amax(axes, keepdim=True) / 127).clamp_min(1e-20)
    codes = (reals.float() / scales).round().clamp(-128, 127)
    return dynamic.Rows(codes.to(torch.int8), torch.zeros_like(scales), scales)


def _from_the_lowest(reals: Tensor) -> dynamic.Rows:
    """Zero points always from the lower end of the range."""
    x = reals.float()
    axes = tuple(range(1, x.dim()))
    low, high = x.amin(axes, keepdim=True).clamp_max(0), x.amax(axes, keepdim=True).clamp_min(0)
    steps = torch.where(low == high, 1.0, 255.0 / (high - low))
    points = (-128 - low * steps).clamp(-128, 127).round()
    codes = ((x * steps).round() + points).clamp(-128, 127)
    return dynamic.Rows(codes.to(torch.int8), points, 1 / steps)


per_tensor_rows = device(lambda: patch.object(dynamic, "quantize_rows", _whole_tensor))
symmetric_rows = device(lambda: patch.object(dynamic, "quantize_rows", _symmetric))
lowest_rows = device(lambda: patch.object(dynamic, "quantize_rows", _from_the_lowest))
separate_rounding = device(lambda: patch.object(dynamic, "fma", lambda a, b, c: a * b + c))


def _at_bounds(program: Program, outputs: list[Tensor]) -> list[Tensor]:
    """Outputs of the sizes that the blob was compiled for, whatever the inputs' are."""
    made = []
    for port, output in zip(program.outputs, outputs, strict=True):
        shape = [port.bounds[axis] for axis in (0, 3, 1, 2)] if port.channels_last else list(port.bounds)
        whole = output.new_zeros([] if port.is_scalar else shape)
        whole[tuple(slice(size) for size in output.shape)] = output
        made.append(whole)
    return made


sizes_of_the_bounds = device(after=_at_bounds)


_average_pool = RULES["AvgPooling2d"]


def _padded_average(site: Site) -> Step:
    """Averages over the whole window, whether inside the image or not."""
    (top, bottom), (left, right) = site.padding()
    bare = dict.fromkeys(("padding_top", "padding_right", "padding_bottom", "padding_left"), 0)
    inner = _average_pool(replace(site, node=replace(site.node, options={**site.node.options, **bare})))
    return Step(lambda x: inner.kernel(torch.nn.functional.pad(x, (0, 0, left, right, top, bottom))))


padding_counted = device(lambda: patch.dict(RULES, {"AvgPooling2d": _padded_average}))


def _overwriting(x: Tensor) -> Tensor:
    return x.abs_()


overwriting = device(unary("Abs", _overwriting))


def _one_less(x: Affine, y: Affine) -> Kernel:
    """A mean of codes that divides by one element less."""
    right = mean(x, y)

    def apply(codes: Tensor) -> Tensor:
        size = codes.shape[1] * codes.shape[2]
        wide = (codes.float() - x.zero_point) * size / max(size - 1, 1) + x.zero_point
        return right(wide.round().clamp(-128, 127).char())

    return apply


mean_of_one_less = device(lambda: patch.object(pooling, "mean", _one_less))
