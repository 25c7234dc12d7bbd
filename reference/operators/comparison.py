"""Comparisons, truths, and the bits of whole numbers."""

from __future__ import annotations

from typing import Any

from npu_assay.reference.operators.home import (
    BYTES,
    NUMBERS_ALONE,
    PICKED,
    TRUTHS,
    TRUTHS_ALONE,
    Operator,
    function,
    written,
)


def _compared(name: str, onnx: str) -> tuple[Operator, Operator]:
    """A comparison of two tensors, and of a tensor and a number."""

    def of(overload: str) -> Operator:
        return written(
            f"aten.{name}.{overload}",
            f"selection:{name}",
            schemes=TRUTHS_ALONE,
            result=TRUTHS,
            compares=True,
            **({"onnx": f"{onnx}(self, other)"} if onnx else {"without_onnx": "ONNX has no such comparison"}),
        )

    return of("Tensor"), of("Scalar")


def _truth(name: str, golden: str, **more: Any) -> Operator:
    """Anything but zero is true."""
    return written(
        name, golden, schemes=TRUTHS_ALONE, result=TRUTHS, without_onnx="ONNX takes truths alone, not numbers", **more
    )


def _bits(name: str) -> Operator:
    """An operator on the bits of whole numbers."""
    return written(f"aten.{name}", "selection:whole", schemes=NUMBERS_ALONE, without_onnx=PICKED)


COMPARISON = (
    *_compared("eq", "Equal"),
    *_compared("ne", ""),
    *_compared("ge", "GreaterOrEqual"),
    *_compared("gt", "Greater"),
    *_compared("le", "LessOrEqual"),
    *_compared("lt", "Less"),
    *(_truth(f"aten.logical_{name}.default", f"selection:logical_{name}") for name in ("and", "not", "or", "xor")),
    *(_truth(f"aten.any.{overload}", "selection:any_", dtype=BYTES) for overload in ("default", "dim", "dims")),
    _bits("bitwise_and.Scalar"),
    _bits("bitwise_and.Tensor"),
    _bits("bitwise_left_shift.Tensor"),
    _bits("bitwise_not.default"),
    _bits("bitwise_or.Scalar"),
    _bits("bitwise_or.Tensor"),
    _bits("bitwise_right_shift.Tensor"),
    _bits("bitwise_xor.Scalar"),
    _bits("bitwise_xor.Tensor"),
    _bits("__lshift__.Scalar"),
    _bits("__rshift__.Scalar"),
    function("aten.isinf.default", "piecewise:isinf", result=TRUTHS, onnx="IsInf"),
    function("aten.isnan.default", "piecewise:isnan", result=TRUTHS, onnx="IsNaN"),
)
