"""The Ethos-U compiler: a delegated subgraph of the edge program to a TOSA flatbuffer."""

from __future__ import annotations

from collections.abc import Sequence

from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu.lowering.program import lower
from npu_assay.partitioners.ethosu.tosa_format import write
from npu_assay.partitioners.exir.backend import BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.exir.flatbuffer import FormatError

SPECIFICATION = "tosa_spec"
"""The compile spec that names the version, profile and extensions of TOSA, e.g. TOSA-1.0+INT+int16+int4+u55."""
U55 = "u55"


class EthosUBackend(BackendDetails):
    """Compiles for the simulated Ethos-U device. Its name is the backend id."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """A TOSA flatbuffer that computes what the edge program computes on integers.

        Raises CompileError for compile specs without a specification of the integer profile and for a
        program that has no equivalent on the device.
        """
        model = lower(edge_program, is_u55=U55 in _extensions(compile_specs))
        try:
            return PreprocessResult(write(model))
        except FormatError as error:
            raise CompileError(
                error.what, node=error.where, operator="graph", found=error.found, expected=error.expected
            ) from error


def _extensions(compile_specs: Sequence[CompileSpec]) -> list[str]:
    """The profiles and extensions of the specification, which has one entry and the integer profile."""
    found = [spec.value.decode("ascii", "replace") for spec in compile_specs if spec.key == SPECIFICATION]
    version, *extensions = found[0].split("+") if len(found) == 1 else ("",)
    if version != "TOSA-1.0" or "INT" not in extensions:
        raise CompileError(
            "specification of TOSA",
            node="compile_specs",
            operator=SPECIFICATION,
            found=", ".join(found) or "nothing",
            expected="one of version 1.0 with the integer profile, e.g. TOSA-1.0+INT+int16",
        )
    return extensions
