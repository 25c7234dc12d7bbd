"""From a delegated edge program to a TFLite model: one function per operator."""

from partitioners.exir.compiling import CompileError
from partitioners.neutron.lowering.program import lower
from partitioners.neutron.lowering.registry import LOWERINGS

__all__ = ["LOWERINGS", "CompileError", "lower"]
