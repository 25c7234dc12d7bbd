"""The bounds of float goldens for every form of arguments in the tables' cases: numbers of 0 or more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from table_steps import Known, steps

from npu_assay.conformance.programs.graph import Ref, Step
from npu_assay.reference import golden
from npu_assay.reference.golden import Bounded, self_bounded

REFUSED = (RuntimeError, TypeError, ValueError, IndexError, golden.GoldenError)
"""What torch and the goldens say to operands of another type than the case's."""


def _bounds(step: Step, known: Known) -> Iterator[Bounded]:
    """The results of operands that are off by 0.001; whole numbers are 0, and exact."""
    generator = torch.Generator().manual_seed(0)

    def real(argument: Any) -> Any:
        if isinstance(argument, Ref):
            kind = known[argument]
            if not kind.dtype.startswith(("float", "bfloat")):
                return Bounded(torch.zeros(kind.shape, dtype=torch.float64))
            value = torch.randn(kind.shape, generator=generator, dtype=torch.float64)
            return Bounded(value, torch.full_like(value, 1e-3))
        return tuple(map(real, argument)) if isinstance(argument, tuple) else argument

    args = tuple(map(real, step.args))
    try:
        yield from golden.run(step.op, args, dict(step.kwargs))
        yield from golden.run_float(step.op, args, dict(step.kwargs), torch.float32)
    except REFUSED:
        return


def _wrong(table: str) -> set[str]:
    """The operators that have a negative bound, or none of a number."""
    return {
        step.op
        for step, known in steps(table)
        for found in _bounds(step, known)
        if bool(((found.error < 0) | (found.error.isnan() & found.value.isfinite())).any())
    }


@pytest.mark.long
@pytest.mark.parametrize("table", ["ethos_u85@1.5", "xnnpack@1.5", "neutron@1.4"])
def test_bounds_are_numbers_of_0_or_more(table: str) -> None:
    assert _wrong(table) == set()


def test_a_negative_bound_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that errors go through themselves: as of a pool with a negative divisor, when it was not turned."""

    def turned(value: torch.Tensor, bound: torch.Tensor | None = None) -> Bounded:
        return Bounded(value) if bound is None else Bounded(value, -bound)

    monkeypatch.setattr(self_bounded, "Bounded", turned)
    assert "aten.avg_pool2d.default" in _wrong("xnnpack@1.5")
