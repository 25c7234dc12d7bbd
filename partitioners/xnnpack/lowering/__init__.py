"""From a delegated edge program to an XNNPACK subgraph: one function per operator."""

from npu_assay.partitioners.xnnpack.lowering.program import lower
from npu_assay.partitioners.xnnpack.lowering.registry import LOWERINGS

__all__ = ["LOWERINGS", "lower"]
