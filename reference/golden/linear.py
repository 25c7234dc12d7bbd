"""Sums of products: convolutions and matrix products.

For y = sum a_i * b_i with errors da, db the bound is sum da_i * (|b_i| + db_i) + |a_i| * db_i: the same
operator, run on errors and absolute values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.bounded import Bounded, GoldenError
from npu_assay.reference.golden.elementwise import add, plus, product_error
from npu_assay.reference.golden.special import anything


def convolution(x: Bounded, weight: Bounded, bias: Bounded | None, *rest: Any) -> Bounded:
    """aten.convolution.default: x [N, C, ...], weight [O, C / groups, ...], bias [O] or None."""
    function = aten("aten.convolution.default")
    value = function(x.value, weight.value, None if bias is None else bias.value, *rest)
    error = product_error(lambda a, b: function(a, b, None, *rest), x, weight)
    if bias is not None and not bias.exact:
        error = plus(error, bias.spread().reshape(-1, *[1] * (value.dim() - 2)))
    return anything(Bounded(value, error), _open_at_padding(x.value, weight.value, *rest))


def _open_at_padding(x: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """Where a weight that is not finite meets padding: times 0 it is NaN, and kernels that leave padding out have none.

    oneDNN's float16 kernels for AVX512-FP16 are such. A NaN among weights that meet numbers makes NaN in either. Of a
    transposed convolution all that no number of the operand reaches is padding, between them, too.
    """
    transposed, groups = rest[3], rest[5]
    if not (transposed or any(rest[1])) or bool(weight.isfinite().all()):
        return torch.zeros((), dtype=torch.bool)
    function, cells = aten("aten.convolution.default"), torch.ones_like(x[:1])
    special, nan = (~weight.isfinite()).double(), weight.isnan().double()
    by_output = torch.cat([part.transpose(0, 1) for part in special.chunk(groups)]) if transposed else special
    each = by_output.flatten(1).sum(1).reshape(-1, *[1] * (x.dim() - 2))
    open_: Tensor = (function(cells, special, None, *rest) < each) & (function(cells, nan, None, *rest) == 0)
    return open_


def conv(x: Bounded, weight: Bounded, bias: Bounded | None = None, *rest: Any, **options: Any) -> Bounded:
    """aten.conv1d.default and aten.conv2d.default: stride, padding, dilation, groups, all optional."""
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    given = defaults | dict(zip(defaults, rest, strict=False)) | options
    rank = x.value.dim() - 2
    lists = [_spread(given[name], rank) for name in ("stride", "padding", "dilation")]
    return convolution(x, weight, bias, *lists, False, [0] * rank, given["groups"])


def _spread(option: Any, rank: int) -> list[int]:
    """One number per spatial axis, from a number or a list of one or `rank` numbers."""
    if isinstance(option, str):
        raise GoldenError(f"padding: found {option!r}, expected numbers")
    numbers = [option] if isinstance(option, int) else list(option)
    return numbers * rank if len(numbers) == 1 else numbers


def matmul(a: Bounded, b: Bounded) -> Bounded:
    """aten.mm.default, aten.bmm.default, aten.matmul.default."""
    return Bounded(a.value @ b.value, product_error(torch.matmul, a, b))


def linear(x: Bounded, weight: Bounded, bias: Bounded | None = None) -> Bounded:
    """aten.linear.default: x [..., I], weight [O, I], bias [O]."""
    product = matmul(x, Bounded(weight.value.t(), weight.error if weight.exact else weight.spread().t()))
    if bias is None:
        return product
    found, shape = add(product, bias), product.value.shape  # a bias of more dimensions adds none
    return found if found.value.shape == shape else Bounded(found.value.reshape(shape), found.spread().reshape(shape))


def addmm(bias: Bounded, a: Bounded, b: Bounded, *, beta: float = 1, alpha: float = 1) -> Bounded:
    """aten.addmm.default: beta * bias + alpha * (a @ b)."""
    product = matmul(a, b)
    value = torch.addmm(bias.value, a.value, b.value, beta=beta, alpha=alpha)
    error = product.error if product.exact else product.error * abs(alpha)
    return Bounded(value, plus(error, bias.error, beta))
