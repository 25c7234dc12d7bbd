"""Which nodes of an edge program go to the Neutron NPU, which of them together, and why the rest does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from npu_assay.partitioners.exir.arguments import require_list, require_operator, require_type
from npu_assay.partitioners.exir.backend import CompileSpec, Rejection
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, Partitioner, PartitionResult
from npu_assay.partitioners.exir.constants import constant_values, tag_constant_data
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.qdq import is_compute
from npu_assay.partitioners.exir.rules import rejection
from npu_assay.partitioners.neutron.clusters import Cluster
from npu_assay.partitioners.neutron.compile_spec import (
    NOT_TO_DELEGATE,
    generate_neutron_compile_spec,
    spec_release,
    spec_value,
)
from npu_assay.partitioners.neutron.exclusion import match
from npu_assay.partitioners.neutron.operators import operators
from npu_assay.partitioners.neutron.options import CustomDelegationOptions
from npu_assay.partitioners.neutron.passes import judged_passes
from npu_assay.partitioners.neutron.rewriting import Correspondence, attached_constants, leak, rewritten
from npu_assay.partitioners.neutron.support.common import quantized
from npu_assay.partitioners.neutron.support.rule import Context
from npu_assay.partitioners.neutron.support.rules import RULES_OF, node_rejections, stage_rejections
from npu_assay.partitioners.neutron.support.weights import through_permute
from npu_assay.partitioners.neutron.target import NeutronTargetSpec

BACKEND_ID = "NeutronBackend"
DEFAULT_TARGET = "imxrt700"
EXCLUDED = "operators_not_to_delegate names the operator"

Reasons = dict[fx.Node, tuple[Rejection, ...]]


class NeutronPartitioner(Partitioner):
    """Tags the nodes that the Neutron NPU can run. After `partition`, `rejections` has the reasons for all others.

    compile_spec: options of the compiler, from `generate_neutron_compile_spec`; default: those for the target. It names
        the release whose operators and limits hold.
    neutron_target_spec: the NPU; default: the compile spec's target, else imxrt700.
    custom_delegation_options: what to allow that is refused by default.
    post_quantization_state_dict: data of constants, by name, where the program has fake tensors only.
    preserve_ops: operators that are not decomposed if the NPU can run them.
    check_op_support: an additional condition on the nodes of `preserve_ops`.

    Raises TypeError for values of other types.
    """

    def __init__(
        self,
        compile_spec: list[CompileSpec] | None = None,
        neutron_target_spec: NeutronTargetSpec | None = None,
        custom_delegation_options: CustomDelegationOptions | None = None,
        post_quantization_state_dict: Mapping[str, torch.Tensor] | None = None,
        preserve_ops: Sequence[OpOverload] | None = None,
        check_op_support: Callable[[fx.Node], bool] | None = None,
    ) -> None:
        super().__init__()
        _check_types(compile_spec, neutron_target_spec, custom_delegation_options, post_quantization_state_dict)
        for position, op in enumerate(require_list("preserve_ops", preserve_ops, "operators")):
            require_operator(f"preserve_ops[{position}]", op)
        if check_op_support is not None and not callable(check_op_support):
            raise TypeError(f"check_op_support is {check_op_support!r}, expected a function of a node or None")
        if neutron_target_spec is None:
            neutron_target_spec = NeutronTargetSpec(spec_value(compile_spec or (), "target", DEFAULT_TARGET))
        if compile_spec is None:
            compile_spec = generate_neutron_compile_spec(neutron_target_spec.get_name())
        self.delegation_spec = DelegationSpec(BACKEND_ID, compile_spec)
        self.neutron_target_spec = neutron_target_spec
        self.release = spec_release(compile_spec)
        self.custom_delegation_options = custom_delegation_options or CustomDelegationOptions()
        self.post_quantization_state_dict = dict(post_quantization_state_dict or {})
        self.preserve_ops = list(preserve_ops or [])
        self.check_op_support = check_op_support
        self.rejections: list[Rejection] = []

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag what can be delegated; constants get the tag of their users. Changes nothing else."""
        judged = self._judged(exported_program)
        partitions = _settled_partitions(judged)
        tags = [f"tag{index}" for index in range(len(partitions))]
        for tag, nodes in zip(tags, partitions, strict=True):
            for node in nodes:
                node.meta[DELEGATION_TAG] = tag
        tag_constant_data(exported_program)
        self.rejections = _ordered_rejections(judged, frozenset().union(*partitions))
        return PartitionResult(exported_program, dict.fromkeys(tags, self.delegation_spec))

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Callable[[fx.Node], bool] | None]:
        """`preserve_ops`, and a filter that keeps those nodes that can be delegated: nothing else runs them whole."""
        constants, patterns = constant_values(ep, self.post_quantization_state_dict), self._not_to_delegate()
        names = {target_name(op) for op in self.preserve_ops}

        def keep(node: fx.Node) -> bool:
            name = target_name(node.target)
            if node.op != "call_function" or name not in names & RULES_OF[self.release].keys():
                return False
            if self._exclusion(node, patterns) or node_rejections(node, self._graph_context(node.graph, constants)):
                return False
            return self.check_op_support is None or self.check_op_support(node)

        return list(self.preserve_ops), keep

    def _not_to_delegate(self) -> list[str]:
        """Parts of node names; an empty value means none."""
        text = spec_value(self.delegation_spec.compile_specs, NOT_TO_DELEGATE)
        return text.split(",") if text else []

    def _judged(self, program: ExportedProgram) -> _Judged:
        """The program as the compiler rewrites it, with what speaks against each of its operators."""
        constants = constant_values(program, self.post_quantization_state_dict)
        module = rewritten(program, judged_passes(self.neutron_target_spec.get_num_macs()), constants)
        context = self._graph_context(module.graph, {**constants, **attached_constants(module)})
        patterns = self._not_to_delegate()
        compute = filter(is_compute, module.graph.nodes)
        reasons = {node: self._exclusion(node, patterns) + node_rejections(node, context) for node in compute}
        return _Judged(module, context, reasons, Correspondence(program.graph, module.graph))

    def _graph_context(self, graph: fx.Graph, constants: Mapping[str, torch.Tensor | None]) -> Context:
        target = self.neutron_target_spec
        macs, pipes, options = target.get_num_macs(), target.get_num_pipes(), self.custom_delegation_options
        return Context(graph, operators(self.release), constants, macs, pipes, options, self.release)

    def _exclusion(self, node: fx.Node, patterns: Sequence[str]) -> tuple[Rejection, ...]:
        """The rejection of a supported operator that one of the patterns names."""
        found = match(node, patterns) if target_name(node.target) in RULES_OF[self.release] else None
        return () if found is None else (rejection(node, "excluded", found, EXCLUDED),)


