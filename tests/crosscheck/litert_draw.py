"""Random programs of one operator: parameters, inputs, a TFLite model, and our kernel with the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from npu_assay.reference.affine import Affine
from tests.crosscheck.litert import Array, Spec, constant


@dataclass(frozen=True)
class Program:
    """The same computation twice: `model` for LiteRT, `kernel` for us; both take `inputs`."""

    model: bytes
    inputs: tuple[Array, ...]
    kernel: Callable[..., Tensor]


def spec(shape: Sequence[int], q: Affine) -> Spec:
    """An activation's tensor."""
    return Spec(tuple(shape), (q.scale,), q.zero_point)


def constant_of(codes: Array, q: Affine) -> Spec:
    """A constant of int8 codes."""
    return constant(codes, (q.scale,), q.zero_point)


def int32(*values: int | Sequence[int] | Sequence[Sequence[int]]) -> Spec:
    """A constant of int32: a shape, axes, paddings."""
    return constant(np.array(values[0] if len(values) == 1 else values, dtype=np.int32))
