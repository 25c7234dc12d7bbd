"""Faults of devices that are derived from how they round, and from the kernels of their operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias
from unittest.mock import patch

import torch
from torch import Tensor

from npu_assay.faults import Patch, with_device
from npu_assay.faults.listing import Made
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.common.rescale import half_away_

Change: TypeAlias = Callable[[Any, Kernel], Kernel]
"""From an operator of a model and its right kernel to another kernel."""


# ------------------------------------------------------------------------------------ rescales


@dataclass(frozen=True)
class Rescale:
    """Accumulators, real ratios, the right integers, and the result's zero point and limits."""

    acc: Tensor
    ratio: Tensor
    rounded: Tensor
    zero: int
    low: int
    high: int

    @property
    def real(self) -> Tensor:
        """The real numbers that are to be rounded."""
        return self.acc.double() * self.ratio.double()

    def codes(self, integers: Tensor) -> Tensor:
        """The codes of integers."""
        return (integers + self.zero).clamp(self.low, self.high)


Finish: TypeAlias = Callable[[Rescale], Tensor]


def _up(values: Tensor) -> Tensor:
    return (values + 0.5).floor()


SCHEMES: Mapping[str, tuple[str, Finish]] = {
    "half_even": ("ties", lambda r: r.codes(r.real.round())),
    "half_up": ("ties", lambda r: r.codes(_up(r.real))),
    "half_away": ("ties", lambda r: r.codes(half_away_(r.real))),
    "truncating": ("rounding", lambda r: r.codes(r.real.trunc())),
    "flooring": ("rounding", lambda r: r.codes(r.real.floor())),
    "coarse_ratios": ("precision", lambda r: r.codes(_up(r.acc.double() * r.ratio.bfloat16().double()))),
    "wrapping": ("saturation", lambda r: (r.rounded + r.zero - r.low) % (r.high - r.low + 1) + r.low),
    "saturating_early": ("saturation", lambda r: r.codes(r.rounded.clamp(r.low, r.high))),
    "never_the_smallest": ("saturation", lambda r: r.codes(r.rounded).clamp(min=r.low + 1)),
    "zero_point_forgotten": ("zero_point", lambda r: r.rounded.clamp(r.low, r.high)),
    "sums_of_16_bits": ("accumulator", lambda r: r.codes(_up(r.acc.clamp(-(2**15), 2**15 - 1).double() * r.ratio))),
    "first_channel_for_all": ("per_channel", lambda r: r.codes(_up(r.acc.double() * r.ratio.flatten()[0]))),
    "activation_ignored": ("fused_activation", lambda r: (r.rounded + r.zero).clamp(-128, 127)),
}
"""By name of a scheme its kind, and how it ends."""


def of_schemes(under: Callable[[Finish], Patch], cases: Mapping[str, tuple[str, ...]]) -> Iterator[Made]:
    """Every scheme is another. under: the device's patch. cases: by kind, those that show it; those of "" else."""
    for name, (kind, finish) in SCHEMES.items():
        yield kind, name, cases.get(kind, cases[""]), partial(with_device, patched=under(finish))


# ------------------------------------------------------------------------------------ kernels


def operator(rules: Any, change: Change, *codes: str) -> Patch:
    """Another kernel for some operators. rules: by operator, what prepares it, or a record with that."""

    def broken(right: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def prepare(site: Any) -> Any:
            step = right(site)
            kernel = change(site, step.kernel)
            product = getattr(step, "product", None)
            return replace(step, kernel=kernel, **({"product": replace(product, kernel=kernel)} if product else {}))

        return prepare

    def other(rule: Any) -> Any:
        return replace(rule, prepare=broken(rule.prepare)) if hasattr(rule, "prepare") else broken(rule)

    return lambda: patch.dict(rules, {code: other(rules[code]) for code in codes})


def after(change: Callable[[Tensor], Tensor]) -> Change:
    """A change of what the right kernel returns."""
    return lambda site, kernel: lambda *values: change(kernel(*values))


def before(change: Callable[[Tensor], Tensor]) -> Change:
    """A change of the first value that the right kernel gets."""
    return lambda site, kernel: lambda value, *rest: kernel(change(value), *rest)


def _overwriting(site: Any, kernel: Kernel) -> Kernel:
    return lambda value, *rest: value.copy_(kernel(value.clone(), *rest))


def next_up(x: Tensor) -> Tensor:
    """The next number away from zero, or the next code."""
    if x.is_floating_point():
        return torch.nextafter(x, torch.copysign(torch.full_like(x, torch.inf), x))
    return (x.long() + 1).clamp(max=torch.iinfo(x.dtype).max).to(x.dtype)


def _largest_as_smallest(x: Tensor) -> Tensor:
    return x.masked_fill(x == torch.iinfo(x.dtype).max, torch.iinfo(x.dtype).min)


def _wrapped(x: Tensor) -> Tensor:
    return ((x.to(torch.int64) + (1 << 31)) % (1 << 32) - (1 << 31)).to(x.dtype)


CHANGES: Mapping[str, tuple[str, Change]] = {
    "mirrored": ("layout", after(lambda y: y.flip(-1) if y.dim() else y)),
    "one_more": ("rounding", after(next_up)),
    "one_more_bit": ("ties", after(next_up)),
    "axes_exchanged": ("axis", after(lambda y: y.transpose(1, 2).reshape(y.shape))),
    "operands_exchanged": ("operands", lambda site, kernel: lambda *values: kernel(*values[::-1])),
    "largest_wraps": ("saturation", after(_largest_as_smallest)),
    "positive": ("padding", after(lambda y: y.clamp(min=0))),
    "constant": ("constant", after(torch.zeros_like)),
    "overwriting": ("memory", _overwriting),
    "of_32_bits": ("accumulator", after(_wrapped)),
    "of_16_bits": ("accumulator", after(lambda y: y.to(torch.int16).to(y.dtype))),
    "in_float32": ("ties", after(lambda y: y.float().to(y.dtype))),
    "in_bfloat16": ("precision", after(lambda y: y.bfloat16().to(y.dtype))),
    "farther": ("precision", after(lambda y: y * (1 + 2.0**-20))),
    "table_shifted": ("lut", before(next_up)),
    "table_unsigned": ("lut", before(lambda x: x ^ torch.iinfo(x.dtype).min)),
    "table_clipped": ("lut", before(lambda x: x.clamp(max=torch.iinfo(x.dtype).max - 1))),
    "last_left_out": ("count", before(lambda x: x[:, :-1])),
}
"""By name of a change of kernels its kind, and the change."""


def of_kernels(rules: Any, rows: Mapping[str, str], changes: Mapping[str, Iterable[str]]) -> Iterator[Made]:
    """Kernels of operators that some row becomes are changed. changes: by name of the change, the operators."""
    for name, codes in changes.items():
        kind, change = CHANGES[name]
        for code in (each for each in sorted(codes) if each in rows and each in rules):
            cases = (f"aten.{rows.get(name, rows[code])}*/operator/",)
            yield kind, f"{code}_{name}", cases, partial(with_device, patched=operator(rules, change, code))


def of_functions(rules: Any, rows: Mapping[str, str], *groups: str) -> Iterator[Made]:
    """Each operator of a group has the next one's kernel."""
    for group in map(str.split, groups):
        for code, other in zip(group, (*group[1:], group[0]), strict=True):
            patched = partial(patch.dict, rules, {code: rules[other]})
            if code in rows:
                cases = (f"aten.{rows[code]}*/operator/",)
                yield "function", f"{other}_for_{code}", cases, partial(with_device, patched=patched)
