"""From a delegated edge program to a TOSA graph."""

from __future__ import annotations

from partitioners.ethosu.lowering.program import lower

__all__ = ["lower"]
