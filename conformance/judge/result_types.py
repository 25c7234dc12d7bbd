"""The dtypes that steps compute in and return."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch

from npu_assay.conformance.programs.edge_form import typed
from npu_assay.conformance.programs.graph import Step
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, edge_op
from npu_assay.reference import golden
from npu_assay.reference.operators.home import BYTES, FIRST, FLOATING, TOTAL

OPERANDS, FACTORS = ("number", "Optional[number]", "Tensor"), ("alpha", "beta")
"""Types of arguments in schemas that give a result its type, also as numbers; and those that do not, by name."""


def result_type(step: Step, given: Sequence[torch.dtype], ranks: Sequence[int] = ()) -> torch.dtype:
    """The dtype that a step computes in and returns, unless its result is quantized. ranks: of operands."""
    options = dict(step.kwargs)
    named = options.get("dtype") or options.get("out_dtype")
    if step.op in QUANTIZE:
        named = step.args[-1]
    kind, rule = golden.result_kind(step.op), golden.dtype_rule(step.op)
    if kind == "truths":
        return torch.uint8 if rule == BYTES and given[0] == torch.uint8 else torch.bool
    if kind == "indices":
        return torch.int64
    if named is not None:
        found: torch.dtype = typed(named)
        return found
    if step.op in DEQUANTIZE or step.dynamic is not None or not given:
        return torch.float32
    if rule == FIRST:
        return given[0]
    joined = _joined(given, ranks)
    if joined.is_floating_point:
        return joined
    if rule == TOTAL:
        return torch.int64
    numbers = _numbers(step)
    if rule == FLOATING or any(isinstance(number, float) for number in numbers):
        return torch.float32
    whole = any(not isinstance(number, bool) for number in numbers)
    return torch.int64 if joined == torch.bool and whole else joined


def _joined(given: Sequence[torch.dtype], ranks: Sequence[int]) -> torch.dtype:
    """The type of a result; an operand without dimensions changes that of others to another category alone."""
    joined = reduce(torch.promote_types, given)
    wide = [dtype for dtype, rank in zip(given, ranks or (1,) * len(given), strict=True) if rank]
    most = reduce(torch.promote_types, wide) if wide else joined
    return joined if _category(joined) > _category(most) else most


def _category(dtype: torch.dtype) -> tuple[bool, bool]:
    """Truths, whole numbers and reals, in order."""
    return dtype.is_floating_point, dtype != torch.bool


def _numbers(step: Step) -> list[Any]:
    """The numbers among a step's arguments that are operands, as tensors are; not its axes, sizes and factors."""
    schema, named = edge_op(step.op).schema, dict(step.kwargs)
    if schema is None:
        return []
    for argument, given in zip(schema.arguments, step.args, strict=False):
        named[argument.name] = given
    operands = [a.name for a in schema.arguments if str(a.type) in OPERANDS and a.name not in FACTORS]
    return [named[name] for name in operands if isinstance(named.get(name), (int, float))]
