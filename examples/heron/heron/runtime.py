"""The device: integer arithmetic on codes, as the blob says. It never sees the graph."""

import math
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from npu_assay.partitioners.exir import CompileSpec
from npu_assay.partitioners.exir.blob import DTYPES, BlobError, unpack


def rescale(terms: Sequence[tuple[Tensor, float]]) -> Tensor:
    """The sum of integers times real ratios, rounded once, ties up: multipliers of 31 bits, then a shift."""
    shift = max(1, min(62, 31 - max(math.frexp(ratio)[1] for _, ratio in terms)))
    total: Tensor = reduce(add, (integers * round(ratio * 2**shift) for integers, ratio in terms))
    return (total + (1 << shift - 1)) >> shift


def mean(s: list[float], a: dict[str, Any], x: Tensor) -> list[tuple[Tensor, float]]:
    """The sum, whose scale has the division in it."""
    total = x.sum(a["dim"], a["keepdim"])
    return [(total, s[0] * total.numel() / x.numel())]


def max_pool(s: list[float], a: dict[str, Any], x: Tensor) -> list[tuple[Tensor, float]]:
    """The largest of each window; an empty stride is the window's size."""
    return [(functional.max_pool2d(x, a["kernel_size"], a["stride"] or None, a["padding"]), s[0])]


def lookup(s: list[float], a: dict[str, Any], x: Tensor, table: Tensor) -> list[tuple[Tensor, float]]:
    """One of the table's 256 results for each code."""
    return [(table[x - a["first"]], s[1])]


# Operator -> (scales, arguments, operands without their zero points) -> integers and their scales, to be summed.
KERNELS: dict[str, Any] = {
    "aten.add.Tensor": lambda s, a, x, z: [(x, s[0]), (z, s[1])],
    "aten.max_pool2d_with_indices.default": max_pool,
    "aten.mean.dim": mean,
    "aten.mm.default": lambda s, a, x, w: [(x @ w, s[0] * s[1])],
    "aten.permute_copy.default": lambda s, a, x: [(x.permute(a["dims"]), s[0])],
    "aten.relu.default": lookup,
    "aten.sigmoid.default": lookup,
    "aten.tanh.default": lookup,
}


class HeronRuntime:
    """Loads what HeronBackend writes, and runs it."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        """Header and arrays. Raises BlobError for bytes that the compiler did not write."""
        header, arrays = unpack(processed_bytes)
        if header.get("op") not in KERNELS:
            raise BlobError(f"operator: found {header.get('op')!r}, expected one of {', '.join(KERNELS)}")
        return header, arrays

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The codes of the result."""
        (header, arrays), y = handle, handle[0]["output"]
        codes = [arrays[o["constant"]] if "constant" in o else inputs[o["input"]] for o in header["operands"]]
        numbers = [c.to(torch.int64) - o["zero_point"] for c, o in zip(codes, header["operands"], strict=True)]
        terms = KERNELS[header["op"]]([o["scale"] for o in header["operands"]], header["arguments"], *numbers)
        result = rescale([(integers, scale / y["scale"]) for integers, scale in terms]) + y["zero_point"]
        return [result.clamp(y["qmin"], y["qmax"]).to(DTYPES[y["dtype"]]).contiguous()]
