"""`to_edge_transform_and_lower`: from exported programs to lowered ones in one go.

Before anything is decomposed, partitioners name the operators that they want not decomposed. If no delegate takes such
an operator, it has no kernel, so it is decomposed after all, and the lowering is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.partitioner import Partitioner
from npu_assay.partitioners.exir.config import (
    EdgeCompileConfig,
    check_config,
    check_no_etrecord,
    check_overloads,
    side_effect,
)
from npu_assay.partitioners.exir.constant_methods import check_known
from npu_assay.partitioners.exir.decompose import decomposed, functional
from npu_assay.partitioners.exir.edge import edge_from_functional
from npu_assay.partitioners.exir.errors import BackendError, EdgeError, ExirError
from npu_assay.partitioners.exir.lowering import Details, PartitionerOrClass, made_partitioner
from npu_assay.partitioners.exir.manager import EdgeProgramManager, by_method
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.transform import GraphPass
from npu_assay.partitioners.exir.verifier import check_core

logger = logging.getLogger(__name__)

NodeFilter = Callable[[fx.Node], bool]
aten: Any = torch.ops.aten

NEVER_WHOLE: frozenset[OpOverload] = frozenset(
    {
        aten._local_scalar_dense.default,
        aten._to_copy.default,
        aten.add.Tensor,
        aten.div.Tensor,
        aten.item.default,
        aten.mul.Tensor,
        aten.split_with_sizes.default,
        aten.sub.Tensor,
        aten.unbind.int,
    }
)
"""Operators that the edge dialect itself rewrites, or that return numbers."""

QUANTISATION = "quantized_decomposed"
"""The namespace of operators that are never decomposed and may stay outside of delegates."""


KEPT_WHOLE = "kept_whole"
"""The key in `node.meta` under which a node that was not decomposed has the name that it had then."""


@dataclass(frozen=True)
class Wanted:
    """The operators that one partitioner wants not decomposed, and which of their nodes."""

    partitioner: str
    ops: frozenset[OpOverload]
    keeps: NodeFilter | None

    def takes(self, node: fx.Node) -> bool:
        """Whether this partitioner wants the node, of a torch or an edge operator, not decomposed."""
        if node.op != "call_function" or target_name(node.target) not in self.names:
            return False
        return self.keeps is None or bool(self.keeps(node))

    @property
    def names(self) -> frozenset[str]:
        """The operators' names."""
        return frozenset(map(target_name, self.ops))


@dataclass
class Source:
    """A method before its operators are decomposed.

    program: functional, with every operator that a partitioner wants not decomposed. nodes: those that are not
    decomposed, by name. refused: the operators and the nodes of `nodes` that no delegate took.
    """

    program: ExportedProgram
    wanted: Sequence[Wanted]
    config: EdgeCompileConfig
    nodes: dict[str, fx.Node]
    refused: set[str]

    def edge(self) -> ExportedProgram:
        """The edge form, in which the nodes that are not refused are not decomposed."""
        kept = [n for name, n in self.nodes.items() if not self.refused & {name, target_name(n.target)}]
        for name, node in self.nodes.items():
            node.meta.pop(KEPT_WHOLE, None)
            if node in kept:
                node.meta[KEPT_WHOLE] = name
        ops = {op for one in self.wanted for op in one.ops}
        taken = frozenset(map(target_name, ops)) - frozenset(map(target_name, self.config.preserve_ops))
        program = self.program
        if len(kept) < sum(target_name(n.target) in taken for n in program.graph.nodes if n.op == "call_function"):
            program = decomposed(program, self.config.preserve_ops, kept)
        return edge_from_functional(program, replace(self.config, preserve_ops=[*self.config.preserve_ops, *ops]))

    def refuse(self, lowered: ExportedProgram) -> bool:
        """Refuse the nodes that were not decomposed and are outside of all delegates; returns whether there is any.

        If passes replaced a node without copying its meta, all nodes of its operator are refused. Raises BackendError
        for an operator outside core ATen that is left although it was refused.
        """
        before = set(self.refused)
        for node, one in self._left(lowered):
            name = node.meta.get(KEPT_WHOLE, target_name(node.target))
            logger.info("%s wants %s not decomposed, but no delegate has it: decomposed", one.partitioner, node.name)
            if name in before:
                _check_kernel(node, one, self.config)
            self.refused.add(name)
        return self.refused != before

    def _left(self, lowered: ExportedProgram) -> Iterator[tuple[fx.Node, Wanted]]:
        """The nodes outside of delegates that only a partitioner wants not decomposed."""
        asked_for = frozenset(map(target_name, self.config.preserve_ops))
        for node in lowered.graph.nodes:
            if node.op != "call_function" or target_name(node.target) in asked_for:
                continue
            if not target_name(node.target).startswith(QUANTISATION):
                yield from ((node, one) for one in self.wanted if one.takes(node))


