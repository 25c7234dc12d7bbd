"""TOSA flatbuffers, as they are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from tosa_building import Array, Building

from npu_assay.partitioners.ethosu.tosa_model import TModel

# ------------------------------------------------------------------------------------------------ round trips


def _same_data(a: Array | None, b: Array | None) -> bool:
    return a is b if a is None or b is None else a.dtype == b.dtype and np.array_equal(a, b)


def _same(a: TModel, b: TModel) -> bool:
    """Whether two graphs are equal, constants number by number; what was left out has its default."""
    tensors = all(
        (p.name, p.shape, p.dtype) == (q.name, q.shape, q.dtype) and _same_data(p.data, q.data)
        for p, q in zip(a.tensors, b.tensors, strict=True)
    )
    operators = all(
        (p.code, p.inputs, p.outputs) == (q.code, q.inputs, q.outputs) and p.attributes.items() <= q.attributes.items()
        for p, q in zip(a.operators, b.operators, strict=True)
    )
    rest = [each.name for each in fields(TModel) if each.name not in ("tensors", "operators")]
    return tensors and operators and all(getattr(a, name) == getattr(b, name) for name in rest)


# ------------------------------------------------------------------------------------------------ broken graphs


def _made(code: str, *arrays: tuple[Any, str], target: str = "", **attributes: Any) -> TModel:
    b = Building()
    operands = [b.input(np.asarray(values), dtype) for values, dtype in arrays]
    return b.program(b.apply(code, *operands, target=target, **attributes)).model


ADD = _made("ADD", ([[1, 2, 3]], "INT32"), ([[4], [5]], "INT32"))


def _conv() -> TModel:
    b = Building()
    x = b.input(np.zeros((1, 5, 6, 3)), "INT8")
    w, bias = b.constant(np.zeros((4, 3, 2, 3)), "INT8"), b.constant(np.zeros(4), "INT32")
    zero = b.constant([0], "INT8")
    window: dict[str, Any] = {"pad": (1, 1, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": "INT32"}
    return b.program(b.apply("CONV2D", x, w, bias, zero, zero, **window)).model
