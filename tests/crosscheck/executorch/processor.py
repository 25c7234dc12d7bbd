"""What the processor of this run has: XNNPACK chooses its kernels by that."""

from __future__ import annotations

from pathlib import Path

CPU = Path("/proc/cpuinfo")
FLAGS = frozenset(CPU.read_text().split() if CPU.exists() else ())
"""The names of its features, among other words."""
