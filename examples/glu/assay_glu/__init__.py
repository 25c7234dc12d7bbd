"""aten.glu.default for npu-assay, which does not know it: how it is used, and what its numbers must be.

Besides a name for predicates, `gates`, and a program around it, `two_gates`.
"""

from typing import Any

import torch

from npu_assay.conformance.predicates.outside import Context, Feature
from npu_assay.conformance.programs.graph import Graph, Ref, Step
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
"""Cases of an input of a given shape, along the last dimension and along the rows; their sizes must be even."""


def gates(application: Any) -> int | None:
    """How many gates there are side by side: half of the size along `dim`. Only of this operator."""
    if application.op != NAME:
        return None
    size: int = application.operands[0].shape[application.find("dim")]
    return size // 2


def two_gates(graph: Graph, subject: str) -> Graph | None:
    """The same operator twice on one input, and the product of both results."""
    step = next(step for step in graph.steps if step.name == subject)
    if step.op != NAME:
        return None
    other = Step("other", NAME, step.args, step.kwargs, step.quant)
    product = Step("product", "aten.mul.Tensor", (Ref(subject), Ref("other")), (), step.quant)
    return Graph(graph.values, (*graph.steps, other, product), (Ref("product"),))


constraints = (Feature("gates", gates), Context("two_gates", two_gates))
"""What tables may say of it, and where else it stands."""
