"""The Neutron compiler: a delegated subgraph of the edge program to a TFLite flatbuffer."""

from __future__ import annotations

from collections.abc import Sequence

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.neutron.compile_spec import OUTPUT_FORMAT, spec_flag, spec_value
from npu_assay.partitioners.neutron.lowering.program import lower
from npu_assay.partitioners.neutron.tflite import write

FORMAT_VERSION = b"1"
DESCRIPTION = "npu-assay neutron"
# Options that the blob records for its reader, in this order; empty ones are left out.
RECORDED = ("target", "compile_flags", "fetch_constants_to_sram", "dump_kernel_selection_code")


class NeutronBackend(BackendDetails):
    """Compiles for the simulated Neutron device. Its name is the backend id."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """A TFLite flatbuffer that computes what the edge program computes on int8 tensors.

        Raises CompileError for a compile spec without the output format "tflite" and for a program
        that has no equivalent on the device.
        """
        _check_output_format(compile_specs)
        convert = spec_flag(compile_specs, "use_neutron_for_format_conversion", default=True)
        model = lower(edge_program, convert, DESCRIPTION, _metadata(compile_specs))
        return PreprocessResult(write(model))


def _check_output_format(compile_specs: Sequence[CompileSpec]) -> None:
    found = spec_value(compile_specs, "output_format")
    if found != OUTPUT_FORMAT:
        what = "unknown format" if found else "output format is required"
        raise CompileError(
            what, node="compile_specs", operator="output_format", found=found or "nothing", expected=OUTPUT_FORMAT
        )


def _metadata(compile_specs: Sequence[CompileSpec]) -> dict[str, bytes]:
    metadata = {"neutron_format_version": FORMAT_VERSION}
    for key in RECORDED:
        text = spec_value(compile_specs, key)
        if text:
            metadata[f"neutron_{key}"] = text.encode()
    return metadata
