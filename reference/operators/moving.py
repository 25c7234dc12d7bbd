"""Operators that move numbers, repeat them, or put some in the places of others."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from npu_assay.reference.operators.home import (
    Call,
    Operand,
    Operator,
    Shape,
    X,
    behind,
    call,
    indices,
    real,
    truths,
)


def _moved(name: str, *rest: Any, integers: bool = True, **more: Any) -> Operator:
    """One tensor's numbers at other places."""
    return Operator(name, None, behind(*rest), moves=True, integers=integers, **more)


def _pad(name: str, rank: int, onnx: str) -> Operator:
    """Padding of the last axes, another on each side."""
    widths = (1, 2, 0, 1, 2, 1)[: 2 * rank]
    shape: Shape = (1, 2, 4, 5, 6)[: rank + 2] if rank == 3 else (1, 3, 4, 5)[: rank + 2]
    none = (0,) * (2 * rank)
    spellings = (("nothing", behind(none)), ("one_side", behind((*none[:-1], 2))))
    return _moved(name, widths, shape=shape, shapes=(shape[1:],), spellings=spellings, integers=False, onnx=onnx)


def places(shape: Shape, dim: int, size: int) -> tuple[int, ...]:
    """An index for each place of a shape: along `dim` the places of a tensor of that size, backwards, each once."""
    stride = prod(shape[dim + 1 :])
    return tuple((size - 1 - index // stride % shape[dim]) % size for index in range(prod(shape)))


def _index(dim: int = 1, count: int = 2) -> Callable[[Shape], Operand]:
    """Indices for `count` of the places along an axis, as long everywhere else as `X`."""

    def of(shape: Shape) -> Operand:
        some = (*shape[:dim], min(count, shape[dim]), *shape[dim + 1 :])
        return indices("i", some, *places(some, dim, shape[dim]))

    return of


def _scattered(name: str, golden: str | None, *rest: Any, number: float | None = None, **more: Any) -> Operator:
    """Numbers at the places that indices name, along axis 1 and, spelled otherwise, along the last."""

    def along(dim: int) -> Callable[[Shape], Call]:
        def at(shape: Shape) -> Call:
            axis = dim % len(shape)
            index = _index(axis)(shape)
            src = real("src", index.shape or ()) if number is None else number
            return call(X, dim, index, src, *rest)

        return at

    return Operator(name, golden, along(1), shapes=((3, 5), (2, 3, 4)), spellings=(("last", along(-1)),), **more)


def _scatter_reduced(reduce: str, **kwargs: Any) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        index = _index()(shape)
        return call(X, 1, index, real("src", index.shape or ()), reduce, **kwargs)

    return at


def _stack(dim: int) -> Callable[[Shape], Call]:
    return lambda shape: call((X, real("y", shape), real("z", shape)), dim)


def _without(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], *shape[dim + 1 :])


def _select_scatter(dim: int, index: int) -> Callable[[Shape], Call]:
    return lambda shape: call(X, real("src", _without(shape, dim % len(shape))), dim, index)


def _slice_scatter(dim: int, start: int, end: int, step: int = 1) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        length = len(range(start, end, step))
        axis = dim % len(shape)
        return call(X, real("src", (*shape[:axis], length, *shape[axis + 1 :])), dim, start, end, step)

    return at


def _masked_scatter(shape: Shape) -> Call:
    return call(X, truths("mask", shape), real("put", shape))


MOVING = (
    _moved(
        "aten.diagonal_copy.default",
        0,
        2,
        3,
        spellings=(("above", behind(1, -2, -1)), ("below", behind(-1, 2, 3))),
        without_onnx="ONNX has no diagonals",
    ),
    _moved("aten.pixel_shuffle.default", 2, shape=(1, 8, 3, 5), shapes=((4, 3, 5),), onnx="onnx_forms:pixel_shuffle"),
    _moved(
        "aten.pixel_unshuffle.default",
        2,
        shape=(1, 2, 6, 10),
        shapes=((2, 4, 6),),
        large=(1, 2, 206, 10),
        without_onnx="SpaceToDepth has another order of channels",
    ),
    _pad("aten.reflection_pad1d.default", 1, "onnx_forms:reflected"),
    _pad("aten.reflection_pad2d.default", 2, "onnx_forms:reflected"),
    _pad("aten.reflection_pad3d.default", 3, "onnx_forms:reflected"),
    _pad("aten.replication_pad1d.default", 1, "onnx_forms:replicated"),
    _pad("aten.replication_pad2d.default", 2, "onnx_forms:replicated"),
    _pad("aten.replication_pad3d.default", 3, "onnx_forms:replicated"),
    _moved(
        "aten.squeeze_copy.dim",
        2,
        shape=(1, 8, 1, 4),
        shapes=((3, 4, 1),),
        spellings=(("none", behind(1)),),
        onnx="onnx_golden:squeezed",
    ),
    _moved("aten.t_copy.default", shape=(3, 5), shapes=((7,),), onnx="onnx_forms:transposed"),
    _moved(
        "aten.transpose_copy.int",
        1,
        2,
        shapes=((3, 4, 5),),
        spellings=(("negative", behind(-1, -2)), ("itself", behind(1, 1))),
        onnx="onnx_forms:transposed",
    ),
    _moved(
        "aten.tril.default",
        shapes=((3, 5), (5, 3)),
        spellings=(("above", behind(1)), ("below", behind(-1))),
        onnx="onnx_forms:lower_triangle",
    ),
    _moved(
        "aten.triu.default",
        shapes=((3, 5), (5, 3)),
        spellings=(("above", behind(1)), ("below", behind(-1))),
        onnx="onnx_forms:upper_triangle",
    ),
    _moved(
        "aten.unflatten.int",
        1,
        (3, 1),
        shapes=((2, 3),),
        spellings=(("inferred", behind(2, (2, -1))),),
        onnx="onnx_forms:unflattened",
    ),
    _moved("aten.native_dropout.default", 0.5, False, integers=False, onnx="onnx_forms:itself"),
    Operator(
        "aten.stack.default",
        None,
        _stack(1),
        spellings=(("last", _stack(-1)),),
        moves=True,
        integers=True,
        onnx="onnx_forms:stacked",
    ),
    Operator(
        "aten.select_scatter.default",
        None,
        _select_scatter(1, 2),
        shapes=((2, 3),),
        spellings=(("last", _select_scatter(-1, -1)),),
        moves=True,
        integers=True,
        without_onnx="ONNX puts no slices into tensors",
    ),
    Operator(
        "aten.slice_scatter.default",
        None,
        _slice_scatter(2, 1, 3),
        shapes=((2, 3, 4),),
        spellings=(("strided", _slice_scatter(-1, 0, 5, 2)),),
        moves=True,
        integers=True,
        without_onnx="ONNX puts no slices into tensors",
    ),
    Operator(
        "aten.masked_scatter.default",
        None,
        _masked_scatter,
        shapes=((7,),),
        moves=True,
        without_onnx="ONNX counts no places of a mask",
    ),
    _scattered("aten.scatter.value", "placing:scatter_value", number=1.5, onnx="onnx_forms:placed"),
    _scattered("aten.scatter.src", None, moves=True, onnx="onnx_forms:placed"),
    _scattered("aten.scatter_add.default", None, onnx="onnx_forms:summed_in"),
    Operator(
        "aten.scatter_reduce.two",
        "placing:scatter_reduce",
        _scatter_reduced("sum"),
        shapes=((3, 5), (2, 3, 4)),
        spellings=(("amax", _scatter_reduced("amax")), ("amin_alone", _scatter_reduced("amin", include_self=False))),
        onnx="onnx_forms:placed",
    ),
    Operator("aten.ones_like.default", "placing:ones_like", elementwise=True, without_onnx="nothing is computed"),
    Operator(
        "aten.zeros_like.default",
        "placing:zeros_like",
        moves=True,
        elementwise=True,
        without_onnx="nothing is computed",
    ),
)
"""Of one tensor, and of one into another. Indices name each place once: which of several numbers stays is left open."""