def _check_kernel(node: fx.Node, wanted: Wanted, config: EdgeCompileConfig) -> None:
    """Raise BackendError for an operator that is not allowed outside of delegates, and that a pass must have made."""
    try:
        check_core(node, getattr(node.target, "_op", node.target), frozenset(config._core_aten_ops_exception_list))
    except EdgeError as error:
        raise BackendError(
            f"{wanted.partitioner} wants an operator not decomposed and did not delegate it",
            f"{target_name(node.target)} outside of all delegates",
            "a partition that has it, or passes that do not make it",
            node.name,
        ) from error


def to_edge_transform_and_lower(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    transform_passes: Sequence[GraphPass] | Mapping[str, Sequence[GraphPass]] | None = None,
    partitioner: Sequence[PartitionerOrClass] | Mapping[str, Sequence[PartitionerOrClass]] | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
    *,
    details: Details | None = None,
) -> EdgeProgramManager:
    """Bring programs into the edge dialect, run passes over them and lower what the partitioners choose.

    `partitioner` is a list, tried in order on every method, or one list per method. Operators that a partitioner's
    `ops_to_not_decompose` names are not decomposed where its filter wants that and a delegate takes them; all others
    are decomposed, for which passes and partitioners may be called more than once. `details` maps backend ids to
    compilers that are not found by class name; `generate_etrecord` is ExecuTorch's and must be False. The programs
    given stay as they are. Raises ExirError for wrong arguments, and EdgeError for programs without edge form.
    """
    check_no_etrecord(generate_etrecord)
    config = check_config(compile_config)
    chosen = check_partitioners(partitioner, given := by_method(programs, "programs"))
    sources = {method: _source(program, chosen[method], config) for method, program in given.items()}
    whole = sorted({op for source in sources.values() for one in source.wanted for op in one.ops}, key=str)
    while True:
        edge = {method: source.edge() for method, source in sources.items()}
        manager = EdgeProgramManager(edge, constant_methods, config, preserve_ops=whole)
        if transform_passes is not None:
            manager = manager.transform(transform_passes)
        for turn in range(max(map(len, chosen.values()))):
            manager = manager.to_backend({m: p[turn] for m, p in chosen.items() if turn < len(p)}, details=details)
        refused = [source.refuse(manager.exported_program(method)) for method, source in sources.items()]
        if not any(refused):
            return manager


def _source(program: ExportedProgram, partitioners: Sequence[Partitioner], config: EdgeCompileConfig) -> Source:
    """A method in which the nodes that partitioners want are not decomposed."""
    for one in partitioners:
        program = one.transform_for_pre_decomposition(program)
    plain = functional(program)
    wanted = [wanted_by(one, plain) for one in partitioners]
    whole = decomposed(plain, {*config.preserve_ops, *(op for one in wanted for op in one.ops)})
    asked_for = frozenset(map(target_name, config.preserve_ops))
    nodes = {n.name: n for n in whole.graph.nodes if any(one.takes(n) for one in wanted)}
    nodes = {name: n for name, n in nodes.items() if target_name(n.target) not in asked_for}
    return Source(whole, wanted, config, nodes, set())


def wanted_by(partitioner: Partitioner, program: ExportedProgram) -> Wanted:
    """The operators that a partitioner wants not decomposed, without impossible ones, for which a warning is logged."""
    name = type(partitioner).__name__
    ops, keeps = partitioner.ops_to_not_decompose(program)
    check_overloads(tuple(ops), f"{name}.ops_to_not_decompose")
    possible = []
    for op in ops:
        reason = side_effect(op) or ("the edge dialect rewrites" if op in NEVER_WHOLE else None)
        if reason is None:
            possible.append(op)
        else:
            logger.warning(
                "%s: must be decomposed, although %s wants it not to be: an operator that %s",
                target_name(op),
                name,
                reason,
            )
    return Wanted(name, frozenset(possible), keeps)


def check_partitioners(partitioner: object, methods: Collection[str]) -> dict[str, list[Partitioner]]:
    """The partitioners of each method. Raises ExirError for anything but a list, or a dict of lists by method."""
    if partitioner is None:
        return {name: [] for name in methods}
    if isinstance(partitioner, Mapping):
        for name in partitioner:
            check_known(name, methods, "partitioner")
        return {name: _checked_list(partitioner.get(name, []), f"partitioner[{name!r}]") for name in methods}
    return {name: _checked_list(partitioner, "partitioner") for name in methods}


def _checked_list(partitioners: object, where: str) -> list[Partitioner]:
    if not isinstance(partitioners, (list, tuple)):
        name = partitioners.__name__ if isinstance(partitioners, type) else type(partitioners).__name__
        raise ExirError("partitioners of the wrong type", name, f"a list, as in [{name}(...)]", where)
    return [made_partitioner(one) for one in partitioners]
