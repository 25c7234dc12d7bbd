"""The features of the processor of this run, by which XNNPACK chooses its kernels."""

from __future__ import annotations

from pathlib import Path

CPU = Path("/proc/cpuinfo")
FLAGS = frozenset(CPU.read_text().split() if CPU.exists() else ())
"""The names of the features, among other words; empty where the system does not list them."""
