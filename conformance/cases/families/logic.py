"""Truths, bits, shifts and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, valued
from npu_assay.conformance.cases.families.elementwise.binary import IntegerBinary, Y, integer_binary, integer_scaled
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Q, X, call
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.quantization import ratio_limits
from npu_assay.conformance.cases.pieces.spelling import (
    IMAGE,
    INTEGERS,
    QUANTIZED,
    flags,
    in_int8,
    integers,
    is_wide,
    numbers,
)
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import SCATTERED
from npu_assay.conformance.programs.graph import Fill, Value

SHAPES = ((7,), (3, 5), (2, 3, 4))
EXTREMES = (2147483647.0, -2147483648.0, 0.0, -1.0, 1.0, 1431655765.0)


@dataclass(frozen=True)
class Bits:
    """An operator on plain numbers; dtypes: those that it takes, the usual one first; args: after the operands."""

    op: str
    dtypes: tuple[str, ...]
    operands: int = 2
    args: tuple[Any, ...] = ()
    low: int = -9
    high: int = 9
    truth: bool = False

    def of(self, dtype: str, shape: tuple[int, ...], right: tuple[int, ...] | None = None) -> Call:
        """The operator on numbers of a type."""
        values = [
            plain_numbers("x", shape, dtype),
            plain_numbers("y", shape if right is None else right, dtype, self.low, self.high),
        ]
        refs = (X, Y)[: self.operands]
        return Call(self.op, tuple(values[: self.operands]), (*refs, *self.args), None)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(
            in_int8(lambda shape: self.of(self.dtypes[0], shape)),
            shapes=SHAPES,
            reals=not (self.dtypes[0] == "bool" or self.truth),
        )


def plain_numbers(name: str, shape: tuple[int, ...], dtype: str, low: int = -9, high: int = 9) -> Value:
    return flags(name, shape) if dtype == "bool" else integers(name, shape, dtype, low, high)


def bits(row: Bits, precision: str, limits: Limits) -> list[CaseDraft]:
    """What all of them have."""
    subject = row.subject
    u = subject.call(INTEGERS)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(dtype, row.of(dtype, IMAGE)) for dtype in row.dtypes[1:]]
    if row.operands == 2:
        x, y = u.values
        if row.low < 0:  # no shift
            drafts.append(accepted("same_tensor_twice", replace(u, values=(x,), args=(X, X))))
        drafts.append(accepted("constant_operand", replace(u, values=(x, replace(y, constant=True)))))
        for name, right in (("channels", (3, 1, 1)), ("row", (5,)), ("single", (1, 1, 1, 1))):
            drafts.append(accepted(f"broadcast_{name}", row.of(row.dtypes[0], IMAGE, right)))
    if row.dtypes[0] == "int32" and row.low < 0:
        drafts.append(valued("extremes", replace(u, values=(numbers(u.x, *EXTREMES), *u.values[1:]))))
    if "integer_operands" in limits:
        drafts.append(limit("integer_operands", row.dtypes[0], u))
        quantized = tuple(replace(v, quant=Q, fill=SCATTERED, dtype="float32") for v in u.values)
        if row.dtypes[0] == "bool":
            drafts.append(outside("integer_operands", "codes", replace(u, values=quantized)))
    if "no_bool" in limits and "bool" in row.dtypes:
        drafts.append(outside("no_bool", "bool", row.of("bool", IMAGE)))
    return drafts


def integer_any_cases(row: Bits, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.any in its forms."""
    drafts = bits(row, precision, limits)
    if row.op == "aten.any.dims":
        drafts.append(accepted("two_dims", replace(row.of("bool", IMAGE), args=(X, (0, -1)))))
    if "min_rank" in limits:
        limits.fixed("min_rank", 1)
        drafts.append(limit("min_rank", "1", row.of("bool", (7,))))
        scalar = replace(row.of("bool", ()), args=(X, 0) if row.op.endswith("dim") else (X, ()))
        drafts.append(outside("min_rank", "scalar", scalar))
    return drafts


