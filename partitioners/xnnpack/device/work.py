"""How much a subgraph computes, so that a blob of a few hundred bytes cannot keep the device busy for minutes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from npu_assay.partitioners.common.machine import at_most
from npu_assay.partitioners.xnnpack.xnn_model import XNode

WORK_LIMIT: Final = 2**32
"""The limit for all operators of a model: float32 multiplications with additions, which take about 2 ns each."""

WORK_A_BYTE: Final = 2**6
"""So many more for each byte of the constants: a model with many weights may compute much with each of them."""

HALF: Final = 8
"""A multiplication of a 16-bit float type takes as long as so many in float32."""

CODES: Final = 16
"""So many multiplications of 8-bit codes take as long as one in float32."""

FUNCTION: Final = 256
"""An element of a function that is computed as XNNPACK does takes as long as so many multiplications."""

_FUNCTIONS: Final = frozenset(("Softmax", "Sigmoid", "ELU", "Log", "Gelu", "Tanh", "Exp", "Sin", "Cos"))
_CONVOLUTIONS: Final = frozenset(("Conv2d", "DepthwiseConv2d", "ConvTranspose2d"))

Shape = Sequence[int]


def work(node: XNode, dtype: str, operands: Sequence[Shape], result: Shape) -> int:
    """What the operator computes, for operands (absent ones left out) of these shapes, the first of this dtype."""
    if node.op in _FUNCTIONS:
        return FUNCTION * prod(result)
    products = _products(node, operands, result)
    if dtype in ("fp16", "bf16"):
        return HALF * products
    return products // CODES if dtype in ("qint8", "qdint8") else products


def _products(node: XNode, operands: Sequence[Shape], result: Shape) -> int:
    """Multiplications, or elements that are read or written where there are none."""
    x, o = operands[0], node.options
    if node.op in _CONVOLUTIONS:
        places = x if node.op == "ConvTranspose2d" else result
        return prod(places[:3]) * prod(operands[1])
    if node.op == "FullyConnected":
        return prod(x) * result[-1]
    if node.op == "BatchMatrixMultiply":
        return prod(result) * x[-1]
    if "pooling_height" in o:
        return prod(result) * int(o["pooling_height"]) * int(o["pooling_width"])
    return max(prod(x), prod(result))


def check_work(found: int, size: int, where: str) -> None:
    """Raise DeviceError for more than the limit of a model with so many bytes of constants."""
    at_most("multiplications, or what takes as long", found, WORK_LIMIT + WORK_A_BYTE * size, where)
