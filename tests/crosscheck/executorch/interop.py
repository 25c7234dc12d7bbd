"""Our partitioners and compilers inside ExecuTorch's export API.

Runs in a process that has no backend of ExecuTorch's own: those have the names of ours.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import torch
from networks import for_ethosu, for_xnnpack, network, quantise, samples
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.partitioning import tags_of
from npu_assay.conformance.run.tagging import prepare
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import (
    Backend,
    BackendDetails,
    BackendError,
    CompileSpec,
    DelegationSpec,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    Runtime,
    delegates,
    run_program,
    to_backend,
    to_edge_transform_and_lower,
)
from npu_assay.partitioners.exir.interop import executorch_program, register_compiler
from npu_assay.partitioners.exir.ops import EdgeOp

warnings.simplefilter("ignore")  # ExecuTorch uses parts of itself, of torch and of Python that are deprecated

BACKENDS = {
    "neutron": "npu_assay.partitioners.neutron:backend",
    "xnnpack": "npu_assay.partitioners.xnnpack:backend",
    "ethos-u55": "npu_assay.partitioners.ethosu:ethos_u55",
    "ethos-u85": "npu_assay.partitioners.ethosu:ethos_u85",
}


@cache
def backend(name: str) -> Backend:
    """A backend of ours. Its compiler is known to ExecuTorch once ExecuTorch has called its partitioner."""
    torch.set_num_threads(1)
    module, _, attribute = BACKENDS[name].partition(":")
    found = getattr(import_module(module), attribute)
    assert isinstance(found, Backend)
    return found


def rows(name: str) -> list[str]:
    """The operators of a backend's table."""
    return [row.name for row in load_table(TABLES[name]).rows]


TABLES = {
    "neutron": "neutron@1.3",
    "xnnpack": "xnnpack@1.5",
    "ethos-u55": "ethos_u55@1.5",
    "ethos-u85": "ethos_u85@1.5",
}


@cache
def _cases(table: Table) -> tuple[Case, ...]:
    return tuple(cases_for(table))


def _chosen(table: Table, row: str) -> Iterator[Case]:
    """The first case of a row that is accepted, and the first that is rejected, in every precision."""
    seen = set()
    for case in _cases(table):
        if case.row == row and (case.precision, case.expect) not in seen and case.expect != "unspecified":
            seen.add((case.precision, case.expect))
            yield case


def case_problems(name: str, row: str) -> dict[str, list[str]]:
    """By case: what is different inside ExecuTorch. Empty lists where nothing is."""
    ours = backend(name)
    table = load_table(ours.table)
    return {case.id: _problems(ours, case, prepare(case, ours, table)) for case in _chosen(table, row)}


def _problems(ours: Backend, case: Case, program: ExportedProgram) -> list[str]:
    options, inputs, found = dict(case.options), model_inputs(case.graph), list[str]()
    lowered = to_backend(program, ours.partitioner(**options))
    blobs = [one.processed_bytes for one in delegates(lowered).values()]
    tagged = ours.partitioner(**options).partition(prepare(case, ours, load_table(ours.table)))
    theirs = executorch_program(program)
    again = ours.partitioner(**options).partition(copy.deepcopy(theirs))
    if tags_of(again.tagged_exported_program.graph) != tags_of(tagged.tagged_exported_program.graph):
        found.append("tags differ")
    for entry, made in _lowered(theirs, ours.partitioner(**options)).items():
        if _blobs(made) != blobs:
            found.append(f"{entry}: blobs differ")
        if not equal(made.module()(*inputs), run_program(program, inputs)):
            found.append(f"{entry}: eager results differ")
    if case.expect == "accept" and not _contains(executorch_file(lowered), blobs):
        found.append("to_executorch lost a blob")
    return found


def _lowered(program: ExportedProgram, partitioner: Any) -> dict[str, ExportedProgram]:
    """What ExecuTorch makes of a program by its two entry points: the function, and the manager."""
    from executorch.exir.backend.backend_api import to_backend as their_to_backend

    return {
        "function": their_to_backend(program, partitioner),
        "manager": manager(program).to_backend(partitioner).exported_program(),
    }


def manager(program: ExportedProgram) -> Any:
    """ExecuTorch's manager of one program."""
    from executorch.exir import EdgeCompileConfig, EdgeProgramManager

    return EdgeProgramManager(program, None, EdgeCompileConfig(_check_ir_validity=False))


def executorch_file(lowered: ExportedProgram) -> bytes:
    """What ExecuTorch's `to_executorch` makes of a program that our API lowered."""
    import executorch.kernels.quantized  # noqa: F401  # the out variants of quantize and dequantize

    return bytes(manager(executorch_program(lowered)).to_executorch().buffer)


def _blobs(program: ExportedProgram) -> list[bytes]:
    nodes = [node for node in program.graph.nodes if node.op == "get_attr"]
    found = [getattr(program.graph_module, str(node.target)) for node in nodes]
    return [module.processed_bytes for module in found if hasattr(module, "processed_bytes")]


def _contains(file: bytes, blobs: Sequence[bytes]) -> bool:
    return all(blob in file for blob in blobs)


def equal(found: Any, expected: Sequence[Any]) -> bool:
    """Whether results are the same to the last bit; NaN is equal to NaN."""
    found = list(found) if isinstance(found, list | tuple) else [found]
    return len(found) == len(expected) and all(map(_same, found, expected))


def _same(a: Any, b: Any) -> bool:
    if not isinstance(b, torch.Tensor):
        return bool(a == b)
    return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a.nan_to_num(), b.nan_to_num()))


# ------------------------------------------------------------------------------------ networks

