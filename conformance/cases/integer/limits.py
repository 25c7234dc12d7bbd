"""Operators on one tensor without a table: absolute values, signs, and limits to a range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.integer.binary import SHAPES
from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, moved_ratios, ratio_limits, rescaled
from npu_assay.conformance.cases.integer.functions import POSITIVE, all_codes
from npu_assay.conformance.cases.integer.spelling import INTEGERS, codes_quant, integers, is_wide
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    constant,
    limit,
    model,
    quant,
    use,
)
from npu_assay.conformance.programs.graph import Quant, Ref

INFINITY = float("inf")


@dataclass(frozen=True)
class Unary:
    """An operator on `x`; args: what stands behind it; y: its result's quantisation; more: other arguments."""

    op: str
    args: tuple[Any, ...] = ()
    y: Quant = Q
    more: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def subject(self, precision: str) -> Subject:
        """What all rows are made from."""

        def at(shape: tuple[int, ...]) -> Use:
            if precision == INTEGERS:
                return Use(self.op, (integers("x", shape),), (X, *self.args), None)
            return use(self.op, shape, *self.args, y=self.y)

        return Subject(at, shapes=SHAPES, elementwise=True)


def cases(unary: Unary, precision: str, limits: Limits) -> list[Draft]:
    """What every one of them has."""
    subject = unary.subject(precision)
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(name, model(replace(u, args=(X, *args)))) for name, args in unary.more]
    if precision == INTEGERS:
        return drafts
    drafts += all_codes(subject, precision)
    return [*drafts, *rescaled(subject, precision), *moved_ratios(subject, precision)]


def clamp_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.clamp.default: one bound or both."""
    bounds = (
        ("both", (-1, 2)),
        ("min_only", (-0.5,)),
        ("max_only", (None, 0.75)),
        ("equal", (1.0, 1.0)),
        ("far_apart", (-1e4, 1e4)),
        ("up_to_infinity", (0.0, INFINITY)),
        ("off_the_grid", (-1.23, 1.23)),
    )
    unary = Unary("aten.clamp.default", (-1.0, 2.0), more=bounds)
    u = unary.subject(precision).use(precision)
    drafts = cases(unary, precision, limits)
    drafts += [limit("bounds", name, model(replace(u, args=(X, *args)))) for name, args in bounds[1:3]]
    return drafts


def clamp_tensor_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.clamp.Tensor: the bounds are tensors, computed or constant."""
    low, high = constant("low", (1,), quant(0.03125, -7)), constant("high", (1,), quant(0.03125, -7))

    def at(shape: tuple[int, ...]) -> Use:
        values = (activation("x", shape), low, high)
        return Use("aten.clamp.Tensor", values, (X, Ref("low"), Ref("high")), Q)

    subject = Subject(at, shapes=SHAPES, elementwise=True)
    u = subject.use(precision)
    x, small, large = u.values
    only_low = replace(u, values=(x, small), args=(X, Ref("low")))
    only_high = replace(u, values=(x, large), args=(X, None, Ref("high")))
    per_channel = replace(u, values=(x, replace(small, shape=(3, 1, 1), constant=False), large))

    def _apart(ratio: float) -> Use:
        x, *bounds = (replace(v, quant=codes_quant(precision, quant(1.0))) for v in u.values)
        large_x = replace(x, quant=codes_quant(precision, quant(ratio)))
        return replace(u, values=(large_x, *bounds), y=codes_quant(precision, quant(ratio)))

    return [
        *everywhere(subject, precision, limits),
        limit("bounds", "low", model(only_low)),
        limit("bounds", "high", model(only_high)),
        accepted("low_per_channel", model(per_channel)),
        *rescaled(subject, precision),
        *ratio_limits(_apart, 14 if is_wide(precision) else 22),
    ]


HARDTANH = (("default", ()), ("relu6", (0.0, 6.0)), ("whole_numbers", (-2, 3)), ("off_the_grid", (-1.23, 1.23)))
FAMILIES: Mapping[str, Family] = {
    "aten.abs.default": partial(cases, Unary("aten.abs.default")),
    "aten.neg.default": partial(cases, Unary("aten.neg.default")),
    "aten.relu.default": partial(cases, Unary("aten.relu.default", y=POSITIVE)),
    "aten.hardtanh.default": partial(cases, Unary("aten.hardtanh.default", (-1.0, 1.0), more=HARDTANH)),
    "aten.clamp.default": clamp_cases,
    "aten.clamp.Tensor": clamp_tensor_cases,
}
