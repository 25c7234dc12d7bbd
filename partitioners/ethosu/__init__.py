"""Arm Ethos-U: partitioner, compiler to TOSA, and a simulated device that runs what it compiles."""

from __future__ import annotations

from partitioners.ethosu.backend import EthosUBackend
from partitioners.ethosu.compile_spec import EthosUCompileSpec, VelaExternalBlockPlacements
from partitioners.ethosu.partitioner import EthosUPartitioner

__all__ = ["EthosUBackend", "EthosUCompileSpec", "EthosUPartitioner", "VelaExternalBlockPlacements"]
