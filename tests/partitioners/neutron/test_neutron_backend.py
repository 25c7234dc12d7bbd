"""The Neutron compiler as a backend: compile specs, what the blob records, and registration."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from delegated import delegated
from lowering_graphs import GRAPHS
from torch.export import ExportedProgram

from npu_assay.conformance.programs.build import build, materialise
from npu_assay.partitioners.exir import to_backend
from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.neutron import (
    CompileError,
    NeutronBackend,
    NeutronPartitioner,
    backend,
    generate_neutron_compile_spec,
)
from npu_assay.partitioners.neutron.tflite import read


def conv() -> ExportedProgram:
    return delegated(build(GRAPHS["conv"][0]))


def test_the_blob_is_tflite() -> None:
    blob = NeutronBackend.preprocess(conv(), generate_neutron_compile_spec("imxrt700")).processed_bytes
    assert blob[4:8] == b"TFL3"


@pytest.mark.parametrize(
    "specs, message",
    [
        ([], "output format is required: found nothing, expected tflite"),
        ([CompileSpec("output_format", b"onnx")], "unknown format: found onnx, expected tflite"),
    ],
)
def test_output_format(specs: list[CompileSpec], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        NeutronBackend.preprocess(conv(), specs)


def test_formats_are_converted_unless_it_is_said() -> None:
    asked = [CompileSpec("output_format", b"tflite")]
    blobs = [
        NeutronBackend.preprocess(conv(), [*asked, *more]).processed_bytes
        for more in ([], *([CompileSpec("use_neutron_for_format_conversion", said)] for said in (b"True", b"False")))
    ]
    assert blobs[0] == blobs[1] != blobs[2]


def test_unreadable_flag() -> None:
    specs = [CompileSpec("output_format", b"tflite"), CompileSpec("use_neutron_for_format_conversion", b"yes")]
    with pytest.raises(ValueError, match="use_neutron_for_format_conversion is 'yes'"):
        NeutronBackend.preprocess(conv(), specs)


def test_the_blob_records_how_it_was_made() -> None:
    specs = generate_neutron_compile_spec("imxrt700", extra_flags="--fast --small", fetch_constants_to_sram=True)
    model = read(NeutronBackend.preprocess(conv(), specs).processed_bytes)
    assert {key: bytes(value) for key, value in model.metadata.items()} == {
        "neutron_format_version": b"1",
        "neutron_target": b"imxrt700",
        "neutron_compile_flags": b"--fast --small",
        "neutron_fetch_constants_to_sram": b"True",
        "neutron_dump_kernel_selection_code": b"False",
    }


def test_the_program_stays_as_it_is() -> None:
    program = conv()
    before = str(program.graph)
    metas = [dict(node.meta) for node in program.graph.nodes]
    NeutronBackend.preprocess(program, generate_neutron_compile_spec("imxrt700"))
    assert str(program.graph) == before
    assert [dict(node.meta) for node in program.graph.nodes] == metas


def test_to_backend_finds_the_compiler_by_name() -> None:
    graph = GRAPHS["conv"][0]
    lowered = to_backend("NeutronBackend", conv(), generate_neutron_compile_spec("imxrt700"))
    codes = [materialise(value) for value in graph.values if not value.constant]
    handle = lowered.handle(backend.runtime)
    assert backend.runtime.execute(handle, codes)[0].dtype == torch.int8


def test_the_backend_is_complete() -> None:
    assert (backend.name, backend.table, backend.details) == ("neutron", "neutron@1.3", NeutronBackend)
    assert isinstance(backend.partitioner(), NeutronPartitioner)
    assert backend.partitioner() is not backend.partitioner()


def test_importing_the_package_needs_no_extra() -> None:
    script = "import sys, npu_assay.partitioners.neutron; print('torchao' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
