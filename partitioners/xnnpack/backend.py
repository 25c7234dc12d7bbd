"""The XNNPACK compiler: a delegated subgraph of the edge program to a delegate blob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack.lowering.program import lower
from npu_assay.partitioners.xnnpack.xnn_format import write
from npu_assay.partitioners.xnnpack.xnn_sharing import shared


class XnnpackBackend(BackendDetails):
    """Compiles for the XNNPACK delegate. Its name is the backend id."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """A delegate blob that computes what the edge program computes; there are no compile specs to read.

        Raises CompileError for a program that has no equivalent in XNNPACK.
        """
        try:
            return PreprocessResult(write(lower(edge_program)))
        except FormatError as error:
            raise CompileError(
                error.what, node=error.where, operator="subgraph", found=error.found, expected=error.expected
            ) from error

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: Mapping[str, Sequence[ExportedProgram]],
        compile_specs: Mapping[str, Sequence[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Delegate blobs; constants that several of them use are stored once as named data.

        Raises CompileError for a program that has no equivalent in XNNPACK.
        """
        alone = super().preprocess_multimethod(edge_programs, compile_specs)
        together = iter(shared([result.processed_bytes for results in alone.values() for result in results]))
        return {method: [_beside(each, *next(together)) for each in results] for method, results in alone.items()}


def _beside(alone: PreprocessResult, blob: bytes, named: Mapping[str, bytes]) -> PreprocessResult:
    """The result with data stored beside the blob, if there is any."""
    return replace(alone, processed_bytes=blob, data_store_output=dict(named)) if named else alone
