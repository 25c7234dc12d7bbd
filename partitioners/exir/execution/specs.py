"""What memory a tensor needs: its type, the upper bounds of its sizes, and the order of its axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import torch

from npu_assay.partitioners.exir.errors import EdgeError


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor as memory planning sees it. `dim_order` names the axes from outermost to innermost."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamic: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes at the upper bounds of the sizes."""
        return prod(self.sizes) * self.dtype.itemsize

    @property
    def dynamism(self) -> Literal["static", "bound"]:
        """How a program file names it."""
        return "bound" if self.dynamic else "static"

    @property
    def contiguous(self) -> bool:
        """Whether the axes are in torch's default order."""
        return self.dim_order == tuple(range(len(self.sizes)))


def spec_of(value: torch.Tensor, ranges: Mapping[Any, Any], where: str) -> TensorSpec:
    """The spec of a node's value. Raises EdgeError naming `where` for a size without an upper bound."""
    sizes = tuple(upper_bound(size, ranges, where) for size in value.shape)
    dynamic = any(not isinstance(size, int) for size in value.shape)
    return TensorSpec(value.dtype, sizes, dim_order(value), dynamic)


def upper_bound(size: Any, ranges: Mapping[Any, Any], where: str) -> int:
    """The largest value of a size, by the program's range constraints."""
    if isinstance(size, int):
        return size
    from torch.utils._sympy.numbers import int_oo  # late: half a second that fixed sizes do without
    from torch.utils._sympy.value_ranges import bound_sympy

    node = size.node
    known = {**node.shape_env.var_to_range, **ranges}
    upper = bound_sympy(node.expr, known).upper
    if upper is int_oo or not upper.is_finite:
        raise EdgeError(
            "size without an upper bound", str(node.expr), "a bound, as torch.export.Dim(name, max=...) gives", where
        )
    return int(upper)


def dim_order(value: torch.Tensor) -> tuple[int, ...]:
    """Channels last where the strides say so, else the default order: kernels know no other."""
    rank = value.dim()
    default = tuple(range(rank))
    if rank not in (4, 5):
        return default
    strides = [_hint(s) for s in value.stride()]
    last = (0, *range(2, rank), 1)
    by_stride = tuple(sorted(range(rank), key=lambda axis: -strides[axis]))
    return last if by_stride == last else default


def _hint(size: Any) -> int:
    """An integer that stands for a stride; strides of one tensor keep their order."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return 1 << 30 if hint is None else int(hint)
