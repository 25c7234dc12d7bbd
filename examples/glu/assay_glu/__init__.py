"""aten.glu.default for npu-assay, which does not know it: how it is used, and what its numbers must be."""

import torch

from npu_assay.reference.golden import Bounded
from npu_assay.reference.operators import Operator, behind

NAME = "aten.glu.default"


def golden(x: Bounded, dim: int = -1) -> Bounded:
    """The first half times the sigmoid of the second, in float64.

    Where x is off by e, the halves are off by a and b, and the sigmoid by s <= b / 4: the product is off by at most
    |first| * s + sigmoid * a + a * s.
    """
    first, second = x.value.chunk(2, dim)
    gate = torch.sigmoid(second)
    if x.exact:
        return Bounded(first * gate)
    a, b = x.spread().chunk(2, dim)
    s = b / 4
    return Bounded(first * gate, first.abs() * s + gate * a + a * s)


operator = Operator(
    NAME,
    golden,
    behind(-1),
    shape=(1, 3, 4, 6),
    shapes=((8,), (5, 2), (2, 3, 10)),
    spellings=(("rows", behind(2)),),
)
"""Of an input of a given shape, along the last dimension; and along the rows. Their sizes must be even."""
