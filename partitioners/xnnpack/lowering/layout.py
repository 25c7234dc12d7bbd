"""Operators that move elements: no arithmetic, so codes and numbers alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npu_assay.partitioners.exir.compiling import axis_of, require
from npu_assay.partitioners.xnnpack.lowering.context import bounds
from npu_assay.partitioners.xnnpack.lowering.operation import Operation
from npu_assay.partitioners.xnnpack.lowering.values import TO_NCHW, TO_NHWC, Value

CONCATENATE_LIMIT = 5


def permute(operation: Operation) -> Value:
    """aten.permute_copy -> StaticTranspose, from the layout that the operand has."""
    x = operation.operand(operation.node.args[0])
    dims = [axis_of(operation.node, dim, x.rank) for dim in operation.arguments["dims"]]
    if x.rank == 0:
        return x
    last = x.is_channels_last
    perm = tuple(TO_NHWC.index(dim) for dim in dims) if last else tuple(dims)
    return operation.result(operation.moved("StaticTranspose", [operation.id_of(x, last)], {"perm": perm}))


def reshape(operation: Operation) -> Value:
    """aten.view_copy, unsqueeze_copy and squeeze_copy -> StaticReshape, of which one size may be open."""
    x = operation.operand(operation.node.args[0])
    made = reshaped(operation, operation.id_of(x), *bounds(operation.node))
    return operation.result(made)


def reshaped(operation: Operation, source: int, shape: Sequence[int], open_axes: Sequence[int]) -> int:
    """A value in torch's axis order in another shape, of which one size may be open."""
    require(len(open_axes) <= 1, operation.node, "dynamic sizes", len(open_axes), "at most one")
    sizes = tuple(0 if axis in open_axes else size for axis, size in enumerate(shape))
    return operation.moved("StaticReshape", [source], {"new_shape": sizes or (1,)})


def flat(operation: Operation, made: int) -> Value:
    """The result of an image, brought to torch's order and to the operation's shape."""
    whole = operation.moved("StaticTranspose", [made], {"perm": TO_NCHW})
    return operation.result(reshaped(operation, whole, *bounds(operation.node)))


def same(operation: Operation) -> Value:
    """Copies whose result has the operand's shape and type: the operand itself."""
    return operation.operand(operation.node.args[0])


def slice_(operation: Operation) -> Value:
    """aten.slice_copy with the step 1 -> StaticSlice."""
    x, arguments = operation.operand(operation.node.args[0]), operation.arguments
    require(arguments["step"] == 1, operation.node, "step", arguments["step"], 1)
    shape, open_axes = bounds(operation.node)
    require(not (*open_axes, *x.open_axes), operation.node, "dynamic sizes", open_axes, "none")
    axis = axis_of(operation.node, arguments["dim"], x.rank)
    start = arguments["start"] or 0
    start = max(start + x.shape[axis], 0) if start < 0 else start
    offsets = tuple(start if each == axis else 0 for each in range(x.rank))
    options = {"offsets": _arranged(offsets, x), "sizes": _arranged(shape, x)}
    return _moved(operation, "StaticSlice", x, options)


def pad(operation: Operation) -> Value:
    """aten.constant_pad_nd -> StaticConstantPad."""
    x = operation.operand(operation.node.args[0])
    options = pad_options(x, operation.arguments["pad"], float(operation.arguments["value"]))
    require(all(n >= 0 for n in operation.arguments["pad"]), operation.node, "pad", "negative", "0 or more")
    return _moved(operation, "StaticConstantPad", x, options)


def pad_options(x: Value, pads: Sequence[int], number: float) -> dict[str, object]:
    """Paddings in the layout of `x`. Torch lists (before, after) from the last axis on."""
    before, after = [0] * x.rank, [0] * x.rank
    for position, axis in enumerate(reversed(range(x.rank - len(pads) // 2, x.rank))):
        before[axis], after[axis] = pads[2 * position], pads[2 * position + 1]
    return {"pre_paddings": _arranged(before, x), "post_paddings": _arranged(after, x), "padding_value": number}


def cat(operation: Operation) -> Value:
    """aten.cat -> Concatenate2 to 5, several ones for more operands."""
    values = [operation.operand(source) for source in operation.arguments["tensors"]]
    axis = axis_of(operation.node, operation.arguments["dim"], values[0].rank)
    last = all(value.is_channels_last for value in values)
    axis = TO_NHWC.index(axis) if last else axis
    made, *rest = (operation.id_of(value, last) for value in values)
    while rest:
        part, rest = rest[: CONCATENATE_LIMIT - 1], rest[CONCATENATE_LIMIT - 1 :]
        made = operation.moved(f"Concatenate{len(part) + 1}", [made, *part], {"axis": axis})
    return operation.result(made, last)


def _arranged(numbers: Sequence[int], x: Value) -> tuple[int, ...]:
    """Numbers per axis, in the order of the axes of `x`."""
    return tuple(numbers[axis] for axis in TO_NHWC) if x.is_channels_last else tuple(numbers)


def _moved(operation: Operation, op: str, x: Value, options: Mapping[str, object]) -> Value:
    last = x.is_channels_last
    return operation.result(operation.moved(op, [operation.id_of(x, last)], options), last)
