"""Look-ups by index: GATHER and SCATTER over [batches, rows, elements]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_assay.partitioners.ethosu.lowering import logic
from npu_assay.partitioners.ethosu.lowering.layout import quant_of
from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.values import FLOAT, Value, permuted, viewed
from npu_assay.partitioners.exir.layout import identity


def _gathered(
    operation: Operation, values: Value, indices: str, batches: int, rows: int, shape: Sequence[int]
) -> Value:
    """Rows of `values`, seen as [batches, rows, ...], by int32 `indices` [batches, n]; a value of `shape`."""
    operation.require(values.dtype != FLOAT, "operand", "numbers that are not quantized", "codes or integers")
    elements = int(np.prod(values.shape)) // (batches * rows)
    flat = operation.tensor(viewed(values, (batches, rows, elements)), identity(3))
    sizes = (batches, operation.model.shape(indices)[1], elements)
    made = operation.emit("GATHER", [flat, indices], sizes, operation.model.dtype(flat))
    quant = quant_of(values, operation)
    whole = Value(operation.node.name, sizes, values.dtype, quant, tensors={identity(3): made})
    return viewed(whole, shape)


def _indices(operation: Operation, value: Value, shape: Sequence[int]) -> str:
    """An index tensor in a shape."""
    operation.require(value.quant is None and value.dtype == "INT32", "type of the indices", value.dtype, "int32")
    return operation.tensor(viewed(value, shape), identity(len(shape)))


def embedding(operation: Operation) -> Value:
    """aten.embedding -> GATHER of rows of the weights."""
    weights, index = (operation.operand(source) for source in operation.node.args[:2])
    indices = _indices(operation, index, (1, int(np.prod(index.shape))))
    return _gathered(operation, weights, indices, 1, weights.shape[0], operation.shape)


def index_select(operation: Operation) -> Value:
    """aten.index_select -> GATHER along the first axis, to which the dimension is moved."""
    x, index = operation.first, operation.operand(operation.arguments["index"])
    axis = operation.axis(operation.arguments["dim"], x.rank)
    if x.rank == 0:
        return x
    order = (axis, *(each for each in range(x.rank) if each != axis))
    count = int(np.prod(index.shape))
    moved = permuted(x, order, x.name)
    found = _gathered(
        operation, moved, _indices(operation, index, (1, count)), 1, x.shape[axis], (count, *moved.shape[1:])
    )
    return permuted(found, tuple(order.index(each) for each in range(x.rank)), operation.node.name)


def gather(operation: Operation) -> Value:
    """aten.gather along the second axis -> GATHER, for each element of the third axis on its own."""
    x, index = operation.first, operation.operand(operation.arguments["index"])
    axis = operation.axis(operation.arguments["dim"], x.rank)
    operation.require(axis == 1 and x.rank in (2, 3) and index.rank == x.rank, "dimension", axis, "1 of 2 or 3")
    sizes = (x.shape[0], *x.shape[2:])
    operation.require((index.shape[0], *index.shape[2:]) == sizes, "shape of the index", index.shape, x.shape)
    if x.rank == 2:
        return _gathered(operation, x, _indices(operation, index, index.shape), x.shape[0], x.shape[1], operation.shape)
    batches, count, order = x.shape[0] * x.shape[2], index.shape[1], (0, 2, 1)
    lines = viewed(permuted(x, order, x.name), (batches, x.shape[1]))
    picked = viewed(permuted(index, order, index.name), (batches, count))
    indices = _indices(operation, picked, (batches, count))
    found = _gathered(operation, lines, indices, batches, x.shape[1], (x.shape[0], x.shape[2], count))
    return permuted(found, order, operation.node.name)


def index(operation: Operation) -> Value:
    """aten.index.Tensor -> GATHER by one flat index for the leading dimensions that are indexed."""
    x = operation.first
    given = [operation.operand(source) for source in _given(operation)]
    shape = np.broadcast_shapes(*(value.shape for value in given))
    rows = int(np.prod(x.shape[: len(given)]))
    flat = _flat_index(operation, given, x.shape, shape)
    return _gathered(operation, x, flat, 1, rows, operation.shape)


def _given(operation: Operation) -> Sequence[object]:
    """The index tensors; every leading dimension has one."""
    sources: Sequence[object] = operation.arguments["indices"]
    operation.require(None not in sources and len(sources) > 0, "indices", sources, "one for each leading dimension")
    return sources


def _flat_index(operation: Operation, given: Sequence[Value], sizes: Sequence[int], shape: Sequence[int]) -> str:
    """sum of index * stride, [1, n]; negative indices count from the end."""
    model, total = operation.model, ""
    strides = [int(np.prod(sizes[i + 1 : len(given)])) for i in range(len(given))]
    known = [value.data for value in given if value.data is not None]
    if len(known) == len(given):
        parts = [np.where(d < 0, d + size, d) * stride for d, size, stride in zip(known, sizes, strides, strict=False)]
        whole = np.broadcast_to(np.asarray(sum(parts)), shape).reshape(1, -1)
        return model.constant(f"{operation.node.name}_index", whole, "INT32")
    for value, stride, size in zip(given, strides, sizes, strict=False):
        wide = viewed(value, (1,) * (len(shape) - value.rank) + value.shape)
        tensor = _counted(operation, _indices(operation, wide, wide.shape), size, len(shape))
        step = operation.number(stride, "INT32", len(shape))
        part = operation.emit("MUL", [tensor, step, model.number(0, "INT8")], model.shape(tensor), "INT32")
        total = part if not total else _added(operation, total, part)
    return model.reshape(total, (1, int(np.prod(shape))), f"{operation.node.name}_index")


def _added(operation: Operation, a: str, b: str) -> str:
    shape = np.broadcast_shapes(operation.model.shape(a), operation.model.shape(b))
    return operation.emit("ADD", [a, b], shape, "INT32")


def _counted(operation: Operation, tensor: str, size: int, rank: int) -> str:
    """Indices with the size added to negative ones."""
    shape, zero = operation.model.shape(tensor), operation.number(0, "INT32", rank)
    negative = operation.emit("GREATER", [zero, tensor], shape, "BOOL")
    raised = operation.emit("ADD", [tensor, operation.number(size, "INT32", rank)], shape, "INT32")
    return operation.emit("SELECT", [negative, raised, tensor], shape, "INT32")


def index_put(operation: Operation) -> Value:
    """aten.index_put -> SCATTER by a flat index; a mask -> SELECT of one number. Nothing is added up."""
    x, values = operation.first, operation.operand(operation.arguments["values"])
    given = [operation.operand(source) for source in _given(operation)]
    operation.require(not operation.arguments["accumulate"], "accumulate", True, False)
    if given[0].dtype == "BOOL":
        operation.require(len(given) == 1 and values.rank <= 1, "mask", f"{len(given)} indices", "one, and one number")
        mask = viewed(given[0], given[0].shape + (1,) * (x.rank - given[0].rank))
        return logic.select(operation, mask, [viewed(values, ()), x])
    if x.quant is not None:
        x, values = (operation.ctx.requantised(value, operation.y, operation.node) for value in (x, values))
    return _scattered(operation, x, values, given)


def _scattered(operation: Operation, x: Value, values: Value, given: Sequence[Value]) -> Value:
    shape = np.broadcast_shapes(*(value.shape for value in given))
    rows, rest = int(np.prod(x.shape[: len(given)])), x.shape[len(given) :]
    flat = _flat_index(operation, given, x.shape, shape)
    elements, count = int(np.prod(rest)), int(np.prod(shape))
    old = operation.tensor(viewed(x, (1, rows, elements)), identity(3))
    new = _broadcast(operation, values, (*shape, *rest), (1, count, elements))
    made = operation.emit("SCATTER", [old, flat, new], (1, rows, elements), operation.model.dtype(old))
    whole = Value(
        operation.node.name, (1, rows, elements), x.dtype, quant_of(x, operation), tensors={identity(3): made}
    )
    return viewed(whole, operation.shape)


def _broadcast(operation: Operation, values: Value, shape: Sequence[int], flat: Sequence[int]) -> str:
    """A tensor repeated to a shape, then seen in another."""
    model, rank = operation.model, len(shape)
    whole = operation.tensor(viewed(values, (1,) * (rank - values.rank) + values.shape), identity(rank))
    times = [want // found for want, found in zip(shape, model.shape(whole), strict=True)]
    if any(count != 1 for count in times):
        whole = operation.emit("TILE", [whole, model.sizes(times)], tuple(shape), model.dtype(whole))
    return model.reshape(whole, flat, f"{operation.node.name}_values")
