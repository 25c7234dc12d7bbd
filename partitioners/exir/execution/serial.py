"""Serializes programs to files, by a configuration."""

from __future__ import annotations

from typing import Any

from npu_assay.partitioners.exir.execution.config import ExecutorchBackendConfig
from npu_assay.partitioners.exir.flatbuffer import Record
from npu_assay.partitioners.exir.pte.model import Program
from npu_assay.partitioners.exir.pte.writer import as_record, write


def serialised(program: Program, config: ExecutorchBackendConfig) -> bytes:
    """The program as a file, with the segments and alignments that the configuration asks for."""
    return write(program, **_options(config))


def recorded(program: Program, config: ExecutorchBackendConfig) -> Record:
    """The root table of that file, by the schema's names."""
    return as_record(program, **_options(config))


def _options(config: ExecutorchBackendConfig) -> dict[str, Any]:
    return {
        "delegate_segments": config.extract_delegate_segments,
        "segment_alignment": config.segment_alignment,
        "constant_alignment": config.constant_tensor_alignment or 16,
        "delegate_alignment": config.delegate_alignment or 16,
    }
