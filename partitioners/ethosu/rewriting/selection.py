"""Parts, masks, extremes and indices."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import fx

from npu_assay.partitioners.ethosu.rewriting.writer import Rewrite, Writer, shape, tensor
from npu_assay.partitioners.exir.in_place_warning import is_alone

aten = torch.ops.aten
EXTREMES = {aten.max.dim: aten.amax.default, aten.min.dim: aten.amin.default}


def on_u85(rewrite: Rewrite) -> Rewrite:
    """The rewriting for Ethos-U85; Ethos-U55 has neither the operator nor its parts."""

    @wraps(rewrite)
    def judged(w: Writer, *args: Any, **kwargs: Any) -> fx.Node | list[fx.Node] | None:
        return None if w.is_u55 else rewrite(w, *args, **kwargs)

    return judged


def glu(w: Writer, input: fx.Node, dim: int = -1) -> fx.Node:
    """The first half times the sigmoid of the second."""
    dim %= len(shape(input))
    half = shape(input)[dim] // 2
    first = w.call(aten.slice_copy.Tensor, input, dim, 0, half)
    second = w.call(aten.slice_copy.Tensor, input, dim, half, 2 * half)
    return w.call(aten.mul.Tensor, first, w.call(aten.sigmoid.default, second))


@on_u85
def masked_fill(w: Writer, input: fx.Node, mask: fx.Node, value: float) -> fx.Node:
    """A choice between the input and a tensor full of the number."""
    return _filled(w, input, mask, value)


def _filled(w: Writer, input: fx.Node, mask: fx.Node, value: float) -> fx.Node:
    full = w.call(aten.full_like.default, input, value)
    return w.call(aten.where.self, mask, full, input)


@on_u85
def masked_fill_(w: Writer, input: fx.Node, mask: fx.Node, value: float) -> fx.Node | None:
    """As masked_fill, where nobody else sees that the input changes."""
    return _filled(w, input, mask, value) if is_alone(w.node, input) else None


def where_number(w: Writer, condition: fx.Node, input: fx.Node | float, other: fx.Node | float) -> fx.Node | None:
    """Numbers become tensors."""
    like = input if isinstance(input, fx.Node) else other
    if not isinstance(like, fx.Node):
        return None
    a, b = (x if isinstance(x, fx.Node) else w.filled(x, like) for x in (input, other))
    return w.call(aten.where.self, condition, a, b)


def lower_triangle(w: Writer, input: fx.Node, diagonal: int = 0) -> fx.Node:
    """Zeros above a diagonal."""
    rows, columns = shape(input)[-2:]
    kept = w.stored(torch.ones(rows, columns, dtype=torch.bool).tril(diagonal))
    return w.call(aten.where.self, kept, input, w.filled(0.0, input))


def select_scatter(w: Writer, input: fx.Node, src: fx.Node, dim: int, index: int) -> fx.Node:
    """The input with one slice replaced."""
    dim %= len(shape(input))
    part = w.call(aten.unsqueeze.default, src, dim)
    index %= shape(input)[dim]
    return _spliced(w, input, part, dim, index, index + 1)


def slice_scatter(
    w: Writer,
    input: fx.Node,
    src: fx.Node,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> fx.Node | None:
    """The input with neighboring slices replaced."""
    dim %= len(shape(input))
    first, last, _ = slice(start, end).indices(shape(input)[dim])
    return None if step != 1 or last <= first else _spliced(w, input, src, dim, first, last)


def _spliced(w: Writer, input: fx.Node, part: fx.Node, dim: int, first: int, last: int) -> fx.Node:
    """What is before, the part, and what is after."""
    size = shape(input)[dim]
    before = [w.call(aten.slice_copy.Tensor, input, dim, 0, first)] if first else []
    behind = [w.call(aten.slice_copy.Tensor, input, dim, last, size)] if last < size else []
    return w.call(aten.cat.default, [*before, part, *behind], dim)


def selected(w: Writer, source: fx.Node, index: int) -> fx.Node | None:
    """One slice of all; the extreme numbers alone, where nobody asks for their indices."""
    if source.target is aten.unbind.int:
        input, *given = source.args
        return w.call(aten.select.int, input, given[0] if given else 0, index)
    return _extreme(w, source, index)


def _extreme(w: Writer, source: fx.Node, index: int) -> fx.Node | None:
    if index != 0 or source.target not in EXTREMES or any(user.args[1] != 0 and user.users for user in source.users):
        return None
    input, dim, *rest = (*source.args, *source.kwargs.values())
    assert isinstance(input, fx.Node) and isinstance(dim, int)  # by the operators' schemas
    kept = w.call(EXTREMES[source.target], input, [dim], True)
    return kept if rest and rest[0] else w.call(aten.squeeze.dims, kept, [dim])


def embedding(w: Writer, weight: fx.Node, indices: fx.Node, *rest: object) -> fx.Node:
    """Rows by 32-bit indices."""
    flat = w.call(aten.reshape.default, _int32(w, indices), [-1])
    rows = w.call(aten.index_select.default, weight, 0, flat)
    return w.call(aten.reshape.default, rows, [*shape(indices), shape(weight)[-1]])


@on_u85
def index_select(w: Writer, input: fx.Node, dim: int, index: fx.Node) -> fx.Node | None:
    """With 32-bit indices."""
    if tensor(index).dtype == torch.int32:
        return None
    return w.call(aten.index_select.default, input, dim, _int32(w, index))


@on_u85
def gather(w: Writer, input: fx.Node, dim: int, index: fx.Node, *, sparse_grad: bool = False) -> fx.Node | None:
    """With 32-bit indices."""
    if tensor(index).dtype == torch.int32:
        return None
    return w.call(aten.gather.default, input, dim, _int32(w, index))


@on_u85
def index(w: Writer, input: fx.Node, indices: list[fx.Node | None]) -> fx.Node | None:
    """With 32-bit indices; masks stay masks."""
    narrow = [_int32(w, each) if each is not None and _is_int64(each) else each for each in indices]
    return None if narrow == list(indices) else w.call(aten.index.Tensor, input, narrow)


def _is_int64(indices: fx.Node) -> bool:
    return tensor(indices).dtype == torch.int64


def _int32(w: Writer, indices: fx.Node) -> fx.Node:
    """Indices as int32, of a constant that the model writes down without its copy, which would be int64."""
    while indices.target in (aten.lift_fresh_copy.default, aten.detach_.default):
        source = indices.args[0]
        assert isinstance(source, fx.Node)  # by its schema
        indices = source
    return indices if tensor(indices).dtype == torch.int32 else w.call(aten.to.dtype, indices, torch.int32)
