"""The features of the processor of this run, by which XNNPACK chooses its kernels."""

from __future__ import annotations

from npu_assay.conformance.findings import processor_flags

FLAGS = processor_flags()
"""The names of the features, among other words; empty where the system does not list them."""
