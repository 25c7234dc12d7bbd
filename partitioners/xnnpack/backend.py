"""The XNNPACK compiler: a delegated subgraph of the edge program to a delegate blob."""

from __future__ import annotations

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack.lowering import lower
from npu_assay.partitioners.xnnpack.xnn_format import write


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
