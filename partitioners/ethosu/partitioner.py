"""Which nodes of an edge program go to an Ethos-U NPU, which of them together, and why the rest does not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from npu_assay.files import write_whole
from npu_assay.partitioners.ethosu.boundary import (
    Nodes,
    Reasons,
    partition_rejections,
    with_codes_at_border,
    with_int64_inside,
    without_cycles,
)
from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec
from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.preservation import is_preserved, preserved_operators
from npu_assay.partitioners.ethosu.report import rejection_report
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.ethosu.support.rules import node_rejections
from npu_assay.partitioners.exir.arguments import require_list, require_operator
from npu_assay.partitioners.exir.backend import CompileSpec, Rejection
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, Partitioner, PartitionResult
from npu_assay.partitioners.exir.constants import constant_values, tag_constant_data
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.exir.ops import GETITEM, target_name, to_edge_op
from npu_assay.partitioners.exir.reachability import Reach
from npu_assay.partitioners.exir.rules import rejection

BACKEND_ID = "EthosUBackend"
ADDITIONAL_CHECK = "every check in additional_checks must accept the operator"
REPORT_FILE = "partition_report.txt"
UNDECIDED = frozenset({"unsupported", "control_flow"})

logger = logging.getLogger(__name__)


class EthosUPartitioner(Partitioner):
    """Tags the nodes that an Ethos-U can run. After `partition`, `rejections` has the reasons for all others.

    compile_spec: what to compile for, also as the list of CompileSpec that `EthosUCompileSpec.to_list` gives. Raises
      TypeError for anything else, and ValueError for unknown keys or values.
    additional_checks: further conditions; a node must be supported by each of them. Raises TypeError unless
      it is a sequence of objects that have `is_node_supported`.

    Logs a table of the reasons at level INFO; it is also in the folder of
    `compile_spec.dump_intermediate_artifacts_to`, when that is given.
    """

    def __init__(
        self,
        compile_spec: EthosUCompileSpec | Sequence[CompileSpec],
        additional_checks: Sequence[OperatorSupportBase] | None = None,
    ) -> None:
        super().__init__()
        self.compile_spec = _spec(compile_spec)
        self.delegation_spec = DelegationSpec(BACKEND_ID, self.compile_spec.to_list())
        self.additional_checks = _checks(additional_checks)
        self.rejections: list[Rejection] = []
        self._custom: dict[str, OpOverload] = {}

    def register_custom_partition_op(self, op: OpOverload) -> None:
        """Delegate that operator undecomposed, whatever the rules say. Raises TypeError for another type."""
        require_operator("op", op)
        self._custom[target_name(op)] = op

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Callable[[fx.Node], bool] | None]:
        """The operators that are not decomposed, and a filter of their nodes: those that are quantized and delegated.

        A node that `partition` rejects, also by `additional_checks`, is decomposed, as nothing could run it otherwise.
        """
        custom, constants = frozenset(self._custom), constant_values(ep)
        known: dict[fx.Graph, Reasons] = {}

        def keep(node: fx.Node) -> bool:
            if not is_preserved(node, custom):
                return False
            if node not in known.get(node.graph, {}):
                known[node.graph] = self._own_reasons(node.graph, constants)
            return not known[node.graph][node]

        operators = preserved_operators(self.compile_spec.tosa_spec.is_u55_subset)
        return [*operators, *self._custom.values()], keep

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag what can be delegated; constants get the tag of their users. Changes nothing else."""
        logger.info("Partitioning for %s: %s", BACKEND_ID, self.compile_spec.tosa_spec)
        module, graph = exported_program.graph_module, exported_program.graph
        reasons = self._own_reasons(graph, constant_values(exported_program))
        partitions = _settled(module, frozenset(node for node, found in reasons.items() if not found), reasons)
        for tag, nodes in partitions.items():
            for node in nodes:
                node.meta[DELEGATION_TAG] = tag
        tag_constant_data(exported_program)
        self.rejections = _ordered(graph, reasons, frozenset[fx.Node]().union(*partitions.values()))
        self._report()
        return PartitionResult(exported_program, dict.fromkeys(partitions, self.delegation_spec))

    def report(self) -> str:
        """The reasons of the last `partition` as a table of at most 80 columns, grouped by reason."""
        return rejection_report(self.rejections)

    def _own_reasons(self, graph: fx.Graph, constants: Mapping[str, torch.Tensor | None]) -> Reasons:
        context = Context(OPERATORS, self.compile_spec.tosa_spec.is_u55_subset, constants)
        modules = dict(graph.owning_module.named_modules()) if graph.owning_module is not None else {}
        reasons: Reasons = {}
        for node in graph.nodes:
            if node.op == "call_function":
                custom = target_name(node.target) in self._custom
                reasons[node] = () if custom else self._all_rejections(node, context, modules)
        return with_int64_inside(graph, reasons)

    def _all_rejections(
        self, node: fx.Node, context: Context, modules: Mapping[str, torch.nn.Module]
    ) -> tuple[Rejection, ...]:
        found = node_rejections(node, context)
        if any(one.code in UNDECIDED for one in found):
            return found
        with _in_edge_dialect(node):
            refusing = [check for check in self.additional_checks if not check.is_node_supported(modules, node)]
        names = (type(check).__name__ for check in refusing)
        return found + tuple(rejection(node, "additional_check", name, ADDITIONAL_CHECK) for name in names)

    def _report(self) -> None:
        folder = self.compile_spec.path_for_intermediates
        if not folder and not logger.isEnabledFor(logging.INFO):
            return
        title, table = f"Nodes rejected for {self.compile_spec.tosa_spec}:", self.report()
        logger.info("%s\n%s\n(Placeholders and outputs are not listed.)", title, table)
        if folder:
            write_whole(Path(folder, REPORT_FILE), f"{title}\n{table}\n".encode())