def _check_types(compile_spec: object, target: object, options: object, constants: object) -> None:
    """Raise TypeError for arguments of NeutronPartitioner that are not what they are called."""
    for position, item in enumerate(require_list("compile_spec", compile_spec, "CompileSpec objects")):
        # ExecuTorch has a class of its own for them.
        if not (hasattr(item, "key") and hasattr(item, "value")):
            raise TypeError(f"compile_spec[{position}] is {item!r}, expected a CompileSpec")
    require_type("neutron_target_spec", target, NeutronTargetSpec)
    require_type("custom_delegation_options", options, CustomDelegationOptions)
    require_type("post_quantization_state_dict", constants, Mapping)


@dataclass(frozen=True)
class _Judged:
    """A program in the compiler's form: `reasons` says why an operator stays out, `nodes` leads back to the program."""

    module: fx.GraphModule
    context: Context
    reasons: Reasons
    nodes: Correspondence


class _Supported(OperatorSupportBase):
    """The nodes that may be in a partition: accepted operators with their clusters."""

    def __init__(self, nodes: frozenset[fx.Node]) -> None:
        self.nodes = nodes

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        """Whether the node is one of them."""
        return node in self.nodes


def _settled_partitions(judged: _Judged) -> list[frozenset[fx.Node]]:
    """Partition, reject the nodes that the partitions do not allow, and repeat until nothing is rejected.

    Every round but the last rejects at least one operator, so it ends. Adds to the reasons. Returns nodes of the
    program, in its order.
    """
    while True:
        partitions = [(nodes, judged.nodes.originals(nodes)) for nodes in _proposed(judged)]
        found = {
            node: stage_rejections(node, nodes, judged.context) + _border(node, originals, judged)
            for nodes, originals in partitions
            for node in nodes
            if is_compute(node) and judged.reasons.get(node) == ()
        }
        refused = {node: rejections for node, rejections in found.items() if rejections}
        if not refused:
            return _in_graph_order([originals for _, originals in partitions], judged.nodes.program)
        judged.reasons.update(refused)


