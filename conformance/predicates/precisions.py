"""Which of the precisions of a row a program belongs to, by the types and the quantizations of what it computes on."""

from __future__ import annotations

from collections.abc import Sequence

from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.table import INTEGER_PRECISIONS, Row

FLOATS = {"float32": "fp32", "float16": "fp16"}
DYNAMIC = {4: "dynamic_int4", None: "dynamic_int8"}


def precision_of(row: Row, use: Application) -> str | None:
    """The precision; None of a row that lists none, and of a program that has none.

    What is partly real belongs to that of its codes if the row is one of integers: they alone are limited to codes.
    """
    if not row.precisions:
        return None
    tensors = (*use.operands, *use.results)
    if set(row.precisions) & set(INTEGER_PRECISIONS):
        return _of_integers(row, tensors)
    return _of_floats(row, use)


def _of_integers(row: Row, tensors: Sequence[Operand]) -> str | None:
    coded = [each for each in tensors if each.is_quantized]
    if not coded and not any("float" in each.dtype for each in tensors):
        return "integers"
    moving = [each for each in coded if not each.is_constant] or coded
    size = "int16" if any(each.dtype == "int16" for each in moving) else "int8"
    return _by_scales(row, size, tensors)


def _of_floats(row: Row, use: Application) -> str | None:
    """Codes count where scales are the operator's own: of weights, or of all that it takes and gives."""
    tensors, weights = (*use.operands, *use.results), [each for each in use.operands if each.is_constant]
    if use.around is not None and use.around.dynamic:
        return next((DYNAMIC.get(each.bits) for each in weights if each.is_quantized), None)
    weighted = "weight" in use.arguments and any(each.is_quantized for each in weights)
    if "static_int8" in row.precisions and (weighted or _are_codes(use)):
        return _by_scales(row, "static_int8", tensors)
    reals = {FLOATS.get(each.real) for each in tensors if "float" in each.real}
    return reals.pop() if len(reals) == 1 else None


def _are_codes(use: Application) -> bool:
    """True where everything is int8 with a scale, but for biases."""
    found = (*(each for name, each in use.arguments.items() if name != "bias"), *use.results)
    listed = [t for each in found for t in (each if isinstance(each, tuple) else (each,)) if isinstance(t, Operand)]
    return all(each.is_quantized and each.dtype == "int8" for each in listed)


def _by_scales(row: Row, name: str, tensors: Sequence[Operand]) -> str:
    """The precision of this name with a scale per channel, if the row tells it apart and one has that."""
    channels = f"{name}_per_channel"
    return channels if channels in row.precisions and any(each.is_per_channel for each in tensors) else name
