"""Reductions in ONNX."""

from __future__ import annotations

from typing import Any

import torch

from npu_assay.reference.onnx_forms.site import Form, Site, X


def axes_of(s: Site[Any]) -> list[int]:
    """The axes that are named, all where none is."""
    dim = s.given.get("dim")
    return [dim] if isinstance(dim, int) else list(dim or range(len(s.shape())))


def reduced(kind: str) -> Form:
    """Over some axes, or all; of a scalar there is none."""

    def form(s: Site[X]) -> X:
        x, axes = s.operand("self"), axes_of(s)
        return s.op(kind, x, s.ints(axes), keepdims=int(s.given.get("keepdim", False))) if axes else s.op("Identity", x)

    return form


mean, total, product = reduced("ReduceMean"), reduced("ReduceSum"), reduced("ReduceProd")
largest, smallest = reduced("ReduceMax"), reduced("ReduceMin")


def cumsum(s: Site[X]) -> X:
    """CumSum, which wants a dimension."""
    return s.op("CumSum", s.x(), s.number(s["dim"], torch.int64)) if s.shape() else s.op("Identity", s.x())