def _spec(given: EthosUCompileSpec | Sequence[CompileSpec]) -> EthosUCompileSpec:
    if isinstance(given, EthosUCompileSpec):
        return given
    if isinstance(given, (list, tuple)) and all(isinstance(one, CompileSpec) for one in given):
        return EthosUCompileSpec.from_list(given)
    kind = type(given).__name__
    raise TypeError(f"compile_spec is a {kind}, expected an EthosUCompileSpec or a list of CompileSpec")


def _checks(given: Sequence[OperatorSupportBase] | None) -> tuple[OperatorSupportBase, ...]:
    for position, check in enumerate(require_list("additional_checks", given, "OperatorSupportBase objects")):
        # A class has the method, too, and cannot be asked.
        if isinstance(check, type) or not callable(getattr(check, "is_node_supported", None)):
            raise TypeError(f"additional_checks[{position}] is {check!r}, expected an OperatorSupportBase object")
    return tuple(given or ())


class _Supported(OperatorSupportBase):
    """The nodes that may be in a partition."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        """Whether the node is one of them."""
        return node in self.nodes


@contextmanager
def _in_edge_dialect(node: fx.Node) -> Iterator[None]:
    """The node as its edge operator, for which `additional_checks` are written, also before decomposition."""
    target = node.target
    if isinstance(target, OpOverload):
        node.target = to_edge_op(target)
    try:
        yield
    finally:
        node.target = target


def _settled(module: fx.GraphModule, supported: Nodes, reasons: Reasons) -> dict[str, Nodes]:
    """The delegates by tag, in the order in which they were proposed. Adds what falls out to `reasons`."""
    if not supported:
        return {}
    partitioner = CapabilityBasedPartitioner(module, _Supported(supported), allows_single_node_partition=True)
    reach, numbers = Reach(module.graph), count()
    found: dict[str, Nodes] = {}
    for proposed in partitioner.propose_partitions():
        tag = f"tag{next(numbers)}"
        # A selected result is proposed together with its operator, whatever was said of it.
        accepted = frozenset(node for node in proposed.nodes if not reasons[node])
        nodes, refused = with_codes_at_border(accepted, module.graph)
        reasons.update(refused)
        pieces = without_cycles(nodes, reach)
        tags = [tag] if len(pieces) <= 1 else [f"tag{next(numbers)}" for _ in pieces]
        for name, cut in zip(tags, pieces, strict=False):
            piece, refused = with_codes_at_border(cut, module.graph)
            reasons.update(refused)
            whole = partition_rejections(piece, module.graph)
            if whole is not None:
                reasons.update(whole)
            elif piece:
                found[name] = piece
    return found


def _ordered(graph: fx.Graph, reasons: Reasons, tagged: Nodes) -> list[Rejection]:
    """The reasons of every operator outside all delegates, in graph order; a selected result has its operator's."""
    found: list[Rejection] = []
    for node in graph.nodes:
        if node in tagged or node not in reasons:
            continue
        source = operand(node)
        follows = target_name(node.target) == GETITEM and source in reasons and not reasons[node]
        decisive = source if follows and source is not None else node
        for one in reasons[decisive]:
            text = one.found if decisive is node else f"{decisive.name}: {one.found}"
            found.append(rejection(node, one.code, text, one.sentence))
    return found
