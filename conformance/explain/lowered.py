"""A model lowered for one backend, with what its partitioner was asked and answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch._ops import OpOverload
from torch.export import ExportedProgram

from npu_assay.conformance.explain.costs import first, macs, nbytes, sizes, values
from npu_assay.conformance.explain.origins import marked, module_of, origin_of, source_of
from npu_assay.conformance.explain.record import Delegate, Operator, Reason
from npu_assay.conformance.run.outline import NO_WORK
from npu_assay.conformance.run.partitioning import tags_of
from npu_assay.partitioners.exir import (
    Backend,
    EdgeCompileConfig,
    EdgeError,
    EdgeProgramManager,
    Partitioner,
    PartitionResult,
    copy_program,
    to_edge_transform_and_lower,
)
from npu_assay.partitioners.exir.backend.partition_result import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.verifier import violations

Result = TypeVar("Result")


NO_EDGE_FORM = "no_edge_form"
"""The code of operators that export can read, and edge programs may not have."""
OUTSIDE = "ExecuTorch's edge dialect does not have this operator, or not of this type: no backend can take it"


class Watched(Partitioner):
    """Passes everything on to a partitioner, and keeps its last answer: the program with its tags, and its reasons."""

    def __init__(self, inner: Partitioner) -> None:
        super().__init__(inner.spec)
        self.inner = inner
        self.whole: tuple[OpOverload, ...] = ()
        self.program: ExportedProgram | None = None
        self.reasons: dict[str, tuple[Reason, ...]] = {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """The inner partitioner's answer."""
        outside = dict(violations(exported_program, EdgeCompileConfig(preserve_ops=list(self.whole))))
        result = _untagged(self.inner(exported_program), outside)
        self.program = copy_program(result.tagged_exported_program)
        self.reasons = {node.name: (_outside(error),) for node, error in outside.items()}
        for one in getattr(self.inner, "rejections", None) or ():
            reason = Reason(str(one.code), str(one.found), str(one.sentence))
            self.reasons[str(one.node)] = (*self.reasons.get(str(one.node), ()), reason)
        return result

    def ops_to_not_decompose(self, ep: ExportedProgram) -> Any:
        """What the inner partitioner wants whole."""
        found = self.inner.ops_to_not_decompose(ep)
        self.whole = tuple(found[0])
        return found

    def transform_for_pre_decomposition(self, program: ExportedProgram) -> ExportedProgram:
        """What the inner partitioner makes of the program first."""
        return self.inner.transform_for_pre_decomposition(program)


@dataclass(frozen=True)
class Lowered:
    """A lowered model. exported: before that. program: as the partitioner got it, with its tags, and its operators."""

    exported: ExportedProgram
    manager: EdgeProgramManager
    program: ExportedProgram
    operators: tuple[Operator, ...]

    @property
    def is_edge(self) -> bool:
        """Whether edge programs may have all of its operators."""
        return not any(reason.code == NO_EDGE_FORM for one in self.operators for reason in one.reasons)

    @property
    def delegates(self) -> tuple[Delegate, ...]:
        """Its delegates, in the order of their calls."""
        return tuple(map(_delegate, calls(self.manager.exported_program())))


def _outside(error: EdgeError) -> Reason:
    """Why no backend takes an operator."""
    return Reason(NO_EDGE_FORM, f"{error.what}: {error.found}", OUTSIDE)


def _untagged(result: PartitionResult, outside: Collection[fx.Node]) -> PartitionResult:
    """The answer without the partitions that have what edge programs may not have."""
    program = result.tagged_exported_program
    tags = tags_of(program.graph)
    wrong = {tags[node.name] for node in outside if node.name in tags}
    for node in program.graph.nodes:
        if tags.get(node.name) in wrong:
            del node.meta[DELEGATION_TAG]
    return PartitionResult(program, {tag: spec for tag, spec in result.partition_tags.items() if tag not in wrong})


def as_edge(lowering: Callable[[EdgeCompileConfig], Result]) -> Result:
    """What lowers a model, with the checks of the edge dialect; without them where they would end it."""
    try:
        return lowering(EdgeCompileConfig())
    except EdgeError:
        return lowering(EdgeCompileConfig(_check_ir_validity=False))


