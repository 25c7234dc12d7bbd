"""Operators that ExecuTorch's runtime has and torch has not: numbers for sizes and conditions, views, copies."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from npu_assay.partitioners.exir.pte.frame import Frame

Primitive = Callable[[Frame, Sequence[int], str], None]
"""Runs on the values of these ids; the last argument says where, for errors."""


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


_NUMBERS: Final[Mapping[str, Callable[..., Any]]] = {
    "add.Scalar": operator.add,
    "sub.Scalar": operator.sub,
    "mul.Scalar": operator.mul,
    "floordiv.Scalar": operator.floordiv,
    "floordiv.int": operator.floordiv,
    "truediv.Scalar": operator.truediv,
    "mod.Scalar": operator.mod,
    "mod.int": operator.mod,
    "neg.Scalar": operator.neg,
    "ceil.Scalar": math.ceil,
    "round.Scalar": round,  # ties to even
    "trunc.Scalar": math.trunc,
    "sym_float.Scalar": float,
    "sym_int.Scalar": int,
    "sym_max.Scalar": max,
    "sym_min.Scalar": min,
    "sym_not.Scalar": operator.not_,
    "sym_ite.Scalar": _chosen,
    "eq.Scalar": operator.eq,
    "gt.Scalar": operator.gt,
    "lt.Scalar": operator.lt,
    "ge.Scalar": operator.ge,
    "le.Scalar": operator.le,
}
"""Functions of numbers, by name and overload."""


def _on_numbers(function: Callable[..., Any]) -> Primitive:
    """The last value is the result."""

    def run(frame: Frame, ids: Sequence[int], where: str) -> None:
        *given, result = ids
        frame.store(result, function(*(_number(frame, index, where) for index in given)), where)

    return run


def _number(frame: Frame, index: int, where: str) -> Any:
    value = frame.values[index]
    if type(value) not in (bool, int, float):
        raise frame.error(f"value {index}", type(value).__name__, "a number", where)
    return value


def _view(frame: Frame, ids: Sequence[int], where: str) -> None:
    """The elements of a dense tensor under other sizes, of which one may be -1, in the same memory."""
    source, size, result = ids
    frame.alias(result, source, frame.tensor(source, where).view(frame.get(size, where)), where)


def _copy_index(frame: Frame, ids: Sequence[int], where: str) -> None:
    """Let a tensor have one row more than the index says, and the last row be a copy of the other tensor."""
    target, source, index = ids
    row, place = frame.tensor(source, where), frame.number(index, where)
    rows = frame.tensor(target, where)[:place].clone() if place else row.new_empty((0, *row.shape))
    if place < 0 or len(rows) != place:
        raise frame.error("index", place, f"at most the rows of value {target}", where)
    frame.put(target, torch.cat([rows, row[None]]), where)


def _dim_order_copy(frame: Frame, ids: Sequence[int], where: str) -> None:
    """Copy a tensor, with another dtype or order of axes as the result's record says."""
    source, result = frame.tensor(ids[0], where), ids[-1]
    spec = frame.spec(result, where)
    frame.put(result, source.to(spec.dtype), where)


def _dim_order_empty(frame: Frame, ids: Sequence[int], where: str) -> None:
    """A tensor of these sizes; zeros here, as everything has to be something."""
    sizes, result = frame.get(ids[0], where), ids[-1]
    spec = frame.spec(result, where)
    frame.check_fit(spec, torch.empty(sizes, dtype=spec.dtype, device="meta"), f"result {result}", where)
    frame.put(result, torch.zeros(sizes, dtype=spec.dtype), where)


PRIMITIVES: Final[Mapping[str, tuple[Primitive, int]]] = {
    **{f"executorch_prim::{name}": (_on_numbers(function), 0) for name, function in _NUMBERS.items()},
    "executorch_prim::et_view.default": (_view, 3),
    "executorch_prim::et_copy_index.tensor": (_copy_index, 3),
    "dim_order_ops::_clone_dim_order.out": (_dim_order_copy, 5),
    "dim_order_ops::_to_dim_order_copy.out": (_dim_order_copy, 5),
    "dim_order_ops::_empty_dim_order.out": (_dim_order_empty, 4),
}
"""By name, with the number of values each takes (0: as many as its function)."""
