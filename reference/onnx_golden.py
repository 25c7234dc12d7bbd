"""A second float golden that shares no code with torch: `onnx.reference`, in float64.

Each ATen operator becomes the ONNX operator of the same meaning, with the arguments written out as ONNX
wants them. A difference between the two is a fault of the golden itself, never of a backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from npu_assay.reference.golden.aten import bound, canonical
from npu_assay.reference.onnx_forms.site import Array, FormError, onnx_form
from npu_assay.reference.onnx_node import Evaluated

AGREEMENT = 2.0**-30
"""Two float64 computations of one operator: sums of 2**20 terms, each 2**-53 off, stay within it."""


def run(op: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> tuple[Tensor, ...] | None:
    """An ATen operator by ONNX: float64 outputs, or None where ONNX has no such operator.

    Tensors in `args` are torch tensors. Raises GoldenError for arguments that the operator does not have.
    """
    name = canonical(op)
    form = onnx_form(name, apart=True)
    if form is None:
        return None
    try:
        found = form(Evaluated(bound(name, args, kwargs or {})))
    except FormError:
        return None
    return tuple(torch.from_numpy(_numbers(y)) for y in (found if isinstance(found, tuple) else (found,)))


def _numbers(y: Array) -> Array:
    """Truths as 0 and 1, everything else as it is."""
    found = np.asarray(y)
    return found.astype(np.float64) if found.dtype == np.bool_ else found


def disagreement(
    op: str,
    args: Sequence[Any],
    outputs: Sequence[Tensor],
    kwargs: Mapping[str, Any] | None = None,
    open_: Sequence[Tensor] | None = None,
) -> str | None:
    """Where ONNX and these outputs differ by more than float64's noise; None when they agree or ONNX has none.

    NaN and infinities are the same in both. Nothing is compared where the golden leaves open what is right (`open_`).

    args: float64 tensors and constants, as for `run`. outputs: what the float golden computed.
    """
    second = run(op, args, kwargs)
    for index, (y, other) in enumerate(zip(outputs, second or (), strict=False)):
        if y.shape != other.shape:
            return f"{op}: golden output {index} has shape {list(y.shape)}, onnx.reference {list(other.shape)}"
        known = torch.ones_like(y, dtype=torch.bool) if open_ is None else ~open_[index]
        compared = y.isfinite() & other.isfinite() & known
        unlike = ~compared & (y != other) & ~(y.isnan() & other.isnan()) & known
        if bool(unlike.any()):
            at = int(unlike.flatten().to(torch.uint8).argmax())
            found, expected = float(y.flatten()[at]), float(other.flatten()[at])
            return f"{op}: golden output {index} is {found} at {at}, onnx.reference {expected}"
        distance, largest = torch.where(compared, y - other, 0.0).abs(), torch.where(compared, y, 0.0).abs()
        if y.numel() and bool(distance.max() > AGREEMENT * max(1.0, float(largest.max()))):
            at = int(distance.argmax())
            found, expected = float(y.flatten()[at]), float(other.flatten()[at])
            return f"{op}: golden output {index} is {found:.12g} at {at}, onnx.reference {expected:.12g}"
    return None
