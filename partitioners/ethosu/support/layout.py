"""Rules of operators that move values and compute nothing."""

from __future__ import annotations

import math

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import MAX_SIZE, code_dtype, dtype_of
from npu_assay.partitioners.ethosu.support.linear import on_u55
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import (
    argument,
    memory_order,
    non_negative,
    operand,
    rank,
    shape,
    size_text,
)
from npu_assay.partitioners.exir.rules import rule

MAX_WINDOWS = 16
any_integer = code_dtype(torch.int8, torch.int16, torch.int32)


# ------------------------------------------------------------------------------------ slices and windows


@rule("range_arguments")
def range_arguments(node: fx.Node, context: Context) -> str | None:
    """start and end must be given"""
    if len(node.args) not in (4, 5):
        return f"{len(node.args)} arguments"
    return None if None not in node.args[2:4] else f"from {node.args[2]} to {node.args[3]}"


@rule("step")
def positive_step(node: fx.Node, context: Context) -> str | None:
    """the step must be 1 or more"""
    # Strided slices are reshaped to whole steps.
    found = argument(node, 4, "step", 1)
    return None if found > 0 else f"step {found}"


def _unfolded(node: fx.Node) -> tuple[int, int, int]:
    """Size and step of windows, and the length of their dimension; a scalar has none."""
    size, step, sizes = argument(node, 2, "size"), argument(node, 3, "step"), shape(operand(node))
    return size, step, sizes[non_negative(argument(node, 1, "dimension"), len(sizes))] if sizes else 0


@rule("window_within")
def window_within(node: fx.Node, context: Context) -> str | None:
    """size and step must be positive and the size within the dimension"""
    size, step, length = _unfolded(node)
    return None if 0 < size <= length else f"size {size}, step {step} of {length}"


@on_u55
@rule("windows", MAX_WINDOWS)
def few_windows(node: fx.Node, context: Context) -> str | None:
    """there must be at most {value} windows"""
    size, step, length = _unfolded(node)
    count = (length - size) // step + 1
    return None if count <= MAX_WINDOWS else f"{count} windows"


@rule("contiguous")
def contiguous(node: fx.Node, context: Context) -> str | None:
    """size and stride must describe a contiguous tensor without offset"""
    # The operator is a reshape then.
    sizes, steps = argument(node, 1, "size"), argument(node, 2, "stride")
    offset = argument(node, 3, "storage_offset") or 0
    found = f"size {list(sizes)}, stride {list(steps)}, offset {offset}"
    if offset or len(sizes) != len(steps) or any(step < 0 for step in steps):
        return found
    expected = [math.prod(sizes[at + 1 :]) for at in range(len(sizes))]
    last = len(sizes) - 1
    for at, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        fits = step >= expected[at] if at == last else size == 1 or step == expected[at]
        if not fits:
            return found
    return None


@rule("contiguous")
def within_storage(node: fx.Node, context: Context) -> str | None:
    """size and stride must describe a contiguous tensor without offset"""
    # Nothing outside the input may be read, nor between its elements.
    before, after = math.prod(shape(operand(node))), math.prod(shape(node))
    if memory_order(operand(node)) is None:
        return "the input has gaps"
    return None if before == after else f"{after} of {before} elements"


@on_u55
@rule("dims")
def reversed_dim(node: fx.Node, context: Context) -> str | None:
    """the dimensions must be one of [1], [2], of rank 4"""
    # REVERSE of width or height, as the device has them.
    dims, count = list(argument(node, 1, "dims")), rank(operand(node))
    return None if count == 4 and len(dims) == 1 and dims[0] % count in (1, 2) else f"{dims} of rank {count}"


@rule("borders")
def bordered(node: fx.Node, context: Context) -> str | None:
    """borders that repeat the tensor must not be larger than the tensor"""
    # Borders are made of slices of the tensor; torch itself has none that are larger than it.
    mode, amounts = argument(node, 2, "mode", "constant"), list(argument(node, 1, "pad"))
    return f"{mode} {amounts}" if mode != "constant" and min(amounts) < 0 else None


# ------------------------------------------------------------------------------------ transposition


@on_u55
@rule("transposition")
def transposition(node: fx.Node, context: Context) -> str | None:
    """this transposition is not one that the NPU can do"""
    # What Vela says of TRANSPOSE.
    before = shape(operand(node))
    order = [non_negative(dim, len(before)) for dim in argument(node, 1, "dims")]
    source = operand(node)
    wide = source is not None and dtype_of(source) == torch.int32
    return None if order == sorted(order) or _fits(before, order, wide) else f"{size_text(before)} by {order}"


def _merged(sizes: tuple[int, ...], order: list[int]) -> tuple[list[int], list[int]]:
    """Sizes and order of the same transposition, what stays side by side as one dimension; four of them or more."""
    runs: list[list[int]] = []
    for dim in order:
        if runs and runs[-1][-1] == dim - 1:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    starts = sorted(run[0] for run in runs)
    whole = {run[0]: math.prod(sizes[dim] for dim in run) for run in runs}
    more = max(0, 4 - len(runs))
    return (
        [1] * more + [whole[start] for start in starts],
        [*range(more), *(starts.index(run[0]) + more for run in runs)],
    )


def _fits(sizes: tuple[int, ...], order: list[int], wide: bool) -> bool:
    """Images kept apart, or all dimensions but any two small together: Vela 5.1.0, asked about cases on either side.

    wide: int32, of which a quarter fits.
    """
    if len(sizes) == 4 and order[0] == 0 and sizes[0] > 1:
        return math.prod(sorted(sizes)[2:]) <= (MAX_SIZE // 4 if wide else MAX_SIZE)
    found, moved = _merged(sizes, order)
    if len(found) == 4 and moved[0] == 0 and not (wide and moved == [0, 3, 2, 1]):
        most = MAX_SIZE // 4 if wide and moved[3] == 3 else MAX_SIZE
        return max(found[1:]) <= MAX_SIZE and found[3] <= most
    return math.prod(sorted(found)[2:]) <= (MAX_SIZE // 4 if wide else MAX_SIZE)
