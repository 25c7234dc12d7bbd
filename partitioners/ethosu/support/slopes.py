"""The rule that 16-bit tables do not jump: between two entries TABLE interpolates with a 16-bit slope."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from npu_assay.partitioners.ethosu.lowering.scaling import dequantised
from npu_assay.partitioners.ethosu.lowering.tables import entries_of_wide
from npu_assay.partitioners.ethosu.support.common import is_named
from npu_assay.partitioners.ethosu.support.quantization import operand_params, result_params
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.ethosu.support.signs import is_never_negative
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.exir.qdq import is_dequantize, qparams
from npu_assay.partitioners.exir.rules import rule

MAX_SLOPE = 2**15 - 1
HALF = 256
"""The entry of code 0."""


@rule("table_slope", MAX_SLOPE)
def table_slope(node: fx.Node, context: Context) -> str | None:
    """from one code to the 128th next, results of int16 must not differ by more than {value} codes"""
    # TABLE is unpredictable elsewhere. Entries for codes that never come do not count.
    before, after = operand_params(node, context)[:1], result_params(node)[:1]
    if not before or not after or before[0].dtype != torch.int16 or after[0].dtype != torch.int16:
        return None
    if not all(0 < one.scale < float("inf") and one.zero_point == 0 for one in (*before, *after)):
        return None
    arguments = _arguments(node, context)
    if arguments is None:
        return None
    target: Any = node.target
    entries = torch.from_numpy(
        entries_of_wide(before[0], after[0], lambda numbers: target(numbers, *arguments, **node.kwargs))
    )
    source = operand(node)
    first = HALF if source is not None and is_never_negative(source, context) else 0
    slopes = entries.to(torch.int64).diff()[first:]
    worst = int(slopes.abs().argmax())
    found = int(slopes[worst])
    fits = -MAX_SLOPE - 1 <= found <= MAX_SLOPE
    return None if fits else f"{abs(found)} after code {(first + worst) * 128 - 2**15}"


def _arguments(node: fx.Node, context: Context) -> tuple[Any, ...] | None:
    """The source of the operand; None when it is not known."""
    if not is_named(node, "aten.pow.Tensor_Tensor"):
        return tuple(node.args[1:])
    second = operand(node, 1)
    data = context.data(second.args[0]) if second is not None and is_dequantize(second) else None
    params = qparams(second)
    if data is None or params is None or data.numel() != 1:
        return None
    return (dequantised(data.reshape(()), params),)