def lower(exported: ExportedProgram, backend: Backend) -> Lowered:
    """Lower a model by the flow of `to_edge_transform_and_lower`. Raises what the backend and the export API raise.

    What edge programs may not have is left out, with that as its reason.
    """
    watched = Watched(backend.partitioner())
    passes, details = list(backend.passes), {backend.details.__name__: backend.details}

    def lowering(config: EdgeCompileConfig) -> EdgeProgramManager:
        return to_edge_transform_and_lower(exported, passes, [watched], compile_config=config, details=details)

    with marked(exported.graph), torch.no_grad():  # some operators have no derivative of what they give
        manager = as_edge(lowering)
    program = watched.program
    assert program is not None, "a lowering that asked nobody"
    return Lowered(exported, manager, program, operators_of(program, watched.reasons, manager.exported_program()))


# ------------------------------------------------------------------------------------ operators


def computing(program: ExportedProgram) -> list[fx.Node]:
    """The nodes that do more than to convert."""
    return operators_in(program.graph)


def operators_in(graph: fx.Graph) -> list[fx.Node]:
    """The nodes of any graph that do more than to convert."""
    return [node for node in graph.nodes if node.op == "call_function" and not converts(node)]


def converts(node: fx.Node) -> bool:
    """Whether a node only converts numbers, or picks one of several results."""
    return node.op == "call_function" and target_name(node.target) in NO_WORK


def operators_of(
    program: ExportedProgram, reasons: dict[str, tuple[Reason, ...]], lowered: ExportedProgram
) -> tuple[Operator, ...]:
    """The operators of a tagged program."""
    places = _places(program, lowered)
    constants = {*program.graph_signature.inputs_to_parameters, *program.graph_signature.inputs_to_buffers}
    constants |= set(program.graph_signature.inputs_to_lifted_tensor_constants)
    counted, found = set[str](), list[Operator]()
    for node in computing(program):
        sources = [source_behind(each) for each in node.all_input_nodes]
        own = [each for each in sources if each.name in constants and each.name not in counted]
        counted |= {each.name for each in own}
        found.append(_operator(node, sources, own, places.get(node.name), reasons.get(node.name, ())))
    return tuple(found)


def _operator(
    node: fx.Node, sources: Sequence[fx.Node], own: Sequence[fx.Node], place: int | None, reasons: tuple[Reason, ...]
) -> Operator:
    result = next(values(node), None)
    module, kind = module_of(node)
    source, code = source_of(node)
    return Operator(
        node.name,
        target_name(node.target),
        module,
        kind,
        source,
        code,
        tuple(dict.fromkeys(each.name for each in sources)),
        () if result is None else sizes(result),
        "" if result is None else str(result.dtype).removeprefix("torch."),
        macs(node),
        sum(prod(first(values(each)) or ()) for each in own),
        place,
        () if place is not None else reasons,
    )


def origins(program: ExportedProgram) -> dict[str, tuple[str, ...]]:
    """The operators of a lowered program by the name of each node that they were made of."""
    found: dict[str, tuple[str, ...]] = {}
    for node in computing(program):
        name = origin_of(node)
        if name is not None:
            found[name] = (*found.get(name, ()), node.name)
    return found


def source_behind(node: fx.Node) -> fx.Node:
    """The operator or placeholder whose numbers a node converts or picks; the node itself where it does neither."""
    while converts(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


# ------------------------------------------------------------------------------------ delegates


def calls(lowered: ExportedProgram) -> list[fx.Node]:
    """The calls of delegates, in order."""
    return [node for node in lowered.graph.nodes if node.target is executorch_call_delegate]


def module_called(call: fx.Node) -> Any:
    """The delegate of a call."""
    name = call.args[0]
    assert isinstance(name, fx.Node)
    return getattr(call.graph.owning_module, str(name.target))


def _delegate(call: fx.Node) -> Delegate:
    module = module_called(call)
    given = [each for each in call.args[1:] if isinstance(each, fx.Node)]
    takes = nbytes(tensor for each in given for tensor in values(each))
    return Delegate(str(module.backend_id), len(module.processed_bytes), takes, nbytes(values(call)))


def _places(program: ExportedProgram, lowered: ExportedProgram) -> dict[str, int]:
    """The number of the delegate that has a node, in the order of the delegates' calls."""
    tags, numbers = tags_of(program.graph), dict[str, int]()
    for number, call in enumerate(calls(lowered)):
        for node in module_called(call).original_module.graph.nodes:
            if node.op == "call_function" and node.name in tags:
                numbers.setdefault(tags[node.name], number)
    return {name: numbers[tag] for name, tag in tags.items() if tag in numbers}
