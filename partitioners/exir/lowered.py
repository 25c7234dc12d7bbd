"""A compiled piece of a program: the blob, how it was made, and the edge program it stands for."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from npu_assay.partitioners.exir.backend import CompileSpec, NamedDataRuntime, Runtime
from npu_assay.partitioners.exir.constants import user_inputs
from npu_assay.partitioners.exir.execution.config import ExecutorchBackendConfig, MemoryPlanningPass, checked_config
from npu_assay.partitioners.exir.execution.data import named_data
from npu_assay.partitioners.exir.execution.emit import emit
from npu_assay.partitioners.exir.execution.serial import serialised
from npu_assay.partitioners.exir.execution.writer import to_execution
from npu_assay.partitioners.exir.program import EdgeProgram, argument, flat_program, keep_name, user_outputs
from npu_assay.partitioners.exir.pte.model import Program
from npu_assay.partitioners.exir.run import run_program

Kind = tuple[torch.dtype, torch.Size]


class LoweredBackendModule(torch.nn.Module):
    """What `to_backend` makes of a delegated subgraph.

    Torch recognizes the class by its name: it may be the first argument of
    `executorch_call_delegate`, and export accepts modules that contain it.
    """

    def __init__(
        self,
        edge_program: ExportedProgram,
        backend_id: str,
        processed_bytes: bytes,
        compile_specs: list[CompileSpec],
        named_data_store_output: Any = None,
    ) -> None:
        super().__init__()
        # Torch calls it when it traces a call of the delegate, which takes and returns values side by side.
        self._original_module = flat_program(edge_program)
        self._backend_id = backend_id
        self._processed_bytes = processed_bytes
        self._compile_specs = compile_specs
        self._named_data_store_output = named_data_store_output
        self._handles: list[tuple[Runtime, Any]] = []
        self._returned: list[tuple[fx.Node, Kind | None]] | None = None
        self.meta: dict[str, Any] | None = None

    @property
    def backend_id(self) -> str:
        """Name of the backend, which is the class name of its BackendDetails."""
        return self._backend_id

    @property
    def processed_bytes(self) -> bytes:
        """The blob that the backend's `preprocess` made."""
        return self._processed_bytes

    @property
    def compile_specs(self) -> list[CompileSpec]:
        """What the blob was compiled with, in order."""
        return self._compile_specs

    @property
    def named_data_store_output(self) -> Any:
        """Data that the backend wants stored outside its blob, or None."""
        return self._named_data_store_output

    @property
    def original_module(self) -> ExportedProgram:
        """The edge program that was compiled, as a function of positional inputs that returns a tuple."""
        return self._original_module

    def handle(self, runtime: Runtime) -> Any:
        """The blob as loaded by `runtime`; loaded once per runtime object."""
        for known, handle in self._handles:
            if known is runtime:
                return handle
        named = named_data(self, self._backend_id)
        if named and isinstance(runtime, NamedDataRuntime):
            data = {key: bytes(each) for key, each in named.items()}
            handle = runtime.load_named(self._processed_bytes, self._compile_specs, data)
        else:
            handle = runtime.load(self._processed_bytes, self._compile_specs)
        self._handles.append((runtime, handle))
        return handle

    def returned(self) -> list[tuple[fx.Node, Kind | None]]:
        """The nodes of the original program that a call returns, and what kinds of tensors these are.

        Looked for once, as programs stay what they are. The kind is None where it is not one of a fixed shape.
        """
        if self._returned is None:
            self._returned = [(node, _kind(node.meta["val"])) for node in user_outputs(self._original_module)]
        return self._returned

    def forward(self, *args: Any) -> list[Any]:
        """Run the original program in torch, as ExecuTorch's class does; `run_program` runs the blob, on a device.

        Within an export the call stays one call, of a delegate with the original program's kinds of outputs.
        """
        if _is_traced(args):
            outputs: list[Any] = list(executorch_call_delegate(self, *args))
            return outputs
        return run_program(self._original_module, args, original_modules=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> LoweredBackendModule:
        # Program and blob are never written after compilation, so copies share them.
        twin = LoweredBackendModule(
            self._original_module,
            self._backend_id,
            self._processed_bytes,
            list(self._compile_specs),
            self._named_data_store_output,
        )
        twin.meta = None if self.meta is None else dict(self.meta)
        memo[id(self)] = twin
        return twin

    def program(self, emit_stacktrace: bool = False, memory_planning: MemoryPlanningPass | None = None) -> Program:
        """A program with one method, "forward", that does nothing but call this delegate. Raises ExirError.

        `emit_stacktrace` adds the lines of the model that the delegate's operators come from.
        """
        return self._emitted(self._config(memory_planning, emit_stacktrace=emit_stacktrace))

    def buffer(
        self,
        extract_delegate_segments: bool = False,
        segment_alignment: int = 128,
        constant_tensor_alignment: int | None = None,
        delegate_alignment: int | None = None,
        memory_planning: MemoryPlanningPass | None = None,
    ) -> bytes:
        """That program as a `.pte` file; the blob is in it, or in a segment after it. Raises ExirError.

        See ExecutorchBackendConfig for the alignments.
        """
        config = self._config(
            memory_planning,
            extract_delegate_segments=extract_delegate_segments,
            segment_alignment=segment_alignment,
            constant_tensor_alignment=constant_tensor_alignment,
            delegate_alignment=delegate_alignment,
        )
        return serialised(self._emitted(config), config)

    @staticmethod
    def _config(memory_planning: MemoryPlanningPass | None, **others: Any) -> ExecutorchBackendConfig:
        return checked_config(
            ExecutorchBackendConfig(memory_planning_pass=memory_planning or MemoryPlanningPass(), **others)
        )

    def _emitted(self, config: ExecutorchBackendConfig) -> Program:
        return emit({"forward": to_execution(self.calling_program())}, {}, config).program

    def calling_program(self) -> EdgeProgram:
        """An edge program that does nothing but call this delegate."""
        graph = fx.Graph()
        arguments = [self._copy_placeholder(graph, node) for node in user_inputs(self._original_module)]
        returned = user_outputs(self._original_module)
        root = torch.nn.Module()
        results = call_delegate(graph, root, self, arguments, [n.meta["val"] for n in returned])
        graph.output(tuple(results))
        signature = ExportGraphSignature(
            [InputSpec(InputKind.USER_INPUT, argument(n), None) for n in arguments],
            [OutputSpec(OutputKind.USER_OUTPUT, argument(n), None) for n in results],
        )
        return EdgeProgram(root, graph, signature, {}, dict(self._original_module.range_constraints))

    @staticmethod
    def _copy_placeholder(graph: fx.Graph, node: fx.Node) -> fx.Node:
        placeholder = graph.placeholder(node.name)
        placeholder.meta["val"] = node.meta["val"]
        keep_name(placeholder, node.name)
        return placeholder


def _is_traced(args: Sequence[Any]) -> bool:
    """Whether the arguments are fake tensors or symbols of a trace, which no device can compute with."""
    symbolic = (FakeTensor, FunctionalTensor, torch.SymInt, torch.SymFloat, torch.SymBool, fx.Proxy)
    return torch.compiler.is_compiling() or get_proxy_mode() is not None or any(isinstance(a, symbolic) for a in args)


def call_delegate(
    graph: fx.Graph,
    root: torch.nn.Module,
    lowered: LoweredBackendModule,
    arguments: Sequence[Any],
    values: Sequence[Any],
) -> list[fx.Node]:
    """Insert a call of `lowered` at the graph's insertion point; return one getitem node per output.

    `root` gets the module as `lowered_module_<n>`, the first free name; `values` are the outputs'
    `meta["val"]`.
    """
    module = graph.get_attr(add_lowered(root, lowered))
    delegate = graph.call_function(executorch_call_delegate, (module, *arguments))
    delegate.meta["val"] = list(values)
    return [getitem(graph, delegate, index, value) for index, value in enumerate(values)]


def getitem(graph: fx.Graph, source: fx.Node, index: int, value: Any) -> fx.Node:
    """Insert `source[index]`, whose value is `value`."""
    node = graph.call_function(operator.getitem, (source, index))
    node.meta["val"] = value
    return node


def _kind(value: Any) -> Kind | None:
    """The type and shape of a node's value; None for dynamic sizes, and for a value that is not a tensor."""
    fixed = isinstance(value, torch.Tensor) and not value._has_symbolic_sizes_strides
    return (value.dtype, value.shape) if fixed else None


def add_lowered(root: torch.nn.Module, lowered: LoweredBackendModule) -> str:
    """Register `lowered` under the first free name `lowered_module_<n>` of `root`; return the name."""
    number = next(n for n in count() if not hasattr(root, f"lowered_module_{n}"))
    name = f"lowered_module_{number}"
    root.add_module(name, lowered)
    return name


def delegates(program: ExportedProgram) -> dict[str, LoweredBackendModule]:
    """The delegates that the program calls, by the name of the calling node, in the order of the calls."""
    calls = [n for n in program.graph.nodes if n.target is executorch_call_delegate]
    return {n.name: operator.attrgetter(str(n.args[0].target))(program.graph_module) for n in calls}
