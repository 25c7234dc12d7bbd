"""Scales of operands that differ, or of one tensor taken twice, on both sides of the limits of RESCALE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from npu_assay.conformance.cases.drafts import CaseDraft, limit, outside
from npu_assay.conformance.cases.make import Call, X, activation, call, model, quant
from npu_assay.conformance.cases.pieces.spelling import INT8, INTEGERS, codes_quant, is_wide, spelled
from npu_assay.conformance.programs.graph import Ref

IMAGE = (1, 3, 4, 5)
SUMS = ("aten.add.Tensor", "aten.sub.Tensor")
EXTREMES = ("aten.maximum.default", "aten.minimum.default")
PRODUCT = "aten.mul.Tensor"
TOTALS = ("aten.sum.dim_IntList", "aten.mean.dim", "aten.cumsum.default")
At = Callable[[float], Call]


def both_sides(name: str, at: At, bits: int) -> Iterator[CaseDraft]:
    """A ratio of scales just below 2 to the power of `bits`, and that itself."""
    yield limit("rescale", f"{name}_largest", model(at(2.0**bits * (1 - 2.0**-20))))
    yield outside("rescale", f"{name}_too_large", model(at(2.0**bits)))


def _pair(op: str, precision: str, left: float, right: float | None, after: float) -> Call:
    """Cases of two tensors with these scales, or of one with itself."""
    x, y = activation("x", IMAGE, quant(left)), activation("y", IMAGE, quant(left if right is None else right))
    pair = Call(op, (x, y), (X, Ref("y")), quant(after))
    once = Call(op, (x,), (X, X), quant(after))
    return spelled(once if right is None else pair, precision)


def sums(op: str, precision: str) -> Iterator[CaseDraft]:
    """Codes of up to 2**7 (2**15) steps, each of 2**19 (2**11) parts: 2**27 for two, about half if one is fine."""
    bits = 13 if is_wide(precision) else 21
    yield from both_sides("one_tensor_twice", lambda ratio: _pair(op, precision, ratio, None, 1.0), bits)
    yield from both_sides("second_fine", lambda ratio: _pair(op, precision, ratio, ratio / 64, 1.0), bits + 1)
    yield from both_sides("first_fine", lambda ratio: _pair(op, precision, ratio / 64, ratio, 1.0), bits + 1)


def extremes(op: str, precision: str) -> Iterator[CaseDraft]:
    """On one scale, both ways: into 32 bits and back."""
    bits = 14 if is_wide(precision) else 22
    yield from both_sides("one_tensor_twice", lambda ratio: _pair(op, precision, ratio, None, 1.0), bits)
    yield from both_sides("result_fine", lambda ratio: _pair(op, precision, ratio, ratio, 1.0), bits)
    yield from both_sides("first_coarse", lambda ratio: _pair(op, precision, ratio, 1.0, ratio), bits)
    yield from both_sides("second_coarse", lambda ratio: _pair(op, precision, 1.0, ratio, ratio), bits)


def products(precision: str) -> Iterator[CaseDraft]:
    """The square of one tensor's codes: 2**14 (2**30)."""
    finer, bits = (256, -1) if is_wide(precision) else (1, 15)
    yield from both_sides(
        "one_tensor_twice", lambda ratio: _pair(PRODUCT, precision, 1.0, None, 1 / (ratio * finer)), bits
    )


def totals(op: str, precision: str) -> Iterator[CaseDraft]:
    """Five codes, the farthest of which is 255 from a zero point at an end: below 2**11, others below 2**10."""
    if precision != INT8:
        return
    args = (-1,) if op == TOTALS[2] else ((-1,),)
    divisor = IMAGE[-1] if op == TOTALS[1] else 1
    for name, zero in (("lowest", -128), ("highest", 127)):
        u = call(op, IMAGE, *args)

        def at(ratio: float, u: Call = u, zero: int = zero) -> Call:
            x = replace(u.values[0], quant=quant(ratio * divisor, zero))
            return replace(u, values=(x,), y=codes_quant(precision, quant(1.0)))

        yield from both_sides(f"zero_point_{name}", at, 19)


def swept(row: str, precision: str) -> list[CaseDraft]:
    """A row's limits of scales; none for plain integers and for other operators."""
    if precision == INTEGERS:
        return []
    if row in SUMS:
        return list(sums(row, precision))
    if row in EXTREMES:
        return list(extremes(row, precision))
    if row == PRODUCT:
        return list(products(precision))
    return list(totals(row, precision)) if row in TOTALS else []
