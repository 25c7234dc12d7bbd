"""What the simulated device computes for a model, and how much of it LiteRT computes differently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir import CompileSpec, run_program, to_backend, transform_program
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.neutron import NeutronRuntime, backend
from npu_assay.partitioners.neutron.runtime import Program
from tests.crosscheck.litert import run_litert

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


def runs(graph: Graph, release: Backend = backend) -> list[Run]:
    """Every delegate of a model, on the model's own codes and on random ones over the full range."""
    device = Recording()
    lowered = to_backend(transform_program(build(graph), release.passes), release.partitioner())
    run_program(lowered, model_inputs(graph), {"NeutronBackend": device})
    generator = torch.Generator().manual_seed(11)
    for handle, (_, inputs, _) in zip(list(device.handles), list(device.runs), strict=True):
        random = [torch.randint(-128, 128, x.shape, generator=generator).to(torch.int8) for x in inputs]
        device.execute(handle, random)
    return device.runs


def differing(blob: bytes, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Output codes that are not LiteRT's; a shape that differs counts every code."""
    peers = [torch.from_numpy(np.asarray(y)) for y in run_litert(blob, [x.numpy() for x in inputs])]
    assert len(peers) == len(outputs)
    return sum(int((a != b).sum()) if a.shape == b.shape else a.numel() for a, b in zip(outputs, peers, strict=True))
