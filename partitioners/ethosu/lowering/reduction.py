"""Reductions over dimensions; each is one operator per dimension, in the order in which they are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_assay.partitioners.ethosu.lowering.elementwise import is_plain
from npu_assay.partitioners.ethosu.lowering.operation import Lower, Operation
from npu_assay.partitioners.ethosu.lowering.pooling import sum_windows
from npu_assay.partitioners.ethosu.lowering.values import Value, viewed
from npu_assay.partitioners.ethosu.support.reduction import reduced_dims
from npu_assay.partitioners.exir.layout import Layout, arranged, identity
from npu_assay.partitioners.exir.qdq import QParams


def _reduced(
    operation: Operation, code: str, tensor: str, layout: Layout, dims: Sequence[int], **attributes: str
) -> str:
    """The operator along each dimension, which stays with size 1."""
    model = operation.model
    for dim in dims:
        axis, shape = layout.index(dim), list(model.shape(tensor))
        shape[axis] = 1
        tensor = operation.emit(code, [tensor], shape, model.dtype(tensor), axis=axis, **attributes)
    return tensor


def _dropped(operation: Operation, tensor: str, layout: Layout, dims: Sequence[int], quant: QParams | None) -> Value:
    """The result with the reduced dimensions, or without them, in the order of axes that is left."""
    kept = [axis for axis in layout if len(operation.shape) == len(layout) or axis not in dims]
    order = tuple(sorted(kept).index(axis) for axis in kept)
    shaped = operation.model.reshape(tensor, arranged(operation.shape, order), operation.node.name)
    return operation.result(shaped, order, quant=quant)


def _scalar_refused(operation: Operation, x: Value) -> None:
    operation.require(x.rank > 0, "rank of the input", 0, "1 or more")


def sum_(operation: Operation) -> Value:
    """aten.sum -> REDUCE_SUM of int32 numbers."""
    return _total(operation, 1)


def mean(operation: Operation) -> Value:
    """aten.mean -> REDUCE_SUM, and the division within the one RESCALE after it."""
    x = operation.first
    return _total(operation, int(np.prod([x.shape[dim] for dim in reduced_dims(operation.node)])))


def _total(operation: Operation, count: int) -> Value:
    x = operation.first
    _scalar_refused(operation, x)
    dims, layout = reduced_dims(operation.node), x.home
    tensor = operation.tensor(x, layout)
    if is_plain([x]):
        made = _reduced(operation, "REDUCE_SUM", operation.integers(tensor, "INT32"), layout, dims)
        return _dropped(operation, operation.integers(made, operation.dtype), layout, dims, None)
    quant = operation.quant_of(x)
    made = _reduced(operation, "REDUCE_SUM", operation.widened(tensor, quant, 1.0), layout, dims)
    codes = operation.narrowed(made, (quant.scale / (count * operation.y.scale),))
    return _dropped(operation, codes, layout, dims, operation.y)


def extreme(code: str) -> Lower:
    """aten.amax, aten.amin -> REDUCE_MAX, REDUCE_MIN of the codes themselves."""

    def lower(operation: Operation) -> Value:
        x = operation.first
        _scalar_refused(operation, x)
        dims, layout = reduced_dims(operation.node), x.home
        made = _reduced(operation, code, operation.tensor(x, layout), layout, dims, nan_mode="PROPAGATE")
        return _dropped(operation, made, layout, dims, None if x.quant is None else operation.quant_of(x))

    return lower


def any_(operation: Operation) -> Value:
    """aten.any -> REDUCE_ANY of booleans; an empty list of dimensions is none here, and all in other reductions."""
    x = operation.first
    _scalar_refused(operation, x)
    operation.require(is_plain([x]), "operand", "quantized numbers", "booleans or integers")
    dims = [] if operation.arguments.get("dim") == [] else reduced_dims(operation.node)
    layout = x.home
    tensor = operation.integers(operation.tensor(x, layout), "BOOL")
    return _dropped(operation, _reduced(operation, "REDUCE_ANY", tensor, layout, dims), layout, dims, None)


def argmax(operation: Operation) -> Value:
    """aten.argmax -> ARGMAX, with the axis last, where the U55 needs it."""
    x, dim = operation.first, operation.arguments["dim"]
    operation.require(isinstance(dim, int), "dim", dim, "a number")
    operation.require(x.dtype in ("INT8", "INT16"), "type of the input", x.dtype, "8 or 16 bits")
    axis = operation.axis(dim, x.rank)
    rest = [each for each in x.home if each != axis]
    tensor = operation.tensor(x, (*rest, axis))
    shape = operation.model.shape(tensor)[:-1]
    made = operation.emit("ARGMAX", [tensor], shape, "INT32", axis=x.rank - 1, nan_mode="PROPAGATE")
    kept = sorted(range(x.rank)) if operation.arguments["keepdim"] else sorted(rest)
    layout = tuple(kept.index(each) for each in (*rest, *([axis] if operation.arguments["keepdim"] else [])))
    return operation.result(
        operation.model.reshape(made, arranged(operation.shape, layout), operation.node.name), layout
    )


def cumsum(operation: Operation) -> Value:
    """aten.cumsum -> a depthwise convolution with as many weights 1 as there are elements, padded in front."""
    x, quant = operation.first, operation.quant_of(operation.first)
    axis = operation.axis(operation.arguments["dim"], x.rank)
    length, behind = x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    before = int(np.prod(x.shape[:axis]))
    flat = identity(4)
    if behind == 1:
        sizes, kernel, pads = (1, before, length, 1), (1, length), (0, 0, length - 1, 0)
    else:
        sizes, kernel, pads = (before, length, behind, 1), (length, 1), (length - 1, 0, 0, 0)
    tensor = operation.tensor(viewed(x, sizes), flat)
    made = sum_windows(operation, tensor, sizes[1:3], kernel, (1, 1), pads, quant)
    codes = operation.narrowed(made, (quant.scale / operation.y.scale,))
    return operation.held(codes, flat, operation.y)
