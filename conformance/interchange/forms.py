"""A case in a file format: its model, its inputs, and what its outputs must be."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor
from torch.export import ExportedProgram, export, save

from npu_assay.conformance.common.describing import describe
from npu_assay.conformance.common.memory import remember
from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.onnx_rules import rule
from npu_assay.conformance.interchange.whole import Whole
from npu_assay.conformance.judge.integer_golden import affine
from npu_assay.conformance.judge.numerics import Golden, golden, judge
from npu_assay.conformance.programs.build import build, materialise, model_inputs, module
from npu_assay.conformance.programs.graph import Case, Graph, Quant
from npu_assay.conformance.run.answering import delegates
from npu_assay.conformance.run.outline import on_integers, outline
from npu_assay.conformance.run.partitioning import Recorder
from npu_assay.conformance.run.tagging import prepare, tagging_of
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import (
    Backend,
    DelegationSpec,
    EdgeCompileConfig,
    EdgeProgramManager,
    ExirError,
    LoweredBackendModule,
    to_backend,
)
from npu_assay.reference.integer import IntegerError
from npu_assay.reference.onnx_forms.site import FormError

FLOATS, INTEGERS = "floats", "integers"
"""How a model computes between its codes: on floats, as the operators say, or on integers in the table's scheme."""
TFLITE_MARK = b"TFL3"


@dataclass(frozen=True)
class Made:
    """A case's files. inputs and outputs are as the model has them: reals, or codes when `codes` is True."""

    model: bytes
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    arithmetic: str
    codes: bool = False


@dataclass(frozen=True)
class Format:
    """A file format: the name of a case's model, the suffix of its tensors, and how a case gets its files.

    `make` raises FormError for a case that the format cannot hold.
    """

    model: str
    tensors: str
    make: Callable[[Case, Table, Backend], Made]


# ------------------------------------------------------------------------------------ what the outputs must be


def closed(graph: Graph) -> Graph:
    """The graph with the case's sizes in place of dynamic shapes."""
    return replace(graph, values=tuple(replace(value, dynamic=()) for value in graph.values))


golden_of = remember(4)(golden)
"""The golden of a graph, cached: one case needs it several times."""


def expected_outputs(case: Case, table: Table, codes_at_both_ends: bool = False) -> tuple[Tensor, ...]:
    """The outputs that the table's scheme computes exactly; else those nearest to the float golden.

    They have the dtypes that the program returns; codes count as reals. A case that the table rejects may have no
    integer form, so the outputs of its model are the nearest ones to the float golden.
    """
    found = golden_of(case.graph)
    exactly = codes_at_both_ends or case.expect == "accept"
    codes, reals = _exact(found, table.rescale if exactly else "")
    walk = found.walk(table.rescale or None, False)
    outputs = []
    for index, (exact, real, dtype) in enumerate(zip(codes, reals, walk.dtypes, strict=True)):
        quant, legal = walk.quants[index], walk.codes[index]
        if exact is None and legal is not None:
            exact = legal.nearest
        if quant is not None and quant.axis is None and exact is not None:
            outputs.append(real_of(exact, quant))
        else:
            outputs.append((walk.bounded[index].value if real is None else real).to(dtype))
    return tuple(outputs)


def _exact(found: Golden, scheme: str) -> tuple[tuple[Tensor | None, ...], tuple[Tensor | None, ...]]:
    """The outputs that the scheme computes exactly, as codes and as reals; None for operands that it does not cover."""
    unknown: tuple[Tensor | None, ...] = (None,) * len(found.graph.outputs)
    try:
        return (found.codes(scheme), found.reals(scheme)) if scheme else (unknown, unknown)
    except IntegerError:
        return unknown, unknown


def real_of(codes: Tensor, quant: Quant) -> Tensor:
    """float32 reals of codes."""
    return ((codes.to(torch.float64) - quant.zero_point) * affine(quant).scale32).to(torch.float32)


def output_quants(graph: Graph, table: Table) -> tuple[Quant | None, ...]:
    """The quantization of each output."""
    return golden_of(graph).walk(table.rescale or None, False).quants


# ------------------------------------------------------------------------------------ formats


def onnx_form(case: Case, table: Table, _: Backend) -> Made:
    """The case in ONNX's QDQ form, with float inputs and outputs."""
    graph = closed(case.graph)
    preserve = [op for op in table.preserve if rule(op)]
    model = onnx_model(build(graph, preserve, table.mark), case.id)
    return Made(model.SerializeToString(deterministic=True), model_inputs(graph), expected_outputs(case, table), FLOATS)


def pt2_form(case: Case, table: Table, _: Backend) -> Made:
    """The case's module as torch.export exports it: ATen operators, quantize and dequantize nodes."""
    graph = closed(case.graph)
    inputs = model_inputs(graph)
    file = io.BytesIO()
    try:
        program = export(module(graph), inputs, strict=False)
    except (RuntimeError, ValueError, TypeError) as error:
        raise FormError("export", f"torch.export: {describe(error)}") from error
    save(program, file)
    return Made(file.getvalue(), inputs, expected_outputs(case, table), FLOATS)


