"""Truths, bits and comparisons; shifts and conversions of integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.integer.binary import Binary, scaled
from npu_assay.conformance.cases.integer.binary import cases as binary_cases
from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, ratio_limits
from npu_assay.conformance.cases.integer.spelling import IMAGE, INTEGERS, flags, integers, is_wide, numbers
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Draft, Q, Use, X, accepted, inside, limit, model, outside, use, valued
from npu_assay.conformance.cases.shared import SCATTERED
from npu_assay.conformance.programs.graph import Ref, Value

CAST = "dim_order_ops._to_dim_order_copy.default"
Y = Ref("y")
SHAPES = ((7,), (3, 5), (2, 3, 4))
EXTREMES = (2147483647.0, -2147483648.0, 0.0, -1.0, 1.0, 1431655765.0)


@dataclass(frozen=True)
class Bits:
    """An operator on plain numbers; dtypes: those that it takes, the usual one first; args: behind the operands."""

    op: str
    dtypes: tuple[str, ...]
    operands: int = 2
    args: tuple[Any, ...] = ()
    low: int = -9
    high: int = 9
    truth: bool = False

    def of(self, dtype: str, shape: tuple[int, ...], right: tuple[int, ...] | None = None) -> Use:
        """The operator on numbers of a type."""
        values = [
            _numbers("x", shape, dtype),
            _numbers("y", shape if right is None else right, dtype, self.low, self.high),
        ]
        refs = (X, Y)[: self.operands]
        return Use(self.op, tuple(values[: self.operands]), (*refs, *self.args), None)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(
            lambda shape: self.of(self.dtypes[0], shape), shapes=SHAPES, plain=self.dtypes[0] == "bool" or self.truth
        )


def _numbers(name: str, shape: tuple[int, ...], dtype: str, low: int = -9, high: int = 9) -> Value:
    return flags(name, shape) if dtype == "bool" else integers(name, shape, dtype, low, high)


def cases(row: Bits, precision: str, limits: Limits) -> list[Draft]:
    """What all of them have."""
    subject = row.subject
    u = subject.use(INTEGERS)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(dtype, model(row.of(dtype, IMAGE))) for dtype in row.dtypes[1:]]
    if row.operands == 2:
        x, y = u.values
        if row.low < 0:  # no shift
            drafts.append(accepted("same_tensor_twice", model(replace(u, values=(x,), args=(X, X)))))
        drafts.append(accepted("constant_operand", model(replace(u, values=(x, replace(y, constant=True))))))
        for name, right in (("channels", (3, 1, 1)), ("row", (5,)), ("single", (1, 1, 1, 1))):
            drafts.append(accepted(f"broadcast_{name}", model(row.of(row.dtypes[0], IMAGE, right))))
    if row.dtypes[0] == "int32" and row.low < 0:
        drafts.append(valued("extremes", model(replace(u, values=(numbers(u.values[0], *EXTREMES), *u.values[1:])))))
    if "integer_operands" in limits:
        drafts.append(limit("integer_operands", row.dtypes[0], model(u)))
        quantised = tuple(replace(v, quant=Q, fill=SCATTERED, dtype="float32") for v in u.values)
        if row.dtypes[0] == "bool":
            drafts.append(outside("integer_operands", "codes", model(replace(u, values=quantised))))
    if "no_bool" in limits and "bool" in row.dtypes:
        drafts.append(outside("no_bool", "bool", model(row.of("bool", IMAGE))))
    return drafts


def any_cases(row: Bits, precision: str, limits: Limits) -> list[Draft]:
    """aten.any in its forms."""
    drafts = cases(row, precision, limits)
    if row.op == "aten.any.dims":
        drafts.append(accepted("two_dims", model(replace(row.of("bool", IMAGE), args=(X, (0, -1))))))
    if "min_rank" in limits:
        limits.fixed("min_rank", 1)
        drafts.append(limit("min_rank", "1", model(row.of("bool", (7,)))))
        scalar = replace(row.of("bool", ()), args=(X, 0) if row.op.endswith("dim") else (X, ()))
        drafts.append(outside("min_rank", "scalar", model(scalar)))
    return drafts


# ------------------------------------------------------------------------------------ comparisons


def comparison_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """Of two tensors: of codes on the smaller scale, or of integers."""
    binary = Binary(op, None, plain=True)
    drafts = binary_cases(binary, precision, limits)
    if precision == INTEGERS:
        return drafts
    u = binary.of(precision, IMAGE, IMAGE)

    def apart(ratio: float) -> Use:
        return replace(scaled(u, precision, ratio, 1.0, 1.0), y=None)

    return [*drafts, *ratio_limits(apart, 14 if is_wide(precision) else 22)]


def with_number_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """Of a tensor and a number."""

    def at(shape: tuple[int, ...]) -> Use:
        if precision == INTEGERS:
            return Use(op, (integers("x", shape),), (X, 2), None)
        return use(op, shape, 0.5, y=None)

    subject = Subject(at, shapes=SHAPES, plain=True)
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    for name, number in (
        ("zero", 0),
        ("negative", -3),
        ("off_the_grid", 0.513),
        ("far", 1000.0),
        ("minus_far", -1000.0),
    ):
        if precision != INTEGERS or number == int(number):
            whole = int(number) if precision == INTEGERS else number
            drafts.append(accepted(f"number_{name}", model(replace(u, args=(X, whole)))))
    if "mixed_dtype" in limits and precision != INTEGERS:
        drafts.append(limit("mixed_dtype", "all_the_same", model(u)))
    if "whole_number" in limits:
        drafts.append(limit("whole_number", "2", model(replace(u, args=(X, 2)))))
        drafts.append(limit("whole_number", "2.0", model(replace(u, args=(X, 2.0)))))
        drafts.append(outside("whole_number", "1.5", model(replace(u, args=(X, 1.5)))))
    return drafts


# ------------------------------------------------------------------------------------ conversions


def conversion_cases(precision: str, limits: Limits) -> list[Draft]:
    """dim_order_ops._to_dim_order_copy.default: between the types of integers."""

    def at(shape: tuple[int, ...], dtype: str = "int16", before: str = "int8") -> Use:
        order = tuple(range(len(shape)))
        return Use(CAST, (_numbers("x", shape, before),), (X,), None, (("dtype", dtype), ("dim_order", order)))

    subject = Subject(at, shapes=SHAPES)
    drafts = everywhere(subject, precision, limits)
    drafts.append(limit("conversion", "int8_to_int16", model(at(IMAGE))))
    drafts.append(outside("conversion", "int8_to_int64", model(at(IMAGE, "int64"))))
    drafts.append(outside("conversion", "int8_to_float16", model(at(IMAGE, "float16"))))
    small = ("int8", "int16", "int32")
    pairs = [(before, after) for before in small for after in small if before != after and (before, after) != small[:2]]
    narrow = "code_dtype" in limits
    limits.value("code_dtype", ())
    for before, after in pairs:
        graph = model(at(IMAGE, after, before))
        if narrow and before == "int32":
            drafts.append(outside("code_dtype", f"{before}_to_{after}", graph))
        else:
            drafts.append(inside("conversion", f"{before}_to_{after}", graph))
    if narrow:
        drafts.append(limit("code_dtype", "int8_to_int32", model(at(IMAGE, "int32"))))
        drafts.append(limit("no_bool", "int8", model(at(IMAGE))))
        drafts.append(outside("no_bool", "from_bool", model(at(IMAGE, "int8", "bool"))))
    else:
        drafts += [accepted(f"{dtype}_from_bool", model(at(IMAGE, dtype, "bool"))) for dtype in small]
    return drafts


# ------------------------------------------------------------------------------------ rows

WIDTHS = ("int32", "int8", "int16", "bool")


def _bits(name: str, **settings: Any) -> tuple[str, Family]:
    return name, partial(cases, Bits(name, **settings))


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
        yield row.op, partial(any_cases, row)
    for name in ("eq", "ne", "ge", "gt", "le", "lt"):
        yield f"aten.{name}.Tensor", partial(comparison_cases, f"aten.{name}.Tensor")
        yield f"aten.{name}.Scalar", partial(with_number_cases, f"aten.{name}.Scalar")
    yield CAST, conversion_cases


FAMILIES: Mapping[str, Family] = dict(_rows())
