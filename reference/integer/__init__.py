"""The exact-integer golden: ATen operators on codes, in ATen layout and spelling, by the scheme's arithmetic.

A function of `npu_assay.reference.arithmetic.tflite` is channels-last and takes what a TensorFlow Lite operator takes.
Here each ATen operator becomes the functions that compute it: arguments are read as torch reads them (lists of one,
negative dims, an empty stride is the kernel), images are moved to channels-last and back. Where a TFLite
operator needs equal quantizations and the operands differ, a QUANTIZE follows (before a concatenation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.xnnpack import quantize
from npu_assay.reference.golden.aten import bound, canonical
from npu_assay.reference.integer.operand import IntegerError, QTensor
from npu_assay.reference.integer.reals import reals, run_dynamic, run_reals
from npu_assay.reference.operators.home import INTEGERS, SCHEMES, Codes, loaded
from npu_assay.reference.operators.lookup import home

__all__ = ["SCHEMES", "IntegerError", "QTensor", "codes_of", "quantize", "reals", "run", "run_dynamic", "run_reals"]


def codes_of(op: str, scheme: str) -> Codes | None:
    """How a scheme computes an operator on codes, as its home says it; None where it does not."""
    own = home(canonical(op))
    return None if own is None else own.codes(scheme)


def run(
    op: str, args: Sequence[Any], kwargs: Mapping[str, Any], y: Affine, scheme: str = "tflite_double_round"
) -> tuple[Tensor, ...]:
    """An operator on codes: the int8 codes of its outputs, quantized as `y`. Operands are never written to.

    Raises IntegerError for an operator or operands without integer semantics in that scheme's arithmetic. The
    index output of max_pool2d_with_indices is left out: an NPU does not compute it.
    """
    if scheme not in SCHEMES:
        raise IntegerError(f"rescale scheme: found {scheme!r}, expected one of {sorted(SCHEMES)}")
    name = canonical(op)
    given, codes = bound(name, args, kwargs), codes_of(name, scheme)
    if codes is None:
        raise IntegerError(f"operator: found {op!r}, expected one with integer semantics")
    try:
        made = loaded(codes.golden, INTEGERS, name)(given, y)
    except ValueError as error:
        raise IntegerError(str(error)) from error
    return made if isinstance(made, tuple) else (made,)
