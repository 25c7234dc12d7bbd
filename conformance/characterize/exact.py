"""Exact results of a program, in steps of its result's scale, beside the codes that a backend gave."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.judge.float_golden import walk
from npu_assay.conformance.programs.graph import Graph
from npu_assay.reference.affine import float32

KEPT = 32  # programs whose results are kept


class NoProbeError(ValueError):
    """There is no such program of a row, or the suite does not know what it gives; the message says why."""


@keep(KEPT)
def reals(graph: Graph) -> Tensor:
    """The first result of the program in float64, before it is quantized. Raises NoProbeError."""
    steps = tuple(replace(step, quant=None) if step.name == SUBJECT else step for step in graph.steps)
    try:
        found = walk(replace(graph, steps=steps), None, delegated=False).bounded[0].value
    except Exception as error:  # torch raises anything for arguments that do not fit
        raise NoProbeError(str(error).partition("\n")[0]) from error
    return found


def in_steps(graph: Graph, scale: float) -> Tensor:
    """The first result in steps of a scale, as a file holds it."""
    return reals(graph).flatten() / float32(scale)


def steps_of(output: Tensor, scale: float) -> Tensor:
    """A dequantized output in steps of its scale, without the zero point; NaN for what is not on the grid."""
    steps = output.flatten().to(torch.float64) / float32(scale)
    whole = steps.round()
    return torch.where((steps - whole).abs() <= whole.abs() * 2.0**-22, whole, torch.nan)
