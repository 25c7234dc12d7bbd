"""ExecuTorch's Vulkan backend: VulkanPartitioner and VulkanBackend, which compiles without a GPU.

Nothing runs the blobs here, so the highest level of a certificate is `compiles`.
"""

from __future__ import annotations

import logging
from typing import Any

from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.delegation import TheirPartitioner, compiler, warm_up
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.common.memory import once
from npu_assay.partitioners.exir.backend import Backend

BEFORE = logging.getLogger().level

with quiet():
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.backends.vulkan.patterns import fusable_patterns
    from executorch.backends.vulkan.vulkan_preprocess import VulkanBackend

logging.getLogger().setLevel(BEFORE)  # importing the partitioner sets it, and every node that is left would be told


def compiled(program: ExportedProgram, specs: list[Any]) -> bytes:
    """The header, the flatbuffer and the constants of a delegate, as VulkanBackend serializes them."""
    return bytes(VulkanBackend.preprocess(program, specs).processed_bytes)


@once
def _patterns_once() -> None:
    """Export the patterns to fuse once: ExecuTorch exports them for every program, and draws random numbers."""
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None:
            entry.get_graphs_fn = once(entry.get_graphs_fn)


def backend(_: str) -> Backend:
    """The backend of this module."""
    _patterns_once()
    warm_up(VulkanPartitioner().partition, lambda program: compiled(program, []))
    return Backend(
        name="executorch:vulkan",
        table="vulkan@1.4",
        partitioner=lambda **options: TheirPartitioner(VulkanPartitioner(**options)),
        details=compiler("VulkanBackend", compiled),
        distributions=("executorch", "torchao"),
        flow=f"{__package__}.unrun_flow:UnrunFlow",
    )
