"""Programs, compilers and delegates for an installed ExecuTorch.

Nothing here is loaded by the rest of the package, and ExecuTorch is imported only by the functions that need it:
without it they raise ExirError. Partitioners need no help: ExecuTorch takes ours as they are.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry

from npu_assay.partitioners.exir.backend.backend_details import BackendDetails, PreprocessResult, compilers
from npu_assay.partitioners.exir.backend.partition_result import PartitionResult
from npu_assay.partitioners.exir.errors import BackendError, ExirError
from npu_assay.partitioners.exir.lowered import LoweredBackendModule
from npu_assay.partitioners.exir.ops import EdgeOp, target_name
from npu_assay.partitioners.exir.program import PLAIN_ATEN, copy_program

logger = logging.getLogger(__name__)

DATA_ALIGNMENT = 16
"""Bytes to which data beside blobs are aligned in ExecuTorch's files, as its own XNNPACK compiler asks for."""

_REGISTERED: dict[type[BackendDetails], type] = {}
"""ExecuTorch's class for each compiler of ours. Held here, as a class knows its subclasses only while others do."""


def offer_compilers(result: PartitionResult) -> None:
    """Make the compilers of a partitioner's tags known to ExecuTorch, unless it has others of these names.

    Otherwise ExecuTorch's own compile: the tags are the same, and the user has imported them.
    """
    ours = {details.__name__: details for details in compilers()}
    for backend_id in sorted({spec.backend_id for spec in result.partition_tags.values()}):
        if backend_id in ours and _namesake(ours[backend_id]) is None:
            register_compiler(ours[backend_id])
        elif backend_id in ours:
            logger.info("%s is compiled by ExecuTorch's own backend of this name", backend_id)


def register_compiler(details: type[BackendDetails]) -> type:
    """Make one of our compilers the one that ExecuTorch's `to_backend` finds under its class name.

    ExecuTorch looks backends up among the direct subclasses of its own BackendDetails, so this makes one, once.
    Our partitioners do so when ExecuTorch calls them. Raises BackendError when that name is another compiler's
    already, such as ExecuTorch's own: which of the two compiles would depend on the order of imports.
    """
    _refuse_namesake(details)
    if details in _REGISTERED:
        return _REGISTERED[details]
    theirs = executorch().exir.backend.backend_details
    members = {
        "__module__": __name__,
        "preprocess": staticmethod(_preprocess(details, theirs.PreprocessResult)),
        "preprocess_multimethod": classmethod(_preprocess_multimethod(details, theirs.PreprocessResult)),
    }
    return _REGISTERED.setdefault(details, type(details.__name__, (theirs.BackendDetails,), members))


def _namesake(details: type[BackendDetails]) -> type | None:
    """Another compiler that ExecuTorch finds under the same name."""
    known = executorch().exir.backend.backend_details.BackendDetails.__subclasses__()
    same = (c for c in known if c.__name__ == details.__name__ and c is not _REGISTERED.get(details))
    return next(same, None)


def _refuse_namesake(details: type[BackendDetails]) -> None:
    other = _namesake(details)
    if other is not None:
        raise BackendError(
            "ExecuTorch has another backend of this name",
            f"{other.__module__}.{other.__qualname__}",
            f"none in this process but {details.__module__}.{details.__qualname__}",
            details.__name__,
        )


def _preprocess(details: type[BackendDetails], result: type) -> Callable[[ExportedProgram, list[Any]], Any]:
    """A compiler's `preprocess` with ExecuTorch's record as its result."""

    def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> Any:
        _refuse_namesake(details)  # imported since: its partitioner may have made these tags
        return _their_result(details.preprocess(edge_program, compile_specs), result)

    return preprocess


def _preprocess_multimethod(details: type[BackendDetails], result: type) -> Callable[[type, Any, Any], Any]:
    """A compiler's `preprocess_multimethod` with ExecuTorch's records as its results."""

    def preprocess_multimethod(cls: type, edge_programs: Any, compile_specs: Any) -> Any:
        _refuse_namesake(details)
        found = details.preprocess_multimethod(edge_programs, compile_specs)
        return {method: [_their_result(each, result) for each in results] for method, results in found.items()}

    return preprocess_multimethod


def _their_result(found: PreprocessResult, result: type) -> Any:
    return result(
        processed_bytes=found.processed_bytes,
        debug_handle_map=found.debug_handle_map,
        data_store_output=_their_data(found.data_store_output),
    )


