"""Which nodes of an edge program go to XNNPACK, which of them together, and why the rest does not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, Partitioner, PartitionResult
from npu_assay.partitioners.exir.constants import constant_values
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.exir.reachability import NodeSet, Reach, in_a_circle
from npu_assay.partitioners.exir.rules import rejection
from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.configs import ALL_CONFIGS
from npu_assay.partitioners.xnnpack.grouping import Groups, merged
from npu_assay.partitioners.xnnpack.linear import PLACES, takes_codes
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType, Options, precisions, refuse_unknown
from npu_assay.partitioners.xnnpack.patterns import AFFINE, ANY_CHOOSE, ANY_DEQUANTIZE, ANY_QUANTIZE, leaves
from npu_assay.partitioners.xnnpack.site import Program, Site

LOGGER = logging.getLogger(__name__)
BACKEND_ID = "XnnpackBackend"
UNSUPPORTED = "the operator is not in the support table"
ONLY_WITH_PRODUCT = "the operator is delegated only together with the product that it belongs to"
NOT_SELECTED = "the operator's config must be one of configs"
CYCLE = "a delegate must not depend on an operator that depends on the same delegate"
UNREAD = "something outside of a delegate must read one of its results"
PRIVATE = "weights in codes, and activations quantized at run time, must go to delegated products only"
OPTIONS = (
    "configs",
    "config_precisions",
    "per_op_mode",
    "verbose",
    "force_non_static_weights_for_f32_linear",
    "enable_bf16",
)
CONVERSIONS = ANY_CHOOSE | ANY_DEQUANTIZE | ANY_QUANTIZE

Reasons = dict[fx.Node, tuple[Rejection, ...]]
Configs = Mapping[str, PartitionerConfig]


class XnnpackPartitioner(Partitioner):
    """Tags the nodes that XNNPACK can run. After `partition`, `rejections` has the reasons for all others.

    configs: the operators to delegate, as config classes (see `npu_assay.partitioners.xnnpack.configs`); default: all.
    config_precisions: delegate only operators whose config supports one of these; default: all.
    per_op_mode: one delegate for every operator, with its quantize and dequantize nodes and activation.
    verbose: log the delegates and the reasons of rejections, at the level DEBUG of this module's logger; on stderr
      where the program has set up no logging.
    force_non_static_weights_for_f32_linear: float matrix products may take weight and bias as inputs.
    enable_bf16: matrix products may be bfloat16; convolutions may not.

    Raises TypeError for other options and values, and ValueError for two configs of one operator.
    """

    def __init__(
        self,
        configs: Sequence[type[PartitionerConfig]] | None = None,
        config_precisions: ConfigPrecisionType | Iterable[ConfigPrecisionType] | None = None,
        per_op_mode: bool = False,
        verbose: bool = False,
        force_non_static_weights_for_f32_linear: bool = False,
        enable_bf16: bool = False,
        **unknown: object,
    ) -> None:
        super().__init__()
        refuse_unknown(unknown, OPTIONS, type(self).__name__)
        self.options = Options(
            precisions(config_precisions), per_op_mode, verbose, force_non_static_weights_for_f32_linear, enable_bf16
        )
        if verbose:
            LOGGER.setLevel(logging.DEBUG)
        self.configs = by_target(ALL_CONFIGS if configs is None else configs) or by_target(ALL_CONFIGS)
        self.delegation_spec = DelegationSpec(BACKEND_ID, [])
        self.rejections: list[Rejection] = []
        self._refused: dict[object, tuple[str, tuple[Rejection, ...]]] = {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag what can be delegated, with the constants that products need. Changes nothing else."""
        graph = exported_program.graph
        program = Program(constant_values(exported_program), self.options)
        sites = self._sites(graph, program)
        reach = Reach(graph)
        reasons = {node: self._own_rejections(node, sites) for node in graph.nodes if node.op == "call_function"}
        reasons.update(self._before_decomposition(graph, program))
        reasons.update({node: whole for node, own in reasons.items() if own and (whole := self._as_whole(node))})
        partitions = self._settled_partitions(reach, sites, reasons)
        tags = {f"tag{number}": self.delegation_spec for number in partitions}
        for number, nodes in partitions.items():
            for node in reach.members(nodes):
                node.meta[DELEGATION_TAG] = f"tag{number}"
        tagged = frozenset(node for nodes in partitions.values() for node in reach.members(nodes))
        self.rejections = list(ordered_rejections(graph, reasons, tagged))
        if self.options.verbose:
            with audible(LOGGER):
                self._log(reach, partitions)
        return PartitionResult(exported_program, tags)

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Callable[[fx.Node], bool] | None]:
        """The operators that are delegated whole, and a filter that keeps those nodes whose own rules hold."""
        program = Program(constant_values(ep), self.options)
        self._refused = {}

        def keep(node: fx.Node) -> bool:
            config = self.configs.get(target_name(node.target)) if node.op == "call_function" else None
            if config is None or not config.is_preserved:
                return False
            if reasons := config.rejections(config.site(node, program)):
                self._refused[origin(node)] = (config.target, reasons)
            return not reasons

        found = (overload(name) for name, config in self.configs.items() if config.is_preserved)
        return [op for op in found if op is not None], keep

    def _sites(self, graph: fx.Graph, program: Program) -> dict[fx.Node, Site]:
        """The operators that have a selected config."""
        calls = (
            (node, self.configs.get(target_name(node.target))) for node in graph.nodes if node.op == "call_function"
        )
        return {node: config.site(node, program) for node, config in calls if config is not None}

    def _own_rejections(self, node: fx.Node, sites: Mapping[fx.Node, Site]) -> tuple[Rejection, ...]:
        name = target_name(node.target)
        if node in sites:
            return self.configs[name].rejections(sites[node])
        if name in DEFAULT_TARGETS:
            return (rejection(node, "configs", f"{DEFAULT_TARGETS[name]} is not selected", NOT_SELECTED),)
        sentence = ONLY_WITH_PRODUCT if name in CONVERSIONS else UNSUPPORTED
        return (rejection(node, "unsupported", name, sentence),)

    def _before_decomposition(self, graph: fx.Graph, program: Program) -> Reasons:
        """Why operators were decomposed, for those that they became."""
        configs = {node: self.configs.get(DECOMPOSED.get(target_name(node.target), "")) for node in graph.nodes}
        found = {n: config.rejections(config.site(n, program)) for n, config in configs.items() if config is not None}
        return {node: reasons for node, reasons in found.items() if reasons}

    def _as_whole(self, node: fx.Node) -> tuple[Rejection, ...]:
        """Why the operator that was decomposed into this one was refused, where that is known."""
        whole = target_name(node.meta.get("original_aten"))
        if whole in AFFINE:
            return (rejection(node, "unsupported", whole, ONLY_WITH_PRODUCT),)
        name, reasons = self._refused.get(origin(node), ("", ()))
        is_part = name == whole and target_name(node.target) in PLACES
        return tuple(rejection(node, r.code, r.found, r.sentence) for r in reasons) if is_part else ()

    def _settled_partitions(self, reach: Reach, sites: Mapping[fx.Node, Site], reasons: Reasons) -> dict[int, NodeSet]:
        """Partition, reject the nodes that the partitions do not allow, and repeat until nothing is rejected.

        Every round but the last rejects at least one operator, so it ends. Adds to `reasons`.
        """
        while True:
            accepted = [site for node, site in sites.items() if not reasons[node]]
            refused = {site.node: found for site in accepted if (found := private_rejections(site, reasons))}
            if not refused:
                partitions, refused = self._partitions(reach, accepted)
            if not refused:
                return partitions
            reasons.update(refused)

    def _partitions(self, reach: Reach, accepted: Sequence[Site]) -> tuple[dict[int, NodeSet], Reasons]:
        """The partitions by number; or the operators that cannot be in any."""
        groups = Groups(reach)
        refused: Reasons = {}
        for site in accepted:
            members = self.configs[target_name(site.node.target)].members(site)
            if not groups.add(members):
                found = ", ".join(member.name for member in members if member.op == "call_function")
                refused[site.node] = (rejection(site.node, "cycle", found, CYCLE),)
        if refused:
            return {}, refused
        partitions = dict(enumerate(groups.in_order())) if self.options.per_op_mode else merged(groups.proposed())
        return partitions, _circular(reach, partitions.values(), accepted) or _unread(
            reach, partitions.values(), accepted
        )

    def _log(self, reach: Reach, partitions: Mapping[int, NodeSet]) -> None:
        for number, nodes in partitions.items():
            LOGGER.debug("tag%d: %s", number, " ".join(node.name for node in reach.members(nodes)))
        for r in self.rejections:
            LOGGER.debug("%s (%s) [%s]: %s; found %s", r.node, r.target, r.code, r.sentence, r.found)


