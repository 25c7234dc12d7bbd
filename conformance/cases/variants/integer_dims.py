"""Every dimension of tensors of several ranks whose sizes all differ, counted from the front and from the back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, accepted
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Q, X, activation, call, label, model, quant
from npu_assay.conformance.cases.pieces.spelling import INT8, INTEGERS, flags
from npu_assay.conformance.programs.graph import Fill, Ref

Shape = tuple[int, ...]
At = Callable[[Shape, int], Call]
SIZES = (2, 3, 4, 5, 6)
RANKS = (1, 2, 3, 5)
RAMP = Fill("ramp")
TOTAL = quant(0.2, 2)


def _moved(op: str, *args: Any, **kwargs: Any) -> At:
    """`args` after the dimension."""
    return lambda shape, dim: call(op, shape, dim, *args, fill=RAMP, **kwargs)


def _reduced(op: str, y: Any = Q) -> At:
    """Counted from the front the dimension stays, with size 1."""
    return lambda shape, dim: call(op, shape, (dim,), dim >= 0, y=y)


def _cat(shape: Shape, dim: int) -> Call:
    longer = tuple(size + (axis == dim % len(shape)) for axis, size in enumerate(shape))
    values = activation("x", shape, fill=RAMP), activation("x1", longer)
    return Call("aten.cat.default", values, ((X, Ref("x1")), dim), Q)


def _sliced(shape: Shape, dim: int) -> Call:
    size = shape[dim]
    return call("aten.slice_copy.Tensor", shape, dim, 1, size, 1 if size < 4 else 2, fill=RAMP)


def _selected(shape: Shape, dim: int) -> Call:
    return call("aten.select_copy.int", shape, dim, shape[dim] - 1 if dim >= 0 else -shape[dim], fill=RAMP)


def _squeezed(shape: Shape, dim: int) -> Call:
    single = tuple(1 if axis == dim % len(shape) else size for axis, size in enumerate(shape))
    return call("aten.squeeze_copy.dims", single, (dim,), fill=RAMP)


def _split(shape: Shape, dim: int) -> Call:
    return call("aten.split_with_sizes_copy.default", shape, (1, shape[dim] - 1), dim, outputs=2, fill=RAMP)


MOVED: Mapping[str, At] = {
    "aten.cat.default": _cat,
    "aten.flip.default": lambda shape, dim: call("aten.flip.default", shape, (dim,), fill=RAMP),
    "aten.select_copy.int": _selected,
    "aten.slice_copy.Tensor": _sliced,
    "aten.split_with_sizes_copy.default": _split,
    "aten.squeeze_copy.dims": _squeezed,
    "aten.unfold_copy.default": _moved("aten.unfold_copy.default", 2, 1),
    "aten.unsqueeze_copy.default": _moved("aten.unsqueeze_copy.default"),
}
REDUCED: Mapping[str, At] = {
    "aten.amax.default": _reduced("aten.amax.default"),
    "aten.amin.default": _reduced("aten.amin.default"),
    "aten.cumsum.default": _moved("aten.cumsum.default", y=TOTAL),
    "aten.mean.dim": _reduced("aten.mean.dim"),
    "aten.sum.dim_IntList": _reduced("aten.sum.dim_IntList", TOTAL),
}


def _any(op: str, shape: Shape, dim: int) -> Call:
    listed: Any = (dim,) if op == "aten.any.dims" else dim
    return Call(op, (flags("x", shape),), (X, listed, dim >= 0), None)


def swept(row: str, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """A row's dimensions, in int8, and of truths."""
    if row in ("aten.any.dim", "aten.any.dims") and precision == INTEGERS:
        yield from _each(lambda shape, dim: _any(row, shape, dim))
    if precision != INT8 or (row == "aten.flip.default" and "dims" in limits):
        return
    if row in MOVED:
        yield from _each(MOVED[row], row == "aten.unsqueeze_copy.default")
    elif row in REDUCED:
        yield from _each(REDUCED[row])


def _each(at: At, one_more: bool = False) -> Iterator[CaseDraft]:
    """one_more: whether there is a dimension after the last."""
    for rank in RANKS:
        shape = SIZES[:rank]
        for dim in range(-rank - one_more, rank + one_more):
            yield accepted(f"dim_{label(dim)}_of_{rank}", model(at(shape, dim)))