def _their_data(store: Any) -> Any:
    """Data beside a blob as ExecuTorch keeps them; anything but a mapping from name to bytes stays as it is."""
    if not isinstance(store, Mapping):
        return store
    found = executorch().exir._serialize._named_data_store.NamedDataStore()
    for key, data in store.items():
        found.add_named_data(key, bytes(data), DATA_ALIGNMENT)
    return found.get_named_data_store_output()


def executorch_program(program: ExportedProgram) -> ExportedProgram:
    """The same edge program in ExecuTorch's operators and classes, for its own managers and partitioners.

    Nodes keep names, order, arguments, values and meta; delegates become ExecuTorch's LoweredBackendModule. Tensors
    are shared, nothing else is. Raises ExirError for a program that ExecuTorch's verifier refuses.
    """
    exir = executorch().exir
    twin = copy_program(program, verify=False)
    root = twin.graph_module
    for name, child in list(root.named_children()):
        if isinstance(child, LoweredBackendModule):
            setattr(root, name, executorch_delegate(child))
    _rewrite(root, exir.dialects._ops.ops.edge)
    config = exir.EdgeCompileConfig(_check_ir_validity=False)
    verifier = exir.verification.verifier.EXIREdgeDialectVerifier(edge_compile_config=config, class_only=True)
    try:
        return ExportedProgram(
            root,
            twin.graph,
            twin.graph_signature,
            twin.state_dict,
            twin.range_constraints,
            _calling_convention(twin),
            twin.example_inputs,
            twin.constants,
            verifiers=[verifier],
        )
    except torch._export.verifier.SpecViolationError as error:
        what = str(error).splitlines()[0]
        raise ExirError("ExecuTorch refuses the program", what, "its edge dialect", "program") from error


def _calling_convention(program: ExportedProgram) -> list[ModuleCallEntry]:
    """How inputs and outputs nest, without their names, as torch.export leaves it: ExecuTorch renames outputs."""
    known = program.module_call_graph[0].signature
    assert known is not None  # copy_program writes one
    return [ModuleCallEntry("", replace(known, inputs=[], outputs=[]))]


def _rewrite(module: fx.GraphModule, namespaces: Any) -> None:
    """Replace our operators by ExecuTorch's, in bodies of control flow, too; tuples in keywords become lists."""
    for node in module.graph.nodes:
        if node.op == "call_function":
            node.target = _their_operator(node.target, namespaces)
            node.kwargs = {key: list(x) if isinstance(x, tuple) else x for key, x in node.kwargs.items()}
    for child in module.children():
        if isinstance(child, fx.GraphModule):
            _rewrite(child, namespaces)


def _their_operator(target: Any, namespaces: Any) -> Any:
    """ExecuTorch's edge operator of the same name; torch's operator if either side has no edge operator for it."""
    if not isinstance(target, EdgeOp):
        return target
    if target_name(target) in PLAIN_ATEN:
        return target._op
    found = namespaces
    for part in target_name(target).split("."):
        found = getattr(found, part)
    return found


def executorch_delegate(lowered: LoweredBackendModule) -> torch.nn.Module:
    """ExecuTorch's LoweredBackendModule of the same blob, compile specs and original program."""
    theirs = executorch().exir
    specs = [theirs.backend.compile_spec_schema.CompileSpec(s.key, s.value) for s in lowered.compile_specs]
    module: torch.nn.Module = theirs.lowered_backend_module.LoweredBackendModule(
        executorch_program(lowered.original_module),
        lowered.backend_id,
        lowered.processed_bytes,
        specs,
        _their_data(lowered.named_data_store_output),
    )
    vars(module)["meta"] = dict(lowered.meta) if lowered.meta else {}
    return module


def executorch() -> Any:
    """The package, with its export API loaded. Raises ExirError when it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it uses parts of itself, of torch and of Python that are deprecated
            import executorch  # optional
            import executorch.exir._serialize._named_data_store
            import executorch.exir.backend.backend_details
            import executorch.exir.backend.compile_spec_schema
            import executorch.exir.dialects._ops
            import executorch.exir.lowered_backend_module
            import executorch.exir.verification.verifier
    except ImportError as error:
        raise ExirError("ExecuTorch cannot be imported", str(error), "pip install executorch", "executorch") from error
    return executorch