def _circular(reach: Reach, partitions: Iterable[NodeSet], accepted: Sequence[Site]) -> Reasons:
    """A rejection of the last operator in a cycle of partitions; empty if there is no cycle."""
    operators = [reach.of(n for n in reach.members(p) if n.op == "call_function") for p in partitions]
    stuck = {node for nodes in in_a_circle(operators) for node in reach.members(nodes)}
    last = next((site.node for site in reversed(accepted) if site.node in stuck), None)
    return {} if last is None else {last: (rejection(last, "cycle", "a cycle of several delegates", CYCLE),)}


def _unread(reach: Reach, partitions: Iterable[NodeSet], accepted: Sequence[Site]) -> Reasons:
    """The operators of delegates that nothing reads, refused; nothing when each has a reader."""
    dead = {node for p in partitions if not p.below & ~p.nodes for node in reach.members(p)}
    return {s.node: (rejection(s.node, "no_result", s.node.name, UNREAD),) for s in accepted if s.node in dead}


def private_rejections(site: Site, reasons: Reasons) -> tuple[Rejection, ...]:
    """Why a product cannot have its operands for itself, given what is refused already; empty when it can."""
    found = site.product
    if found is None or found.quantised is None:
        return ()
    starts = (found.quantised.dequantize, *(() if found.dynamic is None else (found.dynamic.choose,)))
    for start in starts:
        for consumer, _ in leaves(start):
            # Of parameters that are known, a reader gets the numbers by a conversion of its own.
            fits = qparams(start) is not None or takes_codes(consumer, site.precisions)
            if consumer is not found.pad and (reasons.get(consumer, True) or not fits):
                return (rejection(site.node, "private_operands", f"{consumer.name} uses {start.name}", PRIVATE),)
    return ()