def integer_comparison_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """Cases of two tensors: of codes on the smaller scale, or of integers."""
    binary = IntegerBinary(op, None, plain=True)
    drafts = integer_binary(binary, precision, limits)
    if precision == INTEGERS:
        return drafts
    u = binary.of(precision, IMAGE, IMAGE)

    def apart(ratio: float) -> Call:
        return replace(integer_scaled(u, precision, ratio, 1.0, 1.0), y=None)

    return [*drafts, *ratio_limits(apart, 14 if is_wide(precision) else 22)]


def _numbers_at_the_ends(u: Call) -> tuple[dict[str, float], Call]:
    """Numbers that one code alone is below or above, and others; the call with those codes, and those next to them."""
    q = u.quant("x")
    assert isinstance(q.scale, float)
    below, above = ((code - q.zero_point) * q.scale for code in (q.qmin + 0.5, q.qmax - 0.5))
    codes = (q.qmin, q.qmin + 1, q.zero_point, q.qmax - 1, q.qmax)
    named = {"zero": 0, "negative": below, "off_the_grid": above, "far": 1000.0, "minus_far": -1000.0}
    return named, u.with_x(fill=Fill("list", values=codes))


def integer_comparison_with_number_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """Cases of a tensor and a number."""

    def at(shape: tuple[int, ...]) -> Call:
        if precision == INTEGERS:
            return Call(op, (integers("x", shape),), (X, 2), None)
        return call(op, shape, 0.5, y=None)

    subject = Subject(in_int8(at), shapes=SHAPES, reals=False)
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    whole: dict[str, float] = {"zero": 0, "negative": -3, "far": 1000, "minus_far": -1000}
    named, told = (whole, u) if precision == INTEGERS else _numbers_at_the_ends(u)
    drafts += [accepted(f"number_{name}", replace(told, args=(X, number))) for name, number in named.items()]
    if "mixed_dtype" in limits and precision != INTEGERS:
        drafts.append(limit("mixed_dtype", "all_the_same", u))
    if "whole_number" in limits:
        drafts.append(limit("whole_number", "2", replace(u, args=(X, 2))))
        drafts.append(limit("whole_number", "2.0", replace(u, args=(X, 2.0))))
        drafts.append(outside("whole_number", "1.5", replace(u, args=(X, 1.5))))
    return drafts


WIDTHS = ("int32", "int8", "int16", "bool")


def _bits(name: str, **settings: Any) -> tuple[str, Family]:
    return name, Family(integers=partial(bits, Bits(name, **settings)), without=QUANTIZED)


def _rows() -> Iterator[tuple[str, Family]]:
    for name in ("and", "or", "xor"):
        yield _bits(f"aten.logical_{name}.default", dtypes=("bool",))
        yield _bits(f"aten.bitwise_{name}.Tensor", dtypes=WIDTHS)
        yield _bits(f"aten.bitwise_{name}.Scalar", dtypes=WIDTHS[:3], operands=1, args=(5,))
    yield _bits("aten.logical_not.default", dtypes=("bool",), operands=1)
    yield _bits("aten.bitwise_not.default", dtypes=WIDTHS, operands=1)
    for name in ("__lshift__.Scalar", "__rshift__.Scalar"):
        yield _bits(f"aten.{name}", dtypes=("int32",), operands=1, args=(2,))
    for name in ("bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"):
        yield _bits(f"aten.{name}", dtypes=("int32",), low=0, high=5)
    for name, args in (("default", ()), ("dim", (-1,)), ("dims", ((-1,), True))):
        row = Bits(f"aten.any.{name}", ("bool",), 1, args)
        yield row.op, Family(integers=partial(integer_any_cases, row), without=QUANTIZED)
    for name in ("eq", "ne", "ge", "gt", "le", "lt"):
        of_two, of_one = f"aten.{name}.Tensor", f"aten.{name}.Scalar"
        yield of_two, Family(integers=partial(integer_comparison_cases, of_two))
        yield of_one, Family(integers=partial(integer_comparison_with_number_cases, of_one))


FAMILIES: Mapping[str, Family] = dict(_rows())
