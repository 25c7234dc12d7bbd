"""ExecuTorch's Vulkan backend: VulkanPartitioner and VulkanBackend, which compiles without a GPU.

Nothing runs the blobs here, so the highest level of a certificate is `compiles`.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.delegation import TheirPartitioner, compiler
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.partitioners.exir import edge_program
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.interop import executorch_program
from npu_assay.partitioners.exir.program import call

BEFORE = logging.getLogger().level

with quiet():
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.backends.vulkan.patterns import fusable_patterns
    from executorch.backends.vulkan.vulkan_preprocess import VulkanBackend

logging.getLogger().setLevel(BEFORE)  # importing the partitioner sets it, and every node that is left would be told


def compiled(program: ExportedProgram, specs: list[Any]) -> bytes:
    """The header, the flatbuffer and the constants of a delegate, as VulkanBackend serializes them."""
    return bytes(VulkanBackend.preprocess(program, specs).processed_bytes)


@cache
def _patterns_once() -> None:
    """Export the patterns to fuse once: ExecuTorch exports them for every program, and draws random numbers."""
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None:
            entry.get_graphs_fn = cache(entry.get_graphs_fn)


def _warm_up() -> None:
    """Tag and compile a program: the first time, ExecuTorch imports further modules and draws random numbers."""
    graph = fx.Graph()
    graph.output((call(graph, "aten.abs.default", (graph.placeholder("x"),)),))
    program = edge_program(graph, inputs={"x": torch.zeros(1)})
    with quiet(), torch.random.fork_rng():
        VulkanPartitioner().partition(executorch_program(program))
        compiled(executorch_program(program), [])


def backend(_: str) -> Backend:
    """The backend of this module."""
    _patterns_once()
    _warm_up()
    return Backend(
        name="executorch:vulkan",
        table="vulkan@1.4",
        partitioner=lambda **options: TheirPartitioner(VulkanPartitioner(**options)),
        details=compiler("VulkanBackend", compiled),
        distributions=("executorch", "torchao"),
        flow=f"{__package__}.unrun_flow:UnrunFlow",
    )
