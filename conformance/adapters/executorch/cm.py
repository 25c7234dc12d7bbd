"""ExecuTorch's Core ML backend, asked for tags: CoreMLPartitioner asks coremltools about each operator, on Linux, too.

Its blobs contain a random name and run only on Apple's systems, so the level of a certificate is `tags`.
"""

from __future__ import annotations

import logging

import torch

from npu_assay.conformance.adapters.executorch.delegation import TheirPartitioner
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.partitioners.exir.backend import Backend

logging.getLogger("coremltools").setLevel(logging.ERROR)  # it tells which of its libraries only Apple's systems have

with quiet(), torch.random.fork_rng():
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner

logging.getLogger("executorch.backends.apple").setLevel(logging.ERROR)
for _name in ("partition.coreml_partitioner", "compiler.coreml_preprocess"):
    logging.getLogger(f"executorch.backends.apple.coreml.{_name}").setLevel(logging.ERROR)


def backend(_: str) -> Backend:
    """The backend of this module."""
    return Backend(
        name="executorch:coreml",
        table="coreml@1.5",
        partitioner=lambda **options: TheirPartitioner(CoreMLPartitioner(**options)),
        distributions=("executorch", "coremltools"),
        flow=f"{__package__}.unrun_flow:UnrunFlow",
    )
