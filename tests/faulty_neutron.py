"""Broken copies of the Neutron backend, each with one fault that a vendor could ship.

Certify one as a new user would: `PYTHONPATH=tests assay certify faulty_neutron:multiple_of_4`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import torch
from faulty import rewriting, with_device

from partitioners.exir import Backend
from partitioners.neutron import (
    NeutronPartitioner,
    NeutronTargetSpec,
    backend,
    generate_neutron_compile_spec,
)
from partitioners.neutron.passes import DivideToMultiply
from partitioners.neutron.target import TARGETS
from partitioners.neutron.tflite import Model, Operator, Tensor, read, write
from reference.affine import Affine
from reference.int8 import conv, output
from reference.rescale import tflite_single_round

# ------------------------------------------------------------------ %8 became %4


def with_macs(macs: int) -> Backend:
    """The backend of an NPU with another number of multiply-accumulate units."""
    targets = {name: replace(target, num_macs=macs) for name, target in TARGETS.items()}

    def partitioner() -> NeutronPartitioner:
        target = NeutronTargetSpec("imxrt700", targets)
        spec = generate_neutron_compile_spec("imxrt700")
        return NeutronPartitioner(spec, target, preserve_ops=[torch.ops.aten.prelu.default])

    passes = tuple(DivideToMultiply(macs) if isinstance(one, DivideToMultiply) else one for one in backend.passes)
    return replace(backend, partitioner=partitioner, passes=passes)


multiple_of_4 = with_macs(4)


# ------------------------------------------------------------------ single instead of double rounding


def _single_round_stage(
    parameters: Sequence[tuple[int, int]], y: Affine, limits: output.Bounds | None = None
) -> output.Kernel:
    lo, hi = output.bounds(y, limits)
    multipliers, shifts = (torch.tensor(column) for column in zip(*parameters, strict=True))

    def finish(acc: torch.Tensor) -> torch.Tensor:
        rescaled = tflite_single_round(acc.to(torch.int64), multipliers, shifts)
        return (rescaled + y.zero_point).clamp(lo, hi).to(torch.int8)

    return finish


single_rounding = with_device(backend, lambda: patch.object(conv, "double_round_stage", _single_round_stage))
"""A device whose requantisation rounds once."""


# ------------------------------------------------------------------ what the compiler writes


def compiler(change: Callable[[Model], Model]) -> Backend:
    """The Neutron backend whose compiler changes every model that it writes."""
    return rewriting(backend, lambda blob: write(change(read(blob))))


def _without_bias(model: Model) -> Model:
    biases = {
        op.inputs[2] for op in model.operators if op.code in ("CONV_2D", "FULLY_CONNECTED") and len(op.inputs) > 2
    }
    tensors = [_zeros(tensor) if index in biases else tensor for index, tensor in enumerate(model.tensors)]
    return replace(model, tensors=tuple(tensors))


def _zeros(tensor: Tensor) -> Tensor:
    return tensor if tensor.data is None else replace(tensor, data=np.zeros_like(tensor.data))


def _height_for_width(model: Model) -> Model:
    return replace(model, operators=tuple(_swapped(operator) for operator in model.operators))


def _swapped(operator: Operator) -> Operator:
    options = dict(operator.options)
    if "stride_w" in options:
        options |= {"stride_w": options["stride_h"], "stride_h": options["stride_w"]}
    return replace(operator, options=options)


bias_dropped = compiler(_without_bias)
strides_exchanged = compiler(_height_for_width)
