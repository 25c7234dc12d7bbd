"""Arm's TOSA reference model and our device on the same bytes. Needs tosa-tools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import tosa_reference_model
from tosa_building import Array, Program

from npu_assay.partitioners.common.machine import UnpredictableError
from npu_assay.partitioners.ethosu.runtime import EthosURuntime
from npu_assay.partitioners.ethosu.tosa_format import write
from tests.crosscheck.tosa.streams import silence


def run_reference(blob: bytes, inputs: Sequence[Array]) -> list[Array] | None:
    """The outputs, None where the model calls them unpredictable. Fails for a graph that it refuses."""
    with silence():
        outputs, status = tosa_reference_model.run(blob, list(inputs))
    if status == tosa_reference_model.GraphStatus.TOSA_UNPREDICTABLE:
        return None
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, str(status)
    return list(outputs)


def run_device(blob: bytes, inputs: Sequence[Array]) -> list[Array] | None:
    """The outputs, None where the device calls them unpredictable."""
    runtime = EthosURuntime()
    try:
        outputs = runtime.execute(runtime.load(blob), [torch.from_numpy(np.array(array)) for array in inputs])
    except UnpredictableError:
        return None
    return [output.numpy() for output in outputs]


def differing(program: Program) -> tuple[int, bool]:
    """How many output numbers differ, and whether there are defined ones; a type or shape that differs counts all."""
    blob = write(program.model)
    expected, found = run_reference(blob, program.inputs), run_device(blob, program.inputs)
    if expected is None or found is None:
        return int((expected is None) != (found is None)), False
    assert len(expected) == len(found)
    count = 0
    for e, f in zip(expected, found, strict=True):
        e = np.asarray(e)
        count += e.size if (e.shape, e.dtype) != (f.shape, f.dtype) else int((e != f).sum())
    return count, True
