"""Every accepted case: the simulated NPU against LiteRT's reference kernels, on the same flatbuffer.

Each delegate runs on the case's own codes and on random codes over the full range. The comparison is
between two programs that read the same bytes; nothing here knows what the right numbers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from crosscheck.litert import run_litert

from conformance.cases import cases_for
from conformance.graph import Case
from conformance.programs import model_inputs
from conformance.table import Row, load_table
from conformance.tagging import prepare
from partitioners.exir import CompileSpec, run_program, to_backend
from partitioners.neutron import NeutronRuntime, backend
from partitioners.neutron.runtime import Program

TABLE = load_table("neutron@1.3")
Run = tuple[bytes, list[torch.Tensor], list[torch.Tensor]]  # blob, inputs, outputs


class Recording(NeutronRuntime):
    """The device, noting every run."""

    def __init__(self) -> None:
        self.blobs: dict[int, bytes] = {}
        self.handles: list[Program] = []
        self.runs: list[Run] = []

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> Program:
        handle = super().load(processed_bytes, compile_specs)
        self.handles.append(handle)  # kept alive, so that no other handle gets its id
        self.blobs[id(handle)] = processed_bytes
        return handle

    def execute(self, handle: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        outputs = super().execute(handle, inputs)
        self.runs.append((self.blobs[id(handle)], list(inputs), outputs))
        return outputs


def runs(case: Case) -> Iterator[Run]:
    """What the device computes for a case; nothing for a case that it does not take."""
    device = Recording()
    lowered: Any = to_backend(prepare(case, backend), backend.partitioner())
    run_program(lowered, model_inputs(case.graph), {"NeutronBackend": device})
    generator = torch.Generator().manual_seed(11)
    for handle, (_, inputs, _) in zip(list(device.handles), list(device.runs), strict=True):
        random = [torch.randint(-128, 128, x.shape, generator=generator).to(torch.int8) for x in inputs]
        device.execute(handle, random)
    yield from device.runs


def differing(blob: bytes, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Output codes that are not LiteRT's; a shape that differs counts every code."""
    peers = [torch.from_numpy(np.asarray(y)) for y in run_litert(blob, [x.numpy() for x in inputs])]
    assert len(peers) == len(outputs)
    return sum(int((a != b).sum()) if a.shape == b.shape else a.numel() for a, b in zip(outputs, peers, strict=True))


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.name)
def test_no_output_differs(row: Row) -> None:
    accepted = [case for case in cases_for(TABLE) if case.row == row.name and case.expect == "accept"]
    assert accepted
    compared = {case.id: [differing(*run) for run in runs(case)] for case in accepted}
    assert {name: counts for name, counts in compared.items() if not counts or any(counts)} == {}


def test_the_comparison_notices_one_code() -> None:
    """A single code changed in one output is counted."""
    case = next(case for case in cases_for(TABLE) if case.row == "aten.relu.default" and case.expect == "accept")
    blob, inputs, (output,) = next(runs(case))
    wrong = output.clone().flatten()
    wrong[0] ^= 1
    assert differing(blob, inputs, [output]) == 0
    assert differing(blob, inputs, [wrong.reshape(output.shape)]) == 1
