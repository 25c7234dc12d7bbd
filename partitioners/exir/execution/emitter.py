"""From a graph of the execution dialect to a method: values, instructions, delegates, memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate, is_lowered_module
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind

from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.execution.config import MemoryPlanningPass
from npu_assay.partitioners.exir.execution.data import check_plain, merge, named_data, nesting, tensor_bytes
from npu_assay.partitioners.exir.execution.dialect import ALLOC, VIEW, WRITES, written_placeholders
from npu_assay.partitioners.exir.execution.lifetimes import Kind, Storage, placed
from npu_assay.partitioners.exir.execution.memory_planning import MemoryPlan
from npu_assay.partitioners.exir.execution.outs import OutVariant, out_variant, plain
from npu_assay.partitioners.exir.execution.primitives import primitive
from npu_assay.partitioners.exir.execution.specs import TensorSpec, spec_of
from npu_assay.partitioners.exir.execution.table import ValueTable, value_code
from npu_assay.partitioners.exir.execution.traces import frames
from npu_assay.partitioners.exir.execution.writer import OUT_VARIANT
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import output_values, returned, user_outputs
from npu_assay.partitioners.exir.pte.model import (
    Buffer,
    Chain,
    Delegate,
    DelegateCall,
    Frame,
    Instruction,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Operator,
    Plan,
    Tensor,
    TensorList,
)
from npu_assay.partitioners.exir.run import constant_value


class Emitter:
    """One method on its way from a graph to a plan."""

    def __init__(
        self,
        program: ExportedProgram,
        options: MemoryPlanningPass,
        buffer_names: bool = False,
        stacktraces: bool = False,
    ) -> None:
        self.program = program
        self.options = options
        self.buffer_names = buffer_names
        self.stacktraces = stacktraces
        self.node: fx.Node | None = None
        self.frames: list[tuple[Frame, ...]] = []
        self.returned = _returned(program)
        self.table = ValueTable()
        self.storage = Storage()
        self.instructions: list[Instruction] = []
        self.operators: dict[Operator, int] = {}
        self.delegates: dict[int, int] = {}
        self.blobs: list[Delegate] = []
        self.named_data: dict[str, Buffer] = {}

    def plan(self, name: str) -> tuple[Plan, MemoryPlan]:
        """Emit everything. Raises EdgeError naming the node for what a program cannot hold."""
        inputs = self._placeholders()
        self._graph(self.program.graph_module)
        outputs = self._outputs()
        values, memory = placed(self.table, self.storage, self.instructions, outputs, self.options, bool(self.blobs))
        call = self.program.module_call_graph[0].signature if self.program.module_call_graph else None
        plan = Plan(
            name,
            tuple(values),
            inputs,
            tuple(outputs),
            (Chain(tuple(self.instructions), stacktrace=tuple(self.frames) if self.stacktraces else ()),),
            tuple(self.operators),
            tuple(self.blobs),
            (0, memory.arena_bytes),
            nesting(None if call is None else call.in_spec),
            nesting(None if call is None else call.out_spec),
        )
        return plan, memory

    # -------------------------------------------------------------------------------- inputs and outputs

    def _placeholders(self) -> tuple[int, ...]:
        written = set(written_placeholders(self.program).values())
        inputs = []
        for node, spec in placeholders(self.program):
            if spec.kind == InputKind.USER_INPUT:
                inputs.append(self._input(node, spec))
            else:
                self.table.nodes[node] = self._constant(node, spec, node.name in written)
        return tuple(inputs)

    def _input(self, node: fx.Node, spec: InputSpec) -> int:
        if isinstance(node.meta["val"], torch.Tensor):
            index = self._tensor(node.meta["val"], node.name, "input")
        else:
            index = self._number(spec.arg.value if isinstance(spec.arg, ConstantArgument) else node.meta["val"])
        self.table.nodes[node] = index
        return index

    def _constant(self, node: fx.Node, spec: InputSpec, written: bool) -> int:
        data = constant_value(self.program, spec)
        if not isinstance(data, torch.Tensor) or isinstance(data, FakeTensor):
            raise EdgeError("constant without data", type(data).__name__, "a tensor", node.name)
        tensor = self._constant_tensor(data, node.name)
        if not written:
            return self.table.add(tensor)
        name = str(spec.target) if self.buffer_names else None
        index = self.table.add(
            Tensor(tensor.dtype, tensor.sizes, tensor.dim_order, bytes(tensor.data or b""), name=name)
        )
        self.storage.own(index, "buffer", node.name)
        return index

    def _constant_tensor(self, data: torch.Tensor, where: str) -> Tensor:
        check_plain(data, where)
        spec = spec_of(data, {}, where)
        return Tensor(spec.dtype, spec.sizes, spec.dim_order, tensor_bytes(data, spec.dim_order))

    def _tensor(self, value: torch.Tensor, name: str, kind: Kind = "local") -> int:
        """A tensor that needs memory."""
        index = self.table.add(_empty(spec_of(value, self.program.range_constraints, name)))
        self.storage.own(index, kind, name)
        return index

    def _number(self, value: Any) -> int:
        """A number that the program computes or takes, or a constant input."""
        if isinstance(value, torch.SymBool):
            return self.table.add(False)
        if isinstance(value, torch.SymFloat):
            return self.table.add(0.0)
        return self.table.add(0 if isinstance(value, torch.SymInt) else value)

    def _outputs(self) -> list[int]:
        found = []
        for value in self.returned:
            if isinstance(value, fx.Node):
                index = self.table.node(value)
                if self.storage.kinds.get(index) == "local":
                    self.storage.kinds[index] = "output"
            else:
                code = value_code(value)
                index = self.table.constant(value if code is None else code)
            found.append(index)
        return found

    # -------------------------------------------------------------------------------- nodes

    def _graph(self, module: fx.GraphModule) -> None:
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self._attribute(node, module)
            elif node.op == "call_function" and node not in self.table.nodes:
                caller, self.node = self.node, node
                self.table.nodes[node] = self._call(node, module)
                self._trace()
                self.node = caller

    def _trace(self, delegate: Any = None) -> None:
        """Give the new instructions the frames of the node in hand."""
        if self.stacktraces:
            self.frames += [frames(self.node, delegate)] * (len(self.instructions) - len(self.frames))

    def _attribute(self, node: fx.Node, module: fx.GraphModule) -> None:
        found = operator.attrgetter(str(node.target))(module)
        if isinstance(found, torch.Tensor):
            self.table.nodes[node] = self.table.add(self._constant_tensor(found, node.name))

    def _call(self, node: fx.Node, module: fx.GraphModule) -> int | list[int]:
        rule = self._rule(node)
        if rule is not None:
            return rule(node)
        if node.target is torch.ops.higher_order.cond:
            return self._cond(node, module)
        if node.target is executorch_call_delegate:
            return self._delegate(node, module)
        raise EdgeError(
            "operation without an instruction",
            target_name(node.target),
            "an operator with an out variant, arithmetic on sizes, cond, or a delegate",
            node.name,
        )

    def _rule(self, node: fx.Node) -> Callable[[fx.Node], int | list[int]] | None:
        if node.target is operator.getitem:
            return self._getitem
        if node.target is ALLOC:
            return lambda n: self._tensor(n.meta["val"], _owner(n))
        if node.target is VIEW:
            return self._view
        if OUT_VARIANT in node.meta:
            return self._out
        if isinstance(node.target, OpOverload):
            return self._plain
        return self._primitive if primitive(node.target) else None

    def _getitem(self, node: fx.Node) -> int:
        source, position = node.args
        assert isinstance(source, fx.Node) and isinstance(position, int)
        found = self.table.nodes[source]
        assert isinstance(found, list)
        return found[position]

    def _kernel(self, name: str, overload: str, arguments: Sequence[int]) -> None:
        index = self.operators.setdefault(Operator(name, overload), len(self.operators))
        self.instructions.append(KernelCall(index, tuple(arguments)))

    def _arguments(self, node: fx.Node, variant: OutVariant) -> list[int]:
        """Every parameter of the schema in its order, with its default where the node leaves it out."""
        given = dict(zip((p.name for p in variant.parameters), node.args, strict=False)) | node.kwargs
        return [self.table.argument(given.get(p.name, p.default), p.type, node.name) for p in variant.parameters]

    def _out(self, node: fx.Node) -> int | list[int]:
        variant: OutVariant = node.meta[OUT_VARIANT]
        given = self._arguments(node, variant)
        results = given[len(given) - len(variant.outs) :]
        # Kernels expect their result once more behind the arguments: several as one list.
        result = results[0] if len(results) == 1 else self.table.constant(TensorList(tuple(results)))
        self._kernel(variant.name, variant.overload, [*given, result])
        return results[0] if len(results) == 1 else results

    def _plain(self, node: fx.Node) -> int:
        """An operator that returns a number, or writes its first argument."""
        assert isinstance(node.target, OpOverload)
        variant = plain(node.target)
        given = self._arguments(node, variant)
        writes = node.target._schema.is_mutable
        result = given[0] if writes else self._number(node.meta["val"])
        self._kernel(variant.name, variant.overload, [*given, result])
        return result

    def _primitive(self, node: fx.Node) -> int:
        given = [self.table.argument(a, "number", node.name) for a in node.args]
        result = self._number(node.meta["val"])
        self._kernel(f"executorch_prim::{primitive(node.target)}", "Scalar", [*given, result])
        return result

    def _view(self, node: fx.Node) -> int:
        """Another shape of a tensor: no instruction where size and place of the memory are known."""
        base, size = node.args
        assert isinstance(base, fx.Node)
        source = self.table.node(base)
        root = self.storage.root(source)
        spec = spec_of(node.meta["val"], self.program.range_constraints, node.name)
        held, shown = self.table.values[root], self.table.values[source]
        assert isinstance(held, Tensor) and isinstance(shown, Tensor)
        if root not in self.storage.kinds and not spec.dynamic and root == source:
            return self.table.add(Tensor(spec.dtype, spec.sizes, spec.dim_order, held.data))
        index = self.table.add(_empty(spec))
        self.storage.bases[index] = source
        if self._known(root, source) and not spec.dynamic and shown.dynamism == "static":
            self.storage.shown.add(index)
        else:
            sizes = self.table.argument(size, "List[int]", node.name)
            self._kernel("executorch_prim::et_view", "default", [source, sizes, index])
        return index

    def _known(self, root: int, source: int) -> bool:
        """Whether memory planning decides where a tensor is; it does not where the caller brings the memory."""
        kind = self.storage.kinds.get(root)
        returned = any(self.table.nodes.get(v) == root for v in self.returned if isinstance(v, fx.Node))
        brought = (kind == "input" and not self.options.alloc_graph_input) or (
            kind == "local" and returned and not self.options.alloc_graph_output
        )
        return kind is not None and not brought and (source == root or source in self.storage.shown)

    # -------------------------------------------------------------------------------- delegates and control flow

    def _delegate(self, node: fx.Node, module: fx.GraphModule) -> list[int]:
        source, *given = node.args
        assert isinstance(source, fx.Node)
        lowered: Any = operator.attrgetter(str(source.target))(module)
        if not is_lowered_module(lowered):
            raise EdgeError("invalid delegate", type(lowered).__name__, "a LoweredBackendModule", node.name)
        if id(lowered) not in self.delegates:
            self.delegates[id(lowered)] = len(self.blobs)
            specs = tuple(CompileSpec(s.key, bytes(s.value)) for s in lowered.compile_specs)
            self.blobs.append(Delegate(lowered.backend_id, lowered.processed_bytes, specs))
            merge(self.named_data, named_data(lowered, node.name))
        inputs = [self.table.argument(a, "number", node.name) for a in given]
        outputs = self._results(node)
        self.instructions.append(DelegateCall(self.delegates[id(lowered)], (*inputs, *outputs)))
        self._trace(lowered)
        return outputs

    def _results(self, node: fx.Node) -> list[int]:
        """Places for what a delegate, or a body of control flow, computes."""
        return [
            self._tensor(v, _result(node, i)) if isinstance(v, torch.Tensor) else self._number(v)
            for i, v in enumerate(node.meta["val"])
        ]

    def _cond(self, node: fx.Node, module: fx.GraphModule) -> list[int]:
        """Emit both bodies and the jumps over them; both write the same results."""
        condition, *bodies, operands = node.args
        results = self._results(node)
        given = [self.table.argument(o, "number", node.name) for o in operands]  # type: ignore[union-attr]  # a tuple
        then, other = (getattr(module, str(b.target)) for b in bodies)  # type: ignore[union-attr]  # get_attr nodes
        start = self._hole()
        self._body(then, given, results)
        middle = self._hole()
        self._body(other, given, results)
        test = self.table.argument(condition, "bool", node.name)
        self.instructions[start] = JumpFalseCall(test, middle + 1)
        self.instructions[middle] = JumpFalseCall(self.table.constant(False), len(self.instructions))
        return results

    def _hole(self) -> int:
        """Append a placeholder for a jump whose destination is not known yet; returns its index."""
        self.instructions.append(JumpFalseCall(0, 0))
        self._trace()
        return len(self.instructions) - 1

    def _body(self, body: fx.GraphModule, given: Sequence[int], results: Sequence[int]) -> None:
        inputs = [n for n in body.graph.nodes if n.op == "placeholder"]
        self.table.nodes.update(zip(inputs, given, strict=True))
        outputs = output_values(body.graph)
        for value, result in zip(outputs, results, strict=True):
            memory = _sole_memory(value)
            if memory is not None and memory not in self.table.nodes:
                self.table.nodes[memory] = result  # the kernel writes the result itself
        self._graph(body)
        for value, result in zip(outputs, results, strict=True):
            self._move(value, result)

    def _move(self, value: Any, result: int) -> None:
        """Move the result of a body to the result of its cond."""
        source = self.table.node(value) if isinstance(value, fx.Node) else self.table.constant(value)
        if source == result:
            return
        if not isinstance(self.table.values[result], Tensor):
            self.instructions.append(MoveCall(source, result))
            return
        clone = out_variant("dim_order_ops._clone_dim_order.default")
        assert clone is not None
        false, order = self.table.constant(False), self.table.constant(None)
        self._kernel(clone.name, clone.overload, [source, false, order, result, result])


def _returned(program: ExportedProgram) -> list[Any]:
    """What the method returns. Raises EdgeError for outputs of a kind that the runtime does not have."""
    strange = [s.kind for _, s in returned(program) if s.kind not in (OutputKind.USER_OUTPUT, *WRITES)]
    if strange:
        raise EdgeError("output of an unknown kind", str(strange[0]), "a value or a mutation", "output")
    return user_outputs(program)


def _empty(spec: TensorSpec) -> Tensor:
    return Tensor(spec.dtype, spec.sizes, spec.dim_order, dynamism=spec.dynamism)


def _owner(memory: fx.Node) -> str:
    """The node that fills some memory, for the report."""
    user = next(iter(memory.users), memory)
    return user.name


def _result(node: fx.Node, position: int) -> str:
    """The name of one of several results: its getitem's, if there is one."""
    return next((u.name for u in node.users if u.args[1:2] == (position,)), f"{node.name}[{position}]")


def _sole_memory(value: Any) -> fx.Node | None:
    """The memory that a call of an out variant fills with its only result."""
    if not isinstance(value, fx.Node) or OUT_VARIANT not in value.meta:
        return None
    variant: OutVariant = value.meta[OUT_VARIANT]
    memory = value.kwargs.get(variant.outs[0]) if len(variant.outs) == 1 else None
    return memory if isinstance(memory, fx.Node) else None
