"""Ethos-U devices that compute something else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from npu_assay.faults import Patch, with_device
from npu_assay.partitioners.common.int8 import accumulate, sums
from npu_assay.partitioners.common.int8 import conv_accumulators as float_products
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.common.rescale import tosa_single_round
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.ethosu.device import elementwise as device_elementwise
from npu_assay.partitioners.ethosu.device import operators
from npu_assay.partitioners.ethosu.device.site import Site, Step
from npu_assay.partitioners.ethosu.kernels import pooling, resize
from npu_assay.partitioners.ethosu.kernels import rescale as scaling
from npu_assay.partitioners.ethosu.kernels.numbers import Codes
from npu_assay.partitioners.exir import Backend


def device(patched: Patch, backend: Backend = ethos_u55) -> Backend:
    """A backend whose device loads and runs under a patch."""
    return with_device(backend, patched)


Finish = Callable[[Tensor, Tensor, Tensor, Codes], Tensor]
"""Accumulators (int64), multipliers, shifts and the result's codes -> codes."""


def rescaling(finish: Finish, backend: Backend = ethos_u55) -> Backend:
    """A device with another RESCALE."""

    def rounded(multiplier: Tensor, shift: Tensor, y: Codes, bound: int, scale32: bool = True) -> Kernel:
        return lambda acc: y.stored(finish(acc.to(torch.int64), multiplier, shift, y).clamp(y.low, y.high))

    def of_product(product: Any, multipliers: Any, shifts: Any, y: Codes, scale32: bool = True) -> Kernel:
        last = rounded(torch.tensor(multipliers), torch.tensor(shifts), y, product.bound)
        offset = torch.zeros(1, dtype=torch.int64) if product.offset is None else product.offset
        return lambda raw: last(raw.to(torch.int64) + offset)

    def patched() -> Any:
        stack = ExitStack()
        stack.enter_context(patch.object(scaling, "rounded", rounded))
        stack.enter_context(patch.object(pooling, "rounded", rounded))
        stack.enter_context(patch.object(device_elementwise, "of_product", of_product))
        return stack

    return device(patched, backend)