def pte_form(case: Case, table: Table, backend: Backend) -> Made:
    """The case as a `.pte` file: delegates of the backend, and ExecuTorch's own kernels for the rest."""
    try:
        program = prepare(case, backend, table)
        recorder = Recorder(backend.partitioner(**dict(case.options)))
        lowered = to_backend(program, recorder, details=_details(backend, table))
        nodes, tags = outline(program.graph), recorder.tags
        verdict = tagging_of(case, table.row(case.row), nodes, tags, None).verdict
        config = EdgeCompileConfig(_check_ir_validity=False)
        model = EdgeProgramManager(lowered, compile_config=config).to_executorch().buffer
    except ExirError as error:
        raise FormError("program", f"{' '.join(str(error).split())}") from error
    arithmetic = INTEGERS if verdict == "accept" and on_integers(nodes, tags) else FLOATS
    return Made(model, model_inputs(case.graph), expected_outputs(case, table), arithmetic)


def tflite_form(case: Case, table: Table, backend: Backend) -> Made:
    """The flatbuffer that the backend's compiler makes of the whole case, with codes as inputs and outputs.

    The compiler also gets cases that the backend rejects. A case that its own device computes wrongly is left out.
    """
    lowered = _whole(case, table, backend)
    (delegate,) = delegates(lowered)
    blob = delegate.processed_bytes
    if blob[4:8] != TFLITE_MARK:
        raise FormError("format", f"the compiler of {backend.name} writes no TFLite flatbuffers")
    inputs = inputs_of(case, made_codes=True)
    quants = output_quants(case.graph, table)
    if any(known is None for known in _exact(golden_of(case.graph), table.rescale)[0]):
        raise FormError("inexact", "an output is not known to the last bit: a step before it is not quantized")
    outputs = expected_outputs(case, table, codes_at_both_ends=True)
    codes = tuple(_codes_of(real, quant) for real, quant in zip(outputs, quants, strict=True))
    _check_device(backend, delegate, inputs, case, table, quants)
    return Made(blob, inputs, codes, INTEGERS, codes=True)


def _whole(case: Case, table: Table, backend: Backend) -> ExportedProgram:
    """The case lowered as one delegate, with only quantize and dequantize nodes around it."""
    if any(value.quant is None or value.quant.dtype != "int8" for value in case.graph.inputs):
        raise FormError("codes", "an input is not int8 codes")
    try:
        program = prepare(case, backend, table)
        lowered: ExportedProgram = to_backend(program, Whole(_spec(case, backend)), details=_details(backend, table))
    except (ExirError, ValueError, RuntimeError) as error:
        raise FormError("compiler", " ".join(str(error).split())) from error
    found = list(delegates(lowered))
    if len(found) != 1:
        raise FormError("compiler", "there is nothing to compile")
    if len(lowered.graph_signature.user_inputs) != len(found[0].original_module.graph_signature.user_inputs):
        raise FormError("inputs", "an input does not reach the compiled part, or reaches it twice")
    return lowered


def _spec(case: Case, backend: Backend) -> DelegationSpec:
    """The partitioner's `delegation_spec`, if it has that attribute as ExecuTorch's partitioners do."""
    found = getattr(backend.partitioner(**dict(case.options)), "delegation_spec", None)
    return found if isinstance(found, DelegationSpec) else DelegationSpec(backend.details.__name__, [])


def _details(backend: Backend, table: Table) -> dict[str, type]:
    return dict.fromkeys((backend.details.__name__, table.backend_id), backend.details)


def _codes_of(real: Tensor, quant: Quant | None) -> Tensor:
    if quant is None or quant.dtype != "int8" or quant.axis is not None:
        raise FormError("codes", "an output is not int8 codes")
    steps = (real.to(torch.float64) / affine(quant).scale32).round()
    return (steps + quant.zero_point).to(torch.int8)


def _check_device(
    backend: Backend,
    delegate: LoweredBackendModule,
    inputs: Sequence[Tensor],
    case: Case,
    table: Table,
    quants: Sequence[Quant | None],
) -> None:
    """Raise FormError unless the backend's own device computes the promised outputs."""
    try:
        handle = backend.runtime.load(delegate.processed_bytes, delegate.compile_specs)
        outputs = backend.runtime.execute(handle, inputs)
    except Exception as error:  # a backend may raise anything; then its model is not one to hand out
        raise FormError("device", f"the device refuses the model: {describe(error)}") from error
    reals = [real_of(codes, quant) for codes, quant in zip(outputs, quants, strict=True) if quant is not None]
    for gate in judge(golden_of(case.graph), reals, table.rescale or None, delegated=True):
        if not gate.passed:
            raise FormError("device", f"the device computes other numbers: [{gate.gate}] {gate.messages[0]}")


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "onnx": Format("model.onnx", ".pb", onnx_form),
        "pt2": Format("model.pt2", ".npy", pt2_form),
        "tflite": Format("model.tflite", ".npy", tflite_form),
        "pte": Format("model.pte", ".npy", pte_form),
    }
)


def inputs_of(case: Case, made_codes: bool) -> tuple[Tensor, ...]:
    """A case's inputs as they are stored: codes or reals."""
    if made_codes:
        return tuple(map(materialise, case.graph.inputs))
    return model_inputs(case.graph)
