"""Parts of tensors, taken by places or by indices, and put together or into others."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from npu_assay.reference.operators.home import (
    FIRST,
    NO_CODES,
    PICKED,
    UNNAMED,
    Call,
    Operand,
    Operator,
    Schemes,
    Shape,
    X,
    call,
    indices,
    moved,
    real,
    tflite,
    tosa,
    truths,
    written,
    xnnpack,
)

SPLIT = tosa("tosa:split")


def _indexed(name: str, schemes: Schemes, **more: Any) -> Operator:
    """Numbers at places that indices name; the result has their type."""
    return written(name, "selection:looked_up", schemes=schemes, dtype=FIRST, without_onnx=PICKED, **more)


def _at_indices(name: str, *operands: bool) -> Operator:
    return _indexed(name, Schemes(UNNAMED, tosa("tosa:moved", operands=operands), UNNAMED))


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

    return Operator(
        name, golden, along(1), shapes=((3, 5), (2, 3, 4)), spellings=(("last", along(-1)),), schemes=NO_CODES, **more
    )


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


def _bag(mode: int) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        return call(X, indices("i", (5,), 3, 0, 5, 2, 3), indices("o", (2,), 0, 3), False, mode)

    return at


SLICING = (
    moved("aten.select_copy.int", without_onnx=PICKED),
    moved("aten.slice.Tensor", onnx="layout:sliced"),
    moved("aten.slice_copy.Tensor", xnnpack=xnnpack("xnnpack:moved"), onnx="layout:sliced"),
    moved("aten.split.Tensor", tosa=SPLIT, onnx="layout:pieces"),
    moved("aten.split.default", tosa=SPLIT, onnx="layout:pieces"),
    moved("aten.split.sizes", tosa=SPLIT, onnx="layout:pieces"),
    moved("aten.split_copy.Tensor", tosa=SPLIT, onnx="layout:pieces"),
    moved("aten.split_with_sizes.default", tosa=SPLIT, onnx="layout:pieces"),
    moved("aten.split_with_sizes_copy.default", tosa=SPLIT, onnx="layout:pieces"),
    written(
        "aten.cat.default",
        None,
        schemes=Schemes(tflite("layout:cat"), tosa("tosa:cat"), xnnpack("xnnpack:cat")),
        moves=True,
        ieee="reals:itself",
        onnx="layout:joined",
    ),
    _at_indices("aten.embedding.default", True, False),
    _at_indices("aten.gather.default", True, False),
    _at_indices("aten.index.Tensor", True),
    _at_indices("aten.index_select.default", True, False),
    _indexed("aten.index_put.default", Schemes(UNNAMED, tosa("tosa:index_put", operands=(True, False, True)), UNNAMED)),
    written(
        "aten.masked_fill.Scalar",
        "selection:masked_fill",
        schemes=Schemes(UNNAMED, tosa("tosa:masked_fill", operands=(True, False)), UNNAMED),
        dtype=FIRST,
        without_onnx=PICKED,
    ),
    written(
        "aten.where.self",
        "selection:where",
        schemes=Schemes(UNNAMED, tosa("tosa:where", operands=(False, True, True)), UNNAMED),
        without_onnx=PICKED,
    ),
    written(
        "aten.copy.default",
        "selection:copied",
        dtype=FIRST,
        schemes=Schemes(UNNAMED, tosa("tosa:copy"), UNNAMED),
        without_onnx=PICKED,
    ),
    Operator(
        "aten.stack.default",
        None,
        _stack(1),
        spellings=(("last", _stack(-1)),),
        moves=True,
        integers=True,
        onnx="apart.layout:stacked",
        schemes=NO_CODES,
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
        schemes=NO_CODES,
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
        schemes=NO_CODES,
    ),
    Operator(
        "aten.masked_scatter.default",
        None,
        _masked_scatter,
        shapes=((7,),),
        moves=True,
        without_onnx="ONNX counts no places of a mask",
        schemes=NO_CODES,
    ),
    _scattered("aten.scatter.value", "scatter:scatter_value", number=1.5, onnx="apart.layout:placed"),
    _scattered("aten.scatter.src", None, moves=True, onnx="apart.layout:placed"),
    _scattered("aten.scatter_add.default", None, onnx="apart.layout:summed_in"),
    Operator(
        "aten.scatter_reduce.two",
        "scatter:scatter_reduce",
        _scatter_reduced("sum"),
        shapes=((3, 5), (2, 3, 4)),
        spellings=(("amax", _scatter_reduced("amax")), ("amin_alone", _scatter_reduced("amin", include_self=False))),
        onnx="apart.layout:placed",
        schemes=NO_CODES,
    ),
    Operator(
        "aten._embedding_bag.default",
        None,
        _bag(0),
        (6, 4),
        (),
        (("mean", _bag(1)), ("largest", _bag(2))),
        gives=(-13.0, 13.0),
        without_onnx="ONNX has no bags of rows",
        empty=False,
        schemes=NO_CODES,
    ),
)