def _half_even(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    up = tosa_single_round(acc, multiplier, shift)
    mask = (torch.ones_like(shift) << shift) - 1
    tie = (acc * multiplier & mask) == (torch.ones_like(shift) << (shift - 1))
    return up - (tie & (up & 1 == 1)).long() + y.zero_point


def _half_away(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return acc.sign() * tosa_single_round(acc.abs(), multiplier, shift) + y.zero_point


def _truncated(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return (acc * multiplier >> shift) + y.zero_point


def _wrapped(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    codes = tosa_single_round(acc, multiplier, shift) + y.zero_point
    return (codes - y.low) % (y.high - y.low + 1) + y.low


def _saturated_first(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return tosa_single_round(acc, multiplier, shift).clamp(y.low, y.high) + y.zero_point


def _double_round(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    """The old rounding of TOSA and TensorFlow Lite: past 31 bits away from zero in a step of its own."""
    nudge = torch.where((acc >= 0) & (shift > 31), 1 << 30, torch.where(shift > 31, -(1 << 30), 0))
    return (acc * multiplier + (torch.ones_like(shift) << (shift - 1)) + nudge >> shift) + y.zero_point


def _in_float32(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    ratio = (multiplier.double() / (torch.ones_like(shift) << shift)).float()
    return torch.floor(acc.float() * ratio + 0.5).long() + y.zero_point


def _first_channel(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return tosa_single_round(acc, multiplier.flatten()[0], shift.flatten()[0]) + y.zero_point


half_even = rescaling(_half_even)
half_away = rescaling(_half_away)
truncating = rescaling(_truncated)
wrapping = rescaling(_wrapped)
saturating_early = rescaling(_saturated_first)
double_rounding = rescaling(_double_round)
single_precision = rescaling(_in_float32)
first_channel_for_all = rescaling(_first_channel)


def operator(code: str, change: Callable[[Site, Kernel], Kernel], backend: Backend = ethos_u55) -> Backend:
    """A device with a change after one operator's kernel."""
    right = operators.RULES[code]

    def rule(site: Site) -> Step:
        step = right(site)
        kernel = change(site, step.kernel)
        product = None if step.product is None else replace(step.product, kernel=kernel)
        return replace(step, kernel=kernel, product=product)

    return device(lambda: patch.object(operators, "RULES", {**operators.RULES, code: rule}), backend)


def after(change: Callable[[Tensor], Tensor], *dtypes: str) -> Callable[[Site, Kernel], Kernel]:
    """A change of the results of some types."""
    return lambda site, kernel: (
        kernel if dtypes and site.y.dtype not in dtypes else lambda *values: change(kernel(*values))
    )


def instead(kernel: Callable[[Site], Kernel], *dtypes: str) -> Callable[[Site, Kernel], Kernel]:
    """Another kernel for operands of some types."""
    return lambda site, right: right if dtypes and site.x.dtype not in dtypes else kernel(site)


def _wrap32(acc: Tensor) -> Tensor:
    return ((acc.to(torch.int64) + (1 << 31)) % (1 << 32) - (1 << 31)).double()


def _uninterpolated(site: Site) -> Kernel:
    entries = site.data(1).to(torch.int32)
    return lambda codes: entries[((codes.to(torch.int32) >> 7) + 256).long()] << 7


def _half_interpolated(site: Site) -> Kernel:
    """Between entries the middle."""
    entries = site.data(1).to(torch.int32)

    def apply(codes: Tensor) -> Tensor:
        wide = codes.to(torch.int32)
        place = ((wide >> 7) + 256).long()
        return (entries[place] << 7) + (entries[place + 1] - entries[place]) * (wide & 64)

    return apply


def _clipped_table(site: Site) -> Kernel:
    """The last segment, after the last entry but one, is flat."""
    entries = site.data(1).to(torch.int32)
    entries[-1] = entries[-2]

    def apply(codes: Tensor) -> Tensor:
        wide = codes.to(torch.int32)
        place = ((wide >> 7) + 256).long()
        return (entries[place] << 7) + (entries[place + 1] - entries[place]) * (wide & 127)

    return apply


def _last_largest(site: Site) -> Kernel:
    axis = site.attribute("axis")
    return lambda x: (x.shape[axis] - 1 - x.flip(axis).argmax(axis)).to(torch.int32)


def _overwriting(site: Site) -> Kernel:
    low, high = site.attribute("min_val"), site.attribute("max_val")
    return lambda x: x.clamp_(low, high)


def _with_zeros_around(right: Any) -> Any:
    """Pools and products whose padding holds the code 0."""

    def padded(codes: Tensor, padding: Any, code: int, *rest: Any) -> Tensor:
        found: Tensor = right(codes, padding, 0, *rest)
        return found

    return padded


def _all_of_window(size: Any, kernel: tuple[int, int], stride: Any, padding: Any) -> Tensor:
    """Averages divide by the whole window, whether inside the image or not."""
    return torch.tensor(kernel[0] * kernel[1])


def _earlier(low: Tensor, high: Tensor, fraction: Tensor, n: int) -> Tensor:
    return torch.where(2 * fraction > n, high, low)


wide_sums_wrap = operator("CONV2D", after(_wrap32, "INT48"))
wide_matrices_wrap = operator("MATMUL", after(_wrap32, "INT48"), ethos_u85)
wide_sums_in_float32 = operator("CONV2D", after(lambda acc: acc.float().double(), "INT48"))
narrow_sums_saturate = operator("CONV2D", after(lambda acc: acc.clamp(-(2**15), 2**15 - 1), "INT32"))
table_uninterpolated = operator("TABLE", instead(_uninterpolated, "INT16"))
table_half_interpolated = operator("TABLE", instead(_half_interpolated, "INT16"))
table_clipped = operator("TABLE", instead(_clipped_table, "INT16"))
last_of_equals = operator("ARGMAX", instead(_last_largest))
constant = operator("TABLE", after(torch.zeros_like))
overwriting = operator("CLAMP", instead(_overwriting))
pool_off_by_one = operator("MAX_POOL2D", after(lambda codes: codes.roll(1, 2)))
sums_of_16_bits = operator("REDUCE_SUM", after(lambda total: total.to(torch.int16).to(torch.int32)))
negation_wraps = operator("NEGATE", instead(lambda site: lambda x: (-x.to(torch.int16)).to(x.dtype), "INT8", "INT16"))
products_wrap = operator("MUL", after(lambda product: product.to(torch.int16).to(torch.int32)))
padding_not_the_zero_point = device(
    lambda: (
        patch.object(sums, "padded", _with_zeros_around(accumulate.padded))
        if sums.has_int8_product()
        else patch.object(float_products, "padded_float", _with_zeros_around(accumulate.padded_float))
    )
)
padding_counted = device(lambda: patch.object(pooling, "_counts", _all_of_window))
padded_with_zeros = device(lambda: patch.object(pooling, "padded_float", _with_zeros_around(accumulate.padded_float)))
nearest_earlier = device(lambda: patch.object(resize, "_nearest", _earlier), ethos_u85)
corners_exchanged = operator("RESIZE", after(lambda codes: codes.transpose(1, 2)), ethos_u85)
greater_or_equal = operator("GREATER", instead(lambda site: lambda a, b: a >= b), ethos_u85)
first_index_for_all = operator(
    "GATHER", instead(lambda site: lambda x, i: x[:, :1].expand(-1, i.shape[1], -1)), ethos_u85
)
