"""Neutron devices that compute something else.

The goldens share no kernel with the device. A fault holds while the device loads or runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from npu_assay.faults import Patch, with_device
from npu_assay.partitioners.common.int8 import conv, elementwise, lut, matmul, output, pool
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.common.rescale import tflite_double_round, tflite_single_round
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.neutron import backend, backend_1_4
from npu_assay.partitioners.neutron.device.operators import RULES
from npu_assay.partitioners.neutron.device.site import Site
from npu_assay.reference.affine import Affine


def device(patched: Patch) -> Backend:
    """A backend whose device loads and runs under a patch."""
    return with_device(backend, patched)


# ------------------------------------------------------------------------------------ the last stage of sums

Finish = Callable[[Tensor, Tensor, Tensor, int, int, int], Tensor]
"""Accumulators (int64), multipliers, shifts, zero point and limits -> codes."""


def rescaling(finish: Finish, *modules: Any) -> Backend:
    """A device whose kernels of some modules end in another rescale."""

    def stage(parameters: Sequence[tuple[int, int]], y: Affine, limits: output.Bounds | None = None) -> Kernel:
        low, high = output.bounds(y, limits)
        multipliers, shifts = (torch.tensor(column) for column in zip(*parameters, strict=True))
        return lambda acc: finish(acc.to(torch.int64), multipliers, shifts, y.zero_point, low, high).to(torch.int8)

    def patched() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for module in modules or (conv, elementwise, matmul, pool):
            stack.enter_context(patch.object(module, "double_round_stage", stage))
        return stack

    return device(patched)


def _real(acc: Tensor, multiplier: Tensor, shift: Tensor) -> Tensor:
    return acc.double() * multiplier.double() * torch.exp2(shift.double() - 31)


def _single(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (tflite_single_round(acc, multiplier, shift) + zero).clamp(low, high)


def _double(acc: Tensor, multiplier: Tensor, shift: Tensor) -> Tensor:
    if multiplier.numel() == 1:
        return tflite_double_round(acc, int(multiplier), int(shift))
    columns = [tflite_double_round(acc[..., i], int(multiplier[i]), int(shift[i])) for i in range(len(multiplier))]
    return torch.stack(columns, -1)


def _half_even(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (torch.round(_real(acc, multiplier, shift)) + zero).clamp(low, high)


def _truncated(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (torch.trunc(_real(acc, multiplier, shift)) + zero).clamp(low, high)


def _floored(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (torch.floor(_real(acc, multiplier, shift)) + zero).clamp(low, high)


def _wrapped(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (_double(acc, multiplier, shift) + zero + 128) % 256 - 128


def _saturated_first(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (_double(acc, multiplier, shift).clamp(-128, 127) + zero).clamp(low, high)


def _symmetric(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (_double(acc, multiplier, shift) + zero).clamp(max(low, -127), high)


def _without_zero_point(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return _double(acc, multiplier, shift).clamp(low, high)


def _of_16_bits(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (_double(acc.clamp(-(2**15), 2**15 - 1), multiplier, shift) + zero).clamp(low, high)


def _first_channel(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (_double(acc, multiplier[:1], shift[:1]) + zero).clamp(low, high)


def _unlimited(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (_double(acc, multiplier, shift) + zero).clamp(-128, 127)


def _multiplier_of_16_bits(acc: Tensor, multiplier: Tensor, shift: Tensor, zero: int, low: int, high: int) -> Tensor:
    return (_double(acc, multiplier >> 16 << 16, shift) + zero).clamp(low, high)


single_rounding = rescaling(_single, conv)
single_rounding_everywhere = rescaling(_single)
half_even = rescaling(_half_even)
truncating = rescaling(_truncated)
flooring = rescaling(_floored)
wrapping = rescaling(_wrapped)
saturating_early = rescaling(_saturated_first)
never_the_smallest = rescaling(_symmetric)
zero_point_forgotten = rescaling(_without_zero_point)
sums_of_16_bits = rescaling(_of_16_bits, conv, pool)
first_channel_for_all = rescaling(_first_channel, conv)
activation_ignored = rescaling(_unlimited)
multipliers_of_16_bits = rescaling(_multiplier_of_16_bits)


# ------------------------------------------------------------------------------------ single operators


def operator(change: Callable[[Site, Kernel], Kernel], *codes: str) -> Backend:
    """A device with another kernel for some operators."""

    def broken(code: str) -> Any:
        rule = RULES[code]

        def prepare(site: Site) -> Any:
            step = rule.prepare(site)
            return replace(step, kernel=change(site, step.kernel))

        return replace(rule, prepare=prepare)

    return device(lambda: patch.dict(RULES, {code: broken(code) for code in codes}))


def after(change: Callable[[Tensor], Tensor]) -> Callable[[Site, Kernel], Kernel]:
    """A change of what the right kernel returns."""
    return lambda site, kernel: lambda *values: change(kernel(*values))


def before(change: Callable[[Tensor], Tensor]) -> Callable[[Site, Kernel], Kernel]:
    """A change of the first value that the right kernel gets."""
    return lambda site, kernel: lambda value, *rest: kernel(change(value), *rest)


def _one_entry(site: Site, kernel: Kernel) -> Kernel:
    """The table entry of the largest code is that of the one before."""
    return lambda codes: kernel(codes.clamp(max=126))


def _linear(site: Site, kernel: Kernel) -> Kernel:
    """A table of 17 entries with straight lines between them."""
    ends = kernel(torch.arange(-128, 129, 16).clamp(max=127).char()).double()

    def apply(codes: Tensor) -> Tensor:
        place = (codes.long() + 128) // 16
        part = ((codes.long() + 128) % 16).double() / 16
        return (ends[place] * (1 - part) + ends[place + 1] * part).round().char()

    return apply


def _floor_average(site: Site, kernel: Kernel) -> Kernel:
    """Averages round down."""
    if site.option("padding") != "VALID":
        return kernel
    window = (site.option("filter_height"), site.option("filter_width"))
    stride = (site.option("stride_h"), site.option("stride_w"))

    def apply(codes: Tensor) -> Tensor:
        total = torch.nn.functional.avg_pool2d(codes.double().permute(0, 3, 1, 2), window, stride, divisor_override=1)
        return torch.floor(total / math.prod(window)).permute(0, 2, 3, 1).char()

    return apply


def _plain_softmax(site: Site, kernel: Kernel) -> Kernel:
    """Softmax in real numbers, with the exponential cut to 8 bits."""
    scale, beta = site.affine(site.x).scale, site.option("beta")

    def apply(codes: Tensor) -> Tensor:
        reals = codes.double() * scale * beta
        powers = (torch.exp(reals - reals.amax(-1, keepdim=True)) * 256).floor() / 256
        return ((powers / powers.sum(-1, keepdim=True)) * 256 - 128).round().clamp(-128, 127).char()

    return apply


def _overwriting(site: Site, kernel: Kernel) -> Kernel:
    return lambda codes: codes.copy_(kernel(codes.clone()))


def _coarse_sum(a: Affine, b: Affine, y: Affine, activation: output.Bounds | None = None) -> Any:
    """Operands are brought to the result's scale one by one."""
    low, high = output.bounds(y, activation)

    def apply(p: Tensor, q: Tensor) -> Tensor:
        left = ((p.double() - a.zero_point) * a.scale / y.scale).round()
        right = ((q.double() - b.zero_point) * b.scale / y.scale).round()
        return (left + right + y.zero_point).clamp(low, high).char()

    return apply


