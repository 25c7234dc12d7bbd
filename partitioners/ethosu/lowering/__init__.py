"""From a delegated edge program to a TOSA graph."""

from __future__ import annotations

from npu_assay.partitioners.ethosu.lowering.program import lower

__all__ = ["lower"]
