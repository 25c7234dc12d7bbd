"""From a delegated edge program to a TFLite model: one function per operator."""

from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.neutron.lowering.program import lower
from npu_assay.partitioners.neutron.lowering.registry import LOWERINGS

__all__ = ["LOWERINGS", "CompileError", "lower"]
