"""Operators that move elements: no arithmetic, so that codes and integers are treated alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import fx

from npu_assay.partitioners.ethosu.lowering.context import constant_value
from npu_assay.partitioners.ethosu.lowering.operation import Lower, Operation
from npu_assay.partitioners.ethosu.lowering.scaling import code_of
from npu_assay.partitioners.ethosu.lowering.values import FLOAT, PerChannel, Value, permuted, viewed
from npu_assay.partitioners.ethosu.lowering.windows import channels_last
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES
from npu_assay.partitioners.exir.compiling import bind
from npu_assay.partitioners.exir.layout import Layout, arranged, identity
from npu_assay.partitioners.exir.nodes import memory_order
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import QParams

SPLITS = frozenset({"aten.split_copy.Tensor", "aten.split_with_sizes_copy.default"})


def folding(lower: Lower) -> Lower:
    """The same, but for constants, of which the operator is computed when compiling."""

    @wraps(lower)
    def folded(operation: Operation) -> Value:
        x = operation.first
        if x.data is None:
            return lower(operation)
        operation.require(not isinstance(x.quant, PerChannel), "constant", "a scale per channel", "one scale")
        target: Any = operation.node.target
        made = target(torch.from_numpy(np.ascontiguousarray(x.data)), *operation.node.args[1:], **operation.node.kwargs)
        return Value(operation.node.name, tuple(made.shape), x.dtype, x.quant, data=made.contiguous().numpy())

    return folded


def view(operation: Operation) -> Value:
    """aten.view_copy, squeeze_copy, unsqueeze_copy, and as_strided_copy of all elements -> RESHAPE."""
    return viewed(operation.first, operation.shape, operation.node.name)


def same(operation: Operation) -> Value:
    """Copies -> nothing."""
    return operation.first


def copy(operation: Operation) -> Value:
    """aten.copy -> its second operand, repeated to the shape of the first."""
    source = operation.operand(operation.node.args[1])
    return _repeated(operation, source, operation.shape)


def permute(operation: Operation) -> Value:
    """aten.permute_copy -> one TRANSPOSE together with the layouts on both sides, or nothing."""
    x = operation.first
    permutation = tuple(operation.axis(dim, x.rank) for dim in operation.arguments["dims"])
    return permuted(x, permutation, operation.node.name)


def quant_of(x: Value, operation: Operation) -> QParams | None:
    """The quantization that a moved value keeps."""
    return None if x.quant is None else operation.quant_of(x)


def cat(operation: Operation) -> Value:
    """aten.cat -> CONCAT of operands of one quantization, or of the type that integers are promoted to."""
    values = [operation.operand(source) for source in operation.arguments["tensors"]]
    values = [value for value in values if value.shape != (0,)]
    quant = operation.quant if any(value.quant is not None for value in values) else None
    if quant is not None:
        values = [operation.ctx.requantised(value, quant, operation.node) for value in values]
    layout = max(values, key=lambda value: (value.data is None, int(np.prod(value.shape)))).home
    axis = layout.index(operation.axis(operation.arguments["dim"], len(layout)))
    tensors = [operation.tensor(value, layout) for value in values]
    if quant is None:
        tensors = [operation.integers(tensor, operation.dtype) for tensor in tensors]
    return operation.result(operation.model.concat(tensors, axis, operation.node.name), layout, quant=quant)


@folding
def slice_(operation: Operation) -> Value:
    """aten.slice_copy -> SLICE; with a step, every step-th element of groups made by RESHAPE."""
    x, bound = operation.first, operation.arguments
    axis, step = operation.axis(bound["dim"], x.rank), bound["step"]
    start, count = _start(bound["start"], x.shape[axis]), operation.shape[axis]
    layout = x.home
    tensor = strided(operation, operation.tensor(x, layout), layout.index(axis), start, count, step)
    return operation.result(tensor, layout, quant=quant_of(x, operation))


def _start(start: int, size: int) -> int:
    """Where a slice begins, within 0..size."""
    return min(max(start + size if start < 0 else start, 0), size)


def strided(operation: Operation, tensor: str, axis: int, start: int, count: int, step: int) -> str:
    """`count` elements from `start` on, one in `step`."""
    if step == 1 or count <= 1:
        return operation.slice(tensor, axis, start, count)
    model, name = operation.model, f"{operation.node.name}_groups"
    missing = start + count * step - model.shape(tensor)[axis]
    if missing > 0:
        amounts = [(0, missing) if each == axis else (0, 0) for each in range(len(model.shape(tensor)))]
        tensor = model.pad(tensor, amounts, 0, name)
    whole = operation.slice(tensor, axis, start, count * step)
    sizes = model.shape(whole)
    grouped = model.reshape(whole, (*sizes[:axis], count, step, *sizes[axis + 1 :]), name)
    first = operation.slice(grouped, axis + 1, 0, 1)
    return model.reshape(first, (*sizes[:axis], count, *sizes[axis + 1 :]), operation.node.name)


@folding
def select(operation: Operation) -> Value:
    """aten.select_copy -> SLICE and RESHAPE."""
    x, bound = operation.first, operation.arguments
    axis = operation.axis(bound["dim"], x.rank)
    index, layout = bound["index"] % x.shape[axis], x.home
    tensor = operation.slice(operation.tensor(x, layout), layout.index(axis), index, 1)
    return operation.held(tensor, layout, quant_of(x, operation))


def getitem(operation: Operation) -> Value:
    """One of several results -> SLICE of a tensor that is split; of a pool, the values."""
    source, index = operation.node.args
    assert isinstance(source, fx.Node) and isinstance(index, int)
    if target_name(source.target) not in SPLITS:
        operation.require(index == 0, "result of several", index, "0")
        return operation.first
    x, parts = operation.first, [tuple(part.shape) for part in source.meta["val"]]
    axis = operation.axis(bind(source)["dim"], x.rank)
    start, size = sum(part[axis] for part in parts[:index]), parts[index][axis]
    if x.data is not None:
        data = np.take(x.data, range(start, start + size), axis)
        return Value(operation.node.name, data.shape, x.dtype, x.quant, data=data)
    layout = x.home
    tensor = operation.slice(operation.tensor(x, layout), layout.index(axis), start, size)
    return operation.result(tensor, layout, quant=quant_of(x, operation))


def full(operation: Operation) -> Value:
    """aten.full and other operators of numbers only: constants."""
    target: Any = operation.node.target
    return constant_value(operation.node, target(*operation.node.args, **operation.node.kwargs))


def full_like(operation: Operation) -> Value:
    """aten.full_like: a constant of the operand's shape."""
    value = operation.node.meta["val"]
    data = torch.full(operation.shape, operation.arguments["fill_value"], dtype=value.dtype)
    return constant_value(operation.node, data)