@contextmanager
def audible(logger: logging.Logger) -> Iterator[None]:
    """Print a logger's messages to stderr if the program has set up no handler for them.

    The handler is removed again, so that messages do not appear twice if the program sets up logging later.
    """
    if logger.hasHandlers():
        yield
        return
    handler = logging.StreamHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def by_target(configs: Iterable[type[PartitionerConfig]]) -> dict[str, PartitionerConfig]:
    """One config object per operator. Raises TypeError for another type, ValueError for two configs of one operator."""
    if isinstance(configs, (str, type)) or not isinstance(configs, Iterable):
        raise TypeError(
            f"configs is {configs!r}, expected a list of classes from npu_assay.partitioners.xnnpack.configs"
        )
    found: dict[str, PartitionerConfig] = {}
    for config in configs:
        # The class that all configs are made of has no operator.
        if not (isinstance(config, type) and issubclass(config, PartitionerConfig) and hasattr(config, "target")):
            raise TypeError(f"configs has {config!r}, expected classes from npu_assay.partitioners.xnnpack.configs")
        if config.target in found:
            other = type(found[config.target]).__name__
            raise ValueError(f"{other} and {config.__name__} are both for {config.target}, expected one config each")
        found[config.target] = config()
    return found


DECOMPOSED = {"aten.max_pool2d_with_indices.default": "aten.max_pool2d.default"}
"""What an operator that is rejected, and so decomposed, becomes, with the same arguments: its rules say why."""
DEFAULT_TARGETS = {config.target: config.__name__ for config in ALL_CONFIGS}


def origin(node: fx.Node) -> object:
    """What tells apart the nodes of the exported program that a node was made of; None where that is not known."""
    source = None
    behind = node.meta.get("from_node")
    while behind:
        source = behind[-1]
        behind = source.from_node
    return None if source is None else (source.name, source.graph_id)


def overload(name: str) -> OpOverload | None:
    """torch's operator of that name; None when the package that defines it is not loaded."""
    namespace, operator, variant = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    found = getattr(packet, variant, None)
    return found if isinstance(found, OpOverload) else None


def ordered_rejections(graph: fx.Graph, reasons: Reasons, tagged: frozenset[fx.Node]) -> Iterator[Rejection]:
    """The reasons of every operator outside all delegates, in graph order."""
    for node in graph.nodes:
        if node.op != "call_function" or node in tagged:
            continue
        source = operand(node)
        decisive = source if target_name(node.target) == GETITEM and source else node
        for reason in reasons[decisive]:
            text = reason.found if decisive is node else f"{decisive.name}: {reason.found}"
            yield rejection(node, reason.code, text, reason.sentence)


class _OnePrecision(XnnpackPartitioner):
    """A partitioner for one precision; the other options are those of XnnpackPartitioner."""

    precision: ConfigPrecisionType

    def __init__(self, **options: object) -> None:
        if "config_precisions" in options:
            raise ValueError(
                f"{type(self).__name__} has config_precisions={self.precision}, it cannot be given another"
            )
        refuse_unknown(options.keys() - set(OPTIONS), OPTIONS, type(self).__name__)
        super().__init__(config_precisions=self.precision, **options)  # type: ignore[arg-type]  # checked there


class XnnpackFloatingPointPartitioner(_OnePrecision):
    """For models that are computed on real numbers."""

    precision = ConfigPrecisionType.FP32


class XnnpackQuantizedPartitioner(_OnePrecision):
    """For models that are quantized ahead of time."""

    precision = ConfigPrecisionType.STATIC_QUANT


class XnnpackDynamicallyQuantizedPartitioner(_OnePrecision):
    """For models whose activations are quantized at run time."""

    precision = ConfigPrecisionType.DYNAMIC_QUANT