def _proposed(judged: _Judged) -> list[frozenset[fx.Node]]:
    """Connected operators that nothing speaks against, with their clusters."""
    accepted = (node for node, found in judged.reasons.items() if not found)
    supported = frozenset(member for node in accepted for member in _members(node, judged.context))
    if not supported:
        return []
    partitioner = CapabilityBasedPartitioner(judged.module, _Supported(supported), allows_single_node_partition=True)
    proposed: list[Partition] = partitioner.propose_partitions()
    return [frozenset(partition.nodes) for partition in proposed]


def _border(node: fx.Node, originals: frozenset[fx.Node], judged: _Judged) -> tuple[Rejection, ...]:
    """Why the program's nodes cannot be tagged without a neighbor: its reasons, or that real numbers would leak."""
    origins = (judged.nodes.origins.get(one) for one in _members(node, judged.context) if is_compute(one))
    leaks = (leak(origin, originals) for origin in origins if origin is not None)
    found = next((one for one in leaks if one is not None), None)
    if found is None:
        return ()
    neighbour = judged.nodes.images.get(found.outside)
    reasons = () if neighbour is None else judged.reasons.get(neighbour, ())
    if not reasons:
        return (rejection(node, quantized.code, found.text, quantized.sentence),)
    return tuple(rejection(node, r.code, f"{found.outside.name}: {r.found}", r.sentence) for r in reasons)


def _members(node: fx.Node, context: Context) -> tuple[fx.Node, ...]:
    cluster: Cluster | None = context.clusters.get(node)
    return () if cluster is None else cluster.members


def _in_graph_order(partitions: list[frozenset[fx.Node]], graph: fx.Graph) -> list[frozenset[fx.Node]]:
    order = {node: index for index, node in enumerate(graph.nodes)}
    return sorted(partitions, key=lambda nodes: min(order[node] for node in nodes))


def _ordered_rejections(judged: _Judged, tagged: frozenset[fx.Node]) -> list[Rejection]:
    """The reasons of every operator of the program outside all partitions, in graph order."""
    found: list[Rejection] = []
    for node in judged.nodes.program.nodes:
        if node in tagged or not is_compute(node):
            continue
        judged_as = judged.nodes.decisive(node)
        decisive = _follows(judged_as)
        named = decisive is judged_as and judged.nodes.images.get(node) is judged_as
        for reason in judged.reasons[decisive]:
            text = reason.found if named else f"{decisive.name}: {reason.found}"
            found.append(rejection(node, reason.code, text, reason.sentence))
    return found


def _follows(node: fx.Node) -> fx.Node:
    """The operator whose verdict decides on `node`: a selected result's producer, a weight's consumer, or itself."""
    if target_name(node.target) == GETITEM:
        return node.all_input_nodes[0]
    user = next(iter(node.users), node)
    return user if through_permute(user, node) is not node else node
