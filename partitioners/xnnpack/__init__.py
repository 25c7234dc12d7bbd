"""XNNPACK: partitioner, compiler to delegate blobs, and a simulated device that runs what it compiles."""

from __future__ import annotations

from partitioners.xnnpack.options import ConfigPrecisionType
from partitioners.xnnpack.partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackFloatingPointPartitioner,
    XnnpackPartitioner,
    XnnpackQuantizedPartitioner,
)

__all__ = [
    "ConfigPrecisionType",
    "XnnpackDynamicallyQuantizedPartitioner",
    "XnnpackFloatingPointPartitioner",
    "XnnpackPartitioner",
    "XnnpackQuantizedPartitioner",
]