NETWORK_RUNS = [
    ("neutron", "int8"),
    *(("xnnpack", precision) for precision in ("fp32", "static_int8_per_channel", "dynamic_int8")),
    ("ethos-u55", "int8_per_channel"),
    ("ethos-u85", "int16_per_channel"),
]


def exported(name: str, vendor: str, precision: str) -> tuple[ExportedProgram, torch.Tensor]:
    """A network of MLPerf Tiny, quantized for a vendor, and an input."""
    model, shape = network(name)
    inputs = samples(shape, 2)
    if vendor == "xnnpack":
        return for_xnnpack(model, precision, inputs), inputs[0]
    if vendor == "neutron":
        return quantise(model, inputs), inputs[0]
    target = {"ethos-u55": "ethos-u55-128", "ethos-u85": "ethos-u85-256"}[vendor]
    return for_ethosu(model, target, precision, inputs), inputs[0]


def network_problems(name: str, vendor: str, precision: str) -> list[str]:
    """A whole network with our partitioner, from the exported program on: what is different inside ExecuTorch.

    Its ways to lower a program order weights each in their own way, so blobs of many operators may differ in that;
    what they compute may not. Blobs to the byte are compared in `case_problems`.
    """
    from executorch.exir import to_edge_transform_and_lower as their_way

    program, x = exported(name, vendor, precision)
    ours, found = backend(vendor), list[str]()
    own = to_edge_transform_and_lower(program, partitioner=[ours.partitioner()]).exported_program()
    expected = run_program(own, [x], {ours.details.__name__: ours.runtime})
    theirs = {"transform": their_way(program, partitioner=[ours.partitioner()]).exported_program()}
    edge = to_edge_transform_and_lower(program).exported_program()
    for entry, made in {**theirs, **_lowered(executorch_program(edge), ours.partitioner())}.items():
        if not equal(_OnDevice(made, ours.runtime).run(x), expected):
            found.append(f"{entry}: results on the device differ")
    made = theirs["transform"]
    if not (0 < len(_blobs(made)) == len(_blobs(own))):
        found.append(f"delegates: {len(_blobs(made))} instead of {len(_blobs(own))}")
    if not equal(made.module()(x), [program.module()(x)]):
        found.append("eager results differ")
    if not _contains(executorch_file(own), _blobs(own)):
        found.append("to_executorch lost a blob")
    return found


class _OnDevice(fx.Interpreter):
    """Runs a program that ExecuTorch lowered: delegates on our device, the rest in torch."""

    def __init__(self, program: ExportedProgram, runtime: Runtime) -> None:
        super().__init__(program.module())
        self.runtime = runtime

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        module, *inputs = args
        return self.runtime.execute(self.runtime.load(module.processed_bytes, module.compile_specs), inputs)


# ------------------------------------------------------------------------------------ faults, and names


class FickleBackend(BackendDetails):
    """Writes another blob every time."""

    count = 0

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        FickleBackend.count += 1
        return PreprocessResult(bytes([FickleBackend.count]))


class FicklePartitioner(Partitioner):
    """Tags every operator of a program of ours, and none of ExecuTorch's."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in exported_program.graph.nodes:
            if isinstance(node.target, EdgeOp):
                node.meta["delegation_tag"] = "all"
        return PartitionResult(exported_program, {"all": DelegationSpec("FickleBackend", [])})


def problems_of_a_fickle_backend() -> list[str]:
    """What `case_problems` says of a backend that differs."""
    fickle = replace(backend("xnnpack"), partitioner=FicklePartitioner, details=FickleBackend)
    case = next(case for case in _cases(load_table(fickle.table)) if case.row == "aten.relu.default")
    return _problems(fickle, case, prepare(case, fickle, load_table(fickle.table)))


def is_registered_once() -> bool:
    """Whether ExecuTorch knows a compiler of ours by one class, however often it is registered."""
    return register_compiler(FickleBackend) is register_compiler(FickleBackend)


class Stranger(BackendDetails):
    """A compiler whose name another one of ExecuTorch's has, too."""

    preprocess = staticmethod(FickleBackend.preprocess)


def taken_name(registered_first: bool) -> str:
    """The error when another compiler has the name before ours is registered, or has it when ours compiles."""
    from executorch.exir.backend.backend_details import BackendDetails as TheirDetails

    details: type[BackendDetails] = type("Late" if registered_first else "Early", (Stranger,), {})
    if registered_first:
        known: Any = register_compiler(details)
    other = type(details.__name__, (TheirDetails,), {"preprocess": staticmethod(FickleBackend.preprocess)})
    try:
        _ = known.preprocess(None, []) if registered_first else register_compiler(details)
    except BackendError as error:
        return f"{error} {other.__name__}"
    return "no error"


def compiled_by_a_namesake() -> bool:
    """Whether ExecuTorch's own compiler of a name, imported before, compiles what our partitioner tags."""
    from executorch.exir.backend.backend_details import BackendDetails as TheirDetails
    from executorch.exir.backend.backend_details import PreprocessResult as TheirResult

    class Theirs:
        @staticmethod
        def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> Any:
            return TheirResult(b"theirs")

    class Twin(BackendDetails):
        preprocess = staticmethod(FickleBackend.preprocess)

    class TwinPartitioner(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            for node in exported_program.graph.nodes:
                if node.op == "call_function":
                    node.meta["delegation_tag"] = "all"
            return PartitionResult(exported_program, {"all": DelegationSpec(Twin.__name__, [])})

    from executorch.exir import to_edge

    other = type("Twin", (TheirDetails,), {"preprocess": staticmethod(Theirs.preprocess)})
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    lowered = to_edge(program).to_backend(TwinPartitioner()).exported_program()
    return other.__name__ == "Twin" and _blobs(lowered) == [b"theirs"]
