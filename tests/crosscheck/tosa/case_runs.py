"""Every delegate of a case: its flatbuffer, what it is given on the case's own inputs, what the device returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tosa_building import Array

from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.tagging import prepare
from npu_assay.conformance.table import Table
from npu_assay.partitioners.ethosu.vela import refusal
from npu_assay.partitioners.exir import Backend, CompileSpec, run_program, to_backend
from npu_assay.partitioners.exir.backend import Runtime
from tests.crosscheck.tosa.model import run_reference
from tests.crosscheck.tosa.validator import refusals

Compiled = tuple[bytes, tuple[tuple[str, bytes], ...]]  # a flatbuffer, and the compile specs that it was made with


@dataclass(frozen=True)
class Run:
    """One run of one delegate."""

    compiled: Compiled
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


@dataclass
class Recording:
    """A device that notes its runs."""

    device: Runtime
    runs: list[Run]

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        loaded = self.device.load(processed_bytes, compile_specs)
        return loaded, (processed_bytes, tuple((spec.key, spec.value) for spec in compile_specs))

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        loaded, compiled = handle
        given = tuple(np.array(tensor.numpy(), order="C") for tensor in inputs)
        outputs = self.device.execute(loaded, inputs)
        self.runs.append(Run(compiled, given, tuple(tensor.numpy() for tensor in outputs)))
        return outputs


def runs(case: Case, backend: Backend, table: Table) -> list[Run]:
    """A case as the conformance suite runs it: passes, partitioner, compiler, and each delegate on the device."""
    lowered = to_backend(
        prepare(case, backend, table),
        backend.partitioner(**dict(case.options)),
        details={table.backend_id: backend.details},
    )
    device = Recording(backend.runtime, [])
    run_program(lowered, model_inputs(case.graph), {table.backend_id: device})
    return device.runs


def refused(found: Iterable[Run], folder: Path) -> dict[Compiled, list[str]]:
    """What Vela, for the target of the compile specs, and TOSA's validation say to the flatbuffers that they refuse."""
    compiled = list(dict.fromkeys(run.compiled for run in found))
    validation = refusals([blob for blob, _ in compiled], folder)
    said = {}
    for (blob, specs), invalid in zip(compiled, validation, strict=True):
        words = {"Vela": refusal(blob, [CompileSpec(*spec) for spec in specs]), "validation": invalid}
        said[blob, specs] = [f"{who}: {what}" for who, what in words.items() if what]
    return {each: words for each, words in said.items() if words}


def differing(run: Run) -> int:
    """How many numbers the device gave that are not the reference model's; a type or shape that differs counts all.

    Inputs for which the model has no defined result count all numbers as well.
    """
    expected = run_reference(run.compiled[0], run.inputs)
    if expected is None:
        return sum(output.size for output in run.outputs)
    count = 0
    for e, found in zip(map(np.asarray, expected), run.outputs, strict=True):
        same = (e.shape, e.dtype) == (found.shape, found.dtype)
        count += int((e != found).sum()) if same else max(e.size, found.size, 1)
    return count
