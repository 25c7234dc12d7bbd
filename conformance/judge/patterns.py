"""Patterns of wrong numbers, such as a constant offset: what a plot of found against expected numbers would show.

A pattern is named only if nearly all elements follow it and there are at least `FEWEST`; else it is "". Patterns are
for readers: no verdict depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from npu_assay.conformance.judge.gates import Output

FEWEST = 6
"""The smallest number of elements in which a pattern is looked for."""
CLEAR = 2.0
"""LSB beyond which two numbers count as different: each may have been rounded another way."""
UNLIKE = 1.05
"""The smallest factor, or inverse of a factor, that counts as one."""
DUST = 2.0**-20
"""The share of the largest number below which two floats count as equal."""

CONSTANT, ORDER, SHIFTED, NEGATED, WRAPPED, SIDED = "constant", "order", "shifted", "negated", "wrapped", "sided"
CUT, UNCUT, OFFSET, OFFSETS, SCALED, SCALES, PLACES = "cut", "uncut", "offset", "offsets", "scaled", "scales", "places"
INDICES = "indices"
PATTERNS = (
    *(CONSTANT, ORDER, SHIFTED, NEGATED, WRAPPED, SIDED, CUT, UNCUT, OFFSET, OFFSETS, SCALED, SCALES, PLACES),
    INDICES,
)


def pattern(output: Output) -> str:
    """One of PATTERNS, the first that fits, or ""; of indices, which are not quantities, always the last."""
    if output.real.numel() < (1 if output.indices else FEWEST):
        return ""
    found, expected, unit = _compared(output)
    if bool(((found - expected).abs() <= unit).all()) or not _finite(found, expected):
        return ""
    if output.indices:
        return INDICES
    return next((name for name, fits in _FITS if fits(output, found, expected, unit)), "")


def _compared(output: Output) -> tuple[Tensor, Tensor, float]:
    """Found and expected numbers, and how far apart rounding may put them: 1 LSB for codes, see `DUST` for floats."""
    codes = output.codes
    if codes is not None:
        return codes.actual, codes.expected, 1.0
    expected = output.bounded.value.expand_as(output.real)
    finite = expected[expected.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return output.real, expected, max(DUST * largest, 2 * float(output.bounded.error.nan_to_num(0.0).max()))


def _finite(*tensors: Tensor) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def _varies(numbers: Tensor, unit: float) -> bool:
    return bool(numbers.max() - numbers.min() > CLEAR * unit)


def _constant(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    return not _varies(found, 0.0) and _varies(expected, unit)


def _order(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    """The same numbers in another order; if few of them are distinct, that may be chance."""
    if len(set(expected.flatten().tolist())) < FEWEST:
        return False
    return bool(((found.flatten().sort().values - expected.flatten().sort().values).abs() <= unit).all())


def _shifted(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    """Along some axis, every element is the expected one of its neighbor, except at an end of the axis."""
    for axis in range(found.dim()):
        size = found.shape[axis]
        if size < 3 or not _varies(expected, unit):
            continue
        for to in (1, -1):
            here, there = found.narrow(axis, max(to, 0), size - 1), expected.narrow(axis, max(-to, 0), size - 1)
            right = expected.narrow(axis, max(to, 0), size - 1)
            differ = (there - right).abs() > unit
            if bool(((here - there).abs() <= unit).all()) and int(differ.sum()) >= FEWEST:
                return True
    return False


def _sided(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    """On one side of zero all elements are right; on the other, all are off by one factor."""
    away, zero = (found - expected).abs() > unit, _zero(output)
    inside = _inside(output, found, expected)
    for side in ((expected - zero) > unit, (expected - zero) < -unit):
        seen = side & inside
        if not bool(away[~side].any()) and int((~side).sum()) >= FEWEST and _enough(seen, expected, unit):
            one, other = found[seen] - zero, expected[seen] - zero
            return _is_factor(one, other, unit) or _is_factor(-one, other, unit)
    return False


def _negated(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    zero = _zero(output)
    inside = _inside(output, found, expected)
    off = (found - zero + expected - zero).abs() <= unit
    return _enough(inside, expected, unit) and bool(off[inside].all())


def _wrapped(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    """Codes that overflowed their range and wrapped around to its other end."""
    codes = output.codes
    if codes is None:
        return False
    low, high = _ends(output)
    away = (found - expected).abs() > unit
    at_end = (expected == low) | (expected == high)
    across = ((expected == high) & (found < (low + high) / 2)) | ((expected == low) & (found > (low + high) / 2))
    return bool((away <= at_end).all()) and int((across & away).sum()) >= 2


def _cut(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    return _clamped(found, expected, unit)


def _uncut(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    return _clamped(expected, found, unit)


def _clamped(less: Tensor, more: Tensor, unit: float) -> bool:
    """`less` is `more` clamped to the range of `less`, at two elements or more."""
    low, high = less.min(), less.max()
    away = (less - more).abs() > unit
    at_ends = ((less - low).abs() <= 0) | ((less - high).abs() <= 0)
    return (
        int(away.sum()) >= 2
        and bool(((more.clamp(low, high) - less).abs() <= unit).all())
        and bool(at_ends[away].all())
    )


def _offset(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    inside = _inside(output, found, expected)
    return _enough(inside, expected, unit) and _is_offset(found[inside] - expected[inside], unit)


def _is_offset(difference: Tensor, unit: float) -> bool:
    return not _varies(difference, unit) and bool(difference.median().abs() > unit)


def _scaled(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    inside = _inside(output, found, expected)
    zero = _zero(output)
    return _enough(inside, expected, unit) and _is_factor(found[inside] - zero, expected[inside] - zero, unit)


def _is_factor(found: Tensor, expected: Tensor, unit: float) -> bool:
    """Whether found = factor * expected, up to one rounding of `found` and one of `expected`, times the factor."""
    square = float((expected * expected).sum())
    factor = float((found * expected).sum()) / square if square else 0.0
    if not (factor >= UNLIKE or 0 < factor <= 1 / UNLIKE):
        return False
    return bool(((found - factor * expected).abs() <= unit * (1 + factor)).all())


def _along(
    fits: Callable[[Tensor, Tensor, float], bool], output: Output, found: Tensor, expected: Tensor, unit: float
) -> bool:
    """Whether `fits` holds at every index of some axis that differs, each with a number of its own."""
    inside = _inside(output, found, expected)
    return any(
        _each(fits, found.movedim(axis, 0), expected.movedim(axis, 0), inside.movedim(axis, 0), unit)
        for axis in range(found.dim())
        if found.shape[axis] > 1
    )


def _each(
    fits: Callable[[Tensor, Tensor, float], bool], found: Tensor, expected: Tensor, inside: Tensor, unit: float
) -> bool:
    told, away = 0, 0
    for one, other, within in zip(found, expected, inside, strict=True):
        one, other = one[within], other[within]
        if len(one) < 2:
            continue
        if bool(((one - other).abs() <= unit).all()):
            told += 1
        elif _varies(other, unit) and len(one) > 2 and fits(one, other, unit):
            told, away = told + 1, away + 1
        else:
            return False
    return told > 1 and away > 0


def _offset_of(found: Tensor, expected: Tensor, unit: float) -> bool:
    return _is_offset(found - expected, unit)


def _offsets(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    return _along(_offset_of, output, found, expected, unit)


def _scales(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    zero = _zero(output)
    return _along(_is_factor, output, found - zero, expected - zero, unit)


def _places(output: Output, found: Tensor, expected: Tensor, unit: float) -> bool:
    """All wrong elements are at some indices of one axis, where most elements are wrong."""
    return any(True for _ in places(found, expected, unit))


def places(found: Tensor, expected: Tensor, unit: float) -> Iterator[tuple[int, list[int]]]:
    """Each axis with the indices that hold all wrong elements: at most half of the axis, each mostly wrong."""
    away = (found - expected).abs() > unit
    for axis in range(found.dim()):
        size = found.shape[axis]
        share = away.movedim(axis, 0).reshape(size, -1).double().mean(1)
        wrong = [index for index in range(size) if share[index] > 0]
        if size > 1 and 0 < len(wrong) <= size // 2 and all(share[index] > 0.5 for index in wrong):
            yield axis, wrong


def _ends(output: Output) -> tuple[float, float]:
    quant = output.codes.quant if output.codes is not None else None
    return (-torch.inf, torch.inf) if quant is None else (quant.qmin, quant.qmax)


def _inside(output: Output, found: Tensor, expected: Tensor) -> Tensor:
    """Where neither is qmin or qmax: a saturated code does not show the number that it stands for."""
    low, high = _ends(output)
    return (found > low) & (found < high) & (expected > low) & (expected < high)


def _zero(output: Output) -> float:
    """The code of 0.0."""
    quant = output.codes.quant if output.codes is not None else None
    return 0.0 if quant is None or not isinstance(quant.zero_point, int) else float(quant.zero_point)


def _enough(inside: Tensor, expected: Tensor, unit: float) -> bool:
    return int(inside.sum()) >= FEWEST and _varies(expected[inside], unit)


Fits = Callable[[Output, Tensor, Tensor, float], bool]
_FITS: tuple[tuple[str, Fits], ...] = (
    (CONSTANT, _constant),
    (ORDER, _order),
    (SHIFTED, _shifted),
    (NEGATED, _negated),
    (WRAPPED, _wrapped),
    (CUT, _cut),
    (UNCUT, _uncut),
    (OFFSET, _offset),
    (SCALED, _scaled),
    (SIDED, _sided),
    (OFFSETS, _offsets),
    (SCALES, _scales),
    (PLACES, _places),
)