def expand(operation: Operation) -> Value:
    """aten.expand_copy -> TILE."""
    return _repeated(operation, operation.first, operation.shape)


@folding
def repeat(operation: Operation) -> Value:
    """aten.repeat -> TILE."""
    x = operation.first
    times = operation.arguments["repeats"]
    return _tiled(operation, viewed(x, (1,) * (len(times) - x.rank) + x.shape), times)


def _repeated(operation: Operation, x: Value, shape: Sequence[int]) -> Value:
    """A value broadcast to a shape."""
    if x.data is not None:
        operation.require(not isinstance(x.quant, PerChannel), "constant", "a scale per channel", "one scale")
        return Value(operation.node.name, tuple(shape), x.dtype, x.quant, data=np.broadcast_to(x.data, shape).copy())
    whole = viewed(x, (1,) * (len(shape) - x.rank) + x.shape)
    return _tiled(operation, whole, [wanted // size for wanted, size in zip(shape, whole.shape, strict=True)])


def _tiled(operation: Operation, x: Value, times: Sequence[int]) -> Value:
    if all(count == 1 for count in times):
        return x
    layout = x.home
    tensor, counts = operation.tensor(x, layout), arranged(times, layout)
    shape = [size * count for size, count in zip(operation.model.shape(tensor), counts, strict=True)]
    made = operation.emit("TILE", [tensor, operation.model.sizes(counts)], shape, operation.model.dtype(tensor))
    return operation.result(made, layout, quant=quant_of(x, operation))


@folding
def flip(operation: Operation) -> Value:
    """aten.flip -> REVERSE, once per dimension; the U55 reverses images along height and width only."""
    x = operation.first
    for dim in operation.arguments["dims"]:
        axis = operation.axis(dim, x.rank)
        layout = _reversible(x, axis) if operation.ctx.is_u55 else x.home
        tensor = operation.tensor(x, layout)
        shape, dtype = operation.model.shape(tensor), operation.model.dtype(tensor)
        made = operation.emit("REVERSE", [tensor], shape, dtype, axis=layout.index(axis))
        x = operation.result(made, layout, quant=quant_of(x, operation))
    return x


def _reversible(x: Value, axis: int) -> Layout:
    """The first layout that holds an image's axis where the device has height or width."""
    candidates = (x.home, identity(x.rank), channels_last(x.rank))
    fits = (layout for layout in candidates if x.rank == 4 and layout.index(axis) in (1, 2))
    return next(fits, x.home)


def as_strided(operation: Operation) -> Value:
    """aten.as_strided_copy with contiguous strides from the start: the first elements in memory, in another shape."""
    x, bound, order = operation.first, operation.arguments, memory_order(operation.node.args[0])
    operation.require(order is not None, "memory of the operand", "with gaps", "dense")
    if order is not None and order != identity(x.rank):
        x = permuted(x, order, x.name)
    offset = bound["storage_offset"]
    operation.require(not offset, "storage_offset", offset, 0)
    strides = torch.empty(operation.shape, device="meta").stride()
    pairs = zip(operation.shape, bound["stride"], strides, strict=True)
    contiguous = all(size == 1 or found == stride for size, found, stride in pairs)
    operation.require(contiguous, "stride", bound["stride"], strides)
    count = int(np.prod(operation.shape))
    whole = viewed(x, (int(np.prod(x.shape)),))
    if count == whole.shape[0]:
        return viewed(x, operation.shape, operation.node.name)
    tensor = operation.slice(operation.tensor(whole, (0,)), 0, 0, count)
    return operation.held(tensor, (0,), quant_of(x, operation))


def unfold(operation: Operation) -> Value:
    """aten.unfold_copy: windows of a dimension, one after the other (SLICE, CONCAT), moved to the end."""
    x, bound = operation.first, operation.arguments
    axis, size, step = operation.axis(bound["dimension"], x.rank), bound["size"], bound["step"]
    tensor, count = operation.tensor(x, identity(x.rank)), operation.shape[axis]
    parts = [operation.slice(tensor, axis, index * step, size) for index in range(count)]
    joined = operation.model.concat(parts, axis, f"{operation.node.name}_windows")
    quant, shape = quant_of(x, operation), list(x.shape)
    shape[axis : axis + 1] = [count, size]
    flat = tuple(operation.model.shape(joined))
    value = Value(operation.node.name, flat, x.dtype, quant, tensors={identity(x.rank): joined})
    order = [each for each in range(x.rank + 1) if each != axis + 1] + [axis + 1]
    return permuted(viewed(value, shape), tuple(order), operation.node.name)


def constant_pad(operation: Operation) -> Value:
    """aten.constant_pad_nd -> PAD with the number's code; negative amounts -> SLICE before."""
    return padded(operation, operation.arguments["pad"], operation.arguments["value"])


def pad(operation: Operation) -> Value:
    """aten.pad: a constant as above; the borders of other modes are slices of the tensor, joined to it."""
    mode, amounts = operation.arguments["mode"], operation.arguments["pad"]
    if mode == "constant":
        return padded(operation, amounts, operation.arguments["value"] or 0.0)
    x = operation.first
    layout = x.home
    tensor = operation.tensor(x, layout)
    for position in range(len(amounts) // 2):
        axis = layout.index(x.rank - 1 - position)
        tensor = _bordered(operation, tensor, axis, mode, amounts[2 * position : 2 * position + 2])
    return operation.result(tensor, layout, quant=quant_of(x, operation))


def _bordered(operation: Operation, tensor: str, axis: int, mode: str, amounts: Sequence[int]) -> str:
    """Both borders of one axis; a reflection or repetition is made of single elements."""
    before, behind = amounts
    size = operation.model.shape(tensor)[axis]
    operation.require(min(amounts) >= 0, f"{mode} padding", amounts, "nothing negative")
    if mode == "circular":
        spans = [(size - before, before), (0, size), (0, behind)]
    elif mode == "reflect":
        front, back = range(before, 0, -1), range(size - 2, size - 2 - behind, -1)
        spans = [*((index, 1) for index in front), (0, size), *((index, 1) for index in back)]
    else:
        spans = [*[(0, 1)] * before, (0, size), *[(size - 1, 1)] * behind]
    parts = [operation.slice(tensor, axis, start, count) for start, count in spans if count]
    return operation.model.concat(parts, axis, f"{operation.node.name}_padded")


def padded(operation: Operation, flat: Sequence[int], number: float) -> Value:
    """Padding in torch's spelling: the last dimension's (before, after) first. A constant where it leaves nothing.

    A number that is no code of the operand's may be one of the result's.
    """
    x = operation.first
    operation.require(x.dtype != FLOAT, "operand", "numbers that are not quantized", "codes or integers")
    quant = quant_of(x, operation)
    if quant is not None and operation.quant is not None and not _holds(quant, number):
        quant = operation.y
        x = operation.ctx.requantised(x, quant, operation.node)
    layout, amounts = x.home, [(0, 0)] * x.rank
    for position in range(len(flat) // 2):
        amounts[x.rank - 1 - position] = (flat[2 * position], flat[2 * position + 1])
    code = int(number) if quant is None else code_of(float(number), quant)
    pairs, tensor = [amounts[axis] for axis in layout], operation.tensor(x, layout)
    starts = [max(-before, 0) for before, _ in pairs]
    cut = [starts[i] + max(-pair[1], 0) for i, pair in enumerate(pairs)]
    sizes = [size - lost for size, lost in zip(operation.model.shape(tensor), cut, strict=True)]
    if 0 in sizes:
        data = np.full(operation.shape, code, NUMPY_TYPES[x.dtype])
        return Value(operation.node.name, operation.shape, x.dtype, quant, data=data)
    tensor = operation.model.slice(tensor, starts, sizes, f"{operation.node.name}_part")
    grown = [(max(before, 0), max(behind, 0)) for before, behind in pairs]
    return operation.result(operation.model.pad(tensor, grown, code, operation.node.name), layout, quant=quant)


def _holds(quant: QParams, number: float) -> bool:
    """Whether a number lies within the range of the codes."""
    return quant.qmin - 0.5 <= number / quant.scale + quant.zero_point <= quant.qmax + 0.5