table_entry_repeated = operator(_one_entry, "LOGISTIC")
tanh_entry_repeated = operator(_one_entry, "TANH")
table_shifted = operator(before(lambda codes: (codes.int() + 1).clamp(max=127).char()), "LOGISTIC")
table_unsigned = operator(before(lambda codes: codes ^ -128), "LOGISTIC", "TANH")
table_interpolated = operator(_linear, "LOGISTIC")
tanh_interpolated = operator(_linear, "TANH")
average_floored = operator(_floor_average, "AVERAGE_POOL_2D")
maximum_of_positives = operator(after(lambda codes: codes.clamp(min=0)), "MAX_POOL_2D")
pool_transposed = operator(after(lambda codes: codes.transpose(1, 2).reshape(codes.shape)), "MAX_POOL_2D")
plain_softmax = operator(_plain_softmax, "SOFTMAX")
constant = operator(after(torch.zeros_like), "LOGISTIC")
overwriting = operator(_overwriting, "ABS", "LEAKY_RELU")
coarse_sums = device(lambda: patch.object(elementwise, "add", _coarse_sum))
absolute_wraps = operator(after(lambda codes: torch.where(codes == 127, codes.new_full((), -128), codes)), "ABS")
bilinear_floored = operator(after(lambda codes: (codes.int() - 1).clamp(min=-128).char()), "RESIZE_BILINEAR")
nearest_transposed = operator(before(lambda codes: codes.flip(1)), "RESIZE_NEAREST_NEIGHBOR")
parts_rotated = operator(after(lambda codes: codes.roll(1, -1)), "CONCATENATION")
transposed_twice = operator(after(lambda codes: codes.flip(-1)), "TRANSPOSE")
products_off_by_one = operator(after(lambda codes: (codes.int() + 1).clamp(max=127).char()), "FULLY_CONNECTED")
matrix_rows_rotated = operator(after(lambda codes: codes.roll(1, -2)), "BATCH_MATMUL")
slopes_ignored = operator(lambda site, kernel: lambda codes: codes, "PRELU", "LEAKY_RELU")
negatives_kept = operator(lambda site, kernel: lambda codes: codes, "RELU", "RELU6")


# ------------------------------------------------------------------------------------ release 1.4


def newer(place: Any, name: str, other: Any) -> Backend:
    """The backend of release 1.4 on a device with another function for one of its operators."""
    return with_device(backend_1_4, lambda: patch.object(place, name, other))


def _shifted(x: Affine, y: Affine) -> Kernel:
    return _log(x, replace(y, zero_point=min(y.zero_point + 1, y.qmax)))


_log = lut.log
smaller_for_larger = newer(elementwise, "maximum", torch.minimum)
larger_for_smaller = newer(elementwise, "minimum", torch.maximum)
reduced_to_smaller = newer(pool, "reduce_max", pool.reduce_min)
reduced_to_larger = newer(pool, "reduce_min", pool.reduce_max)
mean_for_sum = newer(pool, "sum_", pool.mean)
tanh_for_exponential = newer(lut, "exp", lut.tanh)
logarithm_shifted = newer(lut, "log", _shifted)
